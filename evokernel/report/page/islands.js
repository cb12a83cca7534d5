// Islands over what was spent: the best of each, how much its kernels differ, and what it took from the others.
const islandsOver = { by: "evaluations" };
const WINDOW = 30, FEWEST = 5;

/** By island: how its best, its diversity and what it took from others went, each as [candidate, value]. */
function islandCourses() {
  const names = data.leads.slice(1).map((lead) => lead.island), courses = new Map(names.map((name) => [name, { best: [], diversity: [], taken: [], window: [] }]));
  for (const lead of data.leads.slice(1)) courses.get(lead.island).best = lead.points.map((i) => [i, all.speedup[i]]);
  for (let i = 0; i < total; i += 1) {
    const course = courses.get(nameIn("island", i));
    if (!course) continue;
    if (foreignParents(i).length) course.taken.push([i, (course.taken.at(-1)?.[1] || 0) + 1]);
    if (all.speedup[i] === null) continue;
    course.window.push(all.structure[i]);
    if (course.window.length > WINDOW) course.window.shift();
    if (course.window.length >= FEWEST) course.diversity.push([i, new Set(course.window).size / course.window.length]);
  }
  return courses;
}

const further = { of: null, by: null };

/** The islands but its own that the parents of a candidate were proposed for. */
function foreignParents(i) {
  if (further.of !== data) {
    Object.assign(further, { of: data, by: new Map() });
    data.further_parents.child.forEach((child, at) => { if (!data.further_parents.inspired[at]) further.by.set(child, [...(further.by.get(child) || []), data.further_parents.parent[at]]); });
  }
  const parents = [...(all.parent[i] >= 0 ? [all.parent[i]] : []), ...(further.by.get(i) || [])].map((parent) => nameIn("island", parent));
  return [...new Set(parents)].filter((name) => name !== nameIn("island", i) && name in status.islands);
}

const MEASURES = { best: ["best there, search", times], diversity: ["distinct structures", percent], taken: ["children of other islands", count] };

function islandsOption(c) {
  const courses = [...islandCourses()], x = spentUntil(islandsOver.by), last = highest(x, 0) || 1, kinds = Object.keys(MEASURES);
  const ticks = Object.entries(ticksOf(islandsOver.by));
  const path = (found, steps) => [...found.flatMap(([i, value], at) => (steps && at ? [[x[i], found[at - 1][1]], [x[i], value, i]] : [[x[i], value, i]])), ...(found.length ? [[last, found.at(-1)[1]]] : [])];
  const speeds = courses.flatMap(([, course]) => course.best.map(([, value]) => value)), tidy = (value) => Number(value.toPrecision(2));
  const range = { best: { type: "log", min: tidy(-highest(speeds.map((value) => -value), -1) * 0.9), max: tidy(highest(speeds, 0.01) * 1.1) }, diversity: { type: "value", min: 0, max: 1, interval: 0.5 }, taken: { type: "value", minInterval: 1 } };
  // A power of ten has a label of its own: an end beside it has none, or both would stand in one place.
  const beside = (value, whole) => Math.abs(Math.log10(value) - whole(Math.log10(value))) < 0.2;
  const ends = { showMinLabel: !beside(range.best.min, Math.ceil), showMaxLabel: !beside(range.best.max, Math.floor) };
  const shown = { best: (value) => `${Number(value.toPrecision(3))}×`, diversity: percent, taken: count };
  return {
    grid: kinds.map((_, row) => ({ left: 66, right: 18, top: `${9 + row * 30}%`, height: "23%" })),
    legend: legend(c, "line", { data: [...courses.map(([name]) => name), ...ticks.map(([name]) => name)] }),
    tooltip: { ...tip(c), trigger: "item", formatter: ({ value }) => (typeof value?.[2] === "string" ? value[2] : "") },
    xAxis: kinds.map((_, row) => axis(c, row === 2 ? spentName(islandsOver.by) : "", { gridIndex: row, type: "value", min: 0, max: last, splitLine: { show: false }, axisLabel: labelsTo(c, last) })),
    yAxis: kinds.map((kind, row) => axis(c, MEASURES[kind][0], { gridIndex: row, ...range[kind], nameGap: 46, nameTextStyle: { color: c.dim, fontSize: 11 }, splitNumber: 3, axisLabel: { color: c.dim, hideOverlap: true, formatter: shown[kind], ...(kind === "best" ? ends : {}) } })),
    dataZoom: [],
    series: [
      ...courses.flatMap(([name, course]) => kinds.map((kind, row) => ({ type: "line", name, silent: true, xAxisIndex: row, yAxisIndex: row, data: path(course[kind], kind !== "diversity"), showSymbol: false, lineStyle: { width: 1.6 }, color: named(Math.max(0, all.names.island.indexOf(name))) }))),
      ...ticks.map(([name, found]) => ({ ...tickMarks(c, name, found, 0), xAxisIndex: 1, yAxisIndex: 1 })),
    ],
  };
}

function islandRows() {
  const rows = [...islandCourses()].flatMap(([name, course]) => Object.keys(MEASURES).flatMap((kind) => course[kind].map(([i, value]) => [name, kind, all.evaluations[i], all.hours[i], all.dollars[i], all.id[i], value])));
  return [["island", "measure", "evaluations", "hours", "dollars", "candidate", "value"], ...rows];
}

/** How many children each island made of the kernels of each other one. */
function exchangeTable(names) {
  const made = new Map();
  for (let i = 0; i < total; i += 1) for (const from of foreignParents(i)) made.set(`${nameIn("island", i)}\n${from}`, (made.get(`${nameIn("island", i)}\n${from}`) || 0) + 1);
  return table("Children of kernels from other islands", [["island", ""], ...names.map((name) => [`from ${name}`, "number"])], names.map((name) => [name, ...names.map((from) => (name === from ? "–" : count(made.get(`${name}\n${from}`) || 0)))]));
}

function drawIslands() {
  const names = data.leads.slice(1).map((lead) => lead.island);
  if (names.length < 2) return null;
  const place = chart("islands", islandsOption, () => {}, "tall", "Best, diversity and exchange of each island, by what was spent");
  return section("islands", "Islands over time", `Best: by the search. Distinct structures: among the last ${WINDOW} right kernels of the island, values of tunables set aside. Children of other islands: kernels made of a parent that another island had proposed.`,
    el("div", { class: "controls" }, axisChoice(islandsOver.by, (value) => { islandsOver.by = value; drawChart("islands"); }), chartFiles("islands", islandRows)), place, exchangeTable(names));
}
