"""Quotation of foreign texts and measured numbers in a prompt."""

import re
from collections.abc import Mapping

LINE_CHARACTERS = 600
_BACKTICKS = re.compile(r"`+")
_UNITS: tuple[tuple[str, tuple[tuple[float, str], ...]], ...] = (
    ("_gflop_s", ((1e3, "TFLOP/s"), (1.0, "GFLOP/s"))),
    ("_gb_s", ((1e3, "TB/s"), (1.0, "GB/s"))),
    ("_bytes", ((float(1 << 30), "GiB"), (float(1 << 20), "MiB"), (1024.0, "KiB"), (1.0, "bytes"))),
    ("_kib", ((1.0, "KiB"),)),
    ("_us", ((1.0, "us"),)),
)


def fence(text: str, tag: str = "") -> str:
    """Return a fenced block that no line of the text can close: its fence is longer than any run of backticks there."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    marks = "`" * max(3, longest + 1)
    body = text if text.endswith("\n") else text + "\n"
    return f"{marks}{tag}\n{body}{marks}"


def one_line(text: str, limit: int = LINE_CHARACTERS) -> str:
    """Return a text as one line of at most so many characters, without characters that do not print."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= limit else line[: limit - 3].rstrip() + "..."


def middle_cut(text: str, limit: int) -> str:
    """Return a text of at most about `limit` characters; a note in the middle says how much is left out."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half].rstrip()}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:].lstrip()}"


def quantity(name: str, value: float) -> str:
    """Return a number of a device sheet or an evaluation in words, by the unit at the end of its name."""
    if name == "capability":
        return f"compute capability {value / 10:.1f}"
    for suffix, units in _UNITS:
        if name.endswith(suffix):
            scale, unit = next(((s, u) for s, u in units if abs(value) >= s), units[-1])
            return f"{name.removesuffix(suffix).replace('_', ' ')} {value / scale:.4g} {unit}"
    return f"{name.replace('_', ' ')} {value:.4g}"


def quantities(numbers: Mapping[str, float]) -> str:
    """Return numbers in words, separated by commas, in the order of their names."""
    return ", ".join(quantity(name, numbers[name]) for name in sorted(numbers))


def time_us(value: float) -> str:
    """Return a time in us with four digits and never as a power of ten."""
    return f"{value:.0f} us" if value >= 1000 else f"{value:.4g} us"
