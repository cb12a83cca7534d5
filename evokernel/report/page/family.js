// The family tree: all candidates and who came from whom. Drawn in a few large strokes, so that 20,000 stay quick.
const family = { by: "fitness", layout: "kin", across: "step", second: "shown", failures: true, chosen: -1, wanted: "", view: [[0, 100], [0, 100]] };

function bestLine() {
  const line = new Set(), index = best ? all.id.indexOf(best.candidate.slice(0, 10)) : -1;
  for (let i = index; i >= 0 && !line.has(i); i = all.parent[i]) line.add(i);
  return line;
}

// A whole large family at once would be a blot: edges to those without children wait until few enough are in view.
const EDGES_IN_VIEW = 3000, SECOND_IN_VIEW = 500;

const shown = (i) => (family.layout === "kin" ? family.failures || all.speedup[i] !== null : all.speedup[i] !== null);
const height = (i) => (family.layout === "kin" ? all.lane[i] : all.speedup[i]);

/** How many first parents, one of the other, each candidate has; counted once for each document. */
function generations() {
  if (family.counted === all) return family.generation;
  const generation = new Array(total).fill(0);
  all.parent.forEach((parent, i) => { if (parent >= 0) generation[i] = generation[parent] + 1; }); // parents stand before their children
  Object.assign(family, { counted: all, generation });
  return generation;
}

const acrossAll = () => (family.across === "step" ? all.step : generations());
const across = (i) => acrossAll()[i];

/** The candidates that a text is found in: id, operator, island, status or rationale. */
function matches() {
  const { wanted } = family, told = (i) => ["operator", "island", "status", "why"].some((kind) => nameIn(kind, i).toLowerCase().includes(wanted));
  return wanted ? all.id.flatMap((id, i) => (shown(i) && (id.startsWith(wanted.slice(0, 10)) || told(i)) ? [i] : [])) : [];
}

const matchesSaid = () => (family.wanted ? `${count(matches().length)} found` : "");

/** The least and the highest of the steps and of the heights. */
function extents() {
  const found = [[0, highest(acrossAll(), 1)], [Infinity, -Infinity]];
  for (let i = 0; i < total; i += 1) if (shown(i)) found[1] = [Math.min(found[1][0], height(i)), Math.max(found[1][1], height(i))];
  return found;
}

/** Return whether a candidate is in view, which is a share from and to of the steps and of the heights, in percent. */
function inView(view) {
  const [x, y] = extents().map(([low, high], side) => view[side].map((share) => low + (share / 100) * (high - low))), at = acrossAll();
  return (i) => shown(i) && at[i] >= x[0] && at[i] <= x[1] && height(i) >= y[0] && height(i) <= y[1];
}

/** Edges to the candidates in view. */
function edgesOf(view) {
  let many = 0;
  const isParent = new Uint8Array(total), seen = inView(view);
  for (const parent of all.parent) if (parent >= 0) isParent[parent] = 1;
  for (let i = 0; i < total; i += 1) many += seen(i);
  const everyone = many <= EDGES_IN_VIEW, ends = [];
  for (let i = 0; i < total; i += 1) {
    const parent = all.parent[i];
    if (parent >= 0 && seen(i) && shown(parent) && (everyone || isParent[i])) ends.push(2, across(parent), height(parent), across(i), height(i));
  }
  return Float32Array.from(ends);
}

/** Edges from second and later parents to the candidates in view, where few enough of them are to be told apart. */
function secondEdges(view) {
  const edges = data.further_parents, ends = [], seen = inView(view);
  edges.child.forEach((child, at) => {
    const parent = edges.parent[at];
    if (!edges.inspired[at] && seen(child) && shown(parent)) ends.push(2, across(parent), height(parent), across(child), height(child));
  });
  return family.second === "shown" && ends.length <= 5 * SECOND_IN_VIEW ? Float32Array.from(ends) : [];
}

function familyOption(c) {
  const groups = colouring(family.by), last = highest(acrossAll(), 1), line = bestLine(), edges = edgesOf(family.view), second = secondEdges(family.view), found = matches().map((i) => [across(i), height(i)]);
  const points = groups.labels.map(() => []), failed = [], trunk = [];
  for (let i = 0; i < total; i += 1) {
    if (!shown(i)) continue;
    const group = groups.of(i), at = [across(i), height(i)];
    if (all.speedup[i] === null) failed.push(at); else points[group].push(at);
    const parent = all.parent[i];
    if (parent >= 0 && shown(parent) && line.has(i)) trunk.push({ coords: [[across(parent), height(parent)], at] });
  }
  const size = total > 5000 ? 3 : total > 500 ? 5 : 9;
  const dots = (name, data, colour) => ({ type: "scatter", name, data, silent: true, symbolSize: size, large: total > 2000, largeThreshold: 2000, progressive: 0, itemStyle: { color: colour, opacity: total > 5000 ? 0.8 : 1, ...(total > 2000 || name === "failed" ? {} : { borderColor: c.dim, borderWidth: 0.8 }) } });
  const zoom = { filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: true };
  const chosen = family.chosen >= 0 && shown(family.chosen) ? [[across(family.chosen), height(family.chosen)]] : [];
  const leader = [...line].filter(shown).map((i) => [across(i), height(i)]);
  return {
    grid: { left: family.layout === "kin" ? 14 : 56, right: 14, top: 40, bottom: 44 },
    legend: legend(c, "dot", { top: 2 }),
    xAxis: axis(c, family.across, { type: "value", min: 0, max: last, splitLine: { show: false }, nameGap: 24, axisLabel: labelsTo(c, last) }),
    yAxis: family.layout === "kin" ? { type: "value", show: false, scale: true } : axis(c, "search speed-up", { type: "value", scale: true, nameGap: 42 }),
    dataZoom: [{ type: "inside", xAxisIndex: 0, start: family.view[0][0], end: family.view[0][1], ...zoom }, { type: "inside", yAxisIndex: 0, start: family.view[1][0], end: family.view[1][1], ...zoom }],
    series: [
      // The library fails at a large series of lines without any: a seed alone has none.
      ...(edges.length ? [{ type: "lines", coordinateSystem: "cartesian2d", silent: true, data: edges, dimensions: ["value"], large: true, largeThreshold: 0, progressive: 0, polyline: false, lineStyle: { color: c.edge, width: total > 5000 ? 0.4 : 0.8, opacity: 1 }, z: 1 }] : []),
      ...(second.length ? [{ type: "lines", name: "second parents", coordinateSystem: "cartesian2d", silent: true, data: second, dimensions: ["value"], large: true, largeThreshold: 0, progressive: 0, polyline: false, lineStyle: { color: c.accent, width: 0.8, type: "dashed", opacity: 0.6 }, z: 1 }] : []),
      ...(failed.length ? [dots("failed", failed, c.fail)] : []),
      ...points.map((each, group) => dots(groups.labels[group], each, groups.colour(group))).filter((each) => each.data.length),
      { type: "lines", coordinateSystem: "cartesian2d", silent: true, data: trunk, lineStyle: { color: c.bad, width: 2, opacity: 0.9 }, z: 4 },
      { type: "scatter", name: "line of the best", silent: true, data: leader, symbolSize: size + 3, itemStyle: { color: c.bad, borderColor: c.card, borderWidth: 1 }, z: 5 },
      { type: "scatter", silent: true, data: found, progressive: 0, symbolSize: size + (found.length > 500 ? 3 : 8), itemStyle: { color: "transparent", borderColor: c.bad, borderWidth: found.length > 500 ? 0.7 : 1.5 }, z: 6 },
      { type: "scatter", silent: true, data: chosen, symbolSize: size + 12, itemStyle: { color: "transparent", borderColor: c.ink, borderWidth: 2 }, z: 6 },
    ],
  };
}

/** The candidate nearest to a place on the canvas, or -1. Both axes are even, so two places give the scale. */
function nearest(drawn, x, y) {
  const one = drawn.convertToPixel("grid", [0, 0]), other = drawn.convertToPixel("grid", [1, 1]);
  if (!one || !other) return -1;
  let found = -1, least = 15 * 15;
  for (let i = 0; i < total; i += 1) {
    if (!shown(i)) continue;
    const dx = one[0] + (other[0] - one[0]) * across(i) - x, dy = one[1] + (other[1] - one[1]) * height(i) - y;
    if (dx * dx + dy * dy < least) { least = dx * dx + dy * dy; found = i; }
  }
  return found;
}

function candidateView(i) {
  if (i < 0) return [el("p", { class: "note", text: "Choose a candidate in the tree, or search for one." })];
  const name = (kind) => all.names[kind][all[kind][i]];
  const parent = all.parent[i], gain = gainOf(i);
  const rows = [["search speed-up", all.speedup[i] === null ? words(name("status")) : times(all.speedup[i])], ["final speed-up", finalOf(i) ? times(finalOf(i).value) : ""], ["gain, search", gain === null ? "" : times(gain)],
    ["predicted", all.predicted[i] === null ? "" : times(all.predicted[i])], ["operator", name("operator")], ["island", name("island")],
    ["model", name("model")], ["step", String(all.step[i])], ["generation", String(generations()[i])]];
  return [
    el("h3", null, candidateLink(all.id[i], all.id[i])),
    el("dl", { class: "sheet" }, rows.filter((row) => row[1]).map(([label, value]) => [el("dt", { text: label }), el("dd", { text: value })])),
    el("p", { class: "why", text: name("why") }),
    parent >= 0 ? el("button", { type: "button", text: `Go to its parent ${short(all.id[parent])}`, on: { click: () => choose(parent) } }) : "",
    el("p", null, command(`evokernel show ${data.target} ${all.id[i]}`))];
}

const sideOf = () => document.querySelector("#family .side");

function choose(i) {
  family.chosen = i;
  fill(sideOf(), candidateView(i));
  look(1);
  drawChart("family");
}

/** Look nearer or from farther off. The chosen candidate stays in view: what is nearer than it is around it, and one that
 * was out of view comes into it. */
function look(factor) {
  const chosen = family.chosen >= 0 && shown(family.chosen) ? [across(family.chosen), height(family.chosen)] : null;
  const shares = chosen && extents().map(([low, high], side) => (high > low ? (100 * (chosen[side] - low)) / (high - low) : 50));
  const inside = (share, [start, end]) => share >= start && share <= end;
  if (factor === 1 && (!shares || shares.every((share, side) => inside(share, family.view[side])))) return;
  family.view = family.view.map(([start, end], side) => {
    const half = Math.min(50, Math.max(0.05, ((end - start) / 2) * factor));
    return windowOf(shares ? shares[side] : (start + end) / 2, half);
  });
}

/** The window of a half width, in percent, around a middle, as far as there is room. */
function windowOf(middle, half) {
  const from = Math.min(Math.max(0, middle - half), 100 - 2 * half);
  return [from, from + 2 * half];
}

/** What of the tree is looked at before other data come: where the chosen candidate, or one in the middle, stands. */
function familyLook() {
  const chosen = family.chosen >= 0 ? all.id[family.chosen] : null;
  if (!total || family.view.every(([start, end]) => start <= 0 && end >= 100)) return { chosen };
  const [x, y] = extents().map(([low, high], side) => family.view[side].map((share) => low + (share / 100) * (high - low)));
  const shares = (i) => [[across(i), x], [height(i), y]].map(([value, [low, high]]) => (high > low ? (value - low) / (high - low) : 0.5));
  const off = (i) => { const [across, up] = shares(i); return Math.hypot(across - 0.5, up - 0.5); };
  let anchor = family.chosen >= 0 && shown(family.chosen) && off(family.chosen) < 0.71 ? family.chosen : -1;
  if (anchor < 0) for (let i = 0, least = Infinity; i < total; i += 1) if (shown(i) && off(i) < least) { least = off(i); anchor = i; }
  return anchor < 0 ? { chosen } : { chosen, anchor: all.id[anchor], shares: shares(anchor), spans: [x[1] - x[0], y[1] - y[0]] };
}

/** Look there again: as much is seen as before, and the same candidate stands at the same place. */
function familyLookAgain({ chosen, anchor, shares, spans }) {
  family.chosen = chosen ? all.id.indexOf(chosen) : -1;
  const i = anchor ? all.id.indexOf(anchor) : -1;
  if (i < 0 || !shown(i)) return;
  const values = [across(i), height(i)];
  family.view = extents().map(([low, high], side) => {
    const [start, end] = family.view[side];
    if ((start <= 0 && end >= 100) || high <= low) return [start, end];
    const half = Math.min(50, (50 * spans[side]) / (high - low));
    return windowOf((100 * (values[side] + (0.5 - shares[side]) * spans[side] - low)) / (high - low), half);
  });
}

/** Listen to the mouse on the tree. */
function familyReady(drawn) {
  let waiting = 0;
  drawn.on("datazoom", () => {
    family.view = zoomOf(drawn, 2);
    clearTimeout(waiting);
    if (total > SECOND_IN_VIEW) waiting = setTimeout(() => drawChart("family"), 200);
  });
  const pointer = drawn.getZr();
  pointer.on("click", (event) => { const i = nearest(drawn, event.offsetX, event.offsetY); if (i >= 0) choose(i); });
  pointer.on("mousemove", (event) => pointer.setCursorStyle(nearest(drawn, event.offsetX, event.offsetY) >= 0 ? "pointer" : "default"));
}

function familyControls() {
  const set = (name) => (value) => {
    family[name] = value;
    if (name !== "by") family.view = [[0, 100], [0, 100]];
    drawChart("family");
  };
  const zoom = (factor) => () => { look(factor); drawChart("family"); };
  let waiting = 0;
  const search = el("input", { type: "search", "data-key": "find", placeholder: "find id or words", "aria-label": "Mark the candidates with this in id, operator, island, status or rationale; Enter chooses the first", maxlength: "100", on: {
    input: (event) => {
      const wanted = event.currentTarget.value.trim().toLowerCase();
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        family.wanted = wanted;
        document.querySelector("#family .found").textContent = matchesSaid();
        drawChart("family");
      }, SOON_MS);
    },
    change: (event) => {
      family.wanted = event.currentTarget.value.trim().toLowerCase();
      document.querySelector("#family .found").textContent = matchesSaid();
      choose(family.wanted ? [all.id.findIndex((id) => id.startsWith(family.wanted.slice(0, 10))), matches()[0] ?? -1].find((i) => i >= 0) ?? -1 : -1);
    } } });
  const button = (text, label, heard) => el("button", { type: "button", text, title: label, "aria-label": label, on: { click: heard } });
  const colourings = [["fitness", "fitness"], ["gain", "gain"], ["operator", "operator"], ["island", "island"]];
  if (all.names.model.some(Boolean)) colourings.push(["model", "model"]);
  return el("div", { class: "controls" },
    choice("colour by", colourings, family.by, set("by")),
    choice("height", [["kin", "kinship"], ["speed", "speed-up"]], family.layout, set("layout")),
    choice("across", [["step", "step"], ["generation", "generation"]], family.across, set("across")),
    data.further_parents.inspired.includes(0) ? choice("second parents", [["shown", "shown"], ["hidden", "left out"]], family.second, (value) => { family.second = value; drawChart("family"); }) : "",
    choice("failures", [["yes", "shown"], ["no", "hidden"]], family.failures ? "yes" : "no", (value) => set("failures")(value === "yes")),
    el("div", { class: "choice" }, el("span", { text: "zoom" }), button("+", "Zoom in", zoom(0.5)), button("−", "Zoom out", zoom(2)), button("all", "Show all", zoom(1e6))),
    search, el("span", { class: "found note", role: "status", text: matchesSaid() }), chartFiles("family", () => candidateRows(all.id.map((_, i) => i))));
}

function drawFamily() {
  const place = chart("family", familyOption, familyReady, "tall", "Family tree of all candidates");
  return section("family", "The family tree", `${many(total, "candidate")}, each beside its kin; the line of the best stands out; speed-ups are those of the search. Second parents are dashed lines, once few enough are in view. Drag to move, Ctrl and wheel or the buttons to zoom, click for more.`,
    familyControls(),
    el("div", { class: "split" }, place, el("aside", { class: "side", "aria-live": "polite" }, candidateView(family.chosen))));
}
