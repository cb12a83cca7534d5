"""The second kernel of a split sum: it adds the shares of each tile in a fixed order and finishes the tile."""

import ast
import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from operators.rewrites.triton.analysis import HINTS, arange_block, base_pointer, pointer, unwrap
from operators.rewrites.triton.source import LaunchSite, TritonKernel, TritonModule, called, dotted, names_in, same
from operators.rewrites.triton.structure import bound_names, calls, code_of, read_names

_ROW_BY_ROW = re.compile(
    r"min|max|tl\.(program_id|num_programs|swizzle2d|cdiv|arange|zeros|full|load|store|where|maximum|minimum|cast"
    r"|multiple_of|max_contiguous|exp|exp2|log|log2|sqrt|rsqrt|abs|sigmoid|fma)"
)
"""Functions whose result for a row of a tile depends on that row alone."""


@dataclass(frozen=True, slots=True)
class SharedSum:
    """A kernel of three parts: set-up, a sum over blocks into an accumulator of zeros, the rest."""

    module: TritonModule
    """The source."""
    kernel: TritonKernel
    """The kernel in it."""
    launch: LaunchSite
    """Its only launch."""
    grid: Sequence[ast.expr]
    """Sizes of the grid, one an axis."""
    loop: ast.For
    """The loop over blocks."""
    total: str
    """The name of the accumulator."""
    shape: Sequence[str]
    """Constexprs of the accumulator's sizes."""
    finish: Sequence[ast.stmt]
    """The statements behind the loop."""

    @property
    def size(self) -> str:
        """The number of elements of a tile, as an operand."""
        return f"({' * '.join(self.shape)})" if len(self.shape) > 1 else self.shape[0]


@dataclass(frozen=True, slots=True)
class CombinerNames:
    """Names of variables in the two kernels."""

    partial: str
    """The workspace."""
    split: str
    """The number of a share."""
    count: str
    """The number of shares."""
    shares: str
    """Pointers to a tile's shares."""
    part: str
    """The rows of a part."""


def shares(found: SharedSum, names: CombinerNames, rows: str = "") -> list[str]:
    """Return pointers to a tile's first share; the workspace is [tile][share][element of the tile]."""
    tile = "tl.program_id(0)"
    if len(found.grid) > 1:
        tile = f"({tile} + tl.program_id(1) * tl.num_programs(0))"
    lanes = rows or f"tl.arange(0, {found.shape[0]})"
    if len(found.shape) > 1:
        cols = found.shape[1]
        lanes = f"{f'({rows})' if rows else lanes}[:, None] * {cols} + tl.arange(0, {cols})[None, :]"
    lines = [f"{names.shares} = {names.partial} + tl.cast({tile}, tl.int64) * {names.count} * {found.size}"]
    return [*lines, f"{names.shares} += {lanes}"]


def combining(found: SharedSum, name: str, names: CombinerNames) -> ast.FunctionDef:
    """Return the kernel that adds the shares: the first one with another loop and without unneeded statements.

    If the rows are independent, it has a parameter for the rows of a part and a grid with one axis more.
    """
    finish = [_without_descriptor(found, stmt) for stmt in found.finish]
    before = code_of(found.kernel)[: code_of(found.kernel).index(found.loop)]
    before = needed(before, read_names(*finish) | {found.total})
    rows = ""
    if _row_by_row(found, [*before, *finish]):
        rows = f"tl.program_id({len(found.grid)}) * {names.part} + tl.arange(0, {names.part})"
        cut = _Cut(found.shape[0], names.part, rows)
        before, finish = ([cut.visit(copy.deepcopy(stmt)) for stmt in block] for block in (before, finish))
    loop = (
        "\n".join(shares(found, names, rows)) + "\n"
        f"for {names.split} in tl.static_range({names.count}):\n"
        f"    {found.total} += tl.load({names.shares} + {names.split} * {found.size})"
    )
    doc, *adding = ast.parse(
        f'"""Adds the shares of {"a part of " if rows else ""}a tile and finishes it."""\n{loop}'
    ).body
    made = copy.deepcopy(found.kernel.node)
    made.name = name
    made.body = [doc, *before, *adding, *finish]
    used = set().union(*(names_in(stmt) for stmt in made.body))
    made.args.args = [argument for argument in made.args.args if argument.arg in used]
    made.args.args.append(ast.arg(names.partial))
    for constant in [names.count, *([names.part] if rows else [])]:
        made.args.args.append(ast.arg(constant, ast.parse("tl.constexpr", mode="eval").body))
    return made


def needed(stmts: Sequence[ast.stmt], wanted: frozenset[str]) -> list[ast.stmt]:
    """Return the statements that give the wanted names their values."""
    kept: list[ast.stmt] = []
    for stmt in reversed(stmts):
        if bound_names(stmt).keys() & wanted:
            kept.append(stmt)
            wanted |= read_names(stmt)
    return kept[::-1]


def _without_descriptor(found: SharedSum, stmt: ast.stmt) -> ast.stmt:
    """Return the plain store of `if FLAG: tiles.store(corner, value) else: tl.store(where, value, mask=...)`.

    A descriptor moves whole tiles, and both ways store the same value to the same tensor.
    """
    match stmt:
        case ast.If(
            test=ast.Name(id=flag),
            body=[ast.Expr(ast.Call(func=ast.Attribute(ast.Name(id=tiles), "store"), args=[_, value]))],
            orelse=[ast.Expr(ast.Call(args=[_, plain]) as store) as other],
        ) if flag in found.kernel.constexprs and called(store, "tl.store") and same(value, plain):
            where = pointer(store)
            if where is not None and base_pointer(found.module, store, where) in _described(found, tiles):
                return other
    return stmt


def _described(found: SharedSum, tiles: str) -> set[str]:
    """Return the tensor that a descriptor is made for; empty unless it is made once."""
    made = [
        node.value
        for node in ast.walk(found.kernel.node)
        if isinstance(node, ast.Assign) and tiles in map(dotted, node.targets)
    ]
    if len(made) == 1 and isinstance(made[0], ast.Call) and called(made[0], "tl.make_tensor_descriptor"):
        return set(map(dotted, made[0].args[:1]))
    return set()


def _row_by_row(found: SharedSum, stmts: Sequence[ast.stmt]) -> bool:
    """Say whether the tile's first axis can be cut: nothing mixes rows, and its block is always the first axis."""
    rows, *others = found.shape
    if rows in others or any(not _ROW_BY_ROW.fullmatch(name) for name in _called(stmts)):
        return False
    across = [set[str]()]
    while across[-1] != (more := across[-1] | set(_across(stmts, rows, across[-1]))):
        across.append(more)
    crossed = (
        node.value
        for stmt in stmts
        for node in ast.walk(stmt)
        if isinstance(node, ast.Subscript) and not _adds_axis_behind(node)
    )
    return not any(names_in(value) & across[-1] or _ranges(value, rows) for value in crossed)


def _called(stmts: Sequence[ast.stmt]) -> Iterator[str]:
    for stmt in stmts:
        for call in calls(stmt):
            if not (isinstance(call.func, ast.Attribute) and call.func.attr == "to"):
                yield dotted(call.func)


def _across(stmts: Sequence[ast.stmt], block: str, known: set[str]) -> Iterator[str]:
    """Yield the names of values with one element a row."""
    for stmt in stmts:
        if _ranges(stmt, block) or read_names(stmt) & known:
            yield from bound_names(stmt)


def _ranges(node: ast.AST, block: str) -> bool:
    return any(arange_block(call) == block for call in calls(node))


def _adds_axis_behind(node: ast.Subscript) -> bool:
    """Say whether an indexing is `x[:, None]`."""
    match node.slice:
        case ast.Tuple(elts=[ast.Slice(lower=None, upper=None, step=None), ast.Constant(value=None)]):
            return True
    return False


class _Cut(ast.NodeTransformer):
    """Replacement of a block by a part of its rows, in ranges and shapes."""

    def __init__(self, block: str, part: str, rows: str) -> None:
        self._block, self._part, self._rows = block, part, rows

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Cut the ranges, and the shapes of constants; drop hints, which hold for whole blocks."""
        self.generic_visit(node)
        if called(node, *HINTS):
            return unwrap(node)
        if arange_block(node) == self._block:
            return ast.parse(self._rows, mode="eval").body
        if called(node, "tl.zeros", "tl.full"):
            for size in node.args[0].elts if node.args and isinstance(node.args[0], (ast.Tuple, ast.List)) else ():
                if isinstance(size, ast.Name) and size.id == self._block:
                    size.id = self._part
        return node
