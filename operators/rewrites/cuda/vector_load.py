"""`vector_load`: threads read and write several neighbouring elements at once."""

from collections.abc import Iterator, Sequence

from tree_sitter import Node

from operators.rewrites.cuda.assignment import atomic_targets, block_is_forgotten, own_names, sums_are_combined
from operators.rewrites.cuda.edits import CudaEdits, CudaRewrite, indented
from operators.rewrites.cuda.loops import CudaLoop, always, leaves, loops_of, over_block, over_grid, waits
from operators.rewrites.cuda.source import CudaKernel, CudaModule, apart, spliced
from operators.rewrites.cuda.syntax import (
    PURE,
    assigned,
    calls_in,
    declared_in,
    field,
    names_in,
    plain,
    rebound_in,
    statements,
    walk,
)

VECTOR = "template <typename T, int N> struct alignas(sizeof(T) * N) Vector { T at[N]; };"
"""Neighbouring elements that one instruction moves."""


def clashes(module: CudaModule) -> bool:
    """Say whether a source has another meaning for the name of vectors."""
    return "Vector" in module.words() and VECTOR not in module.cpp


BYTES = 16
"""As many as one instruction of a thread moves at most."""


class VectorLoad(CudaRewrite):
    """Loops that share elements among threads, with several neighbouring elements a thread, moved by one instruction.

    What does not fill a vector, and rows that do not begin at a vector's boundary, go one by one as before.
    Legal where threads share the elements of a loop, each once; where the loop holds nothing that differs between
    threads but its elements; where it reads inputs only, and writes each element of an output at most once; and where
    what it carries are sums or extremes that the block combines next, or atomic additions.
    """

    name = "vector_load"

    def places(self, module: CudaModule, kernel: CudaKernel) -> Iterator[tuple[str, Sequence[CudaLoop]]]:
        """Yield the loops of a kernel over the same elements."""
        for loops in _groups(module, kernel):
            yield f"{kernel.name} over {module.written(loops[0].bound)}", loops

    def edit(self, edits: CudaEdits, kernel: CudaKernel, loops: Sequence[CudaLoop]) -> None:
        """Write vectors, and the loops as they were for the rest."""
        module = edits.module
        moved = {name for loop in loops for name, _ in _moved(kernel, loop)}
        widest = BYTES // max(module.sizes[kernel.pointers[name].element] for name in moved)
        edits.add_definition(VECTOR)
        lanes = edits.add_tunable("LANES", widest, [n for n in (1, 2, 4, 8) if n <= widest])
        aligned, whole, lane = (edits.fresh(name) for name in ("aligned", "whole", "lane"))
        first = loops[0]
        tests = [
            f"(unsigned long long)({base}) % (sizeof(*{name}) * {lanes}) == 0"
            for name, base in sorted(set(_bases(kernel, loops)))
        ]
        bound = module.written(first.bound)
        head = [
            f"const bool {aligned} = {tests[0]}{' &&' if tests[1:] else ';'}",
            *(f"    {test}{';' if test is tests[-1] else ' &&'}" for test in tests[1:]),
            f"const {first.kind} {whole} = {aligned} ? ({bound}) / {lanes} * {lanes} : 0;  // so many fill vectors",
        ]
        for loop in loops:
            names = {name: edits.fresh(f"{name}_vector") for name, _ in _moved(kernel, loop)}
            lines = [*_vectors(module, kernel, loop, names, (lanes, whole, lane)), *_rest(module, loop, whole)]
            edits.replace(loop, [*(head if loop is first else []), *lines])


def _groups(module: CudaModule, kernel: CudaKernel) -> Iterator[Sequence[CudaLoop]]:
    """Yield the loops of the kernel's own block that can have vectors, those over the same elements together."""
    found: dict[tuple[str, ...], list[CudaLoop]] = {}
    if not apart(module, kernel):
        return
    for loop in loops_of(module, kernel.body):
        if _legal(module, kernel, loop):
            found.setdefault(loop.head(module), []).append(loop)
    for loops in found.values():
        span = [
            stmt
            for stmt in statements(kernel.body)
            if loops[0].first <= stmt.start_byte and stmt.end_byte <= loops[-1].node.end_byte
        ]
        fixed = names_in(*(part for loop in loops for part in (loop.start, loop.bound, loop.step)))
        fixed |= {name for loop in loops for name, _ in _moved(kernel, loop)}
        if not rebound_in(*span) & fixed:
            yield loops


def _legal(module: CudaModule, kernel: CudaKernel, loop: CudaLoop) -> bool:
    """Say whether a loop can give its elements to other threads, several neighbours to one."""
    wide = over_grid(module, kernel, loop)
    if leaves(loop.body) or waits(loop.body) or not (wide or over_block(module, kernel, loop)):
        return False
    elements = {kernel.pointers[name].element for name, _ in _moved(kernel, loop)}
    if not elements or not elements <= module.sizes.keys() or clashes(module):
        return False
    if not _is_common(module, kernel, loop, wide=wide) or not _keeps_to_its_elements(kernel, loop):
        return False
    return sums_are_combined(module, kernel, loop) and not (wide and not block_is_forgotten(kernel, loop))


def _is_common(module: CudaModule, kernel: CudaKernel, loop: CudaLoop, *, wide: bool) -> bool:
    """Say whether nothing but its elements, and what it sums, differs between the threads that share a loop."""
    own = own_names(module, kernel, loop.first, "threadIdx", *(["blockIdx"] if wide else []))
    inside = declared_in(loop.body) | {loop.counter}
    carried = rebound_in(loop.body) - inside
    if loop.counter in rebound_in(loop.body) or (wide and carried):
        return False
    free = names_in(loop.body) - inside - carried
    places = {"threadIdx", "blockIdx"} & names_in(loop.body) or "threadIdx" in plain(loop.bound)
    return not (places or (free | names_in(loop.bound)) & own)


def _keeps_to_its_elements(kernel: CudaKernel, loop: CudaLoop) -> bool:
    """Say whether a loop reads inputs only, writes each element at most once or adds atomically, and calls no more."""
    targets, calls, stores = atomic_targets(loop.body), calls_in(loop.body), _stores(loop)
    if calls.keys() - PURE - {"atomicAdd"} or len(targets) != len(calls.get("atomicAdd", [])):
        return False
    written = [kernel.pointers.get(plain(base)) for base, _ in stores]
    if any(pointer is None or _mentions(kernel, pointer.root) != 1 for pointer in written):
        return False
    allowed = [*targets, *(base for base, _ in stores)]
    for node in walk(loop.body):
        if node.type == "pointer_expression" and plain(node)[:1] == "*":
            return False
        base = field(node, "argument") if node.type == "subscript_expression" else None
        if base is not None and base not in allowed and not kernel.is_input(base):
            return False
    return True


def _mentions(kernel: CudaKernel, root: str) -> int:
    """Return how often a kernel mentions a pointer, or one that comes from it, other than to move the pointer."""
    names = {pointer.name for pointer in kernel.pointers.values() if pointer.root == root}
    moved = sum(n.type == "assignment_expression" and plain(field(n, "left")) in names for n in walk(kernel.body))
    declared = sum(2 for pointer in kernel.pointers.values() if pointer.root == root and pointer.place < 0)
    return sum(n.type == "identifier" and plain(n) in names for n in walk(kernel.body)) - moved - declared


def _stores(loop: CudaLoop) -> list[tuple[Node, Node]]:
    """Return the base and the place of each `y[i] = value` that every round of a loop does."""
    found = []
    for stmt in loop.inner():
        place, _ = assigned(stmt) or (None, None)
        base = field(place, "argument")
        if place is not None and base is not None and _offset(loop, place) is not None:
            found.append((base, place))
    return found


def _offset(loop: CudaLoop, place: Node) -> str | None:
    """Return what is added to the counter in `a[i + offset]`, empty for `a[i]`; None for another place."""
    indices, base = field(place, "indices"), field(place, "argument")
    if place.type != "subscript_expression" or indices is None or base is None or base.type != "identifier":
        return None
    if len(indices.named_children) != 1:
        return None
    index = indices.named_children[0]
    if plain(index) == loop.counter:
        return ""
    if index.type != "binary_expression" or plain(field(index, "operator")) != "+":
        return None
    others = [side for side in (field(index, "left"), field(index, "right")) if plain(side) != loop.counter]
    if len(others) != 1 or names_in(others[0]) & ({loop.counter} | declared_in(loop.body)):
        return None
    return plain(others[0])


def _moved(kernel: CudaKernel, loop: CudaLoop) -> list[tuple[str, Node]]:
    """Return the pointers whose elements can go in vectors, each with one place where the loop names an element."""
    places: dict[str, list[Node]] = {}
    for node in walk(loop.body):
        if node.type == "subscript_expression" and _offset(loop, node) is not None:
            places.setdefault(plain(field(node, "argument")), []).append(node)
    stored = {plain(base) for base, _ in _stores(loop)}
    return [
        (name, nodes[0])
        for name, nodes in places.items()
        if name in kernel.pointers
        and any(always(loop, node) for node in nodes)
        and (kernel.pointers[name].constant or name in stored)
        and len({_offset(loop, node) for node in nodes}) == 1
        and not names_in(nodes[0]) & (rebound_in(loop.body) - {loop.counter})
    ]


def _bases(kernel: CudaKernel, loops: Sequence[CudaLoop]) -> Iterator[tuple[str, str]]:
    """Yield each pointer of vectors with the place from which the loops count."""
    for loop in loops:
        for name, place in _moved(kernel, loop):
            offset = _offset(loop, place)
            yield name, f"{name} + {offset}" if offset else name


def _vectors(
    module: CudaModule, kernel: CudaKernel, loop: CudaLoop, names: dict[str, str], words: tuple[str, str, str]
) -> list[str]:
    lanes, whole, lane = words
    counter, stored = loop.counter, {plain(base) for base, _ in _stores(loop)}
    before, after = [], []
    for name, place in _moved(kernel, loop):
        index = module.written(place)[len(name) + 1 : -1]
        kind = f"Vector<{kernel.pointers[name].element}, {lanes}>"
        at = f"{name} + {index}"
        if name in stored:
            before.append(f"{kind} {names[name]};")
            after.append(f"*reinterpret_cast<{kind}*>({at}) = {names[name]};")
        else:
            before.append(f"const {kind} {names[name]} = *reinterpret_cast<const {kind}*>({at});")
    body = _with_lanes(module, kernel, loop, names, lane)
    start, step = (f"({loop.kind})({module.written(part)})" for part in (loop.start, loop.step))
    return [
        *loop.pragmas(module),
        f"for ({loop.kind} {counter} = {start} * {lanes}; {counter} < {whole}; {counter} += {step} * {lanes}) {{",
        *indented(before),
        "    #pragma unroll",
        f"    for (int {lane} = 0; {lane} < {lanes}; ++{lane}) {{",
        *indented(indented(body)),
        "    }",
        *indented(after),
        "}",
    ]


def _with_lanes(module: CudaModule, kernel: CudaKernel, loop: CudaLoop, names: dict[str, str], lane: str) -> list[str]:
    moved = {name for name, _ in _moved(kernel, loop)}
    spans: list[tuple[int, int, str]] = []
    for node in walk(loop.body):
        if any(start <= node.start_byte and node.end_byte <= end for start, end, _ in spans):
            continue
        base = plain(field(node, "argument")) if node.type == "subscript_expression" else ""
        if base in moved and _offset(loop, node) is not None:
            spans.append((node.start_byte, node.end_byte, f"{names[base]}.at[{lane}]"))
        elif node.type == "identifier" and plain(node) == loop.counter:
            spans.append((node.start_byte, node.end_byte, f"({loop.counter} + {lane})"))
    return spliced(module, *loop.inside(module), spans)


def _rest(module: CudaModule, loop: CudaLoop, whole: str) -> list[str]:
    """Return the loop over what no vector covers."""
    beginning = [(loop.start.start_byte, loop.start.start_byte, f"{whole} + ")]
    return [*loop.pragmas(module), *spliced(module, loop.node.start_byte, loop.node.end_byte, beginning)]
