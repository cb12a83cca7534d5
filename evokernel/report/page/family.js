// The family tree: all candidates and who came from whom. Drawn in a few large strokes, so that 20,000 stay quick.
const family = { by: "fitness", layout: "kin", failures: true, chosen: -1, view: [[0, 100], [0, 100]] };

function bestLine() {
  const line = new Set(), index = best ? all.id.indexOf(best.candidate.slice(0, 10)) : -1;
  for (let i = index; i >= 0 && !line.has(i); i = all.parent[i]) line.add(i);
  return line;
}

// A whole large family at once would be a blot: edges to those without children wait until few enough are in view.
const EDGES_IN_VIEW = 3000;
const isParent = new Uint8Array(total);
for (const parent of all.parent) if (parent >= 0) isParent[parent] = 1;

const shown = (i) => (family.layout === "kin" ? family.failures || all.speedup[i] !== null : all.speedup[i] !== null);
const height = (i) => (family.layout === "kin" ? all.lane[i] : all.speedup[i]);

/** The least and the highest of the steps and of the heights. */
function extents() {
  const found = [[0, highest(all.step, 1)], [Infinity, -Infinity]];
  for (let i = 0; i < total; i += 1) if (shown(i)) found[1] = [Math.min(found[1][0], height(i)), Math.max(found[1][1], height(i))];
  return found;
}

/** Edges to the candidates in view, which is a share from and to of the steps and of the heights, in percent. */
function edgesOf(view) {
  let inView = 0;
  const [x, y] = extents().map(([low, high], side) => view[side].map((share) => low + (share / 100) * (high - low)));
  const seen = (i) => shown(i) && all.step[i] >= x[0] && all.step[i] <= x[1] && height(i) >= y[0] && height(i) <= y[1];
  for (let i = 0; i < total; i += 1) inView += seen(i);
  const everyone = inView <= EDGES_IN_VIEW, ends = [];
  for (let i = 0; i < total; i += 1) {
    const parent = all.parent[i];
    if (parent >= 0 && seen(i) && shown(parent) && (everyone || isParent[i])) ends.push(2, all.step[parent], height(parent), all.step[i], height(i));
  }
  return Float32Array.from(ends);
}

function familyOption(c) {
  const groups = colouring(family.by), line = bestLine();
  const points = groups.labels.map(() => []), failed = [], trunk = [];
  for (let i = 0; i < total; i += 1) {
    if (!shown(i)) continue;
    const group = groups.of(i), at = [all.step[i], height(i)];
    if (all.speedup[i] === null) failed.push(at); else points[group].push(at);
    const parent = all.parent[i];
    if (parent >= 0 && shown(parent) && line.has(i)) trunk.push({ coords: [[all.step[parent], height(parent)], at] });
  }
  const size = total > 5000 ? 3 : total > 500 ? 5 : 9;
  const dots = (name, data, colour) => ({ type: "scatter", name, data, silent: true, symbolSize: size, large: total > 2000, largeThreshold: 2000, progressive: 0, itemStyle: { color: colour, opacity: total > 5000 ? 0.8 : 1 } });
  const zoom = { filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: true };
  const chosen = family.chosen >= 0 && shown(family.chosen) ? [[all.step[family.chosen], height(family.chosen)]] : [];
  const leader = [...line].filter(shown).map((i) => [all.step[i], height(i)]);
  return {
    grid: { left: family.layout === "kin" ? 14 : 56, right: 14, top: 40, bottom: 44 },
    legend: { top: 2, type: "scroll", textStyle: { color: c.ink }, inactiveColor: c.fail, icon: "circle", itemWidth: 10, itemHeight: 10, pageTextStyle: { color: c.dim } },
    xAxis: axis(c, "step", { type: "value", min: 0, max: highest(all.step, 1), splitLine: { show: false }, nameGap: 24 }),
    yAxis: family.layout === "kin" ? { type: "value", show: false, scale: true } : axis(c, "speed-up", { type: "value", scale: true, nameGap: 42 }),
    dataZoom: [{ type: "inside", xAxisIndex: 0, start: family.view[0][0], end: family.view[0][1], ...zoom }, { type: "inside", yAxisIndex: 0, start: family.view[1][0], end: family.view[1][1], ...zoom }],
    series: [
      { type: "lines", coordinateSystem: "cartesian2d", silent: true, data: edgesOf(family.view), dimensions: ["value"], large: true, largeThreshold: 0, progressive: 0, polyline: false, lineStyle: { color: c.edge, width: total > 5000 ? 0.4 : 0.8, opacity: 1 }, z: 1 },
      ...(failed.length ? [dots("failed", failed, c.fail)] : []),
      ...points.map((each, group) => dots(groups.labels[group], each, groups.colour(group))).filter((each) => each.data.length),
      { type: "lines", coordinateSystem: "cartesian2d", silent: true, data: trunk, lineStyle: { color: c.bad, width: 2, opacity: 0.9 }, z: 4 },
      { type: "scatter", name: "line of the best", silent: true, data: leader, symbolSize: size + 3, itemStyle: { color: c.bad, borderColor: c.card, borderWidth: 1 }, z: 5 },
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
    const dx = one[0] + (other[0] - one[0]) * all.step[i] - x, dy = one[1] + (other[1] - one[1]) * height(i) - y;
    if (dx * dx + dy * dy < least) { least = dx * dx + dy * dy; found = i; }
  }
  return found;
}

function candidateView(i, choose) {
  if (i < 0) return [el("p", { class: "note", text: "Choose a candidate in the tree, or type the beginning of its id." })];
  const name = (kind) => all.names[kind][all[kind][i]];
  const parent = all.parent[i];
  const gain = parent >= 0 && all.speedup[i] !== null && all.speedup[parent] !== null ? all.speedup[i] / all.speedup[parent] : null;
  const rows = [["speed-up", all.speedup[i] === null ? words(name("status")) : times(all.speedup[i])], ["gain", gain === null ? "" : times(gain)],
    ["predicted", all.predicted[i] === null ? "" : times(all.predicted[i])], ["operator", name("operator")], ["island", name("island")],
    ["model", name("model")], ["step", String(all.step[i])]];
  return [
    el("h3", null, el("code", { text: all.id[i] })),
    el("dl", { class: "sheet" }, rows.filter((row) => row[1]).map(([label, value]) => [el("dt", { text: label }), el("dd", { text: value })])),
    el("p", { class: "why", text: name("why") }),
    parent >= 0 ? el("button", { type: "button", text: `Go to its parent ${short(all.id[parent])}`, on: { click: () => choose(parent) } }) : "",
    el("p", null, command(`evokernel show ${all.id[i]} -s ${data.target}`))];
}

function drawFamily() {
  const place = el("div", { class: "chart tall", role: "img", "aria-label": "Family tree of all candidates" });
  const side = el("aside", { class: "side", "aria-live": "polite" });
  const kept = chart(place, familyOption);
  const choose = (i) => { family.chosen = i; side.replaceChildren(...candidateView(i, choose)); look(1); again(); };
  const again = () => kept.draw();
  const inside = (share, [start, end]) => share >= start && share <= end;
  // The chosen candidate stays in view: what is nearer than it is around it, and one that was out of view comes into it.
  const look = (factor) => {
    const chosen = family.chosen >= 0 && shown(family.chosen) ? [all.step[family.chosen], height(family.chosen)] : null;
    const shares = chosen && extents().map(([low, high], side) => (high > low ? (100 * (chosen[side] - low)) / (high - low) : 50));
    const stay = factor === 1 && (!shares || shares.every((share, side) => inside(share, family.view[side])));
    if (stay) return;
    family.view = family.view.map(([start, end], side) => {
      const half = Math.min(50, Math.max(0.05, ((end - start) / 2) * factor)), middle = shares ? shares[side] : (start + end) / 2;
      const from = Math.min(Math.max(0, middle - half), 100 - 2 * half);
      return [from, from + 2 * half];
    });
  };
  const zoom = (factor) => { look(factor); again(); };
  const set = (name) => (value) => {
    family[name] = value;
    if (name !== "by") family.view = [[0, 100], [0, 100]];
    again();
  };
  const search = el("input", { type: "search", placeholder: "find an id", "aria-label": "Find a candidate by the beginning of its id", maxlength: "16", on: { change: (event) => {
    const wanted = event.currentTarget.value.trim().toLowerCase().slice(0, 10), found = wanted ? all.id.findIndex((id) => id.startsWith(wanted)) : -1;
    choose(found);
  } } });
  const button = (text, label, heard) => el("button", { type: "button", text, title: label, "aria-label": label, on: { click: heard } });
  drawFamily.choose = choose;
  drawFamily.ready = () => {
    let waiting = 0;
    kept.chart.on("datazoom", () => {
      family.view = kept.chart.getOption().dataZoom.map((each) => [each.start, each.end]);
      clearTimeout(waiting);
      if (total > EDGES_IN_VIEW) waiting = setTimeout(again, 200);
    });
    const pointer = kept.chart.getZr();
    pointer.on("click", (event) => { const i = nearest(kept.chart, event.offsetX, event.offsetY); if (i >= 0) choose(i); });
    pointer.on("mousemove", (event) => pointer.setCursorStyle(nearest(kept.chart, event.offsetX, event.offsetY) >= 0 ? "pointer" : "default"));
  };
  side.replaceChildren(...candidateView(-1, choose));
  const colourings = [["fitness", "fitness"], ["operator", "operator"], ["island", "island"]];
  if (all.names.model.some(Boolean)) colourings.push(["model", "model"]);
  return section("family", "The family tree", `${many(total, "candidate")}, each beside its kin; the line of the best stands out. Drag to move, Ctrl and wheel or the buttons to zoom, click for more.`,
    el("div", { class: "controls" },
      choice("colour by", colourings, family.by, set("by")),
      choice("height", [["kin", "kinship"], ["speed", "speed-up"]], family.layout, set("layout")),
      choice("failures", [["yes", "shown"], ["no", "hidden"]], "yes", (value) => set("failures")(value === "yes")),
      el("div", { class: "choice" }, el("span", { text: "zoom" }), button("+", "Zoom in", () => zoom(0.5)), button("−", "Zoom out", () => zoom(2)), button("all", "Show all", () => zoom(1e6))),
      search),
    el("div", { class: "split" }, place, side));
}
