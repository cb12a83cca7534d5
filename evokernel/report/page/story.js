// The lineage of the best, as a story: who made what of whom, why, what was expected and what came of it.
const story = { open: false };
const TOLD = 12;
const NOTABLE = 1.02;

function diffView(diff) {
  return el("details", { class: "diff", open: story.open },
    el("summary", null, "What changed ", el("b", { class: "added", text: `+${diff.added}` }), " ", el("b", { class: "removed", text: `−${diff.removed}` })),
    el("pre", { tabindex: "0" }, diffLines(diff.lines)), diff.cut ? el("p", { class: "note", text: "Cut here: long lines, or what comes after the first lines." }) : "");
}

function outcome(chapter) {
  const parts = [];
  if (chapter.gain !== null) parts.push(el("b", { class: chapter.gain >= NOTABLE ? "good" : chapter.gain < 1 / NOTABLE ? "bad" : "", text: `${times(chapter.gain)} over its parent` }));
  if (chapter.predicted !== null) parts.push(el("span", { text: `${times(chapter.predicted)} was predicted` }));
  return parts.length ? el("p", { class: "outcome" }, parts) : "";
}

function chapterView(chapter, first) {
  const speed = chapter.speedup === null ? (chapter.holdout === "failed" ? "holdout failed" : words(chapter.status)) : times(chapter.speedup);
  const asked = [chapter.model, chapter.calls ? many(chapter.calls, "call") : "", chapter.tokens ? `${tokens(chapter.tokens)} tokens` : "", chapter.tokens ? `cost ${cost(chapter)}` : ""].filter(Boolean).join(", ");
  const others = [...chapter.parents.slice(1).map((id) => `also from ${short(id)}`), ...chapter.inspirations.map((id) => `inspired by ${short(id)}`)];
  return el("li", { class: "chapter", "data-key": chapter.candidate },
    el("div", { class: "stop" }, el("strong", { class: chapter.speedup === null ? "verdict" : "", text: speed }), chapter.speedup === null ? "" : el("small", { text: "search" }), " ", candidateLink(chapter.candidate)),
    el("div", { class: "told" },
      el("h3", null, first ? "The seed" : chapter.operator, el("small", { text: `${chapter.island} · step ${chapter.step}${chapter.mode ? ` · ${chapter.mode} mode` : ""}` })),
      first && chapter.why === "seed" ? "" : el("p", { class: "why", text: chapter.why }),
      outcome(chapter),
      chapter.insights.map((insight) => el("details", null, el("summary", { text: `${insight.kind}: ${insight.title}` }), el("p", { class: "words", text: insight.text }))),
      chapter.hints.map((hint) => el("p", { class: "note", text: `hint in force: ${hint}` })),
      asked || others.length ? el("p", { class: "note", text: [asked, ...others].filter(Boolean).join(" · ") }) : "",
      chapter.diff ? diffView(chapter.diff) : ""));
}

// A long way is told by its beginning, its largest steps and its end; what lies between them is folded away.
function folded(chapters) {
  const isLong = chapters.length > TOLD;
  const sizes = chapters.map((chapter, place) => ({ place, size: Math.abs(Math.log(chapter.gain || 1)) })).slice(1, -1)
    .filter(({ size }) => !isLong || size >= Math.log(NOTABLE));
  sizes.sort((one, other) => other.size - one.size || one.place - other.place);
  const told = new Set([0, chapters.length - 1, ...sizes.slice(0, TOLD - 2).map(({ place }) => place)]);
  const groups = [];
  chapters.forEach((chapter, place) => {
    if (told.has(place) || !place || told.has(place - 1)) groups.push([]);
    groups[groups.length - 1].push(chapter);
  });
  return groups;
}

function betweenView(group, before) {
  const last = group[group.length - 1];
  const gain = before && before.speedup && last.speedup ? `, ${times(last.speedup / before.speedup)} together` : "";
  return el("li", { class: "chapter", "data-key": `${group[0].candidate}-` },
    el("div", { class: "stop" }),
    el("div", { class: "told" }, el("details", { class: "between", open: story.open },
      el("summary", { text: `${many(group.length, "smaller step")}${gain}` }),
      el("ol", { class: "chapters" }, group.map((chapter) => chapterView(chapter, false))))));
}

function chapterViews(chapters, seed) {
  let before = null;
  return folded(chapters).map((group) => {
    const view = group.length > 1 ? betweenView(group, before) : chapterView(group[0], seed && before === null);
    before = group[group.length - 1];
    return view;
  });
}

const changesButton = () => (story.open ? "Close all changes" : "Open all changes");

function drawStory() {
  const { chapters, left_out: left } = data.story;
  if (!chapters.length) return null;
  return section("story", "How the best came about",
    `${many(chapters.length - 1 + left, "generation")} from seed to best, along first parents. Speed-ups are over the fastest baseline, as measured in the search.`,
    left ? el("p", { class: "note", text: `The first ${left} generations are left out.` }) : "",
    el("div", { class: "controls" }, el("button", { type: "button", text: changesButton(), on: { click: (event) => {
      const all = document.querySelectorAll("#story details.diff, #story details.between");
      story.open = [...all].some((each) => !each.open);
      for (const each of all) each.open = story.open;
      event.currentTarget.textContent = changesButton();
    } } })),
    el("ol", { class: "chapters" }, chapterViews(chapters, !left && !chapters[0].parents.length)));
}
