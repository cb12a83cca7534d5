"""What is computed in which loop nest: values that need loops of their own, what shares a nest, where results lie."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from evokernel.scaffold.index_arithmetic import Digits, Index, loop_index, resolve
from evokernel.scaffold.operation_graph import EXPENSIVE, REDUCTIONS, VIEWS, Node, users_of
from evokernel.scaffold.sizes import SymbolicSizes

Use = tuple[Node, Index]


@dataclass(eq=False)
class NestValue:
    """One value that gets loops: a reduction, a value kept for several uses, or an output.

    `buffer` is the array it is written to; empty for a local variable.
    """

    node: Node
    output: str = ""
    buffer: str = ""
    skipped: bool = False

    @property
    def reduces(self) -> bool:
        """Whether the loops hold an accumulator."""
        return not self.output and self.node.op in REDUCTIONS

    @property
    def outer(self) -> tuple[int, ...]:
        """Extents of the loops over the elements of the value."""
        return tuple(extent for extent in self.node.shape if extent != 1)

    @property
    def inner(self) -> tuple[int, ...]:
        """Extents of the loops inside, over what is reduced."""
        if not self.reduces:
            return ()
        source = self.node.args[0].shape
        dims = (len(source) - 1,) if self.node.op == "matmul" else self.node.attrs[0]
        assert isinstance(dims, tuple)
        return tuple(source[dim] for dim in dims if source[dim] != 1)

    def uses(self, variables: tuple[str, ...]) -> list[Use]:
        """Return what one innermost step reads, for loop variables of the outer and then of the inner loops."""
        index = loop_index(self.node.shape, variables[: len(self.outer)])
        if not self.reduces:
            return (
                [(self.node, index)] if self.output else [(arg, index if arg.shape else ()) for arg in self.node.args]
            )
        inner = variables[len(self.outer) :]
        source = self.node.args[0]
        if self.node.op == "matmul":
            across: Digits = ((inner[0], source.shape[-1]),) if inner else ()
            *batch, row, column = index
            right = self.node.args[1]
            shared = batch if len(right.shape) > 2 else []
            return [(source, (*batch, row, across)), (right, (*shared, across, column))]
        dims = self.node.attrs[0]
        assert isinstance(dims, tuple)
        reduced, kept = iter(loop_index(tuple(source.shape[dim] for dim in dims), inner)), iter(index)
        return [(source, tuple(next(reduced) if dim in dims else next(kept) for dim in range(len(source.shape))))]


@dataclass(eq=False)
class Nest:
    """Stages that share their `depth` outermost loops."""

    stages: list[NestValue]
    depth: int


@dataclass
class LoopNests:
    """The nests in order; `stages` by value, outputs not among them; `temporaries` are arrays to make first."""

    sizes: SymbolicSizes
    nests: list[Nest] = field(default_factory=list)
    stages: dict[Node, NestValue] = field(default_factory=dict)
    temporaries: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def reads(self, stage: NestValue, variables: tuple[str, ...]) -> Iterator[tuple[NestValue, Index]]:
        """Yield the stages that a stage reads, and at which element."""
        seen: set[Use] = set()
        todo = stage.uses(variables)
        while todo:
            use = resolve(*todo.pop(), self.sizes)
            if use in seen:
                continue
            seen.add(use)
            node, index = use
            if node in self.stages:
                yield self.stages[node], index
            else:
                todo += [(arg, index if arg.shape else ()) for arg in node.args]


def make_plan(outputs: tuple[Node, ...], names: tuple[str, ...], sizes: SymbolicSizes) -> LoopNests:
    """Return the loop nests for the outputs, which are written to buffers of the given names."""
    plan = LoopNests(sizes)
    order, users = users_of(outputs)
    kept = _kept(order, users, outputs)
    plan.stages = {node: NestValue(node) for node in order if node in kept}
    stages = [*plan.stages.values(), *(NestValue(node, output=name) for node, name in zip(outputs, names, strict=True))]
    for stage in _early_outputs(stages, plan):
        if not (plan.nests and _joined(plan.nests[-1], stage, plan)):
            plan.nests.append(Nest([stage], len(stage.outer)))
    _place(plan, [stage for nest in plan.nests for stage in nest.stages])
    return plan


def variables_of(stage: NestValue) -> tuple[str, ...]:
    """Return stand-ins for the loop variables of a stage, one for each loop."""
    return tuple(f"@{level}" for level in range(len(stage.outer) + len(stage.inner)))


def _early_outputs(stages: list[NestValue], plan: LoopNests) -> list[NestValue]:
    """Put each output right behind the last value it needs, where it can share that value's loops."""
    ordered = [stage for stage in stages if not stage.output]
    for stage in stages:
        if stage.output:
            needed = [ordered.index(read) for read, _ in plan.reads(stage, variables_of(stage))]
            place = max(needed, default=len(ordered) - 1) + 1
            while place < len(ordered) and ordered[place].output:
                place += 1
            ordered.insert(place, stage)
    return ordered


def _kept(order: list[Node], users: dict[Node, list[Node]], outputs: tuple[Node, ...]) -> set[Node]:
    kept = {node for node in order if node.op in REDUCTIONS}
    reached: dict[Node, set[object]] = {node: set() for node in order}
    for place, node in enumerate(outputs):
        reached[node].add(place)
    for node in reversed(order):
        for user in users[node]:
            reached[node] |= {user} if user in kept else reached[user]
        if node.pointwise and node.shape and (_dear(node) and len(reached[node]) > 1 and _large(node)):
            kept.add(node)
        if any(user.op == "matmul" for user in users[node]):
            operand = node
            while operand.op in VIEWS:
                operand = operand.args[0]
            if operand.pointwise and _work(operand) > 1:
                kept.add(operand)
    return kept


def _dear(node: Node) -> bool:
    return node.op in EXPENSIVE


def _large(node: Node) -> bool:
    """Whether a value has elements of its own, and is not made from one value per row alone."""
    return any(_full_source(arg, node) for arg in node.args)


def _full_source(node: Node, like: Node) -> bool:
    if node.op in REDUCTIONS or node.op == "number":
        return node.op == "matmul"
    if node.op == "broadcast" and node.args[0].shape != like.shape:
        return False
    return node.op in ("input", "iota") or any(_full_source(arg, node) for arg in node.args)


def _work(node: Node) -> int:
    if node.op in REDUCTIONS or not node.args:
        return 0
    return int(node.pointwise) * (2 if _dear(node) else 1) + sum(_work(arg) for arg in node.args)


def _joined(nest: Nest, stage: NestValue, plan: LoopNests) -> bool:
    """Let a stage into a nest at the greatest depth that keeps every result in the step that makes it."""
    for depth in range(min(nest.depth, len(stage.outer)), 0, -1):
        together = [*nest.stages, stage]
        same = stage.outer[:depth] == nest.stages[0].outer[:depth]
        local = all(len(one.outer) == depth for one in together if one.reduces)
        if same and local and all(_in_step(one, nest.stages, depth, plan) for one in together):
            nest.stages.append(stage)
            nest.depth = depth
            return True
    return False


def _in_step(stage: NestValue, others: list[NestValue], depth: int, plan: LoopNests) -> bool:
    """Whether a stage reads the others only at the loop variables of the shared loops."""
    for read, index in plan.reads(stage, variables_of(stage)):
        if read in others:
            walked = [digits for digits, extent in zip(index, read.node.shape, strict=True) if extent != 1]
            expected = [((f"@{level}", read.outer[level]),) for level in range(depth)]
            if walked[:depth] != expected:
                return False
    return True


def _place(plan: LoopNests, ordered: list[NestValue]) -> None:
    """Decide for each kept value: a local variable, an output's buffer until that is written, or an array."""
    readers: dict[NestValue, list[NestValue]] = {stage: [] for stage in ordered}
    for stage in ordered:
        for read, _ in plan.reads(stage, variables_of(stage)):
            readers[read].append(stage)
    nest_of = {stage: nest for nest in plan.nests for stage in nest.stages}
    taken: set[str] = set()
    for stage in ordered:
        if stage.output:
            stage.buffer = stage.output
            continue
        nest = nest_of[stage]
        together = all(nest_of[reader] is nest for reader in readers[stage])
        if not stage.outer or (together and len(stage.outer) == nest.depth):
            continue
        stage.buffer = _free_output(stage, readers[stage], ordered, plan, taken)
        if not stage.buffer:
            stage.buffer = f"@{len(plan.temporaries)}"
            plan.temporaries.append((stage.buffer, stage.node.shape))


def _free_output(
    stage: NestValue, readers: list[NestValue], ordered: list[NestValue], plan: LoopNests, taken: set[str]
) -> str:
    """Return the output whose buffer can hold a value until the output itself is written over it, or nothing."""
    for target in reversed(readers):
        if not target.output or target.output in taken or target.outer != stage.outer:
            continue
        own = variables_of(target)
        exact = loop_index(stage.node.shape, own)
        same_place = all(index == exact for read, index in plan.reads(target, own) if read is stage)
        if same_place and target is max(readers, key=ordered.index):
            taken.add(target.output)
            target.skipped = resolve(target.node, exact, plan.sizes) == (stage.node, exact)
            return target.output
    return ""
