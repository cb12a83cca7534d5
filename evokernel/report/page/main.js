function draw() {
  const parts = [drawAnswer(), total ? drawCurves() : null, drawStory(), total ? drawFamily() : null, drawNiches(), drawEffort(), drawFailures()].filter(Boolean);
  document.getElementById("page").append(...parts);
  document.getElementById("contents").append(...parts.map((part) => el("a", { href: `#${part.id}`, text: part.querySelector("h2").textContent })));
  document.body.append(el("footer", { text: `Made by evokernel ${data.version} from ${status.store}. This file loads nothing and sends nothing. Charts: Apache ECharts, Apache License 2.0.` }));
  redraw();
  if (total) drawFamily.ready();
  watchCharts();
}

draw();
document.documentElement.dataset.ready = "yes";
