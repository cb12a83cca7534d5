"""Translation of the statements of one loop into vector form, one vector per former scalar value."""

from dataclasses import dataclass, field

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.ir.affine import ONE, Poly, to_poly
from operators.rewrites.cpp.ir.reductions import extremum, math_function, reduction_of
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

    def body(self, stmts: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        """Return the statements in vector form. Raises `NoVector` if a statement has none."""
        return tuple(self._stmt(stmt) for stmt in stmts)

    def _stmt(self, stmt: ir.Stmt) -> ir.Stmt:
        reduction = reduction_of(stmt)
        match stmt:
            case ir.Decl(kind, name, (), init) if (
                kind.removeprefix("const ") == self.vector.element and init is not None
            ):
                value = self.full(init)
                self.own.add(name)
                return ir.Decl(kind.replace(self.vector.element, self.vector.name), name, (), value, notes=stmt.notes)
            case _ if reduction is not None and isinstance(reduction[0], ir.Var) and reduction[0].name in self.sums:
                return self._reduce(stmt, *reduction)
            case ir.Assign(ir.Var(name) as target, op, value) if name in self.own:
                return ir.Assign(target, op, self.full(value), notes=stmt.notes)
            case ir.Assign(ir.Index() as target, op, value):
                self.stores += 1
                return ir.Assign(self._store(target), op, self.full(value), notes=stmt.notes)
            case _:
                raise NoVector(type(stmt).__name__)

    def _reduce(self, stmt: ir.Stmt, target: ir.Expr, op: str, value: ir.Expr) -> ir.Stmt:
        total = ir.Var(self.sums[target.name]) if isinstance(target, ir.Var) else target
        new = self.full(value)
        if op in "+*":
            sign = stmt.op if isinstance(stmt, ir.Assign) and stmt.op != "=" else f"{op}="
            return ir.Assign(total, sign, new, notes=stmt.notes)
        test = ir.Binary(">" if op == "max" else "<", new, total)
        return ir.Assign(total, "=", ir.Ternary(test, new, total), notes=stmt.notes)

    def _store(self, target: ir.Index) -> ir.Expr:
        if target.base in self.tiles:
            return target
        if self.stride(target) != ONE:
            raise NoVector(target.base)
        return ir.RefCast(self.vector.memory, target)

    def stride(self, target: ir.Index) -> Poly | None:
        """Return the stride of an array element in the loop variable; None if unknown or of another element type."""
        if len(target.subs) != 1 or self.types.get(target.base) != self.vector.element:
            return None
        sub = target.subs[0]
        if any(name in self.own for name in ir.expr_names(sub)):
            return None
        poly = to_poly(sub, {name: Poly.symbol(name) for name in ir.expr_names(sub)})
        return None if poly is None else poly.stride(self.var)

    def full(self, expr: ir.Expr) -> ir.Expr:
        """Return the expression as a vector, broadcast if it is a scalar."""
        value, wide = self.value(expr)
        if wide:
            return value
        zero = ir.Braces(self.vector.name, ())
        # x - 0 keeps every x, -0 included, so the compiler drops the subtraction.
        return (
            zero if value in (ir.Num("0.0f"), ir.Num("0"), ir.Num("0.0")) else ir.Binary("-", self._narrow(value), zero)
        )

    def _narrow(self, value: ir.Expr) -> ir.Expr:
        """Return a scalar of the element type."""
        match value:
            case ir.Num(text) if self.vector.element == "float" and text.endswith("f") and not text.startswith("0x"):
                return value
            case ir.Var(name) | ir.Index(name, _) if self.types.get(name) == self.vector.element:
                return value
            case ir.Cast(kind, _) if kind == self.vector.element:
                return value
            case _:
                return ir.Cast(self.vector.element, value)

    def value(self, expr: ir.Expr) -> tuple[ir.Expr, bool]:
        """Return the expression and whether it is a vector.

        Raises `NoVector` if it depends on the loop variable in a way that has no vector form.
        """
        if self.var not in ir.expr_names(expr) and not ir.expr_names(expr) & (self.own | self.sums.keys() | self.tiles):
            return expr, False
        match expr:
            case ir.Var(name) if name in self.own:
                return expr, True
            case ir.Index():
                return self._load(expr), True
            case ir.Unary("-", inner):
                return ir.Unary("-", self.full(inner)), True
            case ir.Binary("+" | "-" | "*" | "/" as op, left, right):
                return self._binary(op, left, right), True
            case ir.Ternary(ir.Binary("<" | ">" | "<=" | ">=" as op, left, right), then, orelse):
                return ir.Ternary(
                    ir.Binary(op, self.full(left), self.full(right)), self.full(then), self.full(orelse)
                ), True
            case ir.Call(name, args):
                return self._call(name, args), True
            case ir.Cast(kind, inner) if kind == self.vector.element:
                return self.full(inner), True
            case _:
                raise NoVector(type(expr).__name__)

    def _load(self, expr: ir.Index) -> ir.Expr:
        if expr.base in self.tiles:
            return expr
        if self.stride(expr) != ONE:
            raise NoVector(expr.base)
        return ir.RefCast(f"const {self.vector.memory}", expr)

    def _binary(self, op: str, left: ir.Expr, right: ir.Expr) -> ir.Expr:
        a, wide_a = self.value(left)
        b, wide_b = self.value(right)
        return ir.Binary(op, a if wide_a else self._narrow(a), b if wide_b else self._narrow(b))

    def _call(self, name: str, args: tuple[ir.Expr, ...]) -> ir.Expr:
        values = tuple(self.full(arg) for arg in args)
        side = extremum(name)
        if side is not None and len(values) == 2:
            left, right = values
            return ir.Ternary(ir.Binary(">" if side == "max" else "<", left, right), left, right)
        function = math_function(name)
        if function is None or len(values) != 1 or function not in LIBMVEC | {"fabs"}:
            raise NoVector(name)
        self.functions.add(function)
        return ir.Call(f"{function}_{self.vector.name}", values)
