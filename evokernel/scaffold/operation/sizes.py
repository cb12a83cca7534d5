"""Sizes as expressions over dimensions.

In the first trace each dimension is a large prime, so that the factors of a size are its dimensions. In the second one
each is a multiple of 8, which tells apart halves and quarters that are rounded differently.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from math import prod

# Far apart by uneven steps, so that no sum or difference of dimensions looks like another dimension.
FIRST = (1009, 1423, 1877, 2389, 2963, 3607, 4327, 5119, 5987, 6947, 7993, 9127, 10357, 11689, 13121, 14657)
SECOND = (1112, 1600, 2128, 2704, 3312, 3992, 4728, 5536, 6400, 7336, 8328, 9392, 10528, 11744, 13032, 14400)
_OFFSET = 64
_DIVISORS, NEAR = range(2, 9), 8
"""Divisors of sizes, and what may be added to a quotient: with more, a rule may be a coincidence."""


class NotGeneral(ValueError):
    """A part of the reference cannot be written for all sizes, or has no plain loop yet."""


class NotGeneralSize(NotGeneral):
    """A size, or a number, follows from the dimensions in a way that is not known here."""


@dataclass(frozen=True, slots=True)
class Quotient:
    """A size that is `(base + add) // divisor + offset`, as windows in steps have it, or `base + other + offset`."""

    base: int
    """Another size."""
    add: int
    """From 0 to the divisor, without it."""
    divisor: int
    """1 for a sum."""
    offset: int
    """A small number."""
    other: int = 0
    """One more size, where two are joined; 0 for none."""

    def at(self, base: int, other: int = 0) -> int:
        """Return the size for a base, and for the other size."""
        return (base + self.add) // self.divisor + self.offset + other


Rule = Quotient | tuple[int, ...]
"""A sum or quotient, or the factors of a product."""


@dataclass
class SymbolicSizes:
    """Sizes of a trace as products of dimensions, and as sums, quotients and products of other sizes."""

    names: tuple[str, ...]
    """Dimensions in the order of the signature; the n-th was traced as `FIRST[n]` and as `SECOND[n]`."""
    quotients: dict[int, Quotient] = field(default_factory=dict)
    """Sums and quotients, by their size in the first trace."""
    products: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Factors of products of which one is a sum or a quotient, likewise."""
    wrong: Collection[tuple[int, Rule]] = ()
    """Rules, by their size in the first trace, that are known not to hold."""

    def __post_init__(self) -> None:
        """Take the dimensions as known sizes."""
        self._known = dict(zip(self.first.values(), self.second.values(), strict=True))

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

        Raises `NotGeneralSize` if no sum, quotient or product of known sizes gives both.
        """
        if first == second or self._known.get(first) == second:
            return
        if first in self._known:
            raise NotGeneralSize(f"two sizes are {first} in one trace, {self._known[first]} and {second} in another")
        if not self._monomial_fits(first, second):
            quotient = self._sum(first, second) or self._quotient(first, second) or self._joined(first, second)
            if quotient is not None:
                self.quotients[first] = quotient
            elif factors := next((f for f in self._products(first, second) if (first, f) not in self.wrong), ()):
                self.products[first] = factors
            else:
                raise NotGeneralSize(
                    f"a size is {first} where {self.first} and {second} where {self.second}: no simple rule"
                )
        self._known[first] = second

    def place(self, size: int, place: int) -> int:
        """Return a place in a size of the first trace, counted from its end where it is below 0.

        Raises `NotGeneralSize` if it is far from the end.
        """
        if place < 0 and size in self._known:
            self.learn(size + place, self._known[size] + place)
        return size + place if place < 0 else place

    def added(self, extents: Sequence[int]) -> int:
        """Return the sum of sizes of the first trace. Raises `NotGeneralSize` where no simple rule gives it."""
        total = sum(extents)
        self.learn(total, sum(self.at(extent, self.second) for extent in extents))
        return total

    def _sum(self, first: int, second: int) -> Quotient | None:
        """Return a size plus a small number that gives both."""
        for offset in range(-_OFFSET, _OFFSET + 1):
            base, made = first - offset, Quotient(first - offset, 0, 1, offset)
            fits = self._monomial_fits(base, second - offset) or self._known.get(base) == second - offset
            if fits and (first, made) not in self.wrong:
                return made
        return None

    def _quotient(self, first: int, second: int) -> Quotient | None:
        """Return the quotient with the least divisor that gives both: the steps of windows are short."""
        found = [
            quotient
            for base, base_2 in self._known.items()
            for divisor in _DIVISORS
            for add in range(divisor)
            if (quotient := Quotient(base, add, divisor, first - (base + add) // divisor)).at(base_2) == second
            and abs(quotient.offset) <= NEAR
            and (first, quotient) not in self.wrong
        ]
        return min(found, key=lambda each: (each.divisor, abs(each.offset), each.add), default=None)

    def _joined(self, first: int, second: int) -> Quotient | None:
        """Return two known sizes with a small number whose sum gives both, as a cache and what is appended to it."""
        for (base, base_2), (other, other_2) in combinations_with_replacement(self._known.items(), 2):
            offset = first - base - other
            if abs(offset) <= _OFFSET and second - base_2 - other_2 == offset:
                return Quotient(base, 0, 1, offset, other)
        return None

    def _products(self, first: int, second: int) -> Iterator[tuple[int, ...]]:
        """Yield known sizes, and maybe a product of dimensions, whose product gives both."""
        for factor in sorted(self.quotients, reverse=True):  # one half before twice a quarter
            rest, over = divmod(first, factor)
            rest_2, over_2 = divmod(second, self._known[factor])
            if over or over_2:
                continue
            if rest == rest_2 or self._monomial_fits(rest, rest_2):
                yield factor, rest
            elif rest > 1:
                yield from ((factor, *more) for more in self._products(rest, rest_2))
        if first in self.quotients and self._known[first] == second:
            yield (first,)

    @property
    def cut_in_halves(self) -> bool:
        """Say whether a size appears in two halves, which are equal only where it is even."""
        halves = [(each.base, each.add) for each in self.quotients.values() if each.divisor == 2 and not each.offset]
        return any((base, 1 - add) in halves for base, add in halves)

    def depends(self, size: int) -> bool:
        """Say whether a size of the first trace is made of dimensions."""
        return bool(self.factors(size)[1]) or self.is_derived(size)

    def is_derived(self, size: int) -> bool:
        """Say whether a size of the first trace is made of others, and is no product of dimensions and a number."""
        return size in self.quotients or size in self.products

    def parts(self, size: int) -> tuple[int, ...]:
        """Return dimensions and other sizes whose product is a size of the first trace; nothing for 1."""
        if size in self.products:
            return tuple(part for factor in self.products[size] for part in self.parts(factor))
        number, names = self.factors(size)
        split = number == 1 and size not in self.quotients
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
        """Return a size of the first trace as an expression in C++; see `in_python`."""
        if size in self.products:
            return self.product(self.products[size])
        if size not in self.quotients:
            return _product(*self.factors(size))
        quotient = self.quotients[size]
        text = self.text(quotient.base)
        if quotient.divisor > 1:
            text = f"{text} + {quotient.add}" if quotient.add else text
            text = f"{text if text.isalnum() else f'({text})'} / {quotient.divisor}"
        text += f" + {self.text(quotient.other)}" if quotient.other else ""
        return f"{text} {'+' if quotient.offset > 0 else '-'} {abs(quotient.offset)}" if quotient.offset else text

    def product(self, extents: Iterable[int]) -> str:
        """Return a product of sizes of the first trace as an expression."""
        return _product(*self.terms(extents))

    def terms(self, extents: Iterable[int]) -> tuple[int, tuple[str, ...]]:
        """Return a product of sizes as a number and expressions as factors."""
        number, names, sums = 1, list[str](), list[str]()
        flat = (part for extent in extents for part in self.products.get(extent, (extent,)))
        for extent in flat:
            if extent in self.quotients:
                sums.append(f"({self.text(extent)})")
                continue
            factor, more = self.factors(extent)
            number, names = number * factor, [*names, *more]
        return number, (*sorted(names, key=self.names.index), *sorted(sums))

    def at(self, size: int, dims: Mapping[str, int]) -> int:
        """Return a size of the first trace at these dimensions."""
        if size in self.products:
            return prod(self.at(factor, dims) for factor in self.products[size])
        if size in self.quotients:
            quotient = self.quotients[size]
            return quotient.at(self.at(quotient.base, dims), self.at(quotient.other, dims) if quotient.other else 0)
        number, names = self.factors(size)
        return number * prod(dims[name] for name in names)

    def _monomial_fits(self, first: int, second: int) -> bool:
        number, names = self.factors(first)
        return bool(names) and number * prod(self.second[name] for name in names) == second


def in_python(text: str) -> str:
    """Return a size that is an expression in C++ as one in Python."""
    return text.replace(" / ", " // ")


def _product(number: int, names: tuple[str, ...]) -> str:
    parts = ([str(number)] if number != 1 or not names else []) + list(names)
    return " * ".join(parts)


def symbolic_strides(shape: tuple[int, ...], order: Sequence[int], sizes: SymbolicSizes) -> tuple[str | int, ...]:
    """Return the steps of a dense tensor whose axes lie in memory in this order, the outermost first."""
    steps = {axis: [shape[inner] for inner in order[place + 1 :]] for place, axis in enumerate(order)}
    inner = (steps[axis] for axis in range(len(shape)))
    return tuple(
        in_python(sizes.product(extents)) if any(map(sizes.depends, extents)) else prod(extents) for extents in inner
    )


def symbolic_shape(shape: tuple[int, ...], sizes: SymbolicSizes) -> tuple[str | int, ...]:
    """Return a shape of the first trace as expressions."""
    return tuple(in_python(sizes.text(extent)) if sizes.depends(extent) else extent for extent in shape)
