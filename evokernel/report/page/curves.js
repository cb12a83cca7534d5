// Best so far against what was spent: each island a line, each candidate a dot, baselines below, the floor above.
const AXES = { evaluations: "evaluations", hours: "hours of search", dollars: "dollars for models" };
const curves = { by: "evaluations", logarithmic: false, view: [[0, 100]] };
const inMinutes = () => all.hours.every((value) => value < 2);

/** What was spent until each candidate: hours in minutes where the whole search was short. */
const spentUntil = (by) => (by === "hours" && inMinutes() ? all.hours.map((value) => value * 60) : all[by]);
const spentName = (by) => (by === "hours" && inMinutes() ? "minutes of search" : AXES[by]);

function baselineLines() {
  // Only a crowned kernel was paired with every baseline on every workload.
  if (!best) return [];
  if (!data.answer.panel) return [["fastest baseline on each workload", 1]];
  const lines = [["fastest baseline", 1]];
  for (const [name, each] of Object.entries(best.baselines)) {
    const at = best.speedup.value / each.speedup;
    if (Math.abs(at - 1) > 0.02) lines.push([`${name} (${best.kind})`, at]);
  }
  return lines;
}

/** The words of lines by their height: of lines that lie close together the lowest has the words of all. */
function wordsOf(lines, low, high, logarithmic) {
  const along = (value) => (logarithmic ? Math.log(value / low) / Math.log(high / low) : value / high);
  const words = new Map();
  let above = null;
  for (const [name, at] of [...lines].sort((one, other) => other[1] - one[1])) {
    const near = above !== null && along(above) - along(at) < 0.06;
    words.set(at, `${near ? `${words.get(above)}\n` : ""}${name.slice(0, 40)} ${times(at)}`);
    if (near && above !== at) words.set(above, "");
    above = at;
  }
  return words;
}

/** The interval of the run's best so far, as the corners of an area: its low ends forwards, its high ends back. */
function bandOf(x, last) {
  const ends = (end) => data.leads[0].points.flatMap((i, at, points) => [[x[i], end(i)], [at + 1 < points.length ? x[points[at + 1]] : last, end(i)]]);
  return [...ends((i) => all.low[i]), ...ends((i) => searchOf(i).high).reverse()];
}

/** Migrations and resets of islands, by kind, at what was spent until then. */
function ticksOf(by) {
  const ticks = {}, unit = by === "hours" && inMinutes() ? 60 : 1;
  for (const each of data.exchanges) (ticks[each.kind] ||= []).push({ at: each[by] * unit, text: `${each.text}\nstep ${each.step}` });
  return ticks;
}

/** What the curves show, as rows: who led the run or an island, from when on, and what islands exchanged. */
function curveRows() {
  const lead = ({ island, points }) => points.map((i) => [island || "the run", all.evaluations[i], all.hours[i], all.dollars[i], all.id[i], all.speedup[i], all.low[i], searchOf(i).high, ""]);
  return [["line", "evaluations", "hours", "dollars", "candidate", "search_speedup", "search_low", "search_high", "text"], ...data.leads.flatMap(lead),
    ...data.exchanges.map((each) => [each.kind, each.evaluations, each.hours, each.dollars, "", null, null, null, each.text])];
}

/** A tick on the lower axis; many are thin and short, and stand for how often. */
function tickMarks(c, name, found, at) {
  const tall = found.length > 150 ? 5 : 14;
  return { type: "scatter", name, symbol: "rect", symbolSize: [found.length > 150 ? 1 : 2, tall], symbolOffset: [0, -tall / 2], z: 7, color: name === "reset" ? c.bad : c.accent, data: found.map((each) => [each.at, at, each.text]) };
}

const axesUsed = () => Object.keys(AXES).filter((name) => name !== "dollars" || all.dollars.some((value) => value > 0));
const axisChoice = (chosen, heard) => choice("against", axesUsed().map((name) => [name, name === "hours" && inMinutes() ? "minutes" : name]), chosen, heard);

function curveOption(c) {
  const { by, logarithmic, view: [[start, end]] } = curves;
  const x = spentUntil(by), last = highest(x, 0);
  const ceiling = data.answer && data.answer.ceiling;
  const steps = (lead) => {
    const path = [];
    lead.points.forEach((i, at) => {
      if (at) path.push([x[i], path.at(-1)[1]]);
      path.push([x[i], all.speedup[i]]);
    });
    if (path.length) path.push([last, path.at(-1)[1]]);
    return path;
  };
  const dots = [];
  for (let i = 0; i < total; i += 1) if (all.speedup[i] !== null) dots.push([x[i], all.speedup[i], i]);
  const [band, ticks] = [bandOf(x, last), ticksOf(by)];
  const rule = (words, at, colour, kind, position) => ({ yAxis: at, name: words, lineStyle: { color: colour, type: kind, width: 1.2 },
    label: { formatter: words, position, color: colour, fontSize: 11, lineHeight: 14, textBorderColor: c.card, textBorderWidth: 3, align: position === "insideEndBottom" ? "right" : "left" } });
  const top = highest([...dots, ...baselineLines()].map((each) => each[1]), 0);
  const seen = ceiling && (logarithmic ? true : ceiling < top * 3);
  const lowest = -highest(dots.map((dot) => -dot[1]), -1);
  const tidy = (value) => Number(value.toPrecision(2));
  const islands = data.leads.slice(1).filter((lead) => lead.points.length);
  const number = (name) => Math.max(0, all.names.island.indexOf(name)), foot = logarithmic ? tidy(lowest * 0.9) : 0;
  const head = tidy((seen ? Math.max(ceiling, top) : top || 1) * 1.08);
  const marks = [...wordsOf(baselineLines(), foot, head, logarithmic)].map(([at, words]) => rule(words, at, c.dim, "dashed", "insideEndBottom"));
  if (seen) marks.push(rule(`the floor of the device, at ${times(ceiling)}`, ceiling, c.bad, "solid", "insideStartTop"));
  return {
    grid: { left: 58, right: 18, top: 44, bottom: 62 },
    legend: legend(c, "line", { data: ["the run", ...islands.map((lead) => lead.island), ...Object.keys(ticks)] }),
    tooltip: { ...tip(c), trigger: "item", formatter: ({ value }) => (typeof value?.[2] === "string" ? value[2] : Array.isArray(value) ? `${all.id[value[2]]}  search ${times(value[1])}\n${all.names.operator[all.operator[value[2]]]} on ${all.names.island[all.island[value[2]]]}\n${all.names.status[all.status[value[2]]]}` : "") },
    xAxis: axis(c, spentName(by), { type: "value", min: 0, max: last || 1, splitLine: { show: false }, axisLabel: labelsTo(c, last || 1) }),
    yAxis: axis(c, "search speed-up over the fastest baseline", { type: logarithmic ? "log" : "value", nameGap: 40, min: foot, max: head, axisLabel: { color: c.dim, showMaxLabel: false, formatter: (value) => `${Number(value.toPrecision(3))}×` } }),
    dataZoom: [{ type: "inside", xAxisIndex: 0, start, end, zoomOnMouseWheel: "ctrl", filterMode: "none" }, { type: "slider", xAxisIndex: 0, start, end, height: 14, bottom: 6, borderColor: c.line, brushSelect: false, showDetail: false, filterMode: "none", showDataShadow: false, fillerColor: c.edge, handleStyle: { color: c.dim }, moveHandleSize: 0 }],
    series: [
      ...(band.length ? [{ type: "custom", name: "the run", silent: true, clip: true, z: 1, itemStyle: { color: c.ink }, data: [[0, band[0][1]]], renderItem: (_, api) => ({ type: "polygon", shape: { points: band.map((at) => api.coord(at)) }, style: { fill: c.edge } }) }] : []),
      ...Object.entries(ticks).map(([name, found]) => tickMarks(c, name, found, foot)),
      { type: "scatter", name: "candidates", data: dots, large: dots.length > 2000, largeThreshold: 2000, symbolSize: dots.length > 2000 ? 2.5 : 6, itemStyle: { color: c.dim, opacity: 0.35 } },
      ...islands.map((lead) => ({ type: "line", name: lead.island, silent: true, data: steps(lead), showSymbol: false, lineStyle: { width: 1.6, color: named(number(lead.island)), opacity: 0.9 }, itemStyle: { color: named(number(lead.island)) } })),
      { type: "scatter", name: "the run", data: data.leads[0].points.map((i) => [x[i], all.speedup[i], i]), symbolSize: 7, z: 6, itemStyle: { color: c.ink } },
      { type: "line", name: "the run", silent: true, data: steps(data.leads[0]), z: 5, showSymbol: false, lineStyle: { width: 3, color: c.ink }, itemStyle: { color: c.ink },
        markLine: { silent: true, symbol: "none", z: 8, data: marks } },
    ],
  };
}

function curvesReady(drawn) {
  drawn.on("datazoom", () => { curves.view = zoomOf(drawn, 1); });
  drawn.on("click", ({ value }) => { if (value?.[2] >= 0) location.hash = addressOf(all.id[value[2]]); });
}

function drawCurves() {
  const place = chart("curves", curveOption, curvesReady, "", "Best speed-up so far, by what was spent");
  const ceiling = data.answer && data.answer.ceiling;
  return section("curves", "How it got there",
    "Numbers of the search: they select, and flatter. What is known now of each candidate, at the time it came: one that was found wrong later is left out. The lead goes by the low end of the interval, whose span is shaded; ticks on the axis are migrations and resets of islands.",
    el("div", { class: "controls" },
      axisChoice(curves.by, (value) => { Object.assign(curves, { by: value, view: [[0, 100]] }); drawChart("curves"); }),
      choice("scale", [["even", "linear"], ["log", "logarithmic"]], curves.logarithmic ? "log" : "even", (value) => { curves.logarithmic = value === "log"; drawChart("curves"); }),
      chartFiles("curves", curveRows)),
    place,
    el("p", { class: "note", text: ceiling ? `The floor, the least time the device could need, would be ${times(ceiling)}; where it is far above everything, the logarithmic scale shows it.` : "The floor of this device is not known for every workload, so there is no ceiling to draw." }));
}

/** What of the curves is looked at, in their own units, before other data come. */
function curvesLook() {
  const last = highest(spentUntil(curves.by), 0);
  return { name: spentName(curves.by), at: curves.view[0].map((share) => (share / 100) * last) };
}

/** Look there again: a view that went to the end still does. */
function curvesLookAgain({ name, at: [from, to] }) {
  const [[start, end]] = curves.view, last = highest(spentUntil(curves.by), 0);
  if ((start <= 0 && end >= 100) || !last) return;
  const unit = name === spentName(curves.by) ? 1 : 1 / 60; // minutes have become hours
  const share = (value) => Math.min(100, (100 * value * unit) / last);
  curves.view = [[share(from), end >= 100 ? 100 : share(to)]];
}
