// Several runs at a glance, live; each row leads to the page of its run.
function row(each) {
  const run = each.run, fastest = run && run.speedup;
  const link = el("a", { href: String(each.number), text: run ? run.title : "no run yet" });
  const state = el("span", { class: `badge ${each.problem ? "bad" : each.state === "running" ? "good" : ""}`, text: each.problem || words(each.state || "reading the store") });
  return [el("span", null, link, " ", el("small", { text: each.store })), state, fastest ? el("span", null, el("b", { text: times(fastest.value) }), el("small", { text: run.kind })) : "–", fastest ? between(fastest) : "–",
    run ? count(run.results) : "–", each.seconds ? duration(each.seconds) : "–", run ? cost(run) : "–"];
}

follow((heard) => {
  const columns = [["run", ""], ["state", ""], ["speed-up", "number"], ["95 % interval", "number"], ["judged", "number"], ["time", "number"], ["cost", "number"]];
  fill(document.getElementById("head"), [el("p", { class: "brand", text: "evokernel serve" }), el("h1", { text: many(heard.stores.length, "run") })]);
  fill(document.getElementById("page"), [el("section", { class: "card", id: "runs" }, table("Speed-ups are over the fastest baseline of each workload", columns, heard.stores.map(row)))]);
  const running = heard.stores.filter((each) => each.state === "running").length;
  say(running ? `${count(running)} running` : "none is running", "", running ? "good" : "");
  document.documentElement.dataset.ready = "yes";
});
