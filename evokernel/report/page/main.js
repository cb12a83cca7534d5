function sections() {
  return [drawAnswer(), total ? drawCurves() : null, total ? drawCandidates() : null, drawStory(), total ? drawFamily() : null, total ? drawIslands() : null, drawNiches(), drawEffort(), total ? drawExpected() : null, drawFailures()].filter(Boolean);
}

/** Show the document that was taken last, touching only what differs from what is there. */
function draw() {
  const parts = sections(), by = document.querySelector("meta[name=generator]").content;
  fill(document.getElementById("head"), headView());
  fill(document.getElementById("page"), parts);
  fill(document.getElementById("contents"), [...document.getElementById("page").children].map((part) => el("a", { href: `#${part.id}`, text: part.querySelector("h2").textContent })));
  const loads = document.getElementById("data") ? "This file loads nothing and sends nothing." : "It follows the store and changes nothing.";
  fill(document.getElementById("foot"), [document.createTextNode(`Made by ${by} ${data.version} from ${status.store}. ${loads} Charts: Apache ECharts, Apache License 2.0.`)]);
  redraw();
  fit();
  drawListing();
  showAddressed();
}

/** Begin anew: what was kept of one run says nothing of another. */
function forget() {
  for (const kept of charts.values()) kept.selected = {};
  axesOf.clear();
  Object.assign(listing, { chosen: { status: "", operator: "", island: "", model: "" }, text: "", found: null, at: "" });
  Object.assign(curves, { by: "evaluations", view: [[0, 100]] });
  islandsOver.by = "evaluations";
  Object.assign(family, { chosen: -1, wanted: "", view: [[0, 100], [0, 100]] });
}

/** Show another document, usually a later state of the same run, where the reader looks now. */
function renew(document) {
  const another = data && document.status.run_id !== data.status.run_id;
  const looked = data && !another ? [curvesLook(), familyLook()] : null;
  if (another) forget();
  take(document);
  if (looked) {
    curvesLookAgain(looked[0]);
    familyLookAgain(looked[1]);
  }
  draw();
}

watchCharts();
watchAddress();
const embedded = document.getElementById("data");
if (embedded) {
  take(JSON.parse(embedded.textContent));
  draw();
  document.documentElement.dataset.ready = "yes";
}
