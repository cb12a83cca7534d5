// The answer first: how fast, is that true, under what conditions, at what cost.
function verdict() {
  const { speedup } = best;
  if (speedup.low > 1) return ["faster", "is faster than the fastest baselines over all workloads together."];
  if (speedup.high < 1) return ["slower", "is still slower than the fastest baselines over all workloads together."];
  return ["even", "is neither clearly faster nor slower than the fastest baselines over all workloads together."];
}

const HOLDOUT = {
  passed: ["good", "right on held-out inputs"],
  failed: ["bad", "fails on held-out inputs"],
  pending: ["warn", "held-out inputs: pending"],
};

const SCALE = "interval; dashed: 1×";

/** An interval on a logarithmic scale with a mark where the baseline is. */
function whisker(speedup, low, high) {
  const at = (value) => `${(100 * Math.log(value / low)) / Math.log(high / low)}%`;
  const from = parseFloat(at(speedup.low)), to = parseFloat(at(speedup.high));
  const kind = speedup.low > 1 ? "good" : speedup.high < 1 ? "bad" : "even";
  return el("span", { class: `whisker ${kind}`, role: "img", "aria-label": `${times(speedup.value)}, 95 % interval ${between(speedup)}` },
    el("i", { class: "one", css: { left: at(1) } }),
    el("i", { class: "span", css: { left: `${from}%`, width: `${Math.max(to - from, 0.6)}%` } }),
    el("i", { class: "dot", css: { left: at(speedup.value) } }));
}

function reach(speedups) {
  const low = Math.min(0.9, ...speedups.map((each) => each.low)), high = Math.max(1.1, ...speedups.map((each) => each.high));
  return [low / 1.06, high * 1.06];
}

function workloads(caption, workloads) {
  const [low, high] = reach(workloads.map((each) => each.speedup));
  const known = workloads.some((each) => each.floor_us);
  const columns = [["workload", ""], ["kernel", "number"], ["fastest baseline", "number"], [SCALE, "plot"], ["speed-up", "number"], ["95 % interval", "number"]];
  if (known) columns.push(["of the floor", "number"]);
  const rows = workloads.map((each) => {
    const baseline = el("span", null, microseconds(each.baseline_us), " ", el("small", { text: each.baseline }));
    const cells = [each.name, microseconds(each.candidate_us), baseline, whisker(each.speedup, low, high),
      el("b", { text: times(each.speedup.value) }), between(each.speedup)];
    if (known) cells.push(each.floor_us ? el("span", null, percent(each.floor_us / each.candidate_us), " ", el("small", { text: each.limit || "" })) : "–");
    return cells;
  });
  return table(caption, columns, rows);
}

function comparisons() {
  const everywhere = data.answer.panel || Object.keys(best.baselines).length === 1;
  const rows = Object.entries(best.baselines).map(([name, each]) => [everywhere ? name : `${name}, where it is fastest`, { value: each.speedup, low: each.low, high: each.high }, best.kind]);
  if (rows.length !== 1) rows.push(["fastest on each workload", best.speedup, best.kind]);
  if (best.over_seed) {
    const seed = best.over_seed;
    rows.push([`seed ${short(seed.seed)}${seed.mode === best.mode ? "" : ` (${seed.mode} mode)`}`, seed, seed.kind]);
  }
  if (best.holdout_speedup) rows.push(["fastest baseline, held-out workloads", best.holdout_speedup, best.kind]);
  // A seed is often a hundred times slower: on one scale with it no other interval could be read.
  const [low, high] = reach(rows.filter((row) => !row[0].startsWith("seed ")).map((row) => row[1]));
  return table("All workloads together", [["compared with", ""], [SCALE, "plot"], ["speed-up", "number"], ["95 % interval", "number"], ["measured", ""]],
    rows.map(([name, each, kind]) => [name, each.low >= low && each.high <= high ? whisker(each, low, high) : "", el("b", { text: times(each.value) }), between(each),
      kind]));
}

const fact = (name, value, note) => (value ? el("div", null, el("dt", { text: name }), el("dd", null, value, note ? el("small", { text: note }) : "")) : "");

function facts() {
  const right = status.results ? `${percent(status.correct / status.results)} right` : "";
  const elsewhere = Object.values(status.models).reduce((sum, row) => sum + row.calls, 0);
  const models = status.calls ? `${many(status.calls, "call")}, ${tokens(status.tokens)} tokens` : elsewhere ? `${many(elsewhere, "reply", "replies")} from elsewhere` : "no model was asked";
  return el("dl", { class: "facts" },
    fact("judged", many(status.results, "candidate"), right),
    fact("time", duration(status.seconds), status.state === "running" ? "so far, running" : status.last_stop || status.state),
    fact("cost", cost(status), models),
    best && best.floor_share ? fact("of what the device allows", percent(best.floor_share), [best.kind, data.answer.ceiling ? `the floor is at ${times(data.answer.ceiling)}` : ""].filter(Boolean).join("; ")) : "");
}

function conditions() {
  const rows = [["task", status.task], ["language", status.language], ["device", best ? best.device : status.device],
    ["environment", best ? best.environment : status.environment], ["mode", best ? best.mode : status.mode],
    ["sandbox", (best && best.sandbox) || status.sandbox], ["run", status.run_id], ["forked from", status.forked_from],
    ["store", status.store]];
  return el("dl", { class: "sheet" }, rows.filter((row) => row[1]).map(([name, value]) => [el("dt", { text: name }), el("dd", { text: value })]));
}

function next() {
  const target = data.target, lines = [];
  if (status.state === "new" && status.forked_from) lines.push([`evokernel evolve CONFIG --store ${target}`, "begin the search from what the fork took along"]);
  if (!best) lines.push([`evokernel status ${target}`, "see what the search is doing"]);
  else {
    const judged = best.contender_leads ? `judge ${short(best.contender)} anew, and take it home if it holds` : best.holdout !== "passed" ? "judge it anew on held-out inputs, and take it home if it holds"
      : best.speedup.low > 1 ? "take the kernel home, judged anew once more" : "judge it anew, and take it home if it is clearly faster than the baselines at some size";
    if (best.holdout !== "failed" && (best.contender_leads || !best.nowhere_faster)) lines.push([`evokernel export ${target}`, judged]);
    lines.push([`evokernel show ${target} best`, "its source and every evaluation"]);
    lines.push([`evokernel lineage ${target}`, "this story in the terminal"]);
  }
  return el("div", { class: "next" }, el("h3", { text: "What next" }),
    lines.map(([text, why]) => el("p", null, command(text), el("small", { text: why }))));
}

const headView = () => [el("p", { class: "brand", text: document.querySelector("meta[name=generator]").content }), el("h1", { text: data.title }),
  el("p", { class: "where", text: [status.language, best ? best.device : status.device, data.made].filter(Boolean).join(" · ") })];

function drawAnswer() {
  if (!best) {
    return section("answer", "The answer", "No correct kernel yet.", facts(), conditions(), next());
  }
  const [kind, sentence] = verdict();
  const found = placeOf(best.candidate) < 0 ? null : searchOf(placeOf(best.candidate));
  const [mark, said] = HOLDOUT[best.holdout];
  const measured = best.kind === "final" ? badge("final measurement: anew, in fresh processes", "good") : badge("search numbers: they selected it and flatter it", "warn");
  const hero = el("div", { class: `hero ${kind}` },
    el("div", { class: "big" }, el("strong", { text: times(best.speedup.value) }), el("span", { text: `times the speed of the fastest baseline, ${best.kind === "final" ? "final measurement" : "in the search"}` }), el("span", { text: `95 % interval ${between(best.speedup)}` })),
    el("div", { class: "said" }, el("p", { class: "sentence" }, "Kernel ", candidateLink(best.candidate, best.candidate), ` ${sentence}`),
      best.contender ? el("p", { class: "note", text: `${best.contender} ${best.contender_leads ? "leads the search with" : "looks faster in the search:"} ${times(best.contender_speedup.value)} (${between(best.contender_speedup)}), and was not measured anew yet.` }) : "",
      el("p", null, badge(said, mark), measured, badge(`${best.mode} mode`), best.nondeterministic ? badge("nondeterministic: bits differ from run to run", "warn") : ""),
      best.kind === "final" && found ? note(`In the search it was ${times(found.value)} (${between(found)}), which selected it.`) : ""));
  const source = el("details", null, el("summary", { text: `Source of the kernel (${many(data.answer.lines.length, "line")})` }),
    el("pre", { class: "source", tabindex: "0", text: data.answer.lines.join("\n") }),
    data.answer.cut ? el("p", { class: "note", text: "Long lines or the end are cut here; `evokernel show best --source` prints every byte." }) : "");
  return section("answer", "The answer", "", hero, facts(), workloads(`${kindName(best.kind)}: each workload, against the fastest baseline on it`, best.workloads), comparisons(), source,
    el("details", null, el("summary", { text: "Under what conditions this holds" }), conditions()), next());
}
