"""Scan of statements for array accesses and scalar uses, with subscripts as polynomials in loop symbols."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.ir.affine import ONE, ZERO, Poly, clamp_parts, floor_parts, min_parts, to_poly
from operators.rewrites.cpp.ir.reader import INDEX_TYPES
from operators.rewrites.cpp.ir.reductions import extremum, math_function, reduction_of

ALLOCATE = "std::aligned_alloc"
_PURE = re.compile(r"\b(?:inline|constexpr)\b")
_VECTOR = re.compile(r"std::vector<(?P<kind>\w+)> (?P<name>\w+)\(")
_PLAIN_SIZE = re.compile(r"[\w *+()-]*")
_BUSY = re.compile(r"\w\(|\+\+|--")
_WORD = re.compile(r"[A-Za-z_]\w*")
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")


@dataclass(frozen=True, slots=True)
class Span:
    """Values of a loop variable."""

    low: Poly
    """The first value."""
    high: Poly
    """The last value, included."""
    step: Poly
    """The distance between two values."""


@dataclass(frozen=True, slots=True)
class ArrayAccess:
    """One read or write of an array."""

    array: str
    """The name of the array."""
    index: Poly | None
    """The element index; None where it is not a polynomial."""
    lanes: Poly
    """Consecutive elements from there."""
    write: bool
    """True for a write."""
    op: str | None
    """The operator of an update such as `+`; None for a plain access."""
    loops: tuple[str, ...]
    """Symbols of the loops around it, outermost first."""
    expr: ir.Expr
    """The expression."""


def constants(head: str) -> tuple[str, ...]:
    """Return the names of the integer constants of the file, tunables included."""
    return tuple(
        re.findall(r"^[^\S\n]*(?:static\s+)?constexpr\s+(?:int|int64_t|long|size_t)\s+(\w+)\s*=", head, re.MULTILINE)
    )


def buffer_of(stmt: ir.Stmt) -> tuple[str, str] | None:
    """Return name and element type of the `std::vector` that a statement declares; None for any other statement."""
    found = _VECTOR.match(stmt.text) if isinstance(stmt, ir.Raw) else None
    return None if found is None else (found["name"], found["kind"])


def buffer_size(stmt: ir.Stmt) -> set[str] | None:
    """Return the names in the size of a `std::vector` that is declared for itself; None for any other statement."""
    found = _VECTOR.match(stmt.text) if isinstance(stmt, ir.Raw) else None
    if found is None or not isinstance(stmt, ir.Raw):
        return None
    size = stmt.text[found.end() :].removesuffix(";")
    plain = size.endswith(")") and _PLAIN_SIZE.fullmatch(size) and not _BUSY.search(size)
    return set(_WORD.findall(stmt.text, found.end())) if plain else None


@lru_cache(maxsize=64)
def _pure_functions(head: str) -> frozenset[str]:
    """Return the names of the functions that a file declares inline or constexpr."""
    names: set[str] = set()
    for piece in re.split("[;{}]", head):
        kind = _PURE.search(piece)
        if kind is not None:
            names.update(_CALLED.findall(piece, kind.end()))
    return frozenset(names)


@dataclass(slots=True)
class Scan:
    """Scan of statements in order, which records accesses with subscripts in unique loop symbols."""

    head: str
    """The text before the kernel, which declares constants and vector types."""
    env: dict[str, Poly | None] = field(default_factory=dict)
    """Values of integer names; None where a value is not a polynomial."""
    views: dict[str, tuple[str, Poly]] = field(default_factory=dict)
    """Array and offset of local pointers into an array."""
    dims: dict[str, tuple[Poly | None, ...]] = field(default_factory=dict)
    """Sizes of local arrays, by name."""
    reassigned: set[str] = field(default_factory=set)
    """Scalars that are assigned after their declaration."""
    spans: dict[str, Span] = field(default_factory=dict)
    """Ranges of loop variables, by symbol."""
    symbol_of: dict[str, str] = field(default_factory=dict)
    """The symbol of each open loop variable."""
    loops: tuple[str, ...] = ()
    """Symbols of the open loops, outermost first."""
    accesses: list[ArrayAccess] = field(default_factory=list)
    """Accesses so far."""
    writes: list[tuple[str, str | None]] = field(default_factory=list)
    """Written scalars, each with the operator of its update or None."""
    reads: list[str] = field(default_factory=list)
    """Scalars that are read other than by their own updates."""
    local: set[str] = field(default_factory=set)
    """Names that the scanned statements declare."""
    uses: dict[str, int] = field(default_factory=dict)
    """How often the body of a loop names its variable."""
    blocked: bool = False
    """True where a statement was not understood."""

    @staticmethod
    def start(program: ir.Program) -> Scan:
        """Return a scan that knows the sizes and constants of a program."""
        scan = Scan(program.head)
        for name in constants(program.head):
            scan.env[name] = Poly.symbol(name)
        for param in program.params:
            if not param.pointer:
                scan.env[param.name] = Poly.symbol(param.name)
        targets = (s.target for s in ir.walk_stmts(program.body) if isinstance(s, ir.Assign))
        scan.reassigned = {t.name for t in targets if isinstance(t, ir.Var)}
        for name in scan.reassigned:
            scan.env[name] = None
        return scan

    def body(self, stmts: tuple[ir.Stmt, ...]) -> None:
        """Scan statements in a scope of their own."""
        env, views = dict(self.env), dict(self.views)
        for stmt in stmts:
            self.stmt(stmt)
        self.env, self.views = env, views

    def stmt(self, stmt: ir.Stmt) -> None:
        """Scan one statement."""
        reduction = reduction_of(stmt)
        match stmt:
            case ir.Raw():
                self._buffer(stmt)
            case ir.For():
                self.enter(stmt)
                self.body(stmt.body)
                self.loops = self.loops[:-1]
            case _ if reduction is not None:
                target, op, value = reduction
                self.write(target, op)
                self.read(value)
            case ir.If():
                self.read(stmt.cond)
                self.body(stmt.then)
                self.body(stmt.orelse)
            case ir.Block():
                self.body(stmt.body)
            case _:
                self.simple(stmt)

    def _buffer(self, stmt: ir.Raw) -> None:
        """Record a local `std::vector`; any other text blocks."""
        buffer, names = buffer_of(stmt), buffer_size(stmt)
        if buffer is None or names is None:
            self.blocked = True
            return
        self.reads += sorted(names)
        self.local.add(buffer[0])
        self.env[buffer[0]] = None
        self.views.pop(buffer[0], None)
        self.dims.pop(buffer[0], None)

    def simple(self, stmt: ir.Stmt) -> None:
        """Scan a statement without nested statements."""
        match stmt:
            case ir.Decl():
                self.declare(stmt)
            case ir.Assign():
                self.read(stmt.value)
                if stmt.op != "=":
                    self.read(stmt.target)
                self.write(stmt.target, None)
            case ir.ExprStmt(ir.Call("std::free" | "__builtin_prefetch", _)):
                pass
            case _:
                self.blocked = True

    def enter(self, loop: ir.For) -> None:
        """Open a loop: give its variable a unique symbol and a range."""
        symbol = f"{loop.var}@{len(self.spans)}"
        self.uses[loop.var] = sum(e == ir.Var(loop.var) for e in ir.all_exprs(loop.body))
        low, step = to_poly(loop.lower, self.env), to_poly(loop.step, self.env)
        tile = min_parts(loop.upper)
        floor = floor_parts(loop.upper)
        high = self._last(loop.upper if floor is None else floor[0], step if floor and floor[1] == loop.step else None)
        self.loops = (*self.loops, symbol)
        if low is None or step is None or loop.var in self.reassigned:
            self._open(loop.var, symbol, None, Span(ZERO, ZERO, ONE))
            return
        outer = low.symbols & self.spans.keys()
        value = Poly.symbol(symbol)
        if outer and tile is not None:
            high = self._tile(tile, low, outer)
            self._open(loop.var, symbol, None if high is None else low + value, Span(ZERO, high or ZERO, step))
        elif high is None:
            self._open(loop.var, symbol, None, Span(ZERO, ZERO, ONE))
        elif outer:
            self._open(loop.var, symbol, low + value, Span(ZERO, high - low, step))
        else:
            self._open(loop.var, symbol, value, Span(low, high, step))

    def _open(self, var: str, symbol: str, value: Poly | None, span: Span) -> None:
        self.env[var], self.spans[symbol], self.symbol_of[var] = value, span, symbol

    def _last(self, upper: ir.Expr, step: Poly | None) -> Poly | None:
        bound = to_poly(upper, self.env)
        return None if bound is None else bound - (step or ONE)

    def _tile(self, bounds: tuple[ir.Expr, ir.Expr], low: Poly, outer: set[str]) -> Poly | None:
        """Return the range of a loop over one tile, `v` to `min(v + T, U)`; the tile loop then ends at `U - T`."""
        end, total = to_poly(bounds[0], self.env), to_poly(bounds[1], self.env)
        if end is None or total is None:
            return None
        size = end - low
        if len(outer) != 1 or size.symbols & self.spans.keys():
            return None
        (symbol,) = outer
        span = self.spans[symbol]
        if low != Poly.symbol(symbol) or span.step != size:
            return None
        self.spans[symbol] = Span(span.low, total - size, span.step)
        return size - ONE

    def declare(self, decl: ir.Decl) -> None:
        """Record a local: an integer definition, a view of an array, an array or a scalar."""
        if decl.init is not None:
            self.read(decl.init)
        self.local.add(decl.name)
        self.env[decl.name] = None
        self.views.pop(decl.name, None)
        self.dims[decl.name] = tuple(to_poly(dim, self.env) for dim in decl.dims)
        if decl.init is None or decl.dims:
            return
        if "*" in decl.type:
            self._view(decl)
        elif decl.type.removeprefix("const ") in INDEX_TYPES and decl.name not in self.reassigned:
            self.env[decl.name] = self._integer(decl.init)

    def _integer(self, init: ir.Expr) -> Poly | None:
        clamp = clamp_parts(init)
        if clamp is None:
            return to_poly(init, self.env)
        var, size, total = clamp[0], to_poly(clamp[1], self.env), to_poly(clamp[2], self.env)
        symbol = self.symbol_of.get(var)
        if symbol is None or size is None or total is None or self.spans[symbol].step != size or self.uses[var] != 2:
            return None
        # Overlapped tiles recompute the same values, so the clamped origin stands for the tile's own.
        self.spans[symbol] = Span(self.spans[symbol].low, total - size, size)
        return self.env[var]

    def _view(self, decl: ir.Decl) -> None:
        match decl.init:
            case ir.Binary("+", ir.Var(base), offset) if decl.name not in self.reassigned:
                index = to_poly(offset, self.env)
            case ir.Var(base) if decl.name not in self.reassigned:
                index = ZERO
            case _ if decl.init is not None and any(
                isinstance(e, ir.Call) and e.name == ALLOCATE for e in ir.walk(decl.init)
            ):
                return
            case _:
                self.blocked = True
                return
        outer, start = self.views.get(base, (base, ZERO))
        if index is None:
            self.blocked = True
        else:
            self.local.discard(decl.name)
            self.views[decl.name] = (outer, start + index)

    def write(self, target: ir.Expr, op: str | None) -> None:
        """Record a store."""
        match target:
            case ir.Var(name):
                self.writes.append((name, op))
            case ir.Index() | ir.RefCast():
                self._access(target, op, write=True)
            case _:
                self.blocked = True

    def read(self, expr: ir.Expr) -> None:
        """Record all loads of an expression."""
        match expr:
            case ir.RawExpr():
                self.blocked = True
            case ir.Var(name):
                self.reads.append(name)
            case ir.Index() | ir.RefCast():
                self._access(expr, None, write=False)
            case ir.Call(name, args):
                self.blocked |= not self._pure(name)
                for arg in args:
                    self.read(arg)
            case _:
                for part in _operands(expr):
                    self.read(part)

    def _pure(self, name: str) -> bool:
        known = math_function(name) or extremum(name) or name in {ALLOCATE, "__builtin_assume_aligned"}
        if known or name.startswith(("std::numeric_limits", "std::min", "__builtin_inf", "__builtin_huge")):
            return True
        return name in _pure_functions(self.head)

    def _access(self, expr: ir.Index | ir.RefCast, op: str | None, *, write: bool) -> None:
        target = expr.value if isinstance(expr, ir.RefCast) else expr
        for sub in target.subs:
            self.read(sub)
        lanes = ONE
        if isinstance(expr, ir.RefCast):
            lanes = vector_lanes(self.head, expr.type) or ZERO
        index = self._linear(target)
        array, start = self.views.get(target.base, (target.base, ZERO))
        where = None if index is None or lanes == ZERO else start + index
        self.accesses.append(ArrayAccess(array, where, lanes, write, op, self.loops, expr))

    def _linear(self, target: ir.Index) -> Poly | None:
        index = ZERO
        sizes = (None, *self.dims.get(target.base, ())[1:])
        if len(target.subs) != max(len(sizes), 1):
            return None
        for sub, size in zip(target.subs, sizes, strict=True):
            poly = to_poly(sub, self.env)
            if poly is None:
                return None
            index = (index * size if size is not None else index) + poly
        return index


def _operands(expr: ir.Expr) -> Iterator[ir.Expr]:
    found: list[ir.Expr] = []
    match expr:
        case ir.Ternary(cond, then, orelse):
            found = [cond, then, orelse]
        case ir.Binary(_, left, right):
            found = [left, right]
        case _:
            inner = [e for e in ir.walk(expr)][1:]
            found = [e for e in inner if isinstance(e, (ir.Var, ir.Index, ir.RefCast, ir.RawExpr, ir.Call))]
    yield from found


def vector_lanes(head: str, kind: str) -> Poly | None:
    """Return the lane count of a vector type that the file declares."""
    name = kind.removeprefix("const ").strip()
    found = re.search(rf"\b{re.escape(name)} __attribute__\(\(vector_size\((\w+) \*", head)
    return Poly.symbol(found[1]) if found else None
