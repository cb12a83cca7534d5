// What all charts share: colours of the current scheme, life with the size of the window, and printing.
const charts = new Map();
let paper = false;
const dark = window.matchMedia("(prefers-color-scheme: dark)");

const LIGHT = {
  ink: "#1c2330", dim: "#677184", line: "#e3e7ee", card: "#ffffff", accent: "#0b6e69", fail: "#c9cfd9", good: "#0b7a53", bad: "#b3372f", edge: "rgba(90,104,128,.28)",
  names: ["#0b6e69", "#c2571a", "#5b4fc4", "#a8326e", "#3f7d20", "#1f6fb2", "#8a6508", "#6b7280", "#b3372f", "#0e7490"],
  scale: ["#e4ecf4", "#bcd7e3", "#8dbfcd", "#57a3ae", "#23848a", "#0a5f63", "#053e44"],
};
const DARK = {
  ink: "#e7ebf3", dim: "#98a3b7", line: "#2b3342", card: "#171c26", accent: "#4fd1c5", fail: "#3f4859", good: "#4cc38a", bad: "#f0766c", edge: "rgba(152,163,183,.28)",
  names: ["#4fd1c5", "#f4a261", "#a79bff", "#f07fb4", "#96d26d", "#6cb6f5", "#e3c04d", "#a3adbd", "#f0766c", "#67d4ea"],
  scale: ["#2a3446", "#29495c", "#276472", "#2a8286", "#3aa398", "#6cc8ae", "#c0efcf"],
};
const colours = () => (dark.matches && !paper ? DARK : LIGHT);
const named = (number) => colours().names[number % colours().names.length];

/**
 * Return the place of a chart, which is kept under its name. `option` gives what it shows in the colours of now, `ready`
 * hears of it once it is there. What a reader has switched off in its legend stays off.
 */
function chart(name, option, ready, kind, label) {
  const known = charts.get(name);
  if (known && !known.place.isConnected) return known.place; // its section was gone for a while
  const place = el("div", { class: kind ? `chart ${kind}` : "chart", "data-kept": name, role: "img", "aria-label": label });
  if (!known) charts.set(name, { chart: null, place, option, ready, selected: {}, size: "" });
  return place;
}

function drawChart(name) {
  const kept = charts.get(name), fresh = !kept.chart;
  if (!kept.place.isConnected) return;
  if (fresh) Object.assign(kept, { chart: echarts.init(kept.place, null, { renderer: "canvas" }), size: sizeOf(kept.place) }); // it fits
  const option = kept.option(colours());
  option.legend.selected = kept.selected;
  kept.chart.setOption({ animation: false, textStyle: { fontFamily: "inherit", color: colours().dim }, ...option }, { notMerge: true });
  if (!fresh) return;
  kept.chart.on("legendselectchanged", ({ selected }) => { kept.selected = selected; });
  kept.ready(kept.chart);
}

/** The shares of its axes that a chart shows, from and to, in percent. */
const zoomOf = (drawn, axes) => Array.from({ length: axes }, (_, i) => drawn.getModel().getComponent("dataZoom", i).option).map((each) => [each.start, each.end]);

const tip = (c) => ({ renderMode: "richText", confine: true, backgroundColor: c.card, borderColor: c.line, textStyle: { color: c.ink, fontSize: 12 }, extraCssText: "" });

/** A legend of lines or dots, which scrolls where it is too long: the library cuts off words that are higher than its icons. */
const legend = (c, icon, more) => ({ top: 4, type: "scroll", icon: icon === "line" ? "path://M0,0M25,14M1,5h23v4h-23z" : "path://M0,0M14,14M7,2a5,5,0,1,1,0,10a5,5,0,1,1,0,-10z",
  itemWidth: icon === "line" ? 25 : 14, itemHeight: 14, textStyle: { color: c.ink }, inactiveColor: c.fail, pageTextStyle: { color: c.dim }, ...more });

const axis = (c, name, more) => ({ name, nameLocation: "middle", nameGap: 28, nameTextStyle: { color: c.dim }, axisLine: { lineStyle: { color: c.line } },
  axisTick: { show: false }, axisLabel: { color: c.dim, hideOverlap: true }, splitLine: { lineStyle: { color: c.line } }, ...more });

/** Options for the labels of an axis from 0 to `last`: the end has one where the library's last tick before it is far enough. */
function labelsTo(c, last) {
  const ten = 10 ** Math.floor(Math.log10(last / 5)), fifth = last / 5 / ten;
  const interval = ten * [1, 2, 3, 5, 10][[1.5, 2.5, 4, 7].filter((edge) => fifth >= edge).length], over = (last / interval) % 1;
  return { color: c.dim, hideOverlap: true, showMaxLabel: over > 0.01 && over < 0.5 ? false : null };
}

const redraw = () => charts.forEach((_, name) => drawChart(name));

const sizeOf = (place) => `${place.clientWidth} ${place.clientHeight}`;

/** Fit charts into places whose size has changed. */
function fit() {
  for (const kept of charts.values()) {
    const size = sizeOf(kept.place);
    if (!kept.chart || size === kept.size) continue;
    kept.size = size;
    kept.chart.resize();
  }
}

function watchCharts() {
  dark.addEventListener("change", redraw);
  new ResizeObserver(() => { if (!paper) fit(); }).observe(document.getElementById("page")); // what is fitted is empty for a frame
  const print = (now) => () => {
    paper = now;
    document.body.classList.toggle("paper", now);
    fit();
    redraw();
  };
  window.addEventListener("beforeprint", print(true));
  window.addEventListener("afterprint", print(false));
}

/** Groups of a colouring: for each candidate a group number (-1: it failed), and the groups' labels and colours. */
function colouring(by) {
  if (by === "gain") {
    const edges = [0.9, 1 / 1.02, 1.02, 1.1, 1.5], c = colours();
    const labels = ["no parent to compare with", "gain below 0.90×", "from 0.90×", "about even", "from 1.02×", "from 1.10×", "from 1.50×"];
    const of = (i) => (gainOf(i) === null ? 0 : 1 + edges.filter((edge) => gainOf(i) >= edge).length);
    return { of, labels, colour: (group) => [c.dim, c.bad, c.names[1], c.scale[1], c.scale[3], c.scale[5], c.scale[6]][group] };
  }
  if (by !== "fitness") {
    const labels = all.names[by];
    return { of: (i) => all[by][i], labels, colour: (group) => named(group) };
  }
  const timed = all.speedup.filter((value) => value !== null).sort((a, b) => a - b);
  const edges = [0.25, 0.5, 0.75, 0.9, 0.97, 0.995].map((share) => timed[Math.min(timed.length - 1, Math.floor(share * timed.length))]);
  const group = (value) => { let place = 0; while (place < edges.length && value >= edges[place]) place += 1; return place; };
  const labels = edges.length && timed.length ? [`below ${times(edges[0])}`, ...edges.map((edge) => `from ${times(edge)}`)] : [];
  return { of: (i) => (all.speedup[i] === null ? -1 : group(all.speedup[i])), labels, colour: (place) => colours().scale[place] };
}
