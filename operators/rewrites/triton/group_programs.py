"""`group_programs`: programs that run at the same time share rows or columns, so that L2 holds their operands."""

import ast
from collections.abc import Iterator

from operators.rewrites.triton.analysis import calls
from operators.rewrites.triton.source import LaunchSite, TritonKernel, TritonModule, fresh
from operators.rewrites.triton.span_edits import Argument, SpanEdits, TritonRewrite

Axes = tuple[ast.Assign, ast.Assign]


class GroupPrograms(TritonRewrite):
    """Rewrite of a 2-D grid into a line of programs over groups of GROUP rows (or columns) of tiles."""

    name = "group_programs"

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, tuple[Axes, bool]]]:
        """Yield the axes of a kernel with a 2-D grid whose program ids are read once each, into names."""
        if axes := program_axes(module, kernel):
            for axis in axes:
                yield f"{kernel.name} along {_target(axis)}", (axes, axis is axes[0])

    def edit(self, edits: SpanEdits, kernel: TritonKernel, found: tuple[Axes, bool]) -> None:
        """Write a 1-D grid and the ids of the two axes by `tl.swizzle2d`."""
        module = edits.module
        axes, along_first = found
        group = edits.add_tunable(kernel, "GROUP", 8, (1, 2, 4, 8, 16, 32))
        counts = [
            edits.add_parameter(kernel, f"{_target(axis)}_count", constexpr=False, argument=_count(module, number))
            for number, axis in enumerate(axes)
        ]
        for launch in module.launches_of(kernel):
            edits.replace(launch.grid, "(" + " * ".join(module.grouped(size) for size in grid_of(launch)) + ",)")
        order = [0, 1] if along_first else [1, 0]
        names = ", ".join(_target(axes[number]) for number in order)
        sizes = ", ".join(counts[number] for number in order)
        pid = fresh(module, "pid")
        first, second = sorted(axes, key=lambda stmt: stmt.lineno)
        edits.replace_lines(
            first, first, [f"{pid} = tl.program_id(0)", f"{names} = tl.swizzle2d(0, {pid}, {sizes}, {group})"]
        )
        edits.replace_lines(second, second, [])


class TransposeGrid(TritonRewrite):
    """Exchange of the two axes of a 2-D grid, so that consecutive programs differ along the other axis."""

    name = "transpose_grid"

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, Axes]]:
        """Yield the 2-D grid of a kernel whose first id still is that of axis 0."""
        axes = program_axes(module, kernel)
        if axes and axes[0].lineno < axes[1].lineno:
            yield kernel.name, axes

    def edit(self, edits: SpanEdits, kernel: TritonKernel, found: Axes) -> None:
        """Swap the sizes of the grid, and the statements that read the ids."""
        module = edits.module
        for launch in module.launches_of(kernel):
            sizes = [module.segment(size) for size in grid_of(launch)]
            edits.replace(launch.grid, f"({sizes[1]}, {sizes[0]})")
        for axis, number in zip(found, (1, 0), strict=True):
            edits.replace(axis.value, f"tl.program_id({number})")


def program_axes(module: TritonModule, kernel: TritonKernel) -> Axes | None:
    """Return the statements that name the two program ids of a kernel whose every launch has a 2-D grid."""
    launches = module.launches_of(kernel)
    if not launches or any(len(grid_of(launch)) != 2 for launch in launches):
        return None
    reads = calls(kernel, "tl.program_id", "tl.num_programs")
    by_axis = {
        read.args[0].value: stmt
        for read in reads
        if len(read.args) == 1
        and isinstance(read.args[0], ast.Constant)
        and isinstance(stmt := module.parents[read], ast.Assign)
        and stmt in kernel.node.body
        and isinstance(stmt.targets[0], ast.Name)
        and ast.unparse(read.func) == "tl.program_id"
    }
    return (by_axis[0], by_axis[1]) if len(reads) == 2 and by_axis.keys() == {0, 1} else None


def grid_of(launch: LaunchSite) -> list[ast.expr]:
    """Return the sizes of a grid that is written as a tuple; empty for any other."""
    if isinstance(launch.grid, ast.Tuple) and not any(isinstance(size, ast.Starred) for size in launch.grid.elts):
        return launch.grid.elts
    return []


def _count(module: TritonModule, axis: int) -> Argument:
    return lambda launch: module.segment(grid_of(launch)[axis])


def _target(stmt: ast.Assign) -> str:
    assert isinstance(stmt.targets[0], ast.Name)
    return stmt.targets[0].id
