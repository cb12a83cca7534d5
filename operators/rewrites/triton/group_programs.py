"""`group_programs`: programs that run at the same time share rows or columns, so that L2 holds their operands."""

import ast

from operators.rewrites.triton.analysis import calls
from operators.rewrites.triton.source import LaunchSite, TritonKernel, TritonModule, TritonSite, fresh
from operators.rewrites.triton.span_edits import Argument, SpanEdits

Axes = tuple[ast.Assign, ast.Assign]


class GroupPrograms:
    """Rewrite of a 2-D grid into a line of programs over groups of GROUP rows (or columns) of tiles."""

    name = "group_programs"

    def sites(self, module: TritonModule) -> list[TritonSite]:
        """Return one site per axis of a kernel with a 2-D grid whose program ids are read once each, into names."""
        return [
            TritonSite(f"{name} along {_target(axis)}", (name, number))
            for name, axes in axes_by_kernel(module).items()
            for number, axis in enumerate(axes)
        ]

    def apply(self, module: TritonModule, site: TritonSite) -> str:
        """Return the source with a 1-D grid and the ids of the two axes by `tl.swizzle2d`."""
        kernel = module.kernels[str(site.detail[0])]
        axes = axes_by_kernel(module)[kernel.name]
        edits = SpanEdits(module)
        group = edits.add_tunable(kernel, "GROUP", 8, (1, 2, 4, 8, 16, 32))
        counts = [
            edits.add_parameter(kernel, f"{_target(axis)}_count", constexpr=False, argument=_count(module, number))
            for number, axis in enumerate(axes)
        ]
        for launch in module.launches_of(kernel):
            edits.replace(launch.grid, "(" + " * ".join(module.grouped(size) for size in grid_of(launch)) + ",)")
        order = [0, 1] if site.detail[1] == 0 else [1, 0]
        names = ", ".join(_target(axes[number]) for number in order)
        sizes = ", ".join(counts[number] for number in order)
        pid = fresh(module, "pid")
        first, second = sorted(axes, key=lambda stmt: stmt.lineno)
        edits.replace_lines(
            first, first, [f"{pid} = tl.program_id(0)", f"{names} = tl.swizzle2d(0, {pid}, {sizes}, {group})"]
        )
        edits.replace_lines(second, second, [])
        return edits.result()


class TransposeGrid:
    """Exchange of the two axes of a 2-D grid, so that consecutive programs differ along the other axis."""

    name = "transpose_grid"

    def sites(self, module: TritonModule) -> list[TritonSite]:
        """Return one site per kernel with a 2-D grid whose first id still is that of axis 0."""
        return [
            TritonSite(name, (name,))
            for name, axes in axes_by_kernel(module).items()
            if axes[0].lineno < axes[1].lineno
        ]

    def apply(self, module: TritonModule, site: TritonSite) -> str:
        """Return the grid and the statements that read the ids, swapped."""
        kernel = module.kernels[str(site.detail[0])]
        axes = axes_by_kernel(module)[kernel.name]
        edits = SpanEdits(module)
        for launch in module.launches_of(kernel):
            sizes = [module.segment(size) for size in grid_of(launch)]
            edits.replace(launch.grid, f"({sizes[1]}, {sizes[0]})")
        for axis, number in zip(axes, (1, 0), strict=True):
            edits.replace(axis.value, f"tl.program_id({number})")
        return edits.result()


def axes_by_kernel(module: TritonModule) -> dict[str, Axes]:
    """Return the statements that name the two program ids, by the name of the kernel."""
    found = {kernel.name: program_axes(module, kernel) for kernel in module.kernels.values()}
    return {name: axes for name, axes in found.items() if axes is not None}


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
