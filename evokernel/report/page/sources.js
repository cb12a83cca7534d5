// Sources as a reader wants them: in the colours of their language, and as the lines that differ from another one.
const WORDS = {
  python: "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield",
  cpp: "alignas alignof auto bool break case char class const constexpr const_cast continue default delete do double else enum explicit extern false float for goto half if inline int int64_t int32_t long namespace new noexcept nullptr operator private public reinterpret_cast return short signed size_t sizeof static static_cast struct switch template this true typedef typename uint32_t uint64_t union unsigned using virtual void volatile while __device__ __global__ __restrict __restrict__ __shared__ __syncthreads __launch_bounds__",
};
const QUOTED = String.raw`"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?`, END = String.raw`(?![\s\S])`;
const REST = String.raw`(?<number>\b\d[\w.]*)|(?<word>[A-Za-z_]\w*)`;
const TOKENS = {
  python: new RegExp(String.raw`(?<comment>#.*)|(?<text>[rbfuRBFU]{0,2}(?:"""[\s\S]*?(?:"""|${END})|'''[\s\S]*?(?:'''|${END})|${QUOTED}))|(?<mark>@[\w.]+)|${REST}`, "g"),
  cpp: new RegExp(String.raw`(?<comment>//.*|/\*[\s\S]*?(?:\*/|${END}))|(?<text>${QUOTED})|(?<mark>#[ \t]*[a-z]+)|${REST}`, "g"),
};
const KEYWORDS = Object.fromEntries(Object.entries(WORDS).map(([name, words]) => [name, new Set(words.split(" "))]));

/** The tokens of a source as [kind, text]; CUDA C++ stands in strings of a Python file. */
function tokensOf(source, language) {
  const grammar = language === "cpp" ? "cpp" : "python", found = [];
  let at = 0;
  for (const match of source.matchAll(TOKENS[grammar])) {
    const [kind] = Object.entries(match.groups).find(([, text]) => text !== undefined), text = match[0];
    if (match.index > at) found.push(["", source.slice(at, match.index)]);
    at = match.index + text.length;
    if (kind === "text" && language === "cuda" && text.includes("\n")) found.push(["text", text.slice(0, 3)], ...tokensOf(text.slice(3), "cpp"));
    else found.push([kind === "word" ? (KEYWORDS[grammar].has(text) ? "keyword" : source[at] === "(" ? "called" : "") : kind, text]);
  }
  found.push(["", source.slice(at)]);
  return found;
}

/** A source with numbered lines, each an element of its own. */
function sourceView(source, language) {
  const lines = [el("span", { class: "row" })];
  for (const [kind, text] of tokensOf(source, language)) {
    text.split("\n").forEach((part, i) => {
      if (i) lines.push(el("span", { class: "row" }));
      if (part) lines[lines.length - 1].append(kind ? el("i", { class: kind, text: part }) : part);
    });
  }
  if (!lines[lines.length - 1].childNodes.length) lines.pop();
  return el("pre", { class: "source numbered", tabindex: "0" }, lines);
}

const MOST_EDITS = 1500;
const CONTEXT = 3;

/** The steps from one list of lines to another as [sign, line], by Myers' algorithm: the fewest there are. */
function edits(before, after) {
  const [n, m] = [before.length, after.length], middle = MOST_EDITS + 1, reached = new Int32Array(2 * middle + 1), trace = [];
  for (let d = 0; d <= Math.min(n + m, MOST_EDITS); d += 1) {
    trace.push(reached.slice(middle - d - 1, middle + d + 2));
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && reached[middle + k - 1] < reached[middle + k + 1]) ? reached[middle + k + 1] : reached[middle + k - 1] + 1;
      while (x < n && x - k < m && before[x] === after[x - k]) x += 1;
      reached[middle + k] = x;
      if (x >= n && x - k >= m) return walked(before, after, trace);
    }
  }
  return [...before.map((line) => ["-", line]), ...after.map((line) => ["+", line])]; // nothing alike that is worth the search
}

function walked(before, after, trace) {
  let [x, y] = [before.length, after.length];
  const steps = [];
  for (let d = trace.length - 1; d >= 0; d -= 1) {
    const at = (k) => trace[d][k + d + 1], k = x - y;
    const from = k === -d || (k !== d && at(k - 1) < at(k + 1)) ? k + 1 : k - 1, startX = d ? at(from) : 0, startY = d ? startX - from : 0;
    while (x > startX && y > startY) { steps.push([" ", before[x - 1]]); x -= 1; y -= 1; }
    if (d) steps.push(x === startX ? ["+", after[y - 1]] : ["-", before[x - 1]]);
    [x, y] = [startX, startY];
  }
  return steps.reverse();
}

/** A unified diff of two sources: its lines, and how many were added and removed. */
function compared(before, after) {
  const lines = (text) => text.replace(/\n$/, "").split("\n"), steps = edits(lines(before), lines(after));
  const near = new Uint8Array(steps.length), counted = { "+": 0, "-": 0, " ": 0 };
  steps.forEach(([sign], i) => {
    counted[sign] += 1;
    if (sign !== " ") near.fill(1, Math.max(0, i - CONTEXT), i + CONTEXT + 1);
  });
  const shown = [];
  let number = 0;
  steps.forEach(([sign, line], i) => {
    if (sign !== "-") number += 1;
    if (near[i] && !near[i - 1]) shown.push(`@@ line ${number || 1} @@`);
    if (near[i]) shown.push(sign + line);
  });
  return { lines: shown, added: counted["+"], removed: counted["-"] };
}

const diffLines = (lines) => lines.map((line) => {
  const kind = line.startsWith("@@") ? "place" : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "";
  return el("span", { class: kind, text: line || " " });
});
