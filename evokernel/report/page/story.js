// The lineage of the best, as a story: who made what of whom, why, what was expected and what came of it.
const story = { open: false };

function diffView(diff) {
  const lines = diff.lines.map((line) => {
    const kind = line.startsWith("@@") ? "place" : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "";
    return el("span", { class: kind, text: line || " " });
  });
  return el("details", { class: "diff", open: story.open },
    el("summary", null, "What changed ", el("b", { class: "added", text: `+${diff.added}` }), " ", el("b", { class: "removed", text: `−${diff.removed}` })),
    el("pre", { tabindex: "0" }, lines), diff.cut ? el("p", { class: "note", text: "Cut here: long lines, or what comes after the first lines." }) : "");
}

function outcome(chapter) {
  const parts = [];
  if (chapter.gain !== null) parts.push(el("b", { class: chapter.gain >= 1.02 ? "good" : chapter.gain < 1 / 1.02 ? "bad" : "", text: `${times(chapter.gain)} over its parent` }));
  if (chapter.predicted !== null) parts.push(el("span", { text: `${times(chapter.predicted)} was predicted` }));
  return parts.length ? el("p", { class: "outcome" }, parts) : "";
}

function chapterView(chapter, first) {
  const speed = chapter.speedup === null ? (chapter.holdout === "failed" ? "holdout failed" : words(chapter.status)) : times(chapter.speedup);
  const cost = [chapter.model, chapter.calls ? many(chapter.calls, "call") : "", chapter.tokens ? `${tokens(chapter.tokens)} tokens` : "", chapter.cost_usd ? dollars(chapter.cost_usd) : ""].filter(Boolean).join(", ");
  const others = [...chapter.parents.slice(1).map((id) => `also from ${short(id)}`), ...chapter.inspirations.map((id) => `inspired by ${short(id)}`)];
  return el("li", { class: "chapter", "data-key": chapter.candidate },
    el("div", { class: "stop" }, el("strong", { text: speed }), el("code", { text: short(chapter.candidate) })),
    el("div", { class: "told" },
      el("h3", null, first ? "The seed" : chapter.operator, el("small", { text: `${chapter.island} · step ${chapter.step}${chapter.mode ? ` · ${chapter.mode} mode` : ""}` })),
      first && chapter.why === "seed" ? "" : el("p", { class: "why", text: chapter.why }),
      outcome(chapter),
      chapter.insights.map((insight) => el("details", null, el("summary", { text: `${insight.kind}: ${insight.title}` }), el("p", { class: "words", text: insight.text }))),
      chapter.hints.map((hint) => el("p", { class: "note", text: `hint in force: ${hint}` })),
      cost || others.length ? el("p", { class: "note", text: [cost, ...others].filter(Boolean).join(" · ") }) : "",
      chapter.diff ? diffView(chapter.diff) : ""));
}

const changesButton = () => (story.open ? "Close all changes" : "Open all changes");

function drawStory() {
  const { chapters, left_out: left } = data.story;
  if (!chapters.length) return null;
  return section("story", "How the best came about",
    `${many(chapters.length - 1 + left, "generation")} from seed to best, along first parents. Speed-ups are over the fastest baseline, as measured in the search.`,
    left ? el("p", { class: "note", text: `The first ${left} generations are left out.` }) : "",
    el("div", { class: "controls" }, el("button", { type: "button", text: changesButton(), on: { click: (event) => {
      story.open = document.querySelectorAll("#story details.diff:not([open])").length > 0;
      for (const each of document.querySelectorAll("#story details.diff")) each.open = story.open;
      event.currentTarget.textContent = changesButton();
    } } })),
    el("ol", { class: "chapters" }, chapters.map((chapter, place) => chapterView(chapter, place === 0 && !left && !chapter.parents.length))));
}
