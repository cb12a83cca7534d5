// All candidates as a table: only the rows in view are in the page, so that a hundred thousand scroll like ten.
const listing = { by: "speedup", down: true, chosen: { status: "", operator: "", island: "", model: "" }, text: "", found: null, rows: [], at: "", place: null };
const BEYOND = 6, SOON_MS = 200;

const nameIn = (kind, i) => all.names[kind][all[kind][i]];
const gainOf = (i) => (all.parent[i] >= 0 && all.speedup[i] !== null && all.speedup[all.parent[i]] !== null ? all.speedup[i] / all.speedup[all.parent[i]] : null);
const finalOf = (i) => data.finals[all.id[i]] || null;
/** The interval of a speed-up in the search is as wide above as below, in logarithms. */
const searchOf = (i) => (all.speedup[i] === null || !all.low[i] ? null : { value: all.speedup[i], low: all.low[i], high: all.speedup[i] ** 2 / all.low[i] });
const placeOf = (id) => (/^[0-9a-f]{4,16}$/.test(id) ? all.id.findIndex((each) => each.startsWith(id.slice(0, 10))) : -1);
const addressOf = (id) => `#candidate=${id.slice(0, 10)}`;
const candidateLink = (id, shown) => el("a", { class: "id", href: addressOf(id) }, el("code", { text: shown || short(id) }));

const text = (kind) => ({ kind: "text", value: (i) => nameIn(kind, i), shown: (i) => words(nameIn(kind, i)) });
const number = (value, shown) => ({ kind: "number", value, shown: (i) => (value(i) === null ? "–" : shown(value(i), i)) });
const COLUMNS = {
  id: { heading: "candidate", kind: "text", value: (i) => all.id[i] },
  step: { heading: "step", ...number((i) => all.step[i], count) },
  speedup: { heading: "search speed-up", ...number((i) => all.speedup[i], times) },
  interval: { heading: "95 % interval", ...number((i) => (searchOf(i) ? all.low[i] : null), (_, i) => between(searchOf(i))) },
  final: { heading: "final speed-up", ...number((i) => (finalOf(i) ? finalOf(i).value : null), times), used: () => Object.keys(data.finals).length },
  gain: { heading: "gain", ...number(gainOf, times) },
  status: { heading: "status", ...text("status") },
  operator: { heading: "operator", ...text("operator") },
  island: { heading: "island", ...text("island") },
  model: { heading: "model", ...text("model"), used: () => all.names.model.some(Boolean) },
  why: { heading: "rationale", ...text("why"), shown: (i) => nameIn("why", i) },
};
const columnsUsed = () => Object.entries(COLUMNS).filter(([, column]) => !column.used || column.used());

/** The rows that are asked for, in the order that is asked for; what has no value comes last either way. */
function sift() {
  const wanted = listing.text.toLowerCase(), { value } = COLUMNS[listing.by], way = listing.down ? -1 : 1;
  const told = (i) => !wanted || all.id[i].startsWith(wanted) || nameIn("why", i).toLowerCase().includes(wanted) || (listing.found && listing.found.has(all.id[i]));
  const fits = (i) => Object.entries(listing.chosen).every(([kind, name]) => !name || nameIn(kind, i) === name);
  const pairs = Array.from({ length: total }, (_, i) => i).filter((i) => fits(i) && told(i)).map((i) => [value(i), i]);
  pairs.sort(([one, i], [other, j]) => {
    if (one === other) return i - j;
    if (one === null || other === null) return one === null ? 1 : -1;
    return (one < other ? -1 : 1) * way;
  });
  listing.rows = pairs.map(([, i]) => i);
}

const rowHeight = () => (window.matchMedia("(max-width: 600px)").matches ? 58 : 34);

function rowView(i, at) {
  const cells = columnsUsed().map(([name, column]) => el("span", { class: `cell ${column.kind} ${name}`, role: "gridcell", title: name === "why" ? column.shown(i) : null },
    name === "id" ? el("a", { href: addressOf(all.id[i]), tabindex: "-1" }, el("code", { text: short(all.id[i]) })) : column.shown(i)));
  cells.find((cell) => cell.classList.contains("status")).classList.add(nameIn("status", i) === "ok" ? "good" : nameIn("status", i) === "not judged" ? "dim" : "bad");
  return el("div", { class: "line", id: `row-${all.id[i]}`, role: "row", "aria-rowindex": at + 2, "aria-selected": String(all.id[i] === listing.at), "data-i": i, css: { top: `${at * rowHeight()}px` } }, cells);
}

/** Put the rows in view into the page, and take the others out. */
function paint() {
  const body = listing.place.querySelector(".lines"), view = listing.place.querySelector(".scroll"), tall = rowHeight();
  body.style.setProperty("height", `${listing.rows.length * tall}px`);
  const from = Math.max(0, Math.floor(view.scrollTop / tall) - BEYOND), to = Math.min(listing.rows.length, Math.ceil((view.scrollTop + view.clientHeight) / tall) + BEYOND);
  body.replaceChildren(...listing.rows.slice(from, to).map((i, k) => rowView(i, from + k)));
  const chosen = placeOf(listing.at);
  if (chosen >= 0 && listing.rows.includes(chosen)) view.setAttribute("aria-activedescendant", `row-${all.id[chosen]}`); else view.removeAttribute("aria-activedescendant");
}

function relist() {
  sift();
  const note = listing.place.querySelector(".found");
  note.textContent = listing.rows.length === total ? many(total, "candidate") : `${count(listing.rows.length)} of ${many(total, "candidate")}`;
  if (listing.looking) note.textContent += ", looking through the sources …";
  else if (listing.text && listing.failed) note.textContent += "; the sources could not be searched";
  for (const head of listing.place.querySelectorAll("[role=columnheader]")) {
    const own = head.dataset.name === listing.by;
    head.setAttribute("aria-sort", own ? (listing.down ? "descending" : "ascending") : "none");
  }
  listing.place.querySelector(".scroll").setAttribute("aria-rowcount", listing.rows.length + 1);
  paint();
}

/** Mark a row, and bring it into view. */
function mark(at) {
  if (!listing.rows.length) return;
  const place = Math.min(Math.max(0, at), listing.rows.length - 1), view = listing.place.querySelector(".scroll"), tall = rowHeight();
  listing.at = all.id[listing.rows[place]];
  const room = view.clientHeight - view.querySelector(".heads").offsetHeight;
  if (place * tall < view.scrollTop) view.scrollTop = place * tall;
  else if ((place + 1) * tall > view.scrollTop + room) view.scrollTop = (place + 1) * tall - room;
  paint();
}

function keyed(event) {
  const at = listing.rows.indexOf(placeOf(listing.at)), page = Math.floor(event.currentTarget.clientHeight / rowHeight()) - 2;
  const moves = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: total };
  if (event.target.closest("button") && event.key === "Enter") return;
  if (event.key in moves) mark(moves[event.key]);
  else if (event.key === "Enter" && at >= 0) location.hash = addressOf(listing.at);
  else return;
  event.preventDefault();
  if (panel.id && event.key !== "Enter") location.replace(addressOf(listing.at)); // an open panel follows
}

/** Find a text: at once in ids and rationales, then in the sources. */
async function lookFor(wanted) {
  if (wanted !== listing.text) listing.found = null;
  listing.text = wanted;
  listing.looking = wanted.length > 1 && !listing.found;
  relist();
  if (wanted.length < 2) return;
  const found = await candidateFacts.search(wanted).catch(() => null);
  if (listing.text !== wanted) return;
  Object.assign(listing, { found, looking: false, failed: !found });
  relist();
}

function filters() {
  const kinds = Object.keys(listing.chosen).filter((kind) => all.names[kind].some(Boolean));
  return kinds.map((kind) => {
    const options = [...all.names[kind]].filter(Boolean).sort().map((name) => el("option", { value: name, text: words(name), selected: name === listing.chosen[kind] }));
    return el("select", { "aria-label": kind, "data-kind": kind, on: { change: (event) => { listing.chosen[kind] = event.currentTarget.value; relist(); } } },
      el("option", { value: "", text: `any ${kind}` }), options);
  });
}

function listingParts() {
  let waiting = 0;
  const search = el("input", { type: "search", placeholder: "id, rationale or source", "aria-label": "Search in ids, rationales and sources", maxlength: "100", value: listing.text, on: { input: (event) => {
    const wanted = event.currentTarget.value.trim();
    clearTimeout(waiting);
    waiting = setTimeout(() => lookFor(wanted), SOON_MS);
  } } });
  const heads = el("div", { class: "heads line", role: "row" }, columnsUsed().map(([name, { heading, kind }]) =>
    el("span", { class: `cell ${kind} ${name}`, role: "columnheader", "data-name": name }, el("button", { type: "button", text: heading, on: { click: () => {
      Object.assign(listing, { by: name, down: listing.by === name ? !listing.down : kind === "number" && name !== "step" });
      relist();
    } } }))));
  const lines = el("div", { class: "lines", on: { click: (event) => {
    const row = event.target.closest(".line");
    if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    listing.at = all.id[Number(row.dataset.i)];
    location.hash = addressOf(listing.at);
    paint();
  } } });
  return [el("div", { class: "controls" }, search, el("span", { class: "filters" }, filters()), el("span", { class: "found note", role: "status" }), tableFile()),
    el("div", { class: `scroll ${columnsUsed().map(([name]) => `with-${name}`).join(" ")}`, role: "grid", tabindex: "0", "aria-label": "Candidates", on: { scroll: () => requestAnimationFrame(paint), keydown: keyed } }, heads, lines)];
}

/** Show the candidates of the newest document; what was typed and chosen stays. */
function drawListing() {
  listing.place = document.querySelector("#candidates .listing");
  if (!listing.place) return;
  const columns = columnsUsed().map(([name]) => name).join(" "), old = listing.place.querySelector(".filters");
  if (listing.place.dataset.columns !== columns) listing.place.replaceChildren(...listingParts());
  else if (!old.isEqualNode(el("span", { class: "filters" }, filters()))) old.replaceChildren(...filters());
  listing.place.dataset.columns = columns;
  lookFor(listing.text);
}

function drawCandidates() {
  return section("candidates", "All candidates",
    "Search speed-ups selected the kernels and flatter them; only a final measurement is one to report. Gain is over the first parent, in the search. Arrows move, Enter opens, Escape closes.",
    el("div", { class: "listing", "data-kept": "listing" }));
}
