// What the panels show lies packed in the file: blocks of raw deflate in base64, each unpacked when it is needed.
const packed = {};
for (const each of document.querySelectorAll("template[data-kind]")) {
  (packed[each.dataset.kind] ||= []).push({ first: Number(each.dataset.first), text: each.content, items: null });
}

async function inflated(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).json();
}

function unpack(block) {
  block.items ||= inflated(block.text.textContent);
  return block.items;
}

/** Positions of the candidates in the order in which they are packed: kin stand together. */
const packedOrder = async () => (packed.order ? unpack(packed.order[0]) : []);

async function partOf(kind, i) {
  const place = (await packedOrder()).indexOf(i), block = (packed[kind] || []).filter((each) => each.first <= place).pop();
  return block ? (await unpack(block))[place - block.first] : null;
}

/** Where panels get what they show; a page that follows its store asks the server instead. */
const candidateFacts = {
  async of(i) {
    const [source, facts, calls] = await Promise.all(["source", "facts", "calls"].map((kind) => partOf(kind, i)));
    return { source, facts, calls };
  },
  /** The ids of all candidates whose source or rationale holds a text, in any case of letters. */
  async search(text) {
    const wanted = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i"), found = new Set(), order = await packedOrder();
    for (const block of packed.source || []) (await unpack(block)).forEach((item, at) => { if (wanted.test(item.text) || wanted.test(item.why)) found.add(all.id[order[block.first + at]]); });
    return found;
  },
};
