"""Decision tree over sizes: which kernel, or torch, answers where, from times measured at some of them.

The tree is grown as in Breiman, Friedman, Olshen, Stone, Classification and Regression Trees (1984), with a look one
split ahead, and pruned by intervals in place of a penalty.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from evokernel.records.timing import Z95, Speedup

TORCH = ""
"""The arm of torch; all others are names of modules."""
_STEPS = (8, 16, 64, 128)
"""Divisors that a size is asked for: what vector loads and tiles ask of it."""
_DEPTH = 4
"""Greatest number of splits above a leaf."""
_LEAST = 3
"""Least number of measured sizes that a kernel answers for in a leaf."""
_EQUAL = 1e-9
"""Sums of logarithms that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class MeasuredSize:
    """One size with the speed-ups of all kernels over torch."""

    sizes: Mapping[str, int]
    """The sizes that vary, by name."""
    speedups: Mapping[str, Speedup]
    """By name of the kernel's module."""


@dataclass(frozen=True, slots=True)
class Split:
    """A question to sizes: is their product less than a bound, or no multiple of a step?"""

    names: tuple[str, ...]
    """The sizes that are multiplied."""
    below: int = 0
    """The bound; 0 where it asks for a step."""
    step: int = 0
    """The step."""

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Answer it."""
        product = math.prod(sizes[name] for name in self.names)
        return product % self.step != 0 if self.step else product < self.below

    @property
    def text(self) -> str:
        """The question as an expression in Python over `sizes`."""
        product = " * ".join(f'sizes["{name}"]' for name in self.names)
        return f"{product} % {self.step}" if self.step else f"{product} < {self.below}"

    def words(self, *, holds: bool) -> str:
        """Return the answer for people, such as `K < 512`."""
        product = " x ".join(self.names)
        if self.step:
            return f"{product} is {'no' if holds else 'a'} multiple of {self.step}"
        return f"{product} {'<' if holds else '>='} {self.below}"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A part of the sizes with the arm that answers there."""

    arm: str
    """Name of the module of a kernel, or `TORCH`."""
    points: tuple[MeasuredSize, ...]
    """The measured sizes in it."""

    @property
    def interval(self) -> Speedup:
        """The speed-up over torch: geometric mean, and the least and greatest end of an interval in the leaf."""
        return Speedup(1.0, 1.0, 1.0) if self.arm == TORCH else spread(self.points, self.arm)


@dataclass(frozen=True, slots=True)
class Branch:
    """A split with what comes below."""

    split: Split
    """The question."""
    yes: "Tree"
    """Where it holds."""
    no: "Tree"
    """Where it does not."""


Tree = Leaf | Branch


def fit_tree(points: Sequence[MeasuredSize], *, accept_from: float) -> Tree:
    """Return a tree that gives each size one arm.

    A kernel answers in a leaf only where its speed-up is measured at three sizes at least and no interval of them
    begins below `accept_from`; else torch does. Leaves are merged where one arm is, within the intervals, as fast as
    theirs. Below 1, `accept_from` is also the speed that torch is taken to have: so much may a kernel be slower.

    Args:
        points: the measured sizes, one at least, all with the same names and kernels.
        accept_from: the least speed-up over torch.
    """
    if not points:
        raise ValueError("a tree needs a measured size")
    return _merged(_Growth(points, accept_from).tree((1 << len(points)) - 1, _DEPTH), accept_from)


def choose(tree: Tree, sizes: Mapping[str, int]) -> str:
    """Return the arm that answers at some sizes."""
    while isinstance(tree, Branch):
        tree = tree.yes if tree.split.holds(sizes) else tree.no
    return tree.arm


def leaves(tree: Tree, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    """Yield each leaf after the answers that lead to it, in words."""
    if isinstance(tree, Leaf):
        yield path, tree
        return
    yield from leaves(tree.yes, (*path, tree.split.words(holds=True)))
    yield from leaves(tree.no, (*path, tree.split.words(holds=False)))


def borders(tree: Tree) -> Iterator[tuple[MeasuredSize, MeasuredSize]]:
    """Yield, for each bound of a tree, the closest measured sizes on both of its sides."""
    if isinstance(tree, Leaf):
        return
    names = tree.split.names
    if not tree.split.step:

        def product(point: MeasuredSize) -> int:
            return math.prod(point.sizes[name] for name in names)

        yield max(_points(tree.yes), key=product), min(_points(tree.no), key=product)
    yield from borders(tree.yes)
    yield from borders(tree.no)


def tree_text(tree: Tree, *, indent: str = "    ") -> str:
    """Return a tree as the body of a function in Python of `sizes`, which returns a module, or None for torch."""
    if isinstance(tree, Leaf):
        if tree.arm == TORCH:
            return f"{indent}return None  # torch, measured at {len(tree.points)}\n"
        found = tree.interval
        span = f"{found.value:.3g}x ({found.low:.3g} to {found.high:.3g})"
        return f"{indent}return {tree.arm}  # {span} over torch, measured at {len(tree.points)}\n"
    return (
        f"{indent}if {tree.split.text}:\n{tree_text(tree.yes, indent=indent + '    ')}"
        f"{tree_text(tree.no, indent=indent)}"
    )


def combined(points: Sequence[MeasuredSize], arm: str) -> Speedup:
    """Return the geometric mean of a kernel's speed-ups over torch, with the interval of that mean."""
    found = [point.speedups[arm] for point in points]
    mean = sum(math.log(each.value) for each in found) / len(found)
    errors = [math.log(each.high / each.low) / (2 * Z95) for each in found]
    return Speedup.from_log(mean, math.hypot(*errors) / len(found))


def spread(points: Sequence[MeasuredSize], arm: str) -> Speedup:
    """Return the geometric mean of a kernel's speed-ups over torch between the least and the greatest end."""
    found = [point.speedups[arm] for point in points]
    return Speedup(combined(points, arm).value, min(each.low for each in found), max(each.high for each in found))


def _torch_speed(accept_from: float) -> float:
    return min(max(accept_from, 1e-9), 1.0)


# ------------------------------------------------------------------------------------------------ growing


class _Growth:
    """Growth of one tree. Sets of points are bits of an integer, so that each is looked at once."""

    def __init__(self, points: Sequence[MeasuredSize], accept_from: float) -> None:
        self._points = points
        torch = _torch_speed(accept_from)
        self._logs = {arm: [math.log(p.speedups[arm].value / torch) for p in points] for arm in points[0].speedups}
        self._slow = {arm: self._mask([p.speedups[arm].low < accept_from for p in points]) for arm in self._logs}
        names = tuple(points[0].sizes)
        products = [*((name,) for name in names), *([names] if len(names) > 1 else [])]
        every, self._splits = (1 << len(points)) - 1, dict[int, Split]()
        for split in (*self._bounds(products), *(Split((name,), step=step) for name in names for step in _STEPS)):
            held = self._mask([split.holds(point.sizes) for point in points])
            if held and held != every and every ^ held not in self._splits:
                self._splits.setdefault(held, split)  # of splits into the same sets the first is kept
        self._value = lru_cache(maxsize=None)(self._value_of)

    def tree(self, mask: int, depth: int) -> Tree:
        """Return the tree of a set: each split is the best with one more split on both of its sides."""
        parts = [*self._parts(mask, min(depth, 2))]
        value = max((value for value, _ in parts), default=-math.inf) - _EQUAL
        if value <= self._value(mask, 0):
            return Leaf(self._arm(mask)[1], tuple(self._points[place] for place in self._places(mask)))
        best = [held for reached, held in parts if reached >= value]
        held = max(best, key=lambda held: self._value(mask & held, 0) + self._value(mask & ~held, 0))  # gains at once
        return Branch(self._splits[held], self.tree(mask & held, depth - 1), self.tree(mask & ~held, depth - 1))

    def _bounds(self, products: Sequence[tuple[str, ...]]) -> Iterator[Split]:
        for names in products:
            found = sorted({math.prod(point.sizes[name] for name in names) for point in self._points})
            yield from (Split(names, below=math.isqrt(low * high) + 1) for low, high in pairwise(found))

    def _mask(self, held: Sequence[bool]) -> int:
        return sum(1 << place for place, each in enumerate(held) if each)

    def _places(self, mask: int) -> list[int]:
        return [place for place in range(len(self._points)) if mask >> place & 1]

    def _arm(self, mask: int) -> tuple[float, str]:
        """Return the fastest kernel that may answer at all points of a set, or torch, after its sum of logarithms."""
        fit = [arm for arm, slow in self._slow.items() if not mask & slow and mask.bit_count() >= _LEAST]
        return max(
            ((sum(self._logs[arm][place] for place in self._places(mask)), arm) for arm in fit), default=(0, TORCH)
        )

    def _value_of(self, mask: int, depth: int) -> float:
        """Return the sum of logarithms of speed-ups that a tree of some depth reaches."""
        return max([self._arm(mask)[0], *(value for value, _ in self._parts(mask, depth))])

    def _parts(self, mask: int, depth: int) -> Iterator[tuple[float, int]]:
        """Yield the value of each split of a set, and the points that it holds for."""
        for held in self._splits if depth else ():
            yes, no = mask & held, mask & ~held
            if yes and no:
                yield self._value(yes, depth - 1) + self._value(no, depth - 1), held


# ------------------------------------------------------------------------------------------------ merging


def _merged(tree: Tree, accept_from: float) -> Tree:
    """Return a tree without splits whose leaves one arm answers as well, within the intervals.

    Each arm is compared with those of the leaves as they were grown, so that small losses do not add up.
    """
    if isinstance(tree, Leaf):
        return tree

    def speed(points: Sequence[MeasuredSize], arm: str) -> Speedup:
        torch = _torch_speed(accept_from)
        return Speedup(torch, torch, torch) if arm == TORCH else combined(points, arm)

    points, grown = _points(tree), [leaf for _, leaf in leaves(tree)]
    equal = [
        arm
        for arm in (*points[0].speedups, TORCH)
        if arm == TORCH or (len(points) >= _LEAST and spread(points, arm).low >= accept_from)
        if all(arm == leaf.arm or speed(leaf.points, arm).high >= speed(leaf.points, leaf.arm).low for leaf in grown)
    ]
    if equal:
        return Leaf(max(equal, key=lambda arm: speed(points, arm).value), points)
    return Branch(tree.split, _merged(tree.yes, accept_from), _merged(tree.no, accept_from))


def _points(tree: Tree) -> tuple[MeasuredSize, ...]:
    return tree.points if isinstance(tree, Leaf) else _points(tree.yes) + _points(tree.no)
