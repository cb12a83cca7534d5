"""`register_row`: what several loops load over the same elements stays in registers after the first."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from operators.rewrites.cuda.edits import CudaEdits, CudaRewrite, unrolled
from operators.rewrites.cuda.loops import CudaLoop, always, blocks_in, leaves, loops_of, waits
from operators.rewrites.cuda.source import CudaKernel, CudaModule, apart, spliced
from operators.rewrites.cuda.syntax import declared_in, field, names_in, plain, rebound_in, statements, walk

_KEPT = "KEEP"
_INDIRECT = ("call_expression", "subscript_expression", "pointer_expression")


@dataclass(frozen=True, slots=True)
class _Row:
    """Loops of one block that give each thread the same elements, and the loads that they repeat."""

    loops: Sequence[CudaLoop]
    loads: Sequence[str]
    kinds: Sequence[str]


class RegisterRow(CudaRewrite):
    """Loads that later loops over the same elements repeat are kept in registers, for the first rounds of each thread.

    Each thread does the same on the same elements in the same order; rounds beyond those kept load again.
    Legal where the loops count alike, in one block of statements; where what is loaded is an input at a place that
    nothing moves from the first loop to the last; and where the first loop loads it in every round.
    """

    name = "register_row"

    def places(self, module: CudaModule, kernel: CudaKernel) -> Iterator[tuple[str, _Row]]:
        """Yield the loops over the same elements."""
        for row in _rows(module, kernel):
            yield f"{kernel.name} over {module.written(row.loops[0].bound)}", row

    def edit(self, edits: CudaEdits, kernel: CudaKernel, row: _Row) -> None:
        """Write arrays of registers for what is loaded."""
        module = edits.module
        keep, turn = edits.add_tunable(_KEPT, 4, (1, 2, 4, 8, 16)), edits.fresh("turn")
        names = {load: edits.fresh("kept") for load in row.loads}
        for loop in row.loops:
            first = loop is row.loops[0]
            lines = [f"{kind} {names[load]}[{keep}];" for load, kind in zip(row.loads, row.kinds, strict=True) if first]
            places = _places(module, loop)
            spans = [(n.start_byte, n.end_byte, f"{names[load]}[{turn}]") for load in row.loads for n in places[load]]
            filled = [f"{names[load]}[{turn}] = {module.written(places[load][0])};" for load in row.loads if first]
            body = spliced(module, *loop.inside(module), spans)
            lines += [*unrolled(module, loop, turn, keep, [*filled, *body]), *loop.pragmas(module)]
            rest = [(loop.start.end_byte, loop.start.end_byte, f" + {keep} * ({module.written(loop.step)})")]
            edits.replace(loop, [*lines, *spliced(module, loop.node.start_byte, loop.node.end_byte, rest)])


def _rows(module: CudaModule, kernel: CudaKernel) -> Iterator[_Row]:
    if not apart(module, kernel):
        return
    for block in blocks_in(kernel):
        alike: dict[tuple[str, ...], list[CudaLoop]] = defaultdict(list)
        for loop in loops_of(module, block):
            if not (leaves(loop.body) or waits(loop.body) or _KEPT in plain(loop.start)):
                alike[loop.head(module)].append(loop)
        for loops in alike.values():
            row = _row(module, kernel, block, loops)
            if row is not None:
                yield row


def _row(module: CudaModule, kernel: CudaKernel, block: Node, loops: Sequence[CudaLoop]) -> _Row | None:
    first, last = loops[0], loops[-1]
    span = [n for n in statements(block) if first.node.start_byte <= n.start_byte and n.end_byte <= last.node.end_byte]
    changed = rebound_in(*span) - {first.counter}
    counted = names_in(first.start, first.bound, first.step)
    turned = any(first.counter in rebound_in(loop.body) for loop in loops)
    if turned or counted & (changed | {first.counter}) or any(c in plain(first.start) for c in "?<>="):
        return None
    everywhere = _places(module, first)
    loads, kinds = [], []
    for load, places in everywhere.items():
        kind = _kind(kernel, places[0])
        moved = names_in(places[0]) & (changed | declared_in(*span) - {first.counter})
        repeated = any(load in _places(module, loop) for loop in loops[1:])
        if kind and repeated and not moved and any(always(first, place) for place in places):
            loads.append(load)
            kinds.append(kind)
    users = [loop for loop in loops if loop is first or _places(module, loop).keys() & set(loads)]
    return _Row(users, loads, kinds) if loads else None


def _places(module: CudaModule, loop: CudaLoop) -> dict[str, list[Node]]:
    """Return where a loop loads at its counter, by the text of the load."""
    found: dict[str, list[Node]] = defaultdict(list)
    inside = 0
    for node in walk(loop.body):
        load = node.type == "subscript_expression" or (node.type == "pointer_expression" and plain(node)[:1] == "*")
        if load and node.start_byte >= inside and loop.counter in names_in(node):
            found["".join(module.written(node).split())].append(node)
            inside = node.end_byte
    return found


def _kind(kernel: CudaKernel, load: Node) -> str:
    """Return the type of what is loaded; empty for anything but a load of an input."""
    bases = names_in(load) & kernel.pointers.keys()
    if len(bases) != 1 or not kernel.pointers[next(iter(bases))].constant:
        return ""
    if any(n.type in _INDIRECT for n in walk(load) if n != load):
        return _cast_kind(load)
    alone = load.type == "subscript_expression" and plain(field(load, "argument")) in bases
    return kernel.pointers[next(iter(bases))].element if alone else ""


def _cast_kind(load: Node) -> str:
    """Return `T` for `*reinterpret_cast<const T*>(place)`."""
    name, given = plain(field(load, "argument", "function")), field(load, "argument", "arguments")
    if load.type != "pointer_expression" or given is None or any(n.type in _INDIRECT for n in walk(given)):
        return ""
    head = "reinterpret_cast<const "
    return name.removeprefix(head).removesuffix("*>") if name.startswith(head) and name.endswith("*>") else ""
