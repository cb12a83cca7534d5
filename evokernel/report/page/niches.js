// Niches: what behaviour was tried, and how fast the best of each cell is. A table, so that it reads and prints anywhere.
function bins(edges) {
  const unit = (value) => (value >= 1e4 ? value.toPrecision(3) * 1 : value).toLocaleString("en-US", { maximumFractionDigits: 3 });
  return [`below ${unit(edges[0])}`, ...edges.map((edge, i) => (i + 1 < edges.length ? `${unit(edge)} to ${unit(edges[i + 1])}` : `from ${unit(edge)}`))];
}

function heat(map, x, y) {
  const cells = new Map();
  for (const cell of map.cells) {
    const key = `${cell.at[x]},${cell.at[y]}`, before = cells.get(key) || { tried: 0, best: -1 };
    const better = before.best < 0 || all.speedup[cell.best] > all.speedup[before.best];
    cells.set(key, { tried: before.tried + cell.tried, best: better ? cell.best : before.best });
  }
  const speeds = [...cells.values()].map((cell) => Math.log(all.speedup[cell.best]));
  // What is slower than a quarter of the best is pale: a seed, a hundred times slower, would take all the colours.
  const high = Math.max(...speeds), low = Math.max(Math.min(...speeds), high - Math.log(4));
  const across = bins(map.axes[x].edges), down = y === x ? [""] : bins(map.axes[y].edges);
  const head = el("tr", null, el("th", { text: "" }), across.map((text) => el("th", { scope: "col", text })));
  const rows = down.map((text, row) => el("tr", null, el("th", { scope: "row", text }), across.map((_, column) => {
    const cell = cells.get(y === x ? `${column},${column}` : `${column},${row}`);
    if (!cell) return el("td", { class: "empty", text: "·" });
    const share = high > low ? Math.max(0, (Math.log(all.speedup[cell.best]) - low) / (high - low)) : 1;
    return el("td", { class: share > 0.55 ? "hot" : "", css: { "--heat": `${Math.round(8 + 92 * share)}%` } },
      el("button", { type: "button", title: `Show ${all.id[cell.best]} in the family tree`, on: { click: () => goTo(cell.best) } },
        el("b", { text: times(all.speedup[cell.best]) }), el("small", { text: `${count(cell.tried)} tried` })));
  }))).reverse();
  return el("div", { class: "wide" }, el("table", { class: "heat", css: { "--columns": across.length } },
    el("caption", null, `${words(map.axes[x].name)} across`, y === x ? "" : `, ${words(map.axes[y].name)} upwards`),
    el("tbody", null, rows), el("tfoot", null, head)));
}

function goTo(i) {
  choose(i);
  document.getElementById("family").scrollIntoView();
}

const axesOf = new Map(); // which two axes a reader looks at, by the islands of a map

function nicheView(map) {
  const name = map.islands.join(", "), looked = axesOf.get(name) || [0, Math.min(1, map.axes.length - 1)];
  const place = el("div", { class: "map" }, heat(map, ...looked));
  const look = (side) => (value) => {
    looked[side] = value;
    axesOf.set(name, looked);
    place.replaceChildren(heat(map, ...looked));
  };
  const names = map.axes.map((each, i) => [i, words(each.name)]);
  return el("div", { "data-whole": true, "data-key": name }, data.niches.length > 1 ? el("h3", { text: map.islands.join(", ") }) : "",
    names.length > 2 ? el("div", { class: "controls" }, choice("across", names, looked[0], look(0)), choice("upwards", names, looked[1], look(1))) : "",
    place);
}

/** Every niche with its best, as rows: the bins of a map stand in as many columns as the longest map has axes. */
function nicheRows() {
  const most = Math.max(...data.niches.map((map) => map.axes.length)), axes = Array.from({ length: most }, (_, at) => at);
  const rows = data.niches.flatMap((map) => map.cells.map((cell) => [map.islands.join(" "), ...axes.flatMap((at) => (map.axes[at] ? [map.axes[at].name, bins(map.axes[at].edges)[cell.at[at]]] : ["", ""])), cell.tried, all.id[cell.best], all.speedup[cell.best]]));
  return [["islands", ...axes.flatMap((at) => [`axis_${at + 1}`, `bin_${at + 1}`]), "tried", "best", "search_speedup"], ...rows];
}

function drawNiches() {
  if (!data.niches.length) return null;
  const cells = data.niches.reduce((sum, map) => sum + map.cells.length, 0);
  return section("niches", "Niches", `Right candidates by what they do when compiled and run; ${many(cells, "niche")} found. Each cell shows its best, by the search; other axes are folded together.`,
    el("div", { class: "controls" }, saveButton("CSV", "Save the niches as CSV", () => saveText("niches.csv", "text/csv", csv(nicheRows())))), data.niches.map(nicheView));
}
