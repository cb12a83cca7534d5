// A page whose data changes: what is new takes the place of what differs, and nothing else is touched. So what a reader
// has opened, scrolled, chosen or begun to type stays as it is.
const KEPT_PLACES = ".wide, pre", REACHABLE = "button, input, a, summary, pre";

/** Children with a name each, so that one is found again after others have come before it. */
function namesOf(nodes) {
  const seen = new Map();
  return [...nodes].map((node) => {
    const key = node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset.key || node.dataset.kept || "" : "";
    if (!key) return "";
    seen.set(key, (seen.get(key) || 0) + 1);
    return `${key}\n${seen.get(key)}`;
  });
}

/** Do what takes `old` out of the page, and give `fresh`, which comes in, the scroll positions and the focus it had. */
function carry(old, fresh, act) {
  const inside = (root, selector) => (root instanceof Element ? [...(root.matches(selector) ? [root] : []), ...root.querySelectorAll(selector)] : []);
  const scrolled = inside(old, KEPT_PLACES).map((each) => [each.scrollLeft, each.scrollTop]);
  const focused = inside(old, REACHABLE).indexOf(document.activeElement);
  act();
  inside(fresh, KEPT_PLACES).forEach((each, i) => { if (scrolled[i]) [each.scrollLeft, each.scrollTop] = scrolled[i]; });
  if (focused >= 0) inside(fresh, REACHABLE)[focused]?.focus({ preventScroll: true });
}

function patchAttributes(old, fresh) {
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  if (!fresh.hasAttribute("style")) old.removeAttribute("style");
  for (const { name, value } of [...fresh.attributes]) if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) if (name !== "style" && !fresh.hasAttribute(name)) old.removeAttribute(name);
}

/** Make `old` read as `fresh` does. */
function patch(old, fresh) {
  const alike = old.nodeName === fresh.nodeName;
  if (alike && old.nodeType === Node.ELEMENT_NODE && "kept" in old.dataset) return;
  if (alike && old.nodeName === "DETAILS") fresh.open = old.open;
  if (old.isEqualNode(fresh)) return;
  if (alike && old.nodeType === Node.TEXT_NODE) old.data = fresh.data;
  else if (!alike || hearing.has(old) || hearing.has(fresh) || "whole" in old.dataset) carry(old, fresh, () => old.replaceWith(fresh));
  else {
    patchAttributes(old, fresh);
    fill(old, fresh.childNodes);
  }
}

/** Make the children of an element read as these nodes do. */
function fill(parent, nodes) {
  const fresh = [...nodes], names = namesOf(fresh), wanted = new Set(names), known = new Map();
  const old = [...parent.childNodes];
  namesOf(old).forEach((name, i) => {
    if (name && !wanted.has(name)) old[i].remove();
    else if (name) known.set(name, old[i]);
  });
  const named = new Set(known.values());
  let at = parent.firstChild;
  fresh.forEach((node, i) => {
    const match = names[i] ? known.get(names[i]) : at && !named.has(at) ? at : null;
    if (!match) return void parent.insertBefore(node, at);
    if (match === at) at = at.nextSibling;
    else carry(match, match, () => parent.insertBefore(match, at));
    patch(match, node);
  });
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}
