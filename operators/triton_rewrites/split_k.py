"""A long sum split between programs: each sums a share of the blocks, a second kernel adds the shares and finishes."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass

from operators.triton_rewrites.analysis import range_of
from operators.triton_rewrites.base import Site
from operators.triton_rewrites.edits import Edits
from operators.triton_rewrites.source import Kernel, Launch, Module, called, dotted, fresh, keyword_of, names_in
from operators.triton_rewrites.structure import (
    bound_names,
    carried,
    code_of,
    device_tensor,
    fresh_in,
    has_effect,
    import_torch,
    only_launch,
    read_names,
    single,
    updated,
)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A kernel of the form: set up, sum over blocks into an accumulator of zeros, finish."""

    kernel: Kernel
    launch: Launch
    grid: Sequence[ast.expr]
    loop: ast.For
    total: str
    shape: Sequence[str]
    """Constexprs that give the accumulator's sizes."""
    finish: Sequence[ast.stmt]


class SplitK:
    """Share the blocks of a sum out over a further axis of the grid: more programs where the output has few tiles.

    Each program leaves its partial sums in a workspace of its own, tile by tile. A second kernel, which is the first
    one with the loop replaced, adds them in a fixed order: two calls give the same bits.
    """

    name = "split_k"

    def sites(self, module: Module) -> list[Site]:
        """One per kernel of that form."""
        found = [_sum(module, kernel) for kernel in module.kernels.values()]
        return [Site(f"{one.kernel.name}: {one.total}", (one.kernel.name,)) for one in found if one is not None]

    def apply(self, module: Module, site: Site) -> str:
        """The source with the sum in two kernels."""
        found = _sum(module, module.kernels[str(site.detail[0])])
        assert found is not None
        kernel, loop = found.kernel, found.loop
        names = _Names(*(fresh_in(kernel.node, name) for name in ("partial", "split", "shares", "SPLIT_K")))
        edits = Edits(module)
        import_torch(edits)
        splits = edits.add_constant("SPLIT_K", 4, (2, 3, 4, 6, 8, 12, 16))
        combine = _combining(found, fresh(module, f"{kernel.name}_combine"), names)
        edits.insert_after(kernel.node, ["", "", *ast.unparse(combine).split("\n")])
        _launch_twice(edits, found, combine, names, splits)
        low, _, step = _bounds(loop)
        edits.replace(low, f"{names.split} * {module.grouped(step)}")
        edits.replace(step, f"{names.count} * {module.grouped(step)}")
        edits.insert_before(loop, [f"{names.split} = tl.program_id({len(found.grid)})"])
        before = code_of(kernel)[: code_of(kernel).index(loop)]
        kept = _needed(before, read_names(loop))
        for stmt in before:
            if stmt not in kept:
                edits.replace_lines(stmt, stmt, [])
        share = f"tl.store({names.shares} + {names.split} * {_size(found)}, {found.total})"
        edits.replace_lines(found.finish[0], found.finish[-1], [*_shares(found, names), share])
        return edits.result()


@dataclass(frozen=True, slots=True)
class _Names:
    partial: str
    split: str
    shares: str
    count: str


def _sum(module: Module, kernel: Kernel) -> _Sum | None:
    launch, body = only_launch(module, kernel), code_of(kernel)
    loops = [node for node in ast.walk(kernel.node) if isinstance(node, (ast.For, ast.While))]
    if launch is None or len(loops) != 1 or loops[0] not in body or not isinstance(loops[0], ast.For):
        return None
    if kernel.node.args.defaults or any(isinstance(node, (ast.Return, ast.Lambda)) for node in ast.walk(kernel.node)):
        return None
    loop = loops[0]
    before, finish = body[: body.index(loop)], body[body.index(loop) + 1 :]
    sums = [added for stmt in loop.body if (added := updated(stmt)) is not None]
    grid = launch.grid.elts if isinstance(launch.grid, ast.Tuple) else []
    statement = (
        isinstance(module.parents[launch.call], ast.Expr) and module.statement_of(launch.call) in module.run.body
    )
    if not statement or not 1 <= len(grid) <= 2 or any(isinstance(size, ast.Starred) for size in grid):
        return None
    for total, summand in sums:
        shape = _zeros(kernel, before, total)
        if shape and _splits(loop, before, finish, total, summand) and device_tensor(module, kernel, launch):
            return _Sum(kernel, launch, grid, loop, total, shape, finish)
    return None


def _splits(
    loop: ast.For, before: Sequence[ast.stmt], finish: Sequence[ast.stmt], total: str, summand: ast.expr
) -> bool:
    """Whether the rounds of the loop have nothing in common but the total they add to."""
    if len(loop.iter.args if isinstance(loop.iter, ast.Call) else ()) != 3 or loop.orelse:
        return False
    bounds = range_of(loop)
    inside = bound_names(loop)
    reads = [stmt for stmt in loop.body if total in read_names(stmt)]
    return (
        bounds is not None
        and bounds.low is None
        and not any(has_effect(stmt, loads=False) for stmt in [*before, loop])
        and not any(isinstance(node, (ast.Break, ast.Continue)) for node in ast.walk(loop))
        and inside[total] == len(reads) == 1
        and total not in names_in(summand)
        and inside.keys() & bound_names(*before).keys() == {total}
        and not carried(loop) - {total}
        and not (inside.keys() - {total}) & read_names(*finish)
        and total in read_names(*finish)
    )


def _zeros(kernel: Kernel, before: Sequence[ast.stmt], total: str) -> list[str]:
    """The sizes of the fp32 zeros that a name is bound to, once; empty for anything else."""
    values = [plain[1] for stmt in before if (plain := single(stmt)) and plain[0] == total]
    if len(values) != 1 or bound_names(*before)[total] != 1:
        return []
    match values[0]:
        case ast.Call(args=[ast.Tuple(elts=sizes) | ast.List(elts=sizes), *rest]) as call if called(call, "tl.zeros"):
            dtype = rest[0] if rest else keyword_of(call, "dtype")
            named = all(dotted(size) in kernel.constexprs for size in sizes)
            return [dotted(size) for size in sizes] if named and len(sizes) <= 2 and _fp32(dtype) else []
    return []


def _fp32(dtype: ast.expr | None) -> bool:
    return dtype is not None and dotted(dtype) == "tl.float32"


def _bounds(loop: ast.For) -> tuple[ast.expr, ast.expr, ast.expr]:
    assert isinstance(loop.iter, ast.Call)
    low, high, step = loop.iter.args
    return low, high, step


def _size(found: _Sum) -> str:
    return f"({' * '.join(found.shape)})" if len(found.shape) > 1 else found.shape[0]


def _shares(found: _Sum, names: _Names) -> list[str]:
    """Pointers to a tile's first share; the workspace is [tile][share][element of the tile]."""
    tile = "tl.program_id(0)"
    if len(found.grid) > 1:
        tile = f"({tile} + tl.program_id(1) * tl.num_programs(0))"
    if len(found.shape) > 1:
        rows, cols = found.shape
        lanes = f"tl.arange(0, {rows})[:, None] * {cols} + tl.arange(0, {cols})[None, :]"
    else:
        lanes = f"tl.arange(0, {found.shape[0]})"
    lines = [f"{names.shares} = {names.partial} + tl.cast({tile}, tl.int64) * {names.count} * {_size(found)}"]
    return [*lines, f"{names.shares} += {lanes}"]


def _combining(found: _Sum, name: str, names: _Names) -> ast.FunctionDef:
    """The kernel that adds the shares: the first one with another loop, without what only the old loop needed."""
    kernel = found.kernel
    body = code_of(kernel)
    before = _needed(body[: body.index(found.loop)], read_names(*found.finish) | {found.total})
    loop = (
        "\n".join(_shares(found, names)) + "\n"
        f"for {names.split} in range({names.count}):\n"
        f"    {found.total} += tl.load({names.shares} + {names.split} * {_size(found)})"
    )
    text = f'"""Adds the shares of a tile and finishes it."""\n{loop}'
    doc, *adding = ast.parse(text).body
    made = copy.deepcopy(kernel.node)
    made.name = name
    made.body = [doc, *before, *adding, *found.finish]
    used = set().union(*(names_in(stmt) for stmt in made.body))
    made.args.args = [argument for argument in made.args.args if argument.arg in used]
    made.args.args.append(ast.arg(names.partial))
    made.args.args.append(ast.arg(names.count, ast.parse("tl.constexpr", mode="eval").body))
    return made


def _needed(stmts: Sequence[ast.stmt], wanted: frozenset[str]) -> list[ast.stmt]:
    """The statements that give the wanted names their values."""
    kept: list[ast.stmt] = []
    for stmt in reversed(stmts):
        if bound_names(stmt).keys() & wanted:
            kept.append(stmt)
            wanted |= read_names(stmt)
    return kept[::-1]


def _launch_twice(edits: Edits, found: _Sum, combine: ast.FunctionDef, names: _Names, splits: str) -> None:
    module, launch, kernel = edits.module, found.launch, found.kernel
    stmt = module.statement_of(launch.call)
    sizes = [module.segment(size) for size in found.grid]
    partial = fresh_in(module.run, names.partial)
    tiles = " * ".join(map(module.grouped, found.grid))
    blocks = [module.argument_of(launch, size) for size in found.shape]
    shape = ", ".join([tiles, splits, *(module.segment(block) for block in blocks if block is not None)])
    device = device_tensor(module, kernel, launch)
    memory = f"{partial} = torch.empty(({shape}), dtype=torch.float32, device={device}.device)"
    edits.insert_before(stmt, [memory])
    own = {names.partial: partial, names.count: splits}
    passed = [own.get(argument.arg) or _argument(module, launch, argument.arg) for argument in combine.args.args]
    options = [module.segment(option) for option in launch.call.keywords if option.arg not in kernel.params]
    grid = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    edits.insert_after(stmt, [f"{combine.name}[{grid}]({', '.join([*passed, *options])})"])
    edits.replace(launch.grid, f"({', '.join([*sizes, splits])})")
    edits.add_parameter(kernel, names.partial, constexpr=False, argument=partial)
    edits.add_parameter(kernel, names.count, constexpr=True, argument=splits)


def _argument(module: Module, launch: Launch, param: str) -> str:
    argument = module.argument_of(launch, param)
    assert argument is not None
    return module.segment(argument)
