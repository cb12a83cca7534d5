// What is shown, as files of the reader's own: made in the page, sent nowhere.
function save(name, address) {
  const file = `${status.task || "run"}_${name}`.replace(/[^\w.-]+/g, "_");
  el("a", { href: address, download: file }).click();
}

function saveText(name, kind, text) {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  save(name, address);
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

const SAVED = {
  id: (i) => all.id[i], step: (i) => all.step[i], status: (i) => nameIn("status", i), operator: (i) => nameIn("operator", i), island: (i) => nameIn("island", i), model: (i) => nameIn("model", i),
  search_speedup: (i) => all.speedup[i], search_low: (i) => all.low[i], search_high: (i) => searchOf(i)?.high, final_speedup: (i) => finalOf(i)?.value, final_low: (i) => finalOf(i)?.low, final_high: (i) => finalOf(i)?.high,
  gain: gainOf, predicted: (i) => all.predicted[i], parent: (i) => all.id[all.parent[i]], evaluations: (i) => all.evaluations[i], hours: (i) => all.hours[i], dollars: (i) => all.dollars[i], rationale: (i) => nameIn("why", i),
};

/** Rows as CSV. A spreadsheet takes a text that begins like a formula for one, so it gets an apostrophe. */
function csv(rows) {
  const cell = (value) => (value === null || value === undefined ? "" : typeof value === "number" ? value : `"${(/^[=+\-@]/.test(value) ? "'" : "") + value.replaceAll('"', '""')}"`);
  return rows.map((row) => row.map(cell).join(",")).join("\r\n");
}

const candidateRows = (those) => [Object.keys(SAVED), ...those.map((i) => Object.values(SAVED).map((value) => value(i)))];
const saveButton = (text, label, heard) => el("button", { type: "button", text, title: label, "aria-label": label, on: { click: heard } });
const tableFile = () => saveButton("CSV", "Save these rows as CSV", () => saveText("candidates.csv", "text/csv", csv(candidateRows(listing.rows))));

/** Buttons that save a chart as it is looked at, and all its numbers, which `rows` gives below their headings. */
function chartFiles(name, rows) {
  const drawing = () => {
    const { place, option, selected } = charts.get(name), shown = option(colours());
    const made = echarts.init(null, null, { renderer: "svg", ssr: true, width: place.clientWidth, height: place.clientHeight });
    made.setOption({ animation: false, backgroundColor: colours().card, textStyle: { fontFamily: "sans-serif", color: colours().dim }, ...shown, dataZoom: shown.dataZoom.filter((each) => each.type === "inside"), legend: { ...shown.legend, selected } });
    const text = made.renderToSVGString();
    made.dispose();
    return text;
  };
  return el("div", { class: "choice", "data-key": `save ${name}` }, el("span", { text: "save" }),
    saveButton("PNG", "Save this chart as PNG", () => save(`${name}.png`, charts.get(name).chart.getDataURL({ type: "png", pixelRatio: 2, backgroundColor: colours().card }))),
    saveButton("SVG", "Save this chart as SVG", () => saveText(`${name}.svg`, "image/svg+xml", drawing())),
    saveButton("CSV", "Save the numbers of this chart as CSV", () => saveText(`${name}.csv`, "text/csv", csv(rows()))));
}
