"""Persistent programs: as many as the device holds at once, each with its share of the grid."""

import ast
from collections.abc import Iterator, Sequence

from operators.rewrites.triton.source import LaunchSite, TritonKernel, TritonModule, called, dotted
from operators.rewrites.triton.span_edits import SpanEdits, TritonRewrite
from operators.rewrites.triton.structure import (
    GRID_READS,
    bound_names,
    calls,
    code_of,
    device_tensor,
    fresh_in,
    grid_axes,
    grid_axis,
    has_effect,
    import_torch,
    indented,
    only_launch,
    read_names,
)


class Persistent(TritonRewrite):
    """A loop over the grid's programs inside the kernel, launched once or a few times per multiprocessor.

    Statements that do not depend on the program stay in front of the loop. Where the body has loops, a second site has
    both flattened into one, so that loads for the next tile start before this one is stored.
    """

    name = "persistent"

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, str]]:
        """Yield one place per kernel, and one more with a flattened loop."""
        if _grid(module, kernel):
            yield kernel.name, ""
            if any(isinstance(node, ast.For) for node in ast.walk(kernel.node)):
                yield f"{kernel.name}, flattened", ", flatten=True"

    def edit(self, edits: SpanEdits, kernel: TritonKernel, found: str) -> None:
        """Write the kernel's body in a loop over tiles, and a smaller grid."""
        module = edits.module
        grid, (launch,) = _grid(module, kernel), module.launches_of(kernel)
        device = device_tensor(module, kernel, launch)
        import_torch(edits)
        dots = any(called(call, "tl.dot") for call in calls(kernel.node))
        share = edits.add_constant("PER_SM", 1 if dots else 4, (1, 2, 3, 4, 8))
        tile = fresh_in(kernel.node, "tile")
        names = ["tiles"] if len(grid) == 1 else ["tiles", *(f"tiles_{axis}" for axis in range(len(grid)))]
        needed = {"tiles", *_used_sizes(kernel, names[-len(grid) :])}
        handed: list[str] = []
        for name in names:
            handed.append(_passed_size(edits, kernel, name, needed, taken=handed))
        tiles, *parts = handed
        sizes = parts or [tiles]
        programs = fresh_in(module.run, "programs")
        _write_grid(edits, launch, [module.segment(size) for size in grid], sizes, (tiles, programs, share, device))
        head = f"for {tile} in tl.range(tl.program_id(0), {tiles}, tl.num_programs(0){found}):"
        body = _looped(kernel)
        ids = {**_ids(tile, sizes), **{("tl.num_programs", axis): (name, True) for axis, name in enumerate(sizes)}}
        edits.replace_lines(body[0], body[-1], [head, *indented(_rewritten(module, body, ids))])


Ids = dict[tuple[str, int], tuple[str, bool]]
"""The replacement of a call on an axis, and whether it needs no parentheses as an operand."""


def _grid(module: TritonModule, kernel: TritonKernel) -> Sequence[ast.expr]:
    """Return the sizes of the grid of a kernel that may become persistent; empty for any other."""
    launch = only_launch(module, kernel)
    if launch is None or not isinstance(launch.grid, ast.Tuple) or device_tensor(module, kernel, launch) is None:
        return ()
    grid = launch.grid.elts
    if not 1 <= len(grid) <= 3 or any(isinstance(size, ast.Starred) for size in grid):
        return ()
    nodes = list(ast.walk(kernel.node))
    if any(isinstance(node, (ast.Return, ast.While, ast.Lambda)) for node in nodes):
        return ()
    if bound_names(kernel.node).keys() & set(kernel.params):
        return ()
    loops = [node for node in nodes if isinstance(node, ast.For)]
    if any(called(call, *GRID_READS) for loop in loops for call in calls(loop.iter)):
        return ()  # the kernel has a loop over its grid already
    axes = grid_axes(kernel)
    return grid if axes and all(0 <= axis < len(grid) for axis in axes) else ()


def _passed_size(edits: SpanEdits, kernel: TritonKernel, name: str, needed: set[str], *, taken: Sequence[str]) -> str:
    """Return a new name in `run` and in the kernel, which gets it as a parameter if needed."""
    run, number, chosen = edits.module.run, 1, name
    while chosen in taken or chosen != fresh_in(run, chosen) or chosen != fresh_in(kernel.node, chosen):
        number += 1
        chosen = f"{name}_{number}"
    if name in needed:
        edits.add_parameter(kernel, chosen, constexpr=False, argument=chosen)
    return chosen


def _used_sizes(kernel: TritonKernel, sizes: Sequence[str]) -> list[str]:
    """Return the axis sizes that the new body names."""
    used: set[int] = set()
    for call in calls(kernel.node):
        if called(call, "tl.num_programs"):
            used.add(grid_axis(call))
        elif called(call, "tl.program_id"):
            used |= set(range(grid_axis(call))) | ({grid_axis(call)} if grid_axis(call) < len(sizes) - 1 else set())
    return [size for axis, size in enumerate(sizes) if axis in used]


def _ids(tile: str, sizes: Sequence[str]) -> Ids:
    """Return the program ids of a tile's number; axis 0 runs fastest, as on the device."""
    ids: Ids = {}
    for axis, size in enumerate(sizes):
        before = " * ".join(sizes[:axis])
        text = tile if not before else f"{tile} // ({before})" if axis > 1 else f"{tile} // {before}"
        if axis < len(sizes) - 1:
            text = f"{text} % {size}"
        ids["tl.program_id", axis] = text, text == tile
    return ids


def _write_grid(
    edits: SpanEdits,
    launch: LaunchSite,
    grid: Sequence[str],
    sizes: Sequence[str],
    names: tuple[str, str, str, str | None],
) -> None:
    tiles, programs, share, device = names
    count = f"torch.cuda.get_device_properties({device}.device).multi_processor_count"
    lines = [f"{size} = {text}" for size, text in zip(sizes, grid, strict=True)]
    if len(grid) > 1:
        lines.append(f"{tiles} = {' * '.join(sizes)}")
    lines.append(f"{programs} = min({tiles}, {share} * {count})")
    edits.insert_before(edits.module.statement_of(launch.grid), lines)
    edits.replace(launch.grid, f"({programs},)")


def _looped(kernel: TritonKernel) -> list[ast.stmt]:
    """Return the loop's statements: all from the first that depends on the program or must run in each."""
    body = code_of(kernel)
    everywhere = bound_names(kernel.node)
    varying: set[str] = set()
    for number, stmt in enumerate(body):
        bound = bound_names(stmt)
        varies = any(called(call, *GRID_READS) for call in calls(stmt)) or bool(read_names(stmt) & varying)
        again = any(everywhere[name] != count for name, count in bound.items())
        if varies or again or has_effect(stmt) or not isinstance(stmt, (ast.Assign, ast.If)):
            return body[number:]
        varying |= bound.keys() if varies else set()
    return body


def _rewritten(module: TritonModule, body: Sequence[ast.stmt], ids: Ids) -> Iterator[str]:
    """Return the lines of the body with its program ids replaced, without its indentation."""
    start, end = module.starts[body[0].lineno - 1], module.span(body[-1])[1]
    text = module.text[start:end]
    found = [call for stmt in body for call in calls(stmt) if called(call, *GRID_READS)]
    for call in sorted(found, key=module.span, reverse=True):
        new, atom = ids[dotted(call.func), grid_axis(call)]
        whole = isinstance(module.parents[call], ast.Assign)
        begin, stop = module.span(call)
        text = text[: begin - start] + (new if atom or whole else f"({new})") + text[stop - start :]
    indent = module.indent(body[0])
    return (line.removeprefix(indent) for line in text.split("\n"))
