"""Translation of the statements of one loop into vector form, one vector per former scalar value."""

from __future__ import annotations

from dataclasses import dataclass, field

from operators.rewrites.cpp.ir.affine import ONE, Poly, to_poly
from operators.rewrites.cpp.ir.reductions import extremum, math_function, reduction_of
from operators.rewrites.cpp.ir.syntax import (
    Assign,
    Binary,
    Braces,
    Call,
    Cast,
    Decl,
    Expr,
    Index,
    Num,
    RefCast,
    Stmt,
    Ternary,
    Unary,
    Var,
    expr_names,
)
from operators.rewrites.cpp.vector_types import LIBMVEC, VectorType


class NoVector(Exception):
    """Error of statements without a vector form."""


@dataclass(slots=True)
class VectorForm:
    """Translation of one loop."""

    var: str
    """The loop variable."""
    vector: VectorType
    """The vector type of its elements."""
    types: dict[str, str]
    """Types of scalars and element types of arrays, by name."""
    tiles: frozenset[str] = frozenset()
    """Local arrays whose last subscript counts vectors."""
    sums: dict[str, str] = field(default_factory=dict)
    """Names of the vector accumulators, by scalar target."""
    functions: set[str] = field(default_factory=set)
    """Math functions that were used on vectors."""
    own: set[str] = field(default_factory=set)
    """Locals that became vectors."""
    stores: int = 0
    """Stores so far."""

    def body(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Return the statements in vector form.

        Raises:
            NoVector: a statement has none.
        """
        return tuple(self._stmt(stmt) for stmt in stmts)

    def _stmt(self, stmt: Stmt) -> Stmt:
        reduction = reduction_of(stmt)
        match stmt:
            case Decl(kind, name, (), init) if kind.removeprefix("const ") == self.vector.element and init is not None:
                value = self.full(init)
                self.own.add(name)
                return Decl(kind.replace(self.vector.element, self.vector.name), name, (), value, stmt.notes)
            case _ if reduction is not None and isinstance(reduction[0], Var) and reduction[0].name in self.sums:
                return self._reduce(stmt, *reduction)
            case Assign(Var(name) as target, op, value) if name in self.own:
                return Assign(target, op, self.full(value), stmt.notes)
            case Assign(Index() as target, op, value):
                self.stores += 1
                return Assign(self._store(target), op, self.full(value), stmt.notes)
            case _:
                raise NoVector(type(stmt).__name__)

    def _reduce(self, stmt: Stmt, target: Expr, op: str, value: Expr) -> Stmt:
        total = Var(self.sums[target.name]) if isinstance(target, Var) else target
        new = self.full(value)
        if op in "+*":
            sign = stmt.op if isinstance(stmt, Assign) and stmt.op != "=" else f"{op}="
            return Assign(total, sign, new, stmt.notes)
        test = Binary(">" if op == "max" else "<", new, total)
        return Assign(total, "=", Ternary(test, new, total), stmt.notes)

    def _store(self, target: Index) -> Expr:
        if target.base in self.tiles:
            return target
        if self.stride(target) != ONE:
            raise NoVector(target.base)
        return RefCast(self.vector.memory, target)

    def stride(self, target: Index) -> Poly | None:
        """Return the stride of an array element in the loop variable; None if unknown or of another element type."""
        if len(target.subs) != 1 or self.types.get(target.base) != self.vector.element:
            return None
        sub = target.subs[0]
        if any(name in self.own for name in expr_names(sub)):
            return None
        poly = to_poly(sub, {name: Poly.symbol(name) for name in expr_names(sub)})
        return None if poly is None else poly.stride(self.var)

    def full(self, expr: Expr) -> Expr:
        """Return the expression as a vector, broadcast if it is a scalar."""
        value, wide = self.value(expr)
        if wide:
            return value
        zero = Braces(self.vector.name, ())
        # x - 0 keeps every x, -0 included, so the compiler drops the subtraction.
        return zero if value in (Num("0.0f"), Num("0"), Num("0.0")) else Binary("-", self._narrow(value), zero)

    def _narrow(self, value: Expr) -> Expr:
        """Return a scalar of the element type."""
        match value:
            case Num(text) if self.vector.element == "float" and text.endswith("f") and not text.startswith("0x"):
                return value
            case Var(name) | Index(name, _) if self.types.get(name) == self.vector.element:
                return value
            case Cast(kind, _) if kind == self.vector.element:
                return value
            case _:
                return Cast(self.vector.element, value)

    def value(self, expr: Expr) -> tuple[Expr, bool]:
        """Return the expression and whether it is a vector.

        Raises:
            NoVector: it depends on the loop variable in a way that has no vector form.
        """
        if self.var not in expr_names(expr) and not expr_names(expr) & (self.own | self.sums.keys() | self.tiles):
            return expr, False
        match expr:
            case Var(name) if name in self.own:
                return expr, True
            case Index():
                return self._load(expr), True
            case Unary("-", inner):
                return Unary("-", self.full(inner)), True
            case Binary("+" | "-" | "*" | "/" as op, left, right):
                return self._binary(op, left, right), True
            case Ternary(Binary("<" | ">" | "<=" | ">=" as op, left, right), then, orelse):
                return Ternary(Binary(op, self.full(left), self.full(right)), self.full(then), self.full(orelse)), True
            case Call(name, args):
                return self._call(name, args), True
            case Cast(kind, inner) if kind == self.vector.element:
                return self.full(inner), True
            case _:
                raise NoVector(type(expr).__name__)

    def _load(self, expr: Index) -> Expr:
        if expr.base in self.tiles:
            return expr
        if self.stride(expr) != ONE:
            raise NoVector(expr.base)
        return RefCast(f"const {self.vector.memory}", expr)

    def _binary(self, op: str, left: Expr, right: Expr) -> Expr:
        a, wide_a = self.value(left)
        b, wide_b = self.value(right)
        return Binary(op, a if wide_a else self._narrow(a), b if wide_b else self._narrow(b))

    def _call(self, name: str, args: tuple[Expr, ...]) -> Expr:
        values = tuple(self.full(arg) for arg in args)
        side = extremum(name)
        if side is not None and len(values) == 2:
            left, right = values
            return Ternary(Binary(">" if side == "max" else "<", left, right), left, right)
        function = math_function(name)
        if function is None or len(values) != 1 or function not in LIBMVEC | {"fabs"}:
            raise NoVector(name)
        self.functions.add(function)
        return Call(f"{function}_{self.vector.name}", values)
