"""`prefetch_tile`: the next tile is on its way to registers while this one is computed with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from operators.rewrites.cuda.edits import CudaEdits, CudaRewrite, indented, unrolled
from operators.rewrites.cuda.loops import CudaLoop, blocks_in, leaves, loop_of, loops_of
from operators.rewrites.cuda.source import CudaKernel, CudaModule, apart, spliced
from operators.rewrites.cuda.syntax import assigned, declared_in, field, names_in, plain, rebound_in, walk
from operators.rewrites.cuda.tiles import is_barrier, is_constant, reads_inputs_only, shared_arrays, stored_arrays


@dataclass(frozen=True, slots=True)
class _Stage:
    """A loop that brings a tile to shared memory, in two parts: what it loads, and what it stores."""

    loop: CudaLoop
    loads: tuple[int, int]
    """Where the statements stand that load."""
    result: str
    """What they hand on: an expression."""
    kind: str
    """The type of that."""
    stores: Sequence[tuple[int, int, str]]
    """Where the statements stand that store, with the text for which the loaded value stands."""
    known: tuple[int, int] | None
    """Where declarations stand that both need."""


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """A loop over tiles: stages, a barrier, what computes with them, a barrier."""

    outer: CudaLoop
    stages: Sequence[_Stage]
    barrier: Node


class PrefetchTile(CudaRewrite):
    """Loads of the next tile are issued before this tile is computed with, into registers, and stored after it.

    Legal in a loop whose body brings tiles of inputs to shared memory, waits, computes and waits: what is loaded may
    depend on the loop's counter, on nothing else that the loop changes, and the tile's extent is known to the compiler.
    """

    name = "prefetch_tile"

    def places(self, module: CudaModule, kernel: CudaKernel) -> Iterator[tuple[str, _Pipeline]]:
        """Yield the loops over tiles."""
        for pipeline in _pipelines(module, kernel):
            yield f"{kernel.name}: loop {pipeline.outer.counter}", pipeline

    def edit(self, edits: CudaEdits, kernel: CudaKernel, pipeline: _Pipeline) -> None:
        """Write arrays of registers between the loads and the stores of each tile."""
        module = edits.module
        outer = pipeline.outer
        turn, following = edits.fresh("turn"), edits.fresh("following")
        names = [edits.fresh(f"{plain_name}_next") for plain_name in map(_array, pipeline.stages)]
        counter, kind = outer.counter, outer.kind
        start, bound, step = (module.written(part) for part in (outer.start, outer.bound, outer.step))
        fetch = [
            line
            for stage, name in zip(pipeline.stages, names, strict=True)
            for line in _fetch(module, stage, name, turn)
        ]
        for stage, name in zip(pipeline.stages, names, strict=True):
            edits.replace(stage.loop, _store(module, stage, name, turn))
        arrays = [
            f"{stage.kind} {name}[{_rounds(module, stage)}];"
            for stage, name in zip(pipeline.stages, names, strict=True)
        ]
        begin = [*arrays, f"if ({start} < {bound}) {{", f"    const {kind} {counter} = {start};", *indented(fetch), "}"]
        edits.insert_lines(outer.first, begin)
        ahead = [
            f"const {kind} {following} = {counter} + {step};",
            f"if ({following} < {bound}) {{",
            f"    const {kind} {counter} = {following};",
            *indented(fetch),
            "}",
        ]
        edits.append_lines(pipeline.barrier.end_byte, ahead)


def _array(stage: _Stage) -> str:
    return stage.stores[0][2]


def _round(module: CudaModule, stage: _Stage, turn: str, body: Sequence[str]) -> list[str]:
    return unrolled(module, stage.loop, turn, _rounds(module, stage), body)


def _rounds(module: CudaModule, stage: _Stage) -> str:
    bound, step = module.written(stage.loop.bound), module.written(stage.loop.step)
    return f"({bound} + ({step}) - 1) / ({step})"


def _fetch(module: CudaModule, stage: _Stage, name: str, turn: str) -> list[str]:
    loads = spliced(module, *stage.loads) if stage.loads[0] < stage.loads[1] else []
    return _round(module, stage, turn, [*loads, f"{name}[{turn}] = {stage.result};"])


def _store(module: CudaModule, stage: _Stage, name: str, turn: str) -> list[str]:
    known = spliced(module, *stage.known) if stage.known is not None else []
    begin, end, _ = stage.stores[0]
    held = f"{name}[{turn}]"
    if stage.result.isidentifier():
        return _round(
            module, stage, turn, [f"const {stage.kind} {stage.result} = {held};", *spliced(module, begin, end)]
        )
    value = begin + module.cpp[begin:end].index(stage.result)
    return _round(
        module, stage, turn, [*known, *spliced(module, begin, end, [(value, value + len(stage.result), held)])]
    )


def _pipelines(module: CudaModule, kernel: CudaKernel) -> Iterator[_Pipeline]:
    if apart(module, kernel):
        for block in blocks_in(kernel):
            for loop in loops_of(module, block):
                pipeline = _pipeline(module, kernel, loop)
                if pipeline is not None:
                    yield pipeline


def _pipeline(module: CudaModule, kernel: CudaKernel, outer: CudaLoop) -> _Pipeline | None:
    if outer.body.type != "compound_statement" or outer.counter in rebound_in(outer.body) or leaves(outer.body):
        return None
    inner = outer.inner()
    first = next((n for n, stmt in enumerate(inner) if is_barrier(stmt)), 0)
    if not 0 < first < len(inner) - 2 or not is_barrier(inner[-1]):
        return None
    stages = [_stage(module, kernel, stmt) for stmt in inner[:first]]
    found = [stage for stage in stages if stage is not None]
    changed = rebound_in(outer.body) - {stage.loop.counter for stage in found}
    fixed = names_in(outer.start, outer.bound, outer.step)
    for stage in found:
        fixed |= names_in(stage.loop.node) - declared_in(stage.loop.node)
    arrays = [_array(stage) for stage in found]
    if len(found) < len(stages) or len(set(arrays)) < len(arrays) or fixed & (changed - {outer.counter}):
        return None
    if fixed & declared_in(*inner[first:]):
        return None
    if set(arrays) & stored_arrays(outer.body, below=inner[first].end_byte):
        return None
    return _Pipeline(outer, found, inner[first])


def _stage(module: CudaModule, kernel: CudaKernel, stmt: Node) -> _Stage | None:
    """Return a loop of the kernel's threads over a tile, split where it begins to store."""
    loop, arrays = loop_of(module, stmt), shared_arrays(module, kernel)
    if loop is None or "-" in plain(loop.start) or not all(is_constant(module, n) for n in (loop.bound, loop.step)):
        return None
    inner = loop.inner()
    split = next((n for n, each in enumerate(inner) if stored_arrays(each) & arrays.keys()), -1)
    own = stored_arrays(loop.body) - declared_in(loop.body)
    if split < 0 or len(own) != 1 or not own <= arrays.keys() or loop.counter in rebound_in(loop.body):
        return None
    array = next(iter(own))
    loads, stores = inner[:split], inner[split:]
    begin = module.pragma_before(stores[0].start_byte)
    extent = begin, stores[-1].end_byte, array
    before = (loads[0].start_byte, loads[-1].end_byte) if loads else (begin, begin)
    made = [
        each for each in loads if each.type == "declaration" and not module.cpp.startswith("const ", each.start_byte)
    ]
    if made:
        name = declared_in(made[0])
        kind = plain(field(made[0], "type"))
        used = names_in(*stores) & declared_in(*loads) - declared_in(*stores)
        whole = len(made) == 1 and len(name) == 1 and set(name) == used and _is_struct(made[0])
        if whole and reads_inputs_only(module, kernel, *loads) and not _reads(stores, arrays, kernel):
            return _Stage(loop, before, next(iter(name)), kind, [extent], None)
        return None
    stored = assigned(stores[0]) if len(stores) == 1 else None
    if stored is None or any(each.type != "declaration" for each in loads):
        return None
    _, value = stored
    if not reads_inputs_only(module, kernel, *loads, value):
        return None
    if any(n.type in ("subscript_expression", "pointer_expression") for each in loads for n in walk(each)):
        return None
    if module.written(stores[0]).count(module.written(value)) != 1 or module.written(value).isidentifier():
        return None
    kind = plain(field(arrays[array], "type"))
    return _Stage(loop, before, module.written(value), kind, [extent], before if loads else None)


def _is_struct(declaration: Node) -> bool:
    """Say whether a declaration is of one value, no array and no pointer."""
    return not any(
        n.type in ("array_declarator", "pointer_declarator", "reference_declarator") for n in walk(declaration)
    )


def _reads(stores: Sequence[Node], arrays: dict[str, Node], kernel: CudaKernel) -> bool:
    """Say whether statements that store read memory, other than through the one array that they name."""
    return bool(names_in(*stores) & kernel.pointers.keys()) or len(names_in(*stores) & arrays.keys()) != 1
