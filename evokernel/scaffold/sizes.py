"""Sizes as expressions over dimensions.

In a trace each dimension is a large prime, so that the factors of a size are its dimensions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

# Far apart by uneven steps, so that no sum or difference of dimensions looks like another dimension.
FIRST = (1009, 1423, 1877, 2389, 2963, 3607, 4327, 5119, 5987, 6947, 7993, 9127, 10357, 11689, 13121, 14657)
SECOND = (1109, 1601, 2131, 2699, 3313, 3989, 4729, 5531, 6397, 7333, 8329, 9391, 10529, 11743, 13033, 14401)
_OFFSET = 64


class NotGeneral(ValueError):
    """A part of the reference cannot be written for all sizes, or has no plain loop yet."""


class NotGeneralSize(NotGeneral):
    """A size is no product of dimensions plus a small number."""


@dataclass
class SymbolicSizes:
    """Sizes of a trace as products of dimensions."""

    names: tuple[str, ...]
    """Dimensions in the order of the signature; the n-th was traced as `FIRST[n]` and as `SECOND[n]`."""
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Base and offset of each size that is a product plus a small number."""

    @property
    def first(self) -> dict[str, int]:
        """Dimensions of the first trace, by name."""
        return dict(zip(self.names, FIRST, strict=False))

    @property
    def second(self) -> dict[str, int]:
        """Dimensions of the second trace, by name."""
        return dict(zip(self.names, SECOND, strict=False))

    def learn(self, first: int, second: int) -> None:
        """Record a size that was `first` in one trace and `second` in the other.

        Raises:
            NotGeneralSize: no product of dimensions plus a small number gives both.
        """
        if first == second or self._monomial_fits(first, second):
            return
        for offset in range(-_OFFSET, _OFFSET + 1):
            if self._monomial_fits(first - offset, second - offset):
                self.offsets[first] = (first - offset, offset)
                return
        raise NotGeneralSize(f"a size is {first} where {self.first} and {second} where {self.second}: no simple rule")

    def depends(self, size: int) -> bool:
        """Say whether a size of the first trace is made of dimensions."""
        return bool(self.factors(size)[1]) or size in self.offsets

    def parts(self, size: int) -> tuple[int, ...]:
        """Return the dimensions whose product is a size of the first trace, or the size itself; nothing for 1."""
        number, names = self.factors(size)
        split = number == 1 and size not in self.offsets
        return tuple(self.first[name] for name in names) if split else (size,)

    def factors(self, size: int) -> tuple[int, tuple[str, ...]]:
        """Return a size of the first trace as a number and its dimensions as factors."""
        found: list[str] = []
        if size > 0:
            for name, prime in self.first.items():
                while size % prime == 0:
                    found.append(name)
                    size //= prime
        return size, tuple(found)

    def text(self, size: int) -> str:
        """Return a size of the first trace as an expression, the same in C++ and Python."""
        if size in self.offsets:
            base, offset = self.offsets[size]
            return f"{self.text(base)} {'+' if offset > 0 else '-'} {abs(offset)}"
        return _product(*self.factors(size))

    def product(self, extents: Iterable[int]) -> str:
        """Return a product of sizes of the first trace as an expression."""
        return _product(*self.terms(extents))

    def terms(self, extents: Iterable[int]) -> tuple[int, tuple[str, ...]]:
        """Return a product of sizes as a number and expressions as factors."""
        number, names, sums = 1, list[str](), list[str]()
        for extent in extents:
            if extent in self.offsets:
                sums.append(f"({self.text(extent)})")
                continue
            factor, more = self.factors(extent)
            number, names = number * factor, [*names, *more]
        return number, (*sorted(names, key=self.names.index), *sorted(sums))

    def at(self, size: int, dims: Mapping[str, int]) -> int:
        """Return a size of the first trace at these dimensions."""
        if size in self.offsets:
            base, offset = self.offsets[size]
            return self.at(base, dims) + offset
        number, names = self.factors(size)
        return number * prod(dims[name] for name in names)

    def _monomial_fits(self, first: int, second: int) -> bool:
        number, names = self.factors(first)
        return bool(names) and number * prod(self.second[name] for name in names) == second


def _product(number: int, names: tuple[str, ...]) -> str:
    parts = ([str(number)] if number != 1 or not names else []) + list(names)
    return " * ".join(parts)
