// One candidate: its source, what changed, what was measured, what a model was asked and said, and its kin. The address
// names it, so that it can be sent to others, and Back closes it.
const panel = { id: "", tab: "source", parent: "", state: "", found: null, place: null };
const TABS = { source: ["Source", sourceTab], diff: ["Diff to parent", diffTab], measured: ["Measured", measuredTab], prompt: ["Prompt + reply", promptTab], lineage: ["Lineage", lineageTab] };
const KIND = { final: ["final", "good"], search: ["search", "warn"] };
const kindBadge = (kind) => badge(...KIND[kind]);

function sourceTab({ source }) {
  return [sourceView(source.text, source.language), source.cut ? note(`Long lines or the end are cut here; this prints every byte: evokernel show ${data.target} ${panel.id} --source`) : ""];
}

/** Ids of further kin, beside first parents and their children: of the parents or children of one, or who inspired whom. */
function furtherKin(i, side, inspired) {
  const edges = data.further_parents, own = edges[side === "parent" ? "child" : "parent"];
  return own.flatMap((at, edge) => (at === i && edges.inspired[edge] === inspired ? [all.id[edges[side][edge]]] : []));
}

async function diffTab({ source }, i) {
  const parents = [...(all.parent[i] >= 0 ? [all.id[all.parent[i]]] : []), ...furtherKin(i, "parent", 0)];
  if (!parents.length) return [note("It has no parent: the search began with it, or a model wrote it from nothing.")];
  const chosen = parents.includes(panel.parent) ? panel.parent : parents[0];
  const other = await candidateFacts.of(placeOf(chosen)), diff = compared(other.source.text, source.text);
  return [parents.length > 1 ? choice("against", parents.map((id) => [id, short(id)]), chosen, (id) => { panel.parent = id; showTab(); }) : el("p", null, "Against its parent ", candidateLink(chosen)),
    el("p", null, el("b", { class: "added", text: `+${diff.added}` }), " ", el("b", { class: "removed", text: `−${diff.removed}` })),
    diff.lines.length ? el("div", { class: "diff" }, el("pre", { tabindex: "0" }, diffLines(diff.lines))) : note("The two are the same, as far as they are shown.")];
}

/** Numbers by name. A share of the device's threads is one of them; the others have their unit in the name. */
function numbers(values) {
  const said = (name, value) => (name === "occupancy" ? percent(value) : Math.abs(value) >= 1e4 || Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4))));
  return el("dl", { class: "sheet numbers" }, Object.entries(values).map(([name, value]) => [el("dt", { text: words(name) }), el("dd", { text: value === null ? "–" : said(name, value) })]));
}

function evaluationView(each) {
  const head = [kindBadge(each.kind), badge(words(each.status), each.status === "ok" ? "good" : "bad"), el("span", { class: "note", text: `${each.budget}, reached ${each.stage}, ${each.mode} mode, ${duration(each.duration_s)}${each.stopped_early ? ", stopped early" : ""}` })];
  const baselines = Object.entries(each.baselines);
  return el("div", { class: "evaluation" }, el("p", null, head),
    each.speedup ? el("p", null, el("b", { text: times(each.speedup.value) }), ` ${each.kind} speed-up over the fastest baseline, 95 % interval ${between(each.speedup)}`) : "",
    each.workloads.length ? workloads(`${kindName(each.kind)}: each workload`, each.workloads) : "",
    baselines.length ? table(`${kindName(each.kind)}: over each baseline`, [["baseline", ""], ["speed-up", "number"], ["95 % interval", "number"]], baselines.map(([name, speedup]) => [name, times(speedup.value), between(speedup)])) : "",
    Object.keys(each.descriptor).length ? [el("h3", { text: "As compiled and run" }), numbers(each.descriptor)] : "",
    Object.keys(each.metrics).length ? el("details", null, el("summary", { text: many(Object.keys(each.metrics).length, "further number") }), numbers(each.metrics)) : "",
    each.feedback ? el("pre", { class: "words", tabindex: "0", text: each.feedback }) : "");
}

function measuredTab({ facts }) {
  const [shown, others] = [true, false].map((counts) => facts.evaluations.filter((each) => each.counts === counts).reverse());
  if (!facts.evaluations.length) return [note("It waits for its verdict.")];
  return [facts.evaluations.some((each) => each.kind === "final") ? "" : note("Search numbers only: they select kernels and flatter them. A final measurement is made of winners."),
    shown.map(evaluationView),
    others.length ? el("details", null, el("summary", { text: many(others.length, "earlier evaluation") }), others.map(evaluationView)) : ""];
}

function callView(call) {
  return el("div", { class: "call" }, el("h3", { text: `${call.operator}: ${call.model}` }), note(`role ${call.role}, ${tokens(call.tokens)} tokens, ${call.status}`),
    call.messages.map((message) => el("details", { open: message.role === "user" }, el("summary", { text: `Prompt (${message.role})` }), el("pre", { class: "words", tabindex: "0", text: message.text }))),
    el("h4", { text: "Reply" }), el("pre", { class: "words", tabindex: "0", text: call.reply }));
}

function promptTab({ source, facts, calls }) {
  const why = el("p", { class: "why", text: source.why }); // in full: the table has its beginning
  if (!facts.model && !(calls && calls.length)) return [why, note("No model was asked for it: a rule made it.")];
  const asked = [why, note(`${facts.model}: ${many(facts.calls, "call")}, ${tokens(facts.tokens)} tokens, cost ${cost(facts)}`),
    facts.hints.map((hint) => note(`hint in force: ${hint}`)),
    facts.insights.map((insight) => el("details", null, el("summary", { text: `${insight.kind}: ${insight.title}` }), el("p", { class: "words", text: insight.text })))];
  if (!calls) return [asked, note("This file was made without prompts; this puts them in:"), command(`evokernel report ${data.target} --with-prompts`)];
  return [asked, calls.length ? calls.map(callView) : note("The store holds no usable reply for it: another run, or an earlier release, made it.")];
}

function kinRow(id) {
  const i = placeOf(id);
  if (i < 0) return el("li", null, el("code", { text: short(id) }));
  const speed = all.speedup[i] === null ? words(nameIn("status", i)) : `search ${times(all.speedup[i])}`;
  return el("li", null, candidateLink(id), ` ${speed}`, finalOf(i) ? `, final ${times(finalOf(i).value)}` : "", el("small", { text: `${nameIn("operator", i)}: ${nameIn("why", i)}` }));
}

function lineageTab(_, i) {
  const line = new Set();
  for (let at = all.parent[i]; at >= 0 && !line.has(at); at = all.parent[at]) line.add(at);
  const children = all.parent.flatMap((parent, child) => (parent === i ? [all.id[child]] : []));
  const kin = [["Further parents", furtherKin(i, "parent", 0)], ["Inspired by", furtherKin(i, "parent", 1)],
    ["Children", [...children, ...furtherKin(i, "child", 0)]], ["It inspired", furtherKin(i, "child", 1)], ["First parents, back to the beginning", [...line].map((at) => all.id[at])]];
  const shown = kin.filter(([, ids]) => ids.length).map(([title, ids]) => [el("h3", { text: `${title} (${count(ids.length)})` }), el("ul", { class: "kin" }, ids.slice(0, 300).map(kinRow)), ids.length > 300 ? note(`${count(ids.length - 300)} more`) : ""]);
  return [shown.length ? shown : note("It has no kin here."), el("button", { type: "button", text: "Show it in the family tree", on: { click: () => { close(); goTo(i); } } })];
}

function headOf(i) {
  const search = searchOf(i), final = finalOf(i), predicted = all.predicted[i], gain = gainOf(i);
  const said = [predicted === null ? "" : `${times(predicted)} over its parent was predicted`, gain === null ? "" : `${times(gain)} came of it in the search`].filter(Boolean).join(", ");
  const step = (by, text, label) => el("button", { type: "button", text, title: label, "aria-label": label, on: { click: () => { mark(listing.rows.indexOf(i) + by); location.replace(addressOf(listing.at)); } } });
  return el("header", null,
    el("div", { class: "bar" }, el("h2", null, el("code", { text: panel.id })), step(-1, "↑", "The one above in the table"), step(1, "↓", "The one below in the table"), el("button", { type: "button", text: "×", title: "Close", "aria-label": "Close", class: "shut", on: { click: close } })),
    el("p", null, badge(words(nameIn("status", i)), nameIn("status", i) === "ok" ? "good" : "bad"),
      search ? badge(`search ${times(search.value)} (${between(search)})`, "warn") : "", final ? badge(`final ${times(final.value)} (${between(final)})`, "good") : ""),
    el("p", { class: "note", text: [nameIn("operator", i), nameIn("island", i), `step ${all.step[i]}`, nameIn("model", i)].filter(Boolean).join(" · ") }),
    el("p", { class: "why", text: nameIn("why", i) }), said ? note(said) : "",
    el("div", { class: "tabs", role: "tablist", on: { keydown: (event) => {
      const names = Object.keys(TABS), way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!way) return;
      panel.tab = names[(names.indexOf(panel.tab) + way + names.length) % names.length];
      showTab().then(() => panel.place.querySelector("[aria-selected=true]").focus());
    } } }, Object.entries(TABS).map(([name, [title]]) => el("button", { type: "button", role: "tab", "data-tab": name, "aria-controls": "tab", text: title, on: { click: () => { panel.tab = name; showTab(); } } }))));
}

/** Show the chosen tab, once what it needs is here and unless another candidate was chosen meanwhile. */
async function showTab() {
  const { id, tab, found } = panel, body = panel.place.querySelector("#tab");
  for (const each of panel.place.querySelectorAll("[role=tab]")) {
    each.tabIndex = each.dataset.tab === tab ? 0 : -1;
    each.setAttribute("aria-selected", String(each.dataset.tab === tab));
  }
  let parts;
  try {
    const facts = await found;
    if (facts.source.problem) throw new Error(facts.source.problem);
    parts = await TABS[tab][1](facts, placeOf(id));
  } catch (error) {
    parts = [note(`This could not be read (${error.message}).`)];
  }
  if (panel.id !== id || panel.tab !== tab) return;
  body.replaceChildren(...el("div", null, parts).childNodes);
  body.dataset.shown = `${id} ${tab}`;
}

function open(i) {
  const id = all.id[i], state = `${id} ${all.speedup[i]} ${nameIn("status", i)} ${JSON.stringify(finalOf(i))}`;
  if (panel.state === state) return;
  if (!panel.place) document.body.append(panel.place = el("aside", { id: "panel", tabindex: "-1", "aria-label": "Candidate" }));
  Object.assign(panel, { id, state, found: candidateFacts.of(i) });
  panel.found.catch(() => {}); // the tab says so
  panel.place.replaceChildren(headOf(i), el("div", { id: "tab", role: "tabpanel" }));
  panel.place.hidden = false;
  listing.at = id;
  if (listing.rows.includes(i)) mark(listing.rows.indexOf(i));
  showTab();
}

function shut() {
  if (!panel.id) return;
  Object.assign(panel, { id: "", state: "", found: null });
  panel.place.hidden = true;
}

/** Close the panel by the address, without a place in the history and without scrolling. */
function close() {
  history.replaceState(null, "", `${location.pathname}${location.search}#`);
  shut();
  listing.place?.querySelector(".scroll").focus({ preventScroll: true });
}

/** Show what the address names. */
function showAddressed() {
  const named = /^#candidate=([0-9a-f]+)$/.exec(location.hash), i = named ? placeOf(named[1]) : -1;
  if (i >= 0) open(i); else shut();
}

function watchAddress() {
  window.addEventListener("hashchange", showAddressed);
  window.addEventListener("resize", () => { if (listing.place) paint(); }); // rows of a narrow window are higher
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && panel.id) close(); });
}
