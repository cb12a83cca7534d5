"""Rectangular tiles of a row-major matrix: the loads and stores that touch one and guard exactly its edges."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from operators.rewrites.triton.source import (
    LaunchSite,
    TritonKernel,
    TritonModule,
    called,
    dotted,
    keyword_of,
    names_in,
    same,
)
from operators.rewrites.triton.structure import bound_names, calls

_SCALAR_CALLS = ("tl.program_id", "tl.num_programs", "tl.cdiv", "tl.minimum", "tl.maximum", "min", "max")
_HINTS = ("tl.multiple_of", "tl.max_contiguous", "tl.max_constancy")
_HARMLESS = {"mask", "other", "eviction_policy", "cache_modifier"}
"""Arguments of a load or store that a hardware copy honours, or may ignore with the same result."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One side of a tile: indices `start + arange(0, block)`, of which those below `bound` exist."""

    start: ast.expr | None
    """The first index; None for zero."""
    block: str
    """The constexpr of its length."""
    bound: ast.expr
    """The size of the matrix along it."""
    stride: ast.expr | None
    """Elements from one index to the next; None for one."""
    wide: bool
    """True where the start is computed in 64 bits."""


@dataclass(frozen=True, slots=True)
class TileAccess:
    """A load or store of `base[rows, cols]`."""

    call: ast.Call
    """The load or store."""
    base: str
    """The parameter of the matrix."""
    rows: Axis
    """The side along the rows of the memory."""
    cols: Axis
    """The side along its columns."""
    turned: bool
    """True where the rows of the value are the columns of the memory."""

    @property
    def stores(self) -> bool:
        """Say whether the tile is written."""
        return called(self.call, "tl.store")


class TileReader:
    """Reader of the tiles of one kernel."""

    def __init__(self, module: TritonModule, kernel: TritonKernel) -> None:
        self._module, self._kernel = module, kernel
        bound = bound_names(kernel.node)
        self._values: dict[str, list[ast.expr]] = {}
        for node in ast.walk(kernel.node):
            if isinstance(node, (ast.Assign, ast.AugAssign)):
                for name in bound_names(node):
                    self._values.setdefault(name, []).append(node.value)
        self._defined: Mapping[str, ast.expr] = {
            name: values[0]
            for name, values in self._values.items()
            if len(values) == 1 and bound[name] == 1 and name not in kernel.params
        }
        self._numbers = {name for name in _numbers(kernel.node) if bound[name] == 1}

    def tiles(self) -> Iterator[TileAccess]:
        """Yield the tiles that are the only memory access of a simple statement, in source order."""
        accesses = [call for call in calls(self._kernel.node) if called(call, "tl.load", "tl.store")]
        accesses.sort(key=self._module.span)
        for call in accesses:
            stmt = self._module.statement_of(call)
            alone = sum(other in accesses for other in calls(stmt)) == 1
            if alone and isinstance(stmt, (ast.Assign, ast.AugAssign, ast.Expr)):
                tile = self._tile(call)
                if tile is not None and not self._both_ways(tile, accesses):
                    yield tile

    def reaches(self, expr: ast.expr) -> frozenset[str]:
        """Return the kernel parameters that an expression is computed from."""
        seen: set[str] = set()
        todo = set(names_in(expr))
        while todo:
            name = todo.pop()
            seen.add(name)
            todo |= {n for value in self._values.get(name, ()) for n in names_in(value)} - seen
        return frozenset(seen & set(self._kernel.params))

    def _both_ways(self, tile: TileAccess, accesses: list[ast.Call]) -> bool:
        """Say whether the kernel reads and writes this tensor: hardware copies and plain accesses are not ordered."""
        atomic = [call for call in calls(self._kernel.node) if dotted(call.func).startswith("tl.atomic")]
        other = [call for call in accesses if called(call, "tl.store") != tile.stores]
        return any(tile.base in self.reaches(call.args[0]) for call in [*atomic, *other] if call.args)

    def _tile(self, call: ast.Call) -> TileAccess | None:
        if len(call.args) != (2 if called(call, "tl.store") else 1):
            return None
        mask, other = keyword_of(call, "mask"), keyword_of(call, "other")
        zero = other is None or (isinstance(other, ast.Constant) and other.value == 0)
        if mask is None or not zero or not {keyword.arg for keyword in call.keywords} <= _HARMLESS:
            return None
        bounds = self._bounds(mask)
        pointers: list[str] = []
        axes: dict[int, Axis] = {}
        for term in self._sum(call.args[0]):
            index, stride = self._scaled(term)
            side = _side(index)
            if side is None:
                pointers.append(dotted(term))
                continue
            axis = self._axis(index, stride, bounds.pop(side, None))
            if axis is None or side in axes:
                return None
            axes[side] = axis
        if bounds or len(axes) != 2 or len(pointers) != 1 or not self._is_pointer(pointers[0]):
            return None
        return _oriented(call, pointers[0], axes[0], axes[1])

    def _is_pointer(self, name: str) -> bool:
        params, constexprs = self._kernel.params, self._kernel.constexprs
        return name in params and name not in constexprs and name not in self._values

    def _resolved(self, expr: ast.expr) -> ast.expr:
        """Return the expression of a name, through layout hints and widening."""
        while True:
            if isinstance(expr, ast.Name) and expr.id in self._defined:
                expr = self._defined[expr.id]
            elif isinstance(expr, ast.Call) and called(expr, *_HINTS) and expr.args:
                expr = expr.args[0]
            elif isinstance(expr, ast.Call) and _widens(expr) and isinstance(expr.func, ast.Attribute):
                expr = expr.func.value
            else:
                return expr

    def _sum(self, expr: ast.expr) -> list[ast.expr]:
        inner = self._resolved(expr)
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add):
            return [*self._sum(inner.left), *self._sum(inner.right)]
        return [inner if _side(self._scaled(inner)[0]) is not None else expr]

    def _scaled(self, expr: ast.expr) -> tuple[ast.expr, ast.expr | None]:
        """Return the index and stride of `index * stride`, in either order."""
        if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Mult):
            for index, stride in ((expr.left, expr.right), (expr.right, expr.left)):
                if _side(index) is not None:
                    return index, stride
        return expr, None

    def _bounds(self, mask: ast.expr) -> dict[int, tuple[ast.expr, ast.expr]]:
        """Return the index and bound of each side; side -1 stands for anything but such a comparison."""
        mask = self._resolved(mask)
        if isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.BitAnd):
            left, right = self._bounds(mask.left), self._bounds(mask.right)
            return {-1: (mask, mask)} if left.keys() & right.keys() else left | right
        mask = self._checked(mask)
        if isinstance(mask, ast.Compare) and len(mask.ops) == 1 and isinstance(mask.ops[0], ast.Lt):
            side = _side(mask.left)
            if side is not None:
                return {side: (mask.left, mask.comparators[0])}
        return {-1: (mask, mask)}

    def _checked(self, mask: ast.expr) -> ast.expr:
        """Return the comparison of `comparison | FLAG`, if launches set the flag only where blocks divide the bound."""
        match mask:
            case ast.BinOp(left=ast.Compare(comparators=[bound]) as compare, op=ast.BitOr(), right=ast.Name(id=flag)):
                launches = self._module.launches_of(self._kernel)
                if flag not in self._values and all(self._divides(launch, flag, bound) for launch in launches):
                    return compare
        return mask

    def _divides(self, launch: LaunchSite, flag: str, bound: ast.expr) -> bool:
        """Say whether a flag is `bound % anything == 0`: then a block of that size has no edge."""
        passed = self._module.argument_of(launch, flag)
        match passed:
            case ast.Compare(
                left=ast.BinOp(left=left, op=ast.Mod()), ops=[ast.Eq()], comparators=[ast.Constant(value=0)]
            ):
                return same(left, self._module.argument_of(launch, dotted(bound)))
        return False

    def _axis(self, index: ast.expr, stride: ast.expr | None, guard: tuple[ast.expr, ast.expr] | None) -> Axis | None:
        assert isinstance(index, ast.Subscript)
        if guard is None or not same(guard[0], index) or not self._invariant(guard[1]):
            return None
        if stride is not None and not self._invariant(stride):
            return None
        ranges: list[ast.Call] = []
        starts: list[ast.expr] = []
        for term in _summands(self._resolved(index.value)):
            inner = self._resolved(term)
            if isinstance(inner, ast.Call) and called(inner, "tl.arange"):
                ranges.append(inner)
            else:
                starts.append(term)
        if len(ranges) != 1 or len(starts) > 1 or not all(self._scalar(start) for start in starts):
            return None
        low, high = ranges[0].args
        if not (isinstance(low, ast.Constant) and low.value == 0 and dotted(high) in self._kernel.constexprs):
            return None
        start = starts[0] if starts else None
        return Axis(start, dotted(high), guard[1], stride, start is not None and self._wide(start))

    def _invariant(self, expr: ast.expr) -> bool:
        """Say whether an expression can be evaluated at the top of the kernel and, for the launch, on the host."""
        fixed = (set(self._kernel.params) | set(self._module.constants)) - self._values.keys()
        plain = (ast.Name, ast.Constant, ast.BinOp, ast.operator, ast.expr_context)
        return names_in(expr) <= fixed and all(isinstance(node, plain) for node in ast.walk(expr))

    def _scalar(self, expr: ast.expr) -> bool:
        if isinstance(expr, ast.Constant):
            return True
        if isinstance(expr, ast.Name):
            if expr.id in self._defined and expr.id not in self._numbers:
                return self._scalar(self._defined[expr.id])
            known = (set(self._kernel.params) | set(self._module.constants)) - self._values.keys()
            return expr.id in known | self._numbers
        if isinstance(expr, ast.BinOp):
            return self._scalar(expr.left) and self._scalar(expr.right)
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute) and _widens(expr):
            return self._scalar(expr.func.value)
        return called(expr, *_SCALAR_CALLS) and isinstance(expr, ast.Call) and all(map(self._scalar, expr.args))

    def _wide(self, expr: ast.expr) -> bool:
        inner = [self._defined[name] for name in names_in(expr) if name in self._defined]
        return any(_widens(call) for call in calls(expr)) or any(self._wide(value) for value in inner)


def _numbers(kernel: ast.FunctionDef) -> Iterator[str]:
    """Yield loop counters, and names that an unpacked `tl.swizzle2d` binds."""
    for node in ast.walk(kernel):
        if isinstance(node, ast.For) and called(node.iter, "range", "tl.range", "tl.static_range"):
            yield dotted(node.target)
        elif isinstance(node, ast.Assign) and called(node.value, "tl.swizzle2d"):
            yield from bound_names(node)


def _widens(call: ast.Call) -> bool:
    return ast.unparse(call).endswith(".to(tl.int64)")


def _summands(expr: ast.expr) -> list[ast.expr]:
    """Return the two sides of a sum, split where one of them is the range; the rest stays as written."""
    return [expr.left, expr.right] if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Add) else [expr]


def _side(expr: ast.expr) -> int | None:
    """Return 0 for `x[:, None]`, 1 for `x[None, :]`."""
    if not isinstance(expr, ast.Subscript) or not isinstance(expr.slice, ast.Tuple) or len(expr.slice.elts) != 2:
        return None
    for side in (0, 1):
        kept, new = expr.slice.elts[side], expr.slice.elts[1 - side]
        if ast.unparse(kept) == ":" and isinstance(new, ast.Constant) and new.value is None:
            return side
    return None


def _oriented(call: ast.Call, base: str, down: Axis, across: Axis) -> TileAccess | None:
    """Return the tile with the axis of consecutive elements as its columns."""
    if down.stride is not None:  # where both have one, the launch decides whether one of them is 1
        return TileAccess(call, base, down, across, turned=False)
    return TileAccess(call, base, across, down, turned=True) if across.stride is not None else None
