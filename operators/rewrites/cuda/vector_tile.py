"""`vector_tile`: tiles come to shared memory by vectors instead of single elements."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tree_sitter import Node

from operators.rewrites.cuda.assignment import own_names
from operators.rewrites.cuda.edits import CudaEdits, CudaRewrite, indented
from operators.rewrites.cuda.loops import CudaLoop, blocks_in, leaves, loop_of, loops_of, over_block, waits
from operators.rewrites.cuda.source import CudaKernel, CudaModule, CudaPointer, apart, spliced
from operators.rewrites.cuda.syntax import assigned, declared_in, field, names_in, plain, rebound_in, statements, walk
from operators.rewrites.cuda.tiles import (
    is_constant,
    is_vector_aligned,
    loops_around,
    reads_inputs_only,
    shared_arrays,
    waits_before_use,
)
from operators.rewrites.cuda.vector_index import UNKNOWN, Needs, VectorIndex, parsed
from operators.rewrites.cuda.vector_load import BYTES, VECTOR, clashes


@dataclass(frozen=True, slots=True)
class _Copy:
    """A loop that copies a tile: declarations, then `shared[place] = test ? input[index] : 0`."""

    loop: CudaLoop
    source: CudaPointer
    store: Node
    """The place in shared memory."""
    value: Node
    """What is stored."""
    test: Node | None
    """When it is loaded; None for always."""
    load: Node
    """The load."""
    count: int
    """Elements of a vector."""
    needs: Needs
    """Sizes that must be multiples of that."""
    side_by_side: bool
    """Says whether the elements of a vector lie side by side in shared memory too, at a vector's boundary."""


class VectorTile(CudaRewrite):
    """Tiles brought to shared memory 16 bytes a thread at a time, where the sizes and the pointer allow it in a call.

    Elements that do not lie side by side in shared memory are stored one by one.
    Legal where neighbouring rounds of the loop load neighbouring elements of an input, all or none of them inside;
    where the tile is a whole number of vectors; and where the block waits between the loop and every use of the tile.
    """

    name = "vector_tile"

    def places(self, module: CudaModule, kernel: CudaKernel) -> Iterator[tuple[str, list[_Copy]]]:
        """Yield all such loops of a kernel together."""
        if copies := list(_copies(module, kernel)):
            yield f"{kernel.name}: {', '.join(copy.source.name for copy in copies)}", copies

    def edit(self, edits: CudaEdits, kernel: CudaKernel, found: list[_Copy]) -> None:
        """Write loads of vectors, and of single elements where the sizes forbid them."""
        edits.add_definition(VECTOR)
        first, part, lane = (edits.fresh(name) for name in ("first", "part", "lane"))
        for copy in found:
            edits.replace(copy.loop, _by_vectors(edits.module, copy, first, part, lane))


def _by_vectors(module: CudaModule, copy: _Copy, first: str, part: str, lane: str) -> list[str]:
    loop, name = copy.loop, copy.source.name
    kind = f"Vector<{copy.source.element}, {copy.count}>"
    tests = [f"{number} % {copy.count} == 0" for number in sorted(copy.needs)]
    tests.append(f"(unsigned long long)({name}) % {BYTES} == 0")
    start, bound, step = (module.written(each) for each in (loop.start, loop.bound, loop.step))
    stmts = loop.inner()
    known = spliced(module, stmts[0].start_byte, stmts[-2].end_byte) if len(stmts) > 1 else []
    counter, indices = f"const {loop.kind} {loop.counter} = {first}", field(copy.load, "indices")
    index = module.written(indices)[1:-1] if indices is not None else ""
    load = f"{part} = *reinterpret_cast<const {kind}*>({name} + ({index}));"
    each_lane = ["#pragma unroll", f"for (int {lane} = 0; {lane} < {copy.count}; ++{lane}) {{"]
    place = module.written(copy.store)
    base = plain(field(copy.store, "argument"))
    if copy.side_by_side:
        spot = f"{base} + ({place[len(base) + 1 : -1]})"
        stored = ["{", *indented([f"{counter};", *known, f"*reinterpret_cast<{kind}*>({spot}) = {part};"]), "}"]
    else:
        inner = [f"{counter} + {lane};", *known, f"{place} = {part}.at[{lane}];"]
        stored = [*each_lane, *indented(inner), "}"]
    single = [f"{counter} + {lane};", *known, f"{part}.at[{lane}] = {module.written(copy.value)};"]
    return [
        *loop.pragmas(module),
        f"for ({loop.kind} {first} = ({loop.kind})({start}) * {copy.count}; {first} < {bound};"
        f" {first} += ({loop.kind})({step}) * {copy.count}) {{",
        f"    {kind} {part} = {{}};",
        f"    if ({' && '.join(tests)}) {{",
        *indented(indented([f"{counter};", *known])),
        f"        if ({module.written(copy.test)}) {load}" if copy.test is not None else f"        {load}",
        "    } else {",
        *indented(indented([*each_lane, *indented(single), "}"])),
        "    }",
        *indented(stored),
        "}",
    ]


def _copies(module: CudaModule, kernel: CudaKernel) -> Iterator[_Copy]:
    if apart(module, kernel) and not clashes(module):
        for block in blocks_in(kernel):
            for loop in loops_of(module, block):
                copy = _copy(module, kernel, block, loop)
                if copy is not None:
                    yield copy


def _copy(module: CudaModule, kernel: CudaKernel, block: Node, loop: CudaLoop) -> _Copy | None:
    """Return a loop as a copy of a tile that can go by vectors."""
    *known, last = loop.inner()
    copied = assigned(last)
    if copied is None or any(stmt.type != "declaration" for stmt in known) or leaves(loop.body) or waits(loop.body):
        return None
    store, value = copied
    if not over_block(module, kernel, loop) or not is_constant(module, loop.bound):
        return None
    test, load = _guarded(value)
    arrays = shared_arrays(module, kernel)
    base = plain(field(store, "argument")) if store.type == "subscript_expression" else ""
    source = kernel.pointers.get(plain(field(load, "argument")))
    if load is None or source is None or not source.constant or source.element not in module.sizes:
        return None
    if base not in arrays or plain(field(arrays[base], "type")) != source.element:
        return None
    if not waits_before_use(kernel, block, loop, base) or not reads_inputs_only(module, kernel, *known, value):
        return None
    if any(n.type == "subscript_expression" and n not in (store, load) for n in walk(loop.body)):
        return None
    own = own_names(module, kernel, loop.first, "threadIdx")
    inside = declared_in(loop.body) | {loop.counter}
    if (names_in(loop.body) - inside) & own or "threadIdx" in names_in(loop.body) or rebound_in(loop.body):
        return None
    return _lined_up(module, kernel, loop, (source, store, value, test, load))


def _lined_up(
    module: CudaModule, kernel: CudaKernel, loop: CudaLoop, parts: tuple[CudaPointer, Node, Node, Node | None, Node]
) -> _Copy | None:
    source, store, value, test, load = parts
    lanes = _lanes(module, kernel, loop, BYTES // module.sizes[source.element])

    def read(node: Node | None) -> ast.expr | None:
        return parsed(module.expanded(plain(node))) if node is not None else None

    def inside(node: Node) -> ast.expr | None:
        indices = field(node, "indices")
        return read(indices.named_children[0]) if indices is not None and len(indices.named_children) == 1 else None

    at, place = inside(load), inside(store)
    start = lanes.needs(at)
    alike: Needs | None = lanes.alike(read(test)) if test is not None else frozenset()
    if lanes.growth(at) != 1 or start is None or alike is None or lanes.needs(read(loop.bound)) != frozenset():
        return None
    aligned = is_vector_aligned(module, shared_arrays(module, kernel)[plain(field(store, "argument"))])
    side_by_side = aligned and lanes.growth(place) == 1 and lanes.needs(place) == frozenset()
    return _Copy(loop, source, store, value, test, load, lanes.count, start | alike, side_by_side)


def _guarded(value: Node) -> tuple[Node | None, Node | None]:
    """Return the test and the load of `test ? input[index] : 0`, or of `input[index]`."""
    if value.type == "subscript_expression":
        return None, value
    test, load, other = (field(value, part) for part in ("condition", "consequence", "alternative"))
    if value.type != "conditional_expression" or other is None or load is None or load.type != "subscript_expression":
        return None, None
    return (test, load) if plain(other) in ("0", "0.0f", "0.f", "0.0") else (None, None)


def _lanes(module: CudaModule, kernel: CudaKernel, loop: CudaLoop, count: int) -> VectorIndex:
    """Return what is known of the names in a loop."""
    inside = declared_in(loop.body) | {loop.counter}
    blocks = [(n, n.parent) for n in (loop.node, *loops_around(loop.node)) if n.parent is not None]
    seen = [stmt for n, block in blocks for stmt in statements(block) if stmt.end_byte <= n.start_byte]
    values = {name: value for name, value in _constants(module, seen) if not _names(value) & inside}
    values |= dict.fromkeys(declared_in(loop.body), UNKNOWN) | dict(_constants(module, loop.inner()))
    counted = {}
    for around in loops_around(loop.node):
        outer = loop_of(module, around)
        if outer is not None and outer.counter not in rebound_in(outer.body) | inside:
            first, step = (parsed(module.expanded(plain(each))) for each in (outer.start, outer.step))
            if first is not None and step is not None and not (_names(first) | _names(step)) & inside:
                counted[outer.counter] = first, step
    numbers = kernel.numbers - rebound_in(kernel.body) - declared_in(kernel.body)
    return VectorIndex(count, loop.counter, values, counted, module.choices, numbers)


def _constants(module: CudaModule, stmts: Iterable[Node]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that statements declare as const, with their values."""
    for stmt in stmts:
        if stmt.type == "declaration" and module.cpp.startswith("const ", stmt.start_byte):
            for declarator in stmt.children_by_field_name("declarator"):
                name, value = field(declarator, "declarator"), field(declarator, "value")
                if name is not None and value is not None and name.type == "identifier":
                    yield plain(name), parsed(module.expanded(plain(value))) or UNKNOWN


def _names(value: ast.expr) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(value) if isinstance(node, ast.Name))
