"""Programs of 2 to 6 KB, each different, as a model would write them: a body of varying length and a fixed tail."""

import random

_BODY = (
    "tile = min(tile, limit)",
    "acc = acc + a * b",
    "stage = (stage + 1) % depth",
    "offset = row * stride + col",
    "lane = tid & 31",
    "mask = offset < limit",
    "bank = (lane * 4) % 32",
    "phase ^= 1",
)
_HEADS = {
    "python": "PARAM = {number:.6f}\n\n\ndef kernel(a, b, tid, row, col, stride, limit, depth):\n    tile = acc = 0\n",
    "cpp": 'constexpr int PARAM = {number:.0f};\nextern "C" void run(const float* x, long n, float* y) {{\n',
}
_TAILS = {"python": "    return acc\n\n\ndef run(seed=0):\n    return PARAM\n", "cpp": "}\n"}
_MARKS = {"python": ("", "  # v"), "cpp": (";", "  // v")}


def make_program(number: int, language: str) -> str:
    """Return the program with a number, in `python` or `cpp`; equal numbers give equal programs."""
    rng = random.Random(number)
    end, mark = _MARKS[language]
    count = rng.randrange(40, 140)
    tags = rng.randbytes(2 * count).hex()
    body = enumerate(rng.choices(_BODY, k=count))
    lines = [f"    {text}{end}{mark}{tags[4 * index : 4 * index + 4]}" for index, text in body]
    value = number if language == "cpp" else rng.random()
    return _HEADS[language].format(number=value) + "\n".join(lines) + "\n" + _TAILS[language]
