// Everything from a store reaches the page through `el` and `textContent`: as text, never as markup.
let data, all, total, status, best;

/** Take a document: what the page shows from now on. */
function take(document) {
  data = document;
  all = data.candidates;
  total = all.id.length;
  status = data.status;
  best = status.best;
}

const hearing = new WeakSet(); // elements with listeners, which hold on to what stands beside them

function el(tag, options, ...children) {
  const made = document.createElement(tag);
  const { on, css, ...rest } = options || {};
  for (const [name, value] of Object.entries(rest)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "text") made.textContent = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  for (const [name, value] of Object.entries(css || {})) made.style.setProperty(name, value);
  for (const [name, heard] of Object.entries(on || {})) made.addEventListener(name, heard);
  if (on) hearing.add(made);
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== "") made.append(child);
  }
  return made;
}

const plain = (value, digits) => value.toLocaleString("en-US", { maximumFractionDigits: digits, minimumFractionDigits: digits });

function times(value) {
  if (value === null || value === undefined) return "–";
  const digits = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 0.1 ? 2 : 4;
  return `${plain(value, digits)}×`;
}

const TELLING = 1000; // an interval whose ends are farther apart tells nothing
const between = ({ low, high }) => (high > TELLING * low ? "too wide" : `${times(low).slice(0, -1)} – ${times(high).slice(0, -1)}`);

function microseconds(value) { // as the terminal writes it (records/timing.py)
  const [size, unit] = value >= 0.9995e6 ? [1e6, "s"] : value >= 999.5 ? [1e3, "ms"] : [1, "us"];
  return `${(value / size).toPrecision(3)} ${unit}`;
}

function duration(seconds) {
  const whole = Math.round(seconds), two = (value) => String(value).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
  return `${Math.floor(whole / 86400)} d ${two(Math.floor((whole % 86400) / 3600))} h`;
}

const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(share * 100)} %`);
const dollars = (value) => (value === 0 || value >= 0.1 ? `$${plain(value, 2)}` : `$${plain(value, 4)}`);
/** The cost of tokens: 0 is only $0.00 where the prices are known. */
const cost = ({ cost_usd, tokens, priced = status.priced }) => (cost_usd || priced || !tokens ? dollars(cost_usd) : "unknown");
const count = (value) => plain(value, 0);
const many = (value, one, more) => `${count(value)} ${value === 1 ? one : more || one + "s"}`;
const highest = (values, least) => values.reduce((most, value) => Math.max(most, value), least);
const short = (id) => id.slice(0, 8);
const words = (text) => text.replaceAll("_", " ");

function tokens(value) {
  for (const [size, unit] of [[1e6, "M"], [1e3, "k"]]) if (value >= size) return (value / size).toPrecision(3) + unit;
  return String(value);
}

/** The source of a number in words: a search, which flatters, or a final measurement. */
const kindName = (kind) => (kind === "final" ? "Final measurement" : "Search");

function section(id, title, lead, ...children) {
  const heading = el("h2", { text: title });
  return el("section", { id, class: "card" }, heading, lead ? el("p", { class: "lead", text: lead }) : "", children);
}

/** A row of buttons of which one is pressed. `choices` are [value, label] pairs. */
function choice(label, choices, chosen, heard) {
  const buttons = choices.map(([value, text]) =>
    el("button", { type: "button", text, "aria-pressed": String(value === chosen), "data-value": value,
      on: { click: (event) => {
        for (const button of buttons) button.setAttribute("aria-pressed", String(button === event.currentTarget));
        heard(value);
      } } }));
  return el("div", { class: "choice", "data-whole": true, role: "group", "aria-label": label }, el("span", { text: label }), buttons);
}

/** A table; a column is [heading, class]. Cells are texts or elements. */
function table(caption, columns, rows) {
  const head = el("tr", null, columns.map(([text, kind]) => el("th", { scope: "col", class: kind, text })));
  const body = rows.map((cells) => el("tr", { "data-key": typeof cells[0] === "string" ? cells[0] : null }, cells.map((cell, place) =>
    el("td", { class: `${columns[place][1]} ${cell === "–" || cell === "0" ? "none" : ""}`, "data-label": columns[place][0] }, cell instanceof Node ? cell : String(cell)))));
  return el("div", { class: "wide" }, el("table", null, el("caption", { text: caption }), el("thead", null, head), el("tbody", null, body)));
}

const note = (text) => el("p", { class: "note", text });
const badge = (text, kind) => el("span", { class: `badge ${kind || ""}`, text });

function command(text) {
  return el("code", { class: "command", text });
}
