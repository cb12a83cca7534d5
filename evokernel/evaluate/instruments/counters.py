"""Hardware counters of a profile, and the reader of Nsight Compute's table.

The candidate has named the kernels in that table, so only well-placed values count. Columns are found by their headers,
numbers by their units, and a malformed row is left out.
"""

import csv
import math
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

METRICS: Mapping[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""Our names, with their units, and the profiler's. Cycles are those of a warp for each instruction that was issued."""

_LAUNCHES, _NAME_CHARACTERS = 64, 80
_LINE_CHARACTERS, _CELLS = 1 << 16, 512
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TIMES_NS = {"s": 1e9, "second": 1e9, "ms": 1e6, "msecond": 1e6, "us": 1e3, "usecond": 1e3, "ns": 1.0, "nsecond": 1.0}
_SCALED = re.compile(r"(?P<prefix>[KMGT]?)(?:sector|request|block|wavefront|byte|inst|cycle|warp)s?(?:/\w+)?")
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_KERNEL, _NUMBER_OF = "Kernel Name", "ID"
_METRIC, _UNIT, _VALUE = "Metric Name", "Metric Unit", "Metric Value"
_OURS = {theirs: ours for ours, theirs in METRICS.items()}


@dataclass(frozen=True, slots=True)
class ProfiledLaunch:
    """One launch of a kernel."""

    kernel: str
    """Its name, made safe to quote."""
    counters: Mapping[str, float]
    """Values by our names, in the unit of the name."""


def read_counters(text: str) -> tuple[ProfiledLaunch, ...]:
    """Return the launches in the profiler's `--csv` output, in order; none where there is no table.

    Both of its tables are read: one row for each launch with a row of units above (`--page raw`), and one row for each
    counter.
    """
    rows = _rows(text)
    header = next((row for row in rows if _KERNEL in row and _NUMBER_OF in row), None)
    if header is None:
        return ()
    cells = [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]
    wide = not {_METRIC, _UNIT, _VALUE} <= set(header)
    return tuple(_launches(_by_launch(cells) if wide else _by_counter(cells)))


def hottest(launches: Sequence[ProfiledLaunch]) -> tuple[ProfiledLaunch, float] | None:
    """Return the longest launch of the kernel that took most of the time, and that kernel's share; None if empty."""
    times: dict[str, float] = defaultdict(float)
    for launch in launches:
        times[launch.kernel] += launch.counters.get("time_ns", 0.0)
    total = sum(times.values())
    if not total:
        return None
    kernel = max(times, key=lambda name: times[name])
    own = [launch for launch in launches if launch.kernel == kernel]
    return max(own, key=lambda launch: launch.counters.get("time_ns", 0.0)), times[kernel] / total


def _rows(text: str) -> Iterator[list[str]]:
    """Yield the lines that may belong to the table: every cell of it is quoted, and it has no line breaks in cells."""
    for line in text.split("\n"):
        if line.startswith('"') and len(line) <= _LINE_CHARACTERS:
            try:
                row = next(csv.reader([line.rstrip("\r").replace("\0", " ")]), [])
            except csv.Error:
                continue
            if len(row) <= _CELLS:
                yield row


_Counted = tuple[str, list[tuple[str, str, str]]]
"""A kernel, and metric, unit and value of each counter of a launch."""


def _by_launch(cells: Sequence[Mapping[str, str]]) -> Iterator[_Counted]:
    units: Mapping[str, str] = {}
    for row in cells:
        if not row[_NUMBER_OF].strip():
            units = units or row
        else:
            yield row[_KERNEL], [(name, units.get(name, ""), row[name]) for name in row if name in _OURS]


def _by_counter(cells: Sequence[Mapping[str, str]]) -> Iterable[_Counted]:
    found: dict[str, _Counted] = {}
    for row in cells:
        launch = found.setdefault(row[_NUMBER_OF], (row[_KERNEL], []))
        launch[1].append((row[_METRIC], row[_UNIT], row[_VALUE]))
    return found.values()


def _launches(counted: Iterable[_Counted]) -> Iterator[ProfiledLaunch]:
    for number, (kernel, values) in enumerate(counted):
        if number == _LAUNCHES:
            return
        read = {_OURS[name]: _value(name, unit, value) for name, unit, value in values if name in _OURS}
        yield ProfiledLaunch(_plain(kernel), {name: value for name, value in read.items() if value is not None})


def _value(name: str, unit: str, text: str) -> float | None:
    """Return a number in our unit; None for other text, such as the `n/a` of a counter this device lacks."""
    bare = text.strip().replace(",", "")
    if not _NUMBER.fullmatch(bare):
        return None
    scale = _scale(_OURS[name], unit.strip())
    value = float(bare) * scale if scale is not None else math.nan
    return value if math.isfinite(value) and value >= 0 else None


def _scale(ours: str, unit: str) -> float | None:
    """Return the factor from a unit to ours, or None for a unit that does not belong there."""
    if ours.endswith("_ns"):
        return _TIMES_NS.get(unit)
    if unit in ("", "%") or "/" in unit:
        return 1.0
    scaled = _SCALED.fullmatch(unit)
    return _PREFIXES[scaled["prefix"]] if scaled else 1.0 if unit.isalpha() and not unit[0].isupper() else None


def _plain(text: str) -> str:
    """Return foreign words as one short line that can be quoted."""
    kept = "".join(each if each.isprintable() and each not in "`\"'" else " " for each in text)
    return " ".join(kept.split())[:_NAME_CHARACTERS]
