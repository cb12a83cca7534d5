// What operators, models and islands gave and cost; what failed, at which stage, and what it was told.
const share = (value) => el("span", { class: "share" }, el("span", { class: "track" }, el("i", { css: { width: `${Math.round((value || 0) * 100)}%` } })), el("span", { text: percent(value) }));
const some = (rows, name) => rows.some((row) => row[name]);

function operators() {
  const rows = Object.entries(status.operators).map(([name, row]) => ({ name, ...row }));
  if (!rows.length) return "";
  const columns = [["operator", "", (row) => row.name], ["judged", "number", (row) => count(row.results)], ["right", "", (row) => share(row.validity)],
    ["best gain, search", "number", (row) => times(row.best_gain)], ["new best", "number", (row) => count(row.improvements)],
    ["insights", "number", (row) => count(row.insights), "insights"], ["no use", "number", (row) => count(row.unusable), "unusable"],
    ["had nothing", "number", (row) => count(row.barren), "barren"], ["calls", "number", (row) => count(row.calls), "calls"],
    ["tokens", "number", (row) => tokens(row.tokens), "tokens"], ["cost", "number", (row) => (row.tokens ? cost(row) : "–"), "tokens"]];
  const used = columns.filter((column) => !column[3] || some(rows, column[3]));
  return table("Operators", used, rows.map((row) => used.map((column) => column[2](row))));
}

function models() {
  const rows = Object.entries(status.models).map(([name, row]) => ({ name, ...row }));
  if (!rows.length) return "";
  return table("Models", [["model", ""], ["calls", "number"], ["failed", "number"], ["tokens", "number"], ["cost", "number"], ["judged", "number"], ["right", ""], ["insights", "number"], ["$ per right one", "number"]],
    rows.map((row) => [row.name, count(row.calls), count(row.failed), tokens(row.tokens), cost(row), count(row.results), share(row.validity), count(row.insights), row.correct && row.cost_usd ? dollars(row.cost_usd / row.correct) : "–"]));
}

function pairs() {
  if (!status.pairs.length) return "";
  const rate = (value) => (value === null ? "–" : plain(value, 2));
  return table("Operators with models: gain is the sum of natural logarithms of speed-ups over the best parent, losses counted as 0", [["operator", ""], ["model", ""], ["tries", "number"], ["right", "number"], ["gain", "number"], ["dollars", "number"], ["on the device", "number"], ["gain per $", "number"], ["gain per device hour", "number"]],
    status.pairs.map((row) => [row.operator, row.model || "–", count(row.tries), count(row.correct), plain(row.gain, 3), row.tokens ? cost(row) : "–", duration(row.device_s), rate(row.gain_per_dollar), rate(row.gain_per_device_hour)]));
}

function islands() {
  const rows = Object.entries(status.islands);
  if (!rows.length) return "";
  return table("Islands", [["island", ""], ["judged", "number"], ["right", ""], ["best there, search", "number"]],
    rows.map(([name, row]) => [name, count(row.results), share(row.results ? row.correct / row.results : null), times(row.best_speedup)]));
}

function hosts() {
  if (!status.hosts.length) return "";
  const now = status.state === "running";
  return table("Hosts of the cluster, as the session last saw them", [["host", ""], ["device", ""], ["state", ""], ["queue", "number"], ["judged", "number"], ["a minute", "number"], ["failures", "number"], ["last failure", "long"]],
    status.hosts.map((row) => [row.node || "–", row.device || "–", now ? row.state : "–", now ? count(row.queue) : "–", count(row.judged), now ? count(row.per_minute) : "–", count(row.failures), row.last_failure || "–"]));
}

function hiddenChecks() {
  if (!status.hidden_checks.length) return "";
  const sizes = (each) => Object.entries(each.sizes).map(([name, size]) => `${name}=${size}`).join(" ");
  const contents = (each) => Object.entries(each.contents).map(([name, parts]) => `${name}: ${parts.join(", ")}`).join("; ");
  return table("Hidden checks that were added, each in force for all later kernels", [["sizes", ""], ["contents", ""], ["why", "long"], ["added by", ""], ["broke", ""]],
    status.hidden_checks.map((each) => [sizes(each), contents(each) || "–", each.reason, each.model ? `${each.operator} (${each.model})` : each.operator,
      el("span", null, each.broke.map((name) => [candidateLink(name), " "]))]));
}

function drawEffort() {
  const parts = [operators(), models(), pairs(), islands(), hosts(), hiddenChecks()].filter(Boolean);
  return parts.length ? section("effort", "What was tried, and what it gave", "Right: the share of right candidates in what was proposed, unusable replies counted. Best gain: the highest speed-up of a right candidate over its parent, by search numbers.", parts) : null;
}

function failure(found, most) {
  const name = found.status === "harness_error" ? "a fault of ours, not the candidate's" : words(found.status);
  return el("details", { class: "failure", "data-key": `${found.stage} ${found.status}` },
    el("summary", null, el("span", { class: "stage", text: found.stage }), el("b", { text: name }),
      el("span", { class: "bar" }, el("i", { css: { width: `${(100 * found.count) / most}%` } })), el("span", { class: "number", text: count(found.count) })),
    found.examples.map((each) => el("div", { class: "example" },
      el("p", { class: "note" }, candidateLink(each.candidate), ` ${each.operator} on ${each.island}`),
      el("pre", { tabindex: "0", text: each.feedback || "no words" }))));
}

function drawFailures() {
  if (!data.failures.length && !data.nothing.length) return null;
  const most = Math.max(1, ...data.failures.map((each) => each.count));
  const lost = data.failures.reduce((sum, each) => sum + each.count, 0);
  return section("failures", "What failed", data.failures.length ? `${many(lost, "candidate")} of ${count(status.results)}, by the stage that found out. Open one for examples of what was said.` : "No candidate failed.",
    data.failures.map((each) => failure(each, most)),
    data.nothing.length ? table("Steps without a candidate", [["operator", ""], ["why", "long"], ["steps", "number"]],
      data.nothing.map((each) => [each.operator, each.reason || "nothing to offer", count(each.count)])) : "");
}
