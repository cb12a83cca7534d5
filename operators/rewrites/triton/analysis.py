"""Proofs about names in a kernel: reaching definitions, multiples of a block, ranges, masks."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from operators.rewrites.triton.source import (
    LaunchSite,
    TritonKernel,
    TritonModule,
    called,
    dotted,
    keyword_of,
    walk_new,
)

HINTS = ("tl.multiple_of", "tl.max_contiguous")
STORES = ("tl.store",)
RANGES = ("range", "tl.range")


@dataclass(frozen=True, slots=True)
class Bound:
    """A part of a mask: `offset < limit`."""

    compare: ast.Compare
    """The comparison."""
    offset: str
    """The name on its left."""
    limit: ast.expr
    """The expression on its right."""


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of a counted loop."""

    low: ast.expr | None
    """The first value; None for 0."""
    high: ast.expr
    """The end, excluded."""
    step: ast.expr | None
    """The step; None for 1."""


# ---------------------------------------------------------------------------- names


def binds(node: ast.AST, name: str) -> bool:
    """Say whether a statement, or one inside it, gives a name a value that it had not."""
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in walk_new(node))


def reaching(module: TritonModule, use: ast.AST, name: str) -> ast.Assign | ast.For | None:
    """Return the only statement that can define a name at its use; None for several, and for parameters."""
    stmt = module.statement_of(use)
    if isinstance(stmt, ast.AugAssign) and dotted(stmt.target) == name:
        return None
    while not isinstance(stmt, ast.FunctionDef):
        body = module.body_around(stmt)
        for earlier in reversed(body[: body.index(stmt)]):
            if binds(earlier, name):
                return earlier if isinstance(earlier, ast.Assign) else None
        outer = module.parents[stmt]
        if isinstance(outer, ast.For | ast.While):
            if isinstance(outer, ast.For) and binds(outer.target, name):
                return outer if not any(binds(part, name) for part in outer.body) else None
            if binds(outer, name):
                return None  # the round before may have set it
        if not isinstance(outer, ast.stmt):
            return None
        stmt = outer
    return None


def value_of(module: TritonModule, use: ast.AST, name: str) -> ast.expr | None:
    """Return the expression that a plain `name = expression` gave the name at its use."""
    stmt = reaching(module, use, name)
    if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], ast.Name):
        return stmt.value
    return None


def unwrap(node: ast.expr) -> ast.expr:
    """Return the expression inside `tl.multiple_of` and `tl.max_contiguous`."""
    while isinstance(node, ast.Call) and called(node, *HINTS) and node.args:
        node = node.args[0]
    return node


def spread(node: ast.expr) -> ast.expr:
    """Return the expression behind an indexing that only adds axes, such as `rows[:, None]`."""
    if isinstance(node, ast.Subscript):
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if all(isinstance(i, ast.Slice) or (isinstance(i, ast.Constant) and i.value is None) for i in items):
            return node.value
    return node


def range_of(loop: ast.For) -> Range | None:
    """Return the bounds of a `range` or `tl.range` loop with one loop variable."""
    if not isinstance(loop.iter, ast.Call) or not called(loop.iter, *RANGES) or not isinstance(loop.target, ast.Name):
        return None
    args = loop.iter.args
    if not 1 <= len(args) <= 3 or any(isinstance(arg, ast.Starred) for arg in args):
        return None
    low, step = args[0] if len(args) > 1 else None, args[2] if len(args) > 2 else None
    high = args[0] if low is None else args[1]
    return Range(None if isinstance(low, ast.Constant) and low.value == 0 else low, high, step)


def loops(kernel: TritonKernel) -> list[tuple[ast.For, str]]:
    """Return the counted loops of a kernel in source order, with their names for people."""
    found = sorted((n for n in ast.walk(kernel.node) if isinstance(n, ast.For) and range_of(n)), key=lambda n: n.lineno)
    return [(loop, f"{kernel.name} loop {number} over {ast.unparse(loop.target)}") for number, loop in enumerate(found)]


def calls(kernel: TritonKernel, *names: str) -> list[ast.Call]:
    """Return the calls of these functions in source order."""
    found = [n for n in ast.walk(kernel.node) if isinstance(n, ast.Call) and called(n, *names)]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def loop_around(module: TritonModule, node: ast.AST) -> ast.For | None:
    """Return the innermost counted loop around a node."""
    return next((s for s in module.enclosing(node) if isinstance(s, ast.For) and range_of(s)), None)


def terms(node: ast.expr) -> list[ast.expr]:
    """Return the parts of a sum, left to right."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*terms(node.left), *terms(node.right)]
    return [node]


def pointer(access: ast.Call) -> ast.expr | None:
    """Return the pointer that a load or store is given."""
    return access.args[0] if access.args else keyword_of(access, "pointer")


def base_pointer(module: TritonModule, use: ast.AST, node: ast.expr) -> str:
    """Return the parameter that a pointer expression starts from; empty where it is not known."""
    first = terms(node)[0]
    if not isinstance(first, ast.Name):
        return ""
    value = value_of(module, use, first.id)
    return base_pointer(module, module.statement_of(value), value) if value is not None else first.id


def labels(module: TritonModule, accesses: list[ast.Call]) -> list[str]:
    """Return labels of loads and stores: kind and base pointer, numbered where they are equal."""
    seen: dict[str, int] = {}
    words = []
    for access in accesses:
        where = pointer(access)
        base = base_pointer(module, access, where) if where is not None else ""
        word = f"{dotted(access.func).removeprefix('tl.')} {base}".strip()
        seen[word] = seen.get(word, 0) + 1
        words.append(word if seen[word] == 1 else f"{word} {seen[word]}")
    return words


# ---------------------------------------------------------------------------- block offsets


def multiple_of(module: TritonModule, use: ast.AST, node: ast.expr, block: str) -> bool:
    """Say whether an expression is provably a multiple of a constexpr."""
    match node:
        case ast.Constant(value=0):
            return True
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return multiple_of(module, use, left, block) or multiple_of(module, use, right, block)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return multiple_of(module, use, left, block) and multiple_of(module, use, right, block)
        case ast.Name(id=name):
            return name == block or _multiple_name(module, use, name, block)
    return False


def _multiple_name(module: TritonModule, use: ast.AST, name: str, block: str) -> bool:
    stmt = reaching(module, use, name)
    if isinstance(stmt, ast.For):
        bounds = range_of(stmt)
        if bounds is None or bounds.step is None:
            return False
        parts = [part for part in (bounds.low, bounds.step) if part is not None]
        return all(multiple_of(module, stmt, part, block) for part in parts)
    value = value_of(module, use, name)
    return stmt is not None and value is not None and multiple_of(module, stmt, value, block)


def block_offset(module: TritonModule, use: ast.AST, node: ast.expr) -> tuple[ast.expr | None, str] | None:
    """Return the start and block of `start + tl.arange(0, BLOCK)`; the start is a multiple of BLOCK, None for 0."""
    node = unwrap(node)
    if isinstance(node, ast.Name):
        stmt, value = reaching(module, use, node.id), value_of(module, use, node.id)
        return block_offset(module, stmt, value) if stmt is not None and value is not None else None
    parts = terms(node)
    block = arange_block(parts[-1])
    if block is None or len(parts) > 2:
        return None
    if len(parts) == 1:
        return None, block
    return (parts[0], block) if multiple_of(module, use, parts[0], block) else None


def arange_block(node: ast.expr) -> str | None:
    """Return BLOCK of `tl.arange(0, BLOCK)`."""
    match node:
        case ast.Call(args=[ast.Constant(value=0), ast.Name(id=block)]) if called(node, "tl.arange"):
            return block
    return None


# ---------------------------------------------------------------------------- masks


def conjuncts(module: TritonModule, use: ast.AST, mask: ast.expr | None) -> Iterator[ast.expr]:
    """Yield the parts that a mask joins by `&`, those behind names included."""
    match mask:
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            yield from conjuncts(module, use, left)
            yield from conjuncts(module, use, right)
        case ast.Name(id=name):
            stmt, value = reaching(module, use, name), value_of(module, use, name)
            if stmt is not None and value is not None:
                yield from conjuncts(module, stmt, value)
        case ast.expr():
            yield mask


def bounds_of(module: TritonModule, access: ast.Call) -> list[Bound]:
    """Return the comparisons `offset < limit` in the mask of a load or store."""
    mask = keyword_of(access, "mask") or next(iter(access.args[2 if called(access, *STORES) else 1 :]), None)
    found = []
    for part in conjuncts(module, access, mask):
        compare = spread(part)
        if isinstance(compare, ast.Compare) and len(compare.ops) == 1 and isinstance(compare.ops[0], ast.Lt):
            offset = spread(compare.left)
            if isinstance(offset, ast.Name):
                found.append(Bound(compare, offset.id, compare.comparators[0]))
    return found


# ---------------------------------------------------------------------------- ranges


def in_range(module: TritonModule, kernel: TritonKernel, start: ast.expr, *, limit: ast.expr, block: str) -> bool:
    """Say whether a start that is a multiple of BLOCK is provably below a limit, in every launch of the kernel.

    A loop over `range(..., limit, BLOCK)` proves it, and `index * BLOCK` for an index that the grid, a loop or a
    remainder keeps below `cdiv(limit, BLOCK)`.
    """
    launches = module.launches_of(kernel)
    return bool(launches) and all(
        _start_below(module, launch, start, canonical(module, launch, limit, limit), block) for launch in launches
    )


def _start_below(module: TritonModule, launch: LaunchSite, start: ast.expr, limit: tuple[str, ...], block: str) -> bool:
    match start:
        case ast.Name(id=name):
            stmt, value = reaching(module, start, name), value_of(module, start, name)
            if isinstance(stmt, ast.For):
                bounds = range_of(stmt)
                return bounds is not None and canonical(module, launch, stmt, bounds.high) == limit
            return value is not None and _start_below(module, launch, value, limit, block)
        case ast.BinOp(left=index, op=ast.Mult(), right=ast.Name(id=name)) if name == block:
            pass
        case ast.BinOp(left=ast.Name(id=name), op=ast.Mult(), right=index) if name == block:
            pass
        case _:
            return False
    size = canonical(module, launch, start, ast.Name(block))
    return below(module, launch, index, (f"cdiv({'*'.join(limit)},{'*'.join(size)})",))


def below(module: TritonModule, launch: LaunchSite, node: ast.expr, limit: tuple[str, ...]) -> bool:
    """Say whether an index is provably below a product of canonical factors."""
    match node:
        case ast.Call(args=[ast.Constant(value=int(axis))]) if called(node, "tl.program_id"):
            grid = launch.grid.elts if isinstance(launch.grid, ast.Tuple) else []
            return axis < len(grid) and _host(launch, grid[axis]) == limit
        case ast.BinOp(op=ast.Mod(), right=right):
            return canonical(module, launch, node, right) == limit
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
            return below(module, launch, left, tuple(sorted([*limit, *canonical(module, launch, node, right)])))
        case ast.Name(id=name):
            return _name_below(module, launch, reaching(module, node, name), name, limit)
    return False


def _name_below(
    module: TritonModule, launch: LaunchSite, stmt: ast.Assign | ast.For | None, name: str, limit: tuple[str, ...]
) -> bool:
    match stmt:
        case ast.For():
            bounds = range_of(stmt)
            return bounds is not None and canonical(module, launch, stmt, bounds.high) == limit
        case ast.Assign(targets=[ast.Name()], value=value):
            return below(module, launch, value, limit)
        case ast.Assign(targets=[ast.Tuple(elts=elts)], value=ast.Call(args=args) as call):
            if called(call, "tl.swizzle2d") and len(args) == 5 and len(elts) == 2:
                size = args[2] if dotted(elts[0]) == name else args[3]
                return canonical(module, launch, stmt, size) == limit
    return False


def canonical(module: TritonModule, launch: LaunchSite, use: ast.AST, node: ast.expr) -> tuple[str, ...]:
    """Return the factors of a kernel's number in the host's terms, sorted: equal for provably equal expressions."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            factors = [*canonical(module, launch, use, left), *canonical(module, launch, use, right)]
            return tuple(sorted(factors))
        case ast.Call(args=[size, block]) if called(node, "tl.cdiv", "triton.cdiv"):
            above, under = (canonical(module, launch, use, part) for part in (size, block))
            return (f"cdiv({'*'.join(above)},{'*'.join(under)})",)
        case ast.Name(id=name) if name in module.kernels[launch.kernel].params:
            argument = module.argument_of(launch, name)
            if argument is not None and not binds(module.kernels[launch.kernel].node, name):
                return _host(launch, argument)
        case ast.Name(id=name):
            stmt, value = reaching(module, use, name), value_of(module, use, name)
            if stmt is not None and value is not None:
                return canonical(module, launch, stmt, value)
    return (f"kernel:{ast.unparse(node)}@{getattr(module.statement_of(use), 'lineno', 0)}",)


def _host(launch: LaunchSite, node: ast.expr) -> tuple[str, ...]:
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return tuple(sorted([*_host(launch, left), *_host(launch, right)]))
        case ast.Call(args=[size, block]) if called(node, "tl.cdiv", "triton.cdiv"):
            return (f"cdiv({'*'.join(_host(launch, size))},{'*'.join(_host(launch, block))})",)
        case ast.Name(id=name):
            assigned = [n for n in ast.walk(launch.function) if isinstance(n, ast.Assign) and binds(n, name)]
            if len(assigned) == 1 and isinstance(assigned[0].targets[0], ast.Name):
                return _host(launch, assigned[0].value)
    return (ast.unparse(node),)
