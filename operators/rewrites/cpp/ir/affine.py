"""Integer polynomials in sizes and loop variables, for the comparison of subscripts.

`i * K + k` is linear in `i` and `k` with the symbolic stride `K`; strides may be products of sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from operators.rewrites.cpp.ir.reader import INDEX_TYPES
from operators.rewrites.cpp.ir.syntax import Binary, Call, Cast, Expr, Num, Ternary, Var

Monomial = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Poly:
    """A sum of integer multiples of products of symbols; no zero terms, terms in a fixed order."""

    terms: tuple[tuple[Monomial, int], ...] = ()
    """Pairs of a product of symbols and its factor."""

    @staticmethod
    def of(terms: Mapping[Monomial, int]) -> Poly:
        """Normalise a term table."""
        return Poly(tuple(sorted((m, c) for m, c in terms.items() if c)))

    @staticmethod
    def const(value: int) -> Poly:
        """Return the polynomial of a number."""
        return Poly.of({(): value})

    @staticmethod
    def symbol(name: str) -> Poly:
        """Return the polynomial of a symbol."""
        return Poly.of({(name,): 1})

    def __add__(self, other: Poly) -> Poly:
        terms = dict(self.terms)
        for monomial, factor in other.terms:
            terms[monomial] = terms.get(monomial, 0) + factor
        return Poly.of(terms)

    def __neg__(self) -> Poly:
        return Poly(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        terms: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in other.terms:
                monomial = _reduced(m1 + m2)
                terms[monomial] = terms.get(monomial, 0) + c1 * c2
        return Poly.of(terms)

    @property
    def symbols(self) -> set[str]:
        """All symbols that occur."""
        return {name for monomial, _ in self.terms for name in monomial}

    def stride(self, name: str) -> Poly | None:
        """Return the factor of a symbol, or None if the polynomial is not linear in it."""
        found: dict[Monomial, int] = {}
        for monomial, factor in self.terms:
            if monomial.count(name) > 1:
                return None
            if name in monomial:
                rest = list(monomial)
                rest.remove(name)
                found[tuple(rest)] = factor
        return Poly.of(found)

    def without(self, name: str) -> Poly:
        """Return the terms free of a symbol."""
        return Poly(tuple((m, c) for m, c in self.terms if name not in m))

    def divisible_by(self, other: Poly) -> bool:
        """Say whether the polynomial is provably a multiple of another one (equal, or of a single product)."""
        if self == other:
            return True
        if len(other.terms) != 1 or other.terms[0][1] != 1:
            return False
        factor = other.terms[0][0]
        return all(all(m.count(name) >= factor.count(name) for name in factor) for m, _ in self.terms)

    def nonnegative(self, natural: frozenset[str] = frozenset()) -> bool:
        """Say whether the value is >= 0 for all symbols >= 1 (those in `natural`: >= 0)."""
        shifted = Poly.const(0)
        one = Poly.const(1)
        for monomial, factor in self.terms:
            product = Poly.const(factor)
            for name in monomial:
                symbol = Poly.symbol(name)
                product = product * (symbol if name in natural or name.startswith(FLOOR) else symbol + one)
            shifted = shifted + product
        return all(factor >= 0 for _, factor in shifted.terms)


FLOOR = "floor:"
_RATIO = " / "


def _reduced(monomial: Monomial) -> Monomial:
    """Sort, and cancel `(X / V) * V` to `X`: a lane count divides its tile."""
    names = sorted(monomial)
    for name in names:
        if _RATIO in name:
            whole, part = name.split(_RATIO)
            if part in names:
                names.remove(name)
                names.remove(part)
                return _reduced((*names, whole))
    return tuple(names)


ZERO = Poly.const(0)
ONE = Poly.const(1)
Env = Mapping[str, Poly | None]


def to_poly(expr: Expr, env: Env) -> Poly | None:
    """Return the polynomial of an integer expression; names map through `env`, an unknown part gives None."""
    match expr:
        case Num(text):
            return Poly.const(int(text)) if text.isdecimal() else None
        case Var(name):
            return env.get(name)
        case Cast(kind, value) if kind in INDEX_TYPES:
            return to_poly(value, env)
        case Binary("-", left, Binary("%", again, divisor)) if left == again:
            return _floor(left, divisor, env)
        case Binary("/", Var(whole), Var(part)) if env.get(whole) and env.get(part):
            return Poly.symbol(f"{whole}{_RATIO}{part}")
        case Binary("+" | "-" | "*" as op, left, right):
            a, b = to_poly(left, env), to_poly(right, env)
            if a is None or b is None:
                return None
            return a + b if op == "+" else a - b if op == "-" else a * b
        case _:
            return None


def _floor(value: Expr, divisor: Expr, env: Env) -> Poly | None:
    """Return `X - X % A` as a symbol of its own: between 0 and X, and a multiple of A."""
    whole, part = to_poly(value, env), to_poly(divisor, env)
    return None if whole is None or part is None else Poly.symbol(f"{FLOOR}{value}|{divisor}")


def floor_parts(expr: Expr) -> tuple[Expr, Expr] | None:
    """Return `(X, A)` of an expression `X - X % A`, and `(L + X, A)` of `L + (X - X % A)`."""
    match expr:
        case Binary("-", left, Binary("%", again, divisor)) if left == again:
            return left, divisor
        case Binary("+", low, inner):
            found = floor_parts(inner)
            return None if found is None else (Binary("+", low, found[0]), found[1])
        case _:
            return None


def clamp_parts(expr: Expr) -> tuple[str, Expr, Expr] | None:
    """Return `(v, T, U)` of a clamped tile origin `v + T <= U ? v : U - T`."""
    match expr:
        case Ternary(Binary("<=", Binary("+", Var(v), tile), upper), Var(again), Binary("-", upper2, tile2)):
            return (v, tile, upper) if (again, upper2, tile2) == (v, upper, tile) else None
        case _:
            return None


def min_parts(expr: Expr) -> tuple[Expr, Expr] | None:
    """Return `(a, b)` of a minimum of two values."""
    match expr:
        case Call("std::min" | "std::min<int64_t>", (a, b)):
            return a, b
        case _:
            return None
