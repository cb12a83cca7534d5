"""Tensor descriptors for tiles: the hardware's copy engine moves a whole tile and checks its edges."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from operators.rewrites.triton.source import LaunchSite, TritonKernel, TritonModule, called, dotted
from operators.rewrites.triton.span_edits import SpanEdits, TritonRewrite
from operators.rewrites.triton.structure import (
    add_function,
    code_of,
    fresh_in,
    import_torch,
    indented,
    launched,
    lines_of,
    only_launch,
)
from operators.rewrites.triton.tiles import Axis, TileAccess, TileReader

_FITS = '''
def fits_descriptor(tensor, row_stride, block):
    """Whether the copy engine takes it: rows start at multiples of 16 bytes, a tile's row has at least 16."""
    size = tensor.element_size()
    return row_stride * size % 16 == 0 and block * size >= 16
'''
_ALLOCATE = '''
def allocate_scratch(size, alignment, stream):
    """Device memory for the descriptors that kernels build; torch aligns to 512 bytes."""
    return torch.empty(size, dtype=torch.int8, device="cuda")
'''


@dataclass(frozen=True, slots=True)
class _ReachedTile:
    """A tile that a descriptor can move, and the test of `run` before it uses the descriptor."""

    tile: TileAccess
    """The load or store."""
    stride: ast.expr
    """Elements from one row to the next."""
    asked: str
    """Arguments of the function that says whether a descriptor fits."""
    first: str = ""
    """A test before that; empty without one."""

    def guard(self, fits: str) -> str:
        """Return the test of `run`, by the name of the function that says whether a descriptor fits."""
        return f"{self.first}{fits}{self.asked}"


class Descriptors(TritonRewrite):
    """Loads and stores of 2-D tiles through descriptors where alignment allows it, else as before.

    A descriptor's zeros outside the matrix are the masked load's `other`. The choice is a constexpr that `run`
    computes, so each compiled kernel holds one of the two ways.
    """

    name = "descriptors"

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, list[_ReachedTile]]]:
        """Yield all tiles of a kernel at once, then each alone."""
        tiles = list(_tiles(module, kernel))
        if len(tiles) > 1:
            yield f"all {len(tiles)} tiles of {kernel.name}", tiles
        for reached in tiles:
            yield f"{kernel.name} {'stores to' if reached.tile.stores else 'loads from'} {reached.tile.base}", [reached]

    def edit(self, edits: SpanEdits, kernel: TritonKernel, found: list[_ReachedTile]) -> None:
        """Write descriptors in front of some tiles."""
        module = edits.module
        (launch,) = module.launches_of(kernel)
        import_torch(edits)
        allocate, fits = add_function(edits, _ALLOCATE), add_function(edits, _FITS)
        made: list[str] = []
        taken: list[str] = []
        for reached in found:
            tile = reached.tile
            flag = fresh_in(kernel.node, f"TMA_{tile.base.upper()}", *taken)
            descriptor = fresh_in(kernel.node, f"{tile.base}_tiles", *taken)
            taken += [flag, descriptor]
            edits.add_parameter(kernel, flag, constexpr=True, argument=reached.guard(fits))
            made += [f"if {flag}:", f"    {descriptor} = {_descriptor(module, reached)}"]
            _use(edits, tile, flag, descriptor)
        edits.insert_before(code_of(kernel)[0], made)
        call = f"triton.set_allocator({allocate})"
        if not any(isinstance(n, ast.Call) and called(n, "triton.set_allocator") for n in ast.walk(module.run)):
            edits.insert_before(module.statement_of(launch.call), [call])


def _tiles(module: TritonModule, kernel: TritonKernel) -> Iterator[_ReachedTile]:
    """Yield the tiles of a kernel that a descriptor can move and that have none yet."""
    launch = only_launch(module, kernel)
    if launch is None or not _imports_triton(module):
        return
    for tile in TileReader(module, kernel).tiles():
        reached = None if _is_fallback(module, tile) else _reached(module, launch, tile)
        if reached is not None:
            yield reached


def _is_fallback(module: TritonModule, tile: TileAccess) -> bool:
    """Say whether this access already is the alternative to one through a descriptor."""
    stmt = module.statement_of(tile.call)
    parent = module.parents[stmt]
    if not isinstance(parent, ast.If) or stmt not in parent.orelse:
        return False
    verbs = ("load", "store")
    found = [n.func for other in parent.body for n in ast.walk(other) if isinstance(n, ast.Call)]
    return any(isinstance(f, ast.Attribute) and f.attr in verbs and dotted(f.value) != "tl" for f in found)


def _reached(module: TritonModule, launch: LaunchSite, tile: TileAccess) -> _ReachedTile | None:
    """Return a tile with the test of `run` before it uses the descriptor; None without a possible test."""
    tensor = module.argument_of(launch, tile.base)
    if not isinstance(tensor, ast.Name) or not _starts_aligned(module, launch, tensor.id):
        return None
    if tile.rows.stride is None:
        return None
    stride, block = launched(module, launch, tile.rows.stride), module.argument_of(launch, tile.cols.block)
    bounds = [launched(module, launch, axis.bound) for axis in (tile.rows, tile.cols)]
    if stride is None or block is None or None in bounds:
        return None
    asked = f"({tensor.id}, {stride}, {module.segment(block)})"
    if tile.cols.stride is None:
        return _ReachedTile(tile, tile.rows.stride, asked)
    unit = launched(module, launch, tile.cols.stride)
    return None if unit is None else _ReachedTile(tile, tile.rows.stride, asked, f"({unit}) == 1 and ")


def _starts_aligned(module: TritonModule, launch: LaunchSite, name: str) -> bool:
    """Say whether a name is an argument of `run` or fresh memory (both aligned), without an alias in the kernel."""
    arguments = [*launch.call.args, *(keyword.value for keyword in launch.call.keywords)]
    if sum(isinstance(argument, ast.Name) and argument.id == name for argument in arguments) != 1:
        return False
    values = [
        stmt.value
        for stmt in ast.walk(module.run)
        if isinstance(stmt, ast.Assign) and name in map(dotted, stmt.targets)
    ]
    if name in {argument.arg for argument in module.run.args.args}:
        return not values
    return len(values) == 1 and called(values[0], "torch.empty", "torch.empty_like")


def _imports_triton(module: TritonModule) -> bool:
    imports = [stmt for stmt in module.tree.body if isinstance(stmt, ast.Import)]
    return any(alias.name == "triton" and not alias.asname for stmt in imports for alias in stmt.names)


def _descriptor(module: TritonModule, reached: _ReachedTile) -> str:
    tile = reached.tile
    shape = ", ".join(module.segment(axis.bound) for axis in (tile.rows, tile.cols))
    block = f"{tile.rows.block}, {tile.cols.block}"
    stride = module.segment(reached.stride)
    return f"tl.make_tensor_descriptor({tile.base}, shape=[{shape}], strides=[{stride}, 1], block_shape=[{block}])"


def _use(edits: SpanEdits, tile: TileAccess, flag: str, descriptor: str) -> None:
    """Replace the statement around a tile's load or store by both ways."""
    module = edits.module
    stmt = module.statement_of(tile.call)
    corner = f"[{_start(module, tile.rows)}, {_start(module, tile.cols)}]"
    if tile.stores:
        value = module.segment(tile.call.args[1])
        text = f"{descriptor}.store({corner}, {f'tl.trans({value})' if tile.turned else value})"
    else:
        text = f"{descriptor}.load({corner})"
        text = f"tl.trans({text})" if tile.turned else text
    begin, end = module.span(tile.call)
    first, last = module.span(stmt)
    rewritten = module.text[first:begin] + text + module.text[end:last]
    indent = module.indent(stmt)
    new = [line.removeprefix(indent) for line in rewritten.split("\n")]
    old = lines_of(module, stmt, stmt)
    edits.replace_lines(stmt, stmt, [f"if {flag}:", *indented(new), "else:", *indented(old)])


def _start(module: TritonModule, axis: Axis) -> str:
    """Return the start of a tile in 32 bits, as descriptors require."""
    if axis.start is None:
        return "0"
    text = module.segment(axis.start)
    return f"({text}).to(tl.int32)" if axis.wide else text
