"""Statistics of the values of one argument over a sample of its calls."""

from dataclasses import dataclass
from typing import Any

import torch

_MOST_ELEMENTS = 1 << 18
"""Elements of a tensor that are looked at, whole rows from its start on."""
_FEW_ELEMENTS = 3
"""Rows shorter than this say nothing on their order."""
_SPARSE = 0.9
"""Share of zeros from which values are like needles."""
_FAR = 10.0
"""Mean in standard deviations from which values are like those of `offset`."""
_RARE = 0.5
"""Share of the distinct values that independent draws would have, below which values repeat themselves."""


@dataclass(frozen=True, slots=True)
class ValueStatistics:
    """Range and structure of an argument; of integers along the last axis, too."""

    low: float
    """Least finite value."""
    high: float
    """Largest finite value."""
    zeros: float
    """Share of zeros, 0 to 1."""
    mean: float
    """Of the finite values."""
    deviation: float
    """Standard deviation of the finite values."""
    infinite: float = 0.0
    """Share of values that are not finite."""
    ordered: bool = False
    """True where integers never fall along a row."""
    unique: bool = False
    """True where no integer comes twice in a row."""
    distinct: float = 1.0
    """Distinct integers by elements."""
    expected: float = 1.0
    """The same for independent draws from the range."""

    def joined(self, other: "ValueStatistics") -> "ValueStatistics":
        """Return the statistics of both calls."""
        return ValueStatistics(
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            zeros=(self.zeros + other.zeros) / 2,
            mean=(self.mean + other.mean) / 2,
            deviation=max(self.deviation, other.deviation),
            infinite=(self.infinite + other.infinite) / 2,
            ordered=self.ordered and other.ordered,
            unique=self.unique and other.unique,
            distinct=(self.distinct + other.distinct) / 2,
            expected=(self.expected + other.expected) / 2,
        )

    @property
    def distribution(self) -> str:
        """The distribution of tasks that these values are most like, one of `DISTRIBUTIONS`."""
        if self.zeros >= _SPARSE:
            return "needles"
        if (self.low, self.high) == (0.0, 1.0) and abs(self.mean + self.zeros - 1.0) < 1e-6:
            return "integers01"
        if self.repeats:
            return "wide"
        return "offset" if abs(self.mean) > _FAR * self.deviation > 0.0 else "normal"

    @property
    def repeats(self) -> bool:
        """True where there are far fewer distinct integers than independent draws would have."""
        return self.distinct < _RARE * self.expected

    @property
    def structure(self) -> str:
        """The structure of integers in words; empty where they are like independent draws."""
        said = ["sorted along the last axis"] * self.ordered + ["no value twice in a row"] * self.unique
        if not self.unique and self.repeats:
            said.append(f"{self.distinct:.2g} distinct values for each element")
        return ", ".join(said)

    def in_words(self, name: str, dtype: str) -> str:
        """Return one phrase on an argument."""
        if dtype == "bool":
            return f"{name} is {1.0 - self.zeros:.0%} true"
        said = [f"{name} from {self.low:.4g} to {self.high:.4g}"]
        if "float" in dtype:
            said.append(f"mean {self.mean:.3g}, standard deviation {self.deviation:.3g}")
        said += [f"{self.zeros:.0%} zeros"] * (self.zeros >= 0.005)
        said += [f"{self.infinite:.0%} infinite or NaN"] * (self.infinite > 0)
        said += [self.structure] * bool(self.structure)
        return ", ".join(said)


def statistics_of(value: torch.Tensor) -> ValueStatistics:
    """Return the statistics of a tensor with at least one element."""
    width = value.shape[-1] if value.ndim else 1
    rows = value.detach().reshape(-1, width)[: max(1, _MOST_ELEMENTS // width)].cpu()
    wide = rows.double()
    finite = wide[torch.isfinite(wide)]
    some = finite if finite.numel() else torch.zeros(1, dtype=torch.float64)
    integers = not value.is_floating_point() and value.dtype != torch.bool
    return ValueStatistics(
        low=float(some.min()),
        high=float(some.max()),
        zeros=float((wide == 0).double().mean()),
        mean=float(some.mean()),
        deviation=float(some.std(correction=0)),
        infinite=1.0 - finite.numel() / rows.numel(),
        **(_structure(rows.long()) if integers else {}),
    )


def _structure(rows: torch.Tensor) -> dict[str, Any]:
    steps = rows.diff(dim=-1)
    many = rows.shape[-1] >= _FEW_ELEMENTS
    span, count = int(rows.max() - rows.min()) + 1, rows.numel()
    return {
        "ordered": many and bool((steps >= 0).all()) and bool((steps > 0).any()),
        "unique": many and bool((rows.sort(dim=-1).values.diff(dim=-1) > 0).all()),
        "distinct": rows.unique().numel() / count,
        "expected": span * (1.0 - (1.0 - 1.0 / span) ** count) / count,
    }
