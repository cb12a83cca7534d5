"""Whole-number arithmetic over neighbouring elements: what grows by one from lane to lane, and multiples of lanes."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

_CAST = re.compile(r"\((?:const )?(?:unsigned |signed )?(?:long long|long|int|unsigned|size_t)\)|\bconst\b")
UNKNOWN = ast.Set(elts=[])
"""A value of which nothing is known."""
Needs = frozenset[str]
"""Whole numbers of `run` that must be multiples of the lanes, for something to hold."""


def parsed(text: str) -> ast.expr | None:
    """Return an expression of C++ as Python reads it; None where the two do not mean the same."""
    text = _CAST.sub("", text).replace("&&", " and ").replace("||", " or ").replace("/", "//")
    try:
        return ast.parse(" ".join(text.split()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """Values at neighbouring numbers of a counter, the first of which is a multiple of their count."""

    count: int
    """Elements of a vector."""
    counter: str
    """The counter, which is one more from lane to lane."""
    values: Mapping[str, ast.expr]
    """Values of names that are bound once; one that is not understood is no number at all."""
    counted: Mapping[str, tuple[ast.expr, ast.expr]]
    """First value and step of the counters of loops around."""
    choices: Mapping[str, tuple[int, ...]]
    """Values that a macro may take."""
    numbers: frozenset[str]
    """Whole numbers that the kernel is given."""

    def growth(self, value: ast.expr | None) -> int | None:
        """Return by how much a value grows from lane to lane, 0 or 1; None where that is not clear."""
        match value:
            case ast.Constant() | ast.Attribute():
                return 0
            case ast.Name(id=name):
                return 1 if name == self.counter else self.growth(self.values[name]) if name in self.values else 0
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _one_of(self.growth(left), self.growth(right))
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return self.growth(left) if self.growth(right) == 0 else None
            case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod() as op, right=right) if self.growth(left) == 1:
                whole = self._counts(left) and self.needs(left) == self.needs(right) == frozenset()
                whole = whole and self.growth(right) == 0
                return (0 if isinstance(op, ast.FloorDiv) else 1) if whole else None
            case ast.BinOp(left=left, right=right):
                return 0 if self.growth(left) == self.growth(right) == 0 else None
        return None

    def needs(self, value: ast.expr | None) -> Needs | None:
        """Return what makes a value at the first lane a multiple of the lanes; None where nothing is known to."""
        match value:
            case ast.Constant(value=int(number)):
                return frozenset() if number % self.count == 0 else None
            case ast.Name(id=name):
                return self._needs_of(name)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mod(), right=right):
                one, other = self.needs(left), self.needs(right)
                return None if one is None or other is None else one | other
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                known = [needs for needs in (self.needs(left), self.needs(right)) if needs is not None]
                return min(known, key=len, default=None)
        return None

    def alike(self, test: ast.expr | None) -> Needs | None:
        """Return what makes a condition the same at every lane; None where nothing is known to."""
        match test:
            case ast.BoolOp(values=parts):
                needs = [self.alike(part) for part in parts]
                return None if None in needs else frozenset().union(*(each for each in needs if each is not None))
            case ast.Name(id=name) if name in self.values:
                return self.alike(self.values[name])
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                growths = self.growth(left), self.growth(right)
                if growths == (0, 0):
                    return frozenset()
                one, other = self.needs(left), self.needs(right)
                if growths == (1, 0) and isinstance(op, ast.Lt | ast.GtE) and one is not None and other is not None:
                    return one | other
        return None

    def _counts(self, value: ast.expr) -> bool:
        """Say whether a value is the counter or a quotient or remainder of it, so that it is never negative."""
        match value:
            case ast.Name(id=name):
                return name == self.counter or (name in self.values and self._counts(self.values[name]))
            case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod()):
                return self._counts(left)
        return False

    def _needs_of(self, name: str) -> Needs | None:
        if name == self.counter:
            return frozenset()
        if name in self.values:
            return self.needs(self.values[name])
        if name in self.counted:
            first, step = (self.needs(each) for each in self.counted[name])
            return None if first is None or step is None else first | step
        if name in self.choices:
            return frozenset() if all(choice % self.count == 0 for choice in self.choices[name]) else None
        return frozenset({name}) if name in self.numbers else None


def _one_of(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None or left + right > 1 else left + right
