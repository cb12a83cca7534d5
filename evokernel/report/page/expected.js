// What operators expected of their kernels, against what came of them in the search.
const expected = { by: "operator" };
const foretold = () => Array.from({ length: total }, (_, i) => i).filter((i) => all.predicted[i] > 0 && gainOf(i) > 0);

function expectedOption(c) {
  const found = foretold(), both = found.flatMap((i) => [all.predicted[i], gainOf(i)]);
  const low = -highest(both.map((value) => -value), -0.8) / 1.1, high = highest(both, 1.25) * 1.1, tidy = (value) => Number(value.toPrecision(2));
  const names = all.names[expected.by], groups = [...new Set(found.map((i) => all[expected.by][i]))].sort((a, b) => a - b);
  const scale = { type: "log", min: tidy(low), max: tidy(high), axisLabel: { color: c.dim, formatter: (value) => `${Number(value.toPrecision(2))}×` } };
  return {
    grid: { left: 60, right: 24, top: 44, bottom: 48 },
    legend: legend(c, "dot", { data: groups.map((group) => names[group] || "rule") }),
    tooltip: { ...tip(c), trigger: "item", formatter: ({ value }) => `${all.id[value[2]]}\npredicted ${times(value[0])}, measured ${times(value[1])}\n${nameIn("operator", value[2])} ${nameIn("model", value[2])}` },
    xAxis: axis(c, "predicted gain over the parent", scale), yAxis: axis(c, "gain over the parent, search", { ...scale, nameGap: 42 }),
    dataZoom: [],
    series: [
      { type: "line", silent: true, data: [[low, low], [high, high]], showSymbol: false, lineStyle: { color: c.dim, type: "dashed", width: 1 } },
      ...groups.map((group) => ({ type: "scatter", name: names[group] || "rule", symbolSize: found.length > 2000 ? 3 : 8, large: found.length > 2000, largeThreshold: 0, progressive: 0, itemStyle: { color: named(group), opacity: 0.75 }, data: found.filter((i) => all[expected.by][i] === group).map((i) => [all.predicted[i], gainOf(i), i]) })),
    ],
  };
}

function drawExpected() {
  const found = foretold();
  if (!found.length) return null;
  const shares = found.map((i) => gainOf(i) / all.predicted[i]).sort((a, b) => a - b), kept = found.filter((i) => gainOf(i) >= all.predicted[i]).length;
  const place = chart("expected", expectedOption, (drawn) => drawn.on("click", ({ value }) => { if (value?.[2] >= 0) location.hash = addressOf(all.id[value[2]]); }), "", "Predicted gains against gains in the search");
  const by = [["operator", "operator"], ...(all.names.model.some(Boolean) ? [["model", "model"]] : [])];
  return section("expected", "Predicted and measured", `${many(found.length, "right candidate")} came with a prediction; ${count(kept)} kept it. The median of measured / predicted is ${times(shares[Math.floor(shares.length / 2)])}. On the dashed line both are equal.`,
    el("div", { class: "controls" }, choice("colour by", by, expected.by, (value) => { expected.by = value; drawChart("expected"); }), chartFiles("expected", () => candidateRows(foretold()))), place);
}
