"""`split_k`: a long sum is split between programs; a second kernel adds the shares and finishes."""

import ast
from collections.abc import Iterator, Sequence

from operators.rewrites.triton.analysis import range_of
from operators.rewrites.triton.combine_shares import CombinerNames, SharedSum, combining, needed, shares
from operators.rewrites.triton.source import TritonKernel, TritonModule, called, dotted, fresh, keyword_of, names_in
from operators.rewrites.triton.span_edits import SpanEdits, TritonRewrite
from operators.rewrites.triton.structure import (
    bound_names,
    carried,
    code_of,
    device_tensor,
    fresh_in,
    grid_axes,
    has_effect,
    import_torch,
    launched,
    only_launch,
    read_names,
    single,
    updated,
)

MOST = 64
"""Most shares of a sum: the second kernel names each of them, so its code grows with them."""
PART = 512
"""Elements of a tile that a program of the second kernel adds: 16 bytes for each thread of its four warps."""
_MULTIPROCESSORS = "torch.cuda.get_device_properties({}).multi_processor_count"


class SplitK(TritonRewrite):
    """Division of a sum's blocks over a further axis of the grid: more programs where the output has few tiles.

    `run` makes as many shares as give each multiprocessor the wanted number of programs, so tile sizes and shapes can
    change without it. Each program leaves its partial sums in a workspace of its own, tile by tile. A second kernel,
    which is the first one with the loop replaced, adds them in a fixed order: two calls give the same bits. Where the
    rows of a tile are independent, each of its programs takes a part of a tile, since there are few tiles.
    """

    name = "split_k"

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, SharedSum]]:
        """Yield the sum of a kernel of that form."""
        if (found := _sum(module, kernel)) is not None:
            yield f"{kernel.name}: {found.total}", found

    def edit(self, edits: SpanEdits, kernel: TritonKernel, found: SharedSum) -> None:
        """Divide the sum between two kernels."""
        module = edits.module
        kernel, loop = found.kernel, found.loop
        names = CombinerNames(
            *(fresh_in(kernel.node, name) for name in ("partial", "split", "splits", "shares", "PART"))
        )
        import_torch(edits)
        combine = combining(found, fresh(module, f"{kernel.name}_combine"), names)
        edits.insert_after(kernel.node, ["", "", *ast.unparse(combine).split("\n")])
        _launch_twice(edits, found, combine, names)
        low, _, step = _bounds(loop)
        edits.replace(low, f"{names.split} * {module.grouped(step)}")
        edits.replace(step, f"{names.count} * {module.grouped(step)}")
        axis = len(found.grid)
        edits.insert_before(
            loop, [f"{names.split} = tl.program_id({axis})", f"{names.count} = tl.num_programs({axis})"]
        )
        before = code_of(kernel)[: code_of(kernel).index(loop)]
        kept = needed(before, read_names(loop))
        for stmt in before:
            if stmt not in kept:
                edits.replace_lines(stmt, stmt, [])
        share = f"tl.store({names.shares} + {names.split} * {found.size}, {found.total})"
        edits.replace_lines(found.finish[0], found.finish[-1], [*shares(found, names), share])


def _sum(module: TritonModule, kernel: TritonKernel) -> SharedSum | None:
    """Return the sum of a kernel that can be shared out, or None."""
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
    if not all(0 <= axis < len(grid) for axis in grid_axes(kernel)):
        return None  # on the axis of the shares it reads 0 now
    for total, summand in sums:
        shape = _zeros(kernel, before, total)
        if shape and _splits(loop, before, finish, total, summand) and device_tensor(module, kernel, launch):
            found = SharedSum(module, kernel, launch, grid, loop, total, shape, finish)
            return found if _known_early(found) else None
    return None


def _known_early(found: SharedSum) -> bool:
    """Say whether the sizes of the grid and of the workspace are known where `run` makes the grid."""
    module, launch = found.module, found.launch
    first, body = module.statement_of(launch.grid), module.run.body
    if first not in body:
        return False
    late = bound_names(*body[body.index(first) :]).keys()
    inner = [*found.shape, *(name for bound in _bounds(found.loop) for name in sorted(names_in(bound)))]
    passed = [argument for name in inner if (argument := module.argument_of(launch, name)) is not None]
    return not any(names_in(argument) & late for argument in passed)


def _splits(
    loop: ast.For, before: Sequence[ast.stmt], finish: Sequence[ast.stmt], total: str, summand: ast.expr
) -> bool:
    """Say whether the rounds of the loop share nothing but the total they add to."""
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


def _zeros(kernel: TritonKernel, before: Sequence[ast.stmt], total: str) -> list[str]:
    """Return the sizes of the fp32 zeros that a name is bound to, once; empty for anything else."""
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


def _launch_twice(edits: SpanEdits, found: SharedSum, combine: ast.FunctionDef, names: CombinerNames) -> None:
    module, launch, kernel = edits.module, found.launch, found.kernel
    sizes = [module.segment(size) for size in found.grid]
    wanted = ("tile_count", "programs", names.count, names.partial, "part")
    tiles, programs, count, partial, part = (fresh_in(module.run, name) for name in wanted)
    device = f"{device_tensor(module, kernel, launch)}.device"
    blocks = [module.grouped(module.passed(launch, size)) for size in found.shape]
    share = edits.add_constant("SPLIT_PER_SM", 2, (1, 2, 3, 4, 6))
    most = [f"{programs} // {tiles}", *_rounds(module, found), str(MOST)]
    lines = [
        f"{tiles} = {' * '.join(map(module.grouped, found.grid))}",
        f"{programs} = {share} * {_MULTIPROCESSORS.format(device)}",
        f"{count} = max(1, min({', '.join(most)}))",
        f"{partial} = torch.empty(({', '.join([tiles, count, *blocks])}), dtype=torch.float32, device={device})",
    ]
    adding = list(sizes)
    if any(argument.arg == names.part for argument in combine.args.args):
        rows = " // ".join([str(PART), *blocks[1:]])
        lines.append(f"{part} = max(1, min({blocks[0]}, {rows}))")
        adding.append(f"{blocks[0]} // {part}")
    edits.insert_before(module.statement_of(launch.grid), lines)
    own = {names.partial: partial, names.count: count, names.part: part}
    passed = [
        own.get(argument.arg) or module.segment(module.passed(launch, argument.arg)) for argument in combine.args.args
    ]
    grid = f"({', '.join(adding)}{',' if len(adding) == 1 else ''})"
    call = f"{combine.name}[{grid}]({', '.join([*passed, 'num_warps=4', 'num_stages=1'])})"
    edits.insert_after(module.statement_of(launch.call), [call])
    edits.replace(launch.grid, f"({', '.join([*sizes, count])})")
    edits.add_parameter(kernel, names.partial, constexpr=False, argument=partial)


def _rounds(module: TritonModule, found: SharedSum) -> list[str]:
    """Return the number of the loop's rounds as text for `run`, the most useful shares; empty if it is not known."""
    _, high, step = (launched(module, found.launch, bound) for bound in _bounds(found.loop))
    if high is None or step is None or "triton" not in names_in(module.run):
        return []
    return [f"triton.cdiv({high}, {step})"]
