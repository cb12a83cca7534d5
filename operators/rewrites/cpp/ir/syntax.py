"""Typed syntax of the loop nests that the rewrites work on.

All nodes are immutable and hashable; a rewrite builds new trees and shares what it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

# ---------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Num:
    """A literal, kept as written (`0.0f`, `16`)."""

    text: str


@dataclass(frozen=True, slots=True)
class Var:
    """A name."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary:
    """A prefix operator."""

    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary operator."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Ternary:
    """`cond ? then : orelse`."""

    cond: Expr
    then: Expr
    orelse: Expr


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a named function (`std::max`, `expf`)."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """An array element `base[i][j]`; `base` is a name."""

    base: str
    subs: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A value conversion, written `static_cast<type>(value)`."""

    type: str
    value: Expr


@dataclass(frozen=True, slots=True)
class RefCast:
    """A vector seen in memory, written `(type&)base[i]`; it covers as many elements as the type has lanes."""

    type: str
    value: Index


@dataclass(frozen=True, slots=True)
class Braces:
    """A braced initialiser `type{items}`; the type may be empty."""

    type: str
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class RawExpr:
    """Text that was not understood; it blocks every rewrite around it."""

    text: str


Expr = Num | Var | Unary | Binary | Ternary | Call | Index | Cast | RefCast | Braces | RawExpr

# ---------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commented:
    notes: tuple[str, ...] = ()
    """Comments in front of a statement."""
    after: tuple[str, ...] = ()
    """Those behind it, at the end of a body."""


@dataclass(frozen=True, slots=True)
class For(_Commented):
    """A counted loop `for (type var = lower; var < upper; var += step) body`."""

    var: str
    lower: Expr
    upper: Expr
    step: Expr
    body: tuple[Stmt, ...]
    type: str = "int64_t"
    """The type of the variable."""
    pragmas: tuple[str, ...] = ()
    """Lines directly in front of the loop."""


@dataclass(frozen=True, slots=True)
class If(_Commented):
    """A conditional."""

    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class Decl(_Commented):
    """A scalar, pointer or constant-size local array."""

    type: str
    """The type with all qualifiers (`alignas(64) float`)."""
    name: str
    dims: tuple[Expr, ...] = ()
    """Sizes of an array; empty for a scalar or pointer."""
    init: Expr | None = None
    """The initial value; None without one."""


@dataclass(frozen=True, slots=True)
class Assign(_Commented):
    """`target op value` with op one of `=`, `+=`, `-=`, `*=`, `/=`."""

    target: Expr
    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class ExprStmt(_Commented):
    """An expression evaluated for its effect."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Block(_Commented):
    """A braced group."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Raw(_Commented):
    """Statement text that was not understood."""

    text: str


Stmt = For | If | Decl | Assign | ExprStmt | Block | Raw
Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the kernel function; `type` includes `*` and `__restrict__`."""

    type: str
    name: str

    @property
    def pointer(self) -> bool:
        """Say whether this is an array argument."""
        return "*" in self.type


@dataclass(frozen=True, slots=True)
class Program:
    """A source file."""

    head: str
    """Text before the kernel function."""
    prefix: str
    """Text of its signature before the parameters."""
    params: tuple[Param, ...]
    """Its parameters."""
    body: tuple[Stmt, ...]
    """Its statements."""
    tail: str
    """Text behind it."""


# ---------------------------------------------------------------------------- traversal

ONE = Num("1")
ZERO = Num("0")


def parts(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct sub-expressions."""
    match expr:
        case Unary(_, value) | Cast(_, value) | RefCast(_, value):
            return (value,)
        case Binary(_, left, right):
            return (left, right)
        case Ternary(cond, then, orelse):
            return (cond, then, orelse)
        case Call(_, items) | Index(_, items) | Braces(_, items):
            return items
        case _:
            return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the expression and all sub-expressions, outermost first."""
    yield expr
    for part in parts(expr):
        yield from walk(part)


def map_expr(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rebuild the expression bottom-up through `change`."""
    match expr:
        case Unary(op, value):
            expr = Unary(op, map_expr(value, change))
        case Cast(kind, value):
            expr = Cast(kind, map_expr(value, change))
        case RefCast(kind, value):
            inner = map_expr(value, change)
            expr = RefCast(kind, inner) if isinstance(inner, Index) else inner
        case Binary(op, left, right):
            expr = Binary(op, map_expr(left, change), map_expr(right, change))
        case Ternary(cond, then, orelse):
            expr = Ternary(map_expr(cond, change), map_expr(then, change), map_expr(orelse, change))
        case Call(name, items):
            expr = Call(name, tuple(map_expr(item, change) for item in items))
        case Index(base, items):
            expr = Index(base, tuple(map_expr(item, change) for item in items))
        case Braces(kind, items):
            expr = Braces(kind, tuple(map_expr(item, change) for item in items))
        case _:
            pass
    return change(expr)


def own_exprs(stmt: Stmt) -> tuple[Expr, ...]:
    """Return the expressions of the statement itself, without those of nested statements."""
    match stmt:
        case For():
            return (stmt.lower, stmt.upper, stmt.step)
        case If():
            return (stmt.cond,)
        case Decl():
            return stmt.dims + ((stmt.init,) if stmt.init is not None else ())
        case Assign():
            return (stmt.target, stmt.value)
        case ExprStmt():
            return (stmt.value,)
        case _:
            return ()


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """Return the nested statements, both branches of a conditional included."""
    match stmt:
        case For() | Block():
            return stmt.body
        case If():
            return stmt.then + stmt.orelse
        case _:
            return ()


def walk_stmts(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Yield all statements, outermost first, in source order."""
    for stmt in body:
        yield stmt
        yield from walk_stmts(children(stmt))


def all_exprs(body: tuple[Stmt, ...]) -> Iterator[Expr]:
    """Yield every (sub-)expression of the statements."""
    for stmt in walk_stmts(body):
        for expr in own_exprs(stmt):
            yield from walk(expr)


def names_in(body: tuple[Stmt, ...]) -> set[str]:
    """Return all names that the statements mention, declared ones included."""
    found: set[str] = set()
    for expr in all_exprs(body):
        match expr:
            case Var(name) | Index(name, _) | Call(name, _):
                found.add(name)
            case _:
                pass
    for stmt in walk_stmts(body):
        if isinstance(stmt, For):
            found.add(stmt.var)
        elif isinstance(stmt, Decl):
            found.add(stmt.name)
    return found


def expr_names(expr: Expr) -> set[str]:
    """Return the variables and arrays that the expression mentions."""
    return {e.name if isinstance(e, Var) else e.base for e in walk(expr) if isinstance(e, (Var, Index))}


def map_stmt(stmt: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """Apply `change` bottom-up to every expression of the statement."""

    def on(expr: Expr) -> Expr:
        return map_expr(expr, change)

    match stmt:
        case For():
            return replace(
                stmt, lower=on(stmt.lower), upper=on(stmt.upper), step=on(stmt.step), body=map_body(stmt.body, change)
            )
        case If():
            return replace(
                stmt, cond=on(stmt.cond), then=map_body(stmt.then, change), orelse=map_body(stmt.orelse, change)
            )
        case Decl():
            init = None if stmt.init is None else on(stmt.init)
            return replace(stmt, dims=tuple(on(d) for d in stmt.dims), init=init)
        case Assign():
            return replace(stmt, target=on(stmt.target), value=on(stmt.value))
        case ExprStmt():
            return replace(stmt, value=on(stmt.value))
        case Block():
            return replace(stmt, body=map_body(stmt.body, change))
        case Raw():
            return stmt


def map_body(body: tuple[Stmt, ...], change: Callable[[Expr], Expr]) -> tuple[Stmt, ...]:
    """Apply `change` bottom-up to every expression of the statements."""
    return tuple(map_stmt(stmt, change) for stmt in body)


def substitute(body: tuple[Stmt, ...], name: str, value: Expr) -> tuple[Stmt, ...]:
    """Replace uses of a variable (not declarations of it) by an expression."""
    return map_body(body, lambda e: value if e == Var(name) else e)
