"""Loops that bring a tile to shared memory: each round takes one element of an input and stores it."""

import re
from collections.abc import Iterator

from tree_sitter import Node

from operators.rewrites.cuda.loops import CudaLoop
from operators.rewrites.cuda.source import CudaKernel, CudaModule
from operators.rewrites.cuda.syntax import (
    PURE,
    calls_in,
    declared_in,
    field,
    names_in,
    plain,
    statements,
    target_of,
    walk,
)


def shared_arrays(module: CudaModule, kernel: CudaKernel) -> dict[str, Node]:
    """Return the declarations of the arrays of one dimension in shared memory, by name."""
    found = {}
    for node in statements(kernel.body):
        if node.type == "declaration" and "__shared__" in module.line_before(node):
            for declarator in node.children_by_field_name("declarator"):
                inner = field(declarator, "declarator")
                if declarator.type == "array_declarator" and inner is not None and inner.type == "identifier":
                    found[plain(inner)] = node
    return found


def is_vector_aligned(module: CudaModule, declaration: Node) -> bool:
    """Say whether an array is declared to begin at a multiple of 16 bytes."""
    text = module.line_before(declaration) + module.written(declaration)
    return any(word in text for word in ("__align__(16)", "alignas(16)"))


def stored_arrays(node: Node, *, below: int = 0) -> frozenset[str]:
    """Return the names by which a node reaches what it assigns to, from an offset on."""
    found: set[str] = set()
    for inner in walk(node):
        if inner.start_byte < below:
            continue
        target = target_of(inner)
        while target is not None and target.type in ("subscript_expression", "field_expression"):
            target = field(target, "argument")
        places = [target] if target is None or target.type != "pointer_expression" else _based(target)
        found |= names_in(*places)
    return frozenset(found)


def _based(target: Node) -> list[Node]:
    """Return what `*reinterpret_cast<T*>(array + place)` is based on."""
    given = field(target, "argument", "arguments")
    sums = given.named_children if given is not None else [target]
    left = field(sums[0], "left") if len(sums) == 1 and sums[0].type == "binary_expression" else None
    return [left] if left is not None and left.type == "identifier" else [target]


def is_constant(module: CudaModule, node: Node) -> bool:
    """Say whether a number is known when the kernel is compiled."""
    words = re.findall(r"\w+|[^\w\s()]", module.expanded(plain(node)).replace("(int)", ""))
    return all(word in module.choices or word in "+-*/%" or word.isdigit() for word in words)


def reads_inputs_only(module: CudaModule, kernel: CudaKernel, *nodes: Node) -> bool:
    """Say whether nodes read no memory but inputs and what they declare, and call nothing that has an effect."""
    own = declared_in(*nodes)
    arrays = {name for name, pointer in kernel.pointers.items() if not pointer.constant}
    for stmt in statements(kernel.body):
        if stmt.type == "declaration" and any(
            child.type in ("array_declarator", "pointer_declarator") for child in walk(stmt)
        ):
            arrays |= declared_in(stmt) - {name for name, pointer in kernel.pointers.items() if pointer.constant}
    called = {name for node in nodes for name in calls_in(node) if not name.startswith("reinterpret_cast<const ")}
    return not (names_in(*nodes) & (arrays - own)) and called <= PURE


def waits_before_use(kernel: CudaKernel, block: Node, loop: CudaLoop, array: str) -> bool:
    """Say whether the block waits for all threads behind a loop before anything but such loops uses an array.

    It also waits behind its last use, where the block is the body of a loop, and nothing uses the array before that.
    """
    before = [
        n for n in walk(kernel.body) if n.type == "identifier" and plain(n) == array and n.end_byte <= block.start_byte
    ]
    if len(before) > (block != kernel.body):
        return False
    later = [stmt for stmt in statements(block) if stmt.start_byte > loop.node.start_byte]
    barriers = [n for n, stmt in enumerate(later) if is_barrier(stmt)]
    if not barriers or any(array in names_in(stmt) for stmt in later[: barriers[0]]):
        return False
    used = max((n for n, stmt in enumerate(later) if array in names_in(stmt)), default=-1)
    return used < barriers[-1] or block == kernel.body


def is_barrier(stmt: Node) -> bool:
    """Say whether a statement is `__syncthreads();`."""
    return "".join(plain(stmt).split()) == "__syncthreads();"


def loops_around(node: Node) -> Iterator[Node]:
    """Yield the loops around a node, innermost first."""
    above = node.parent
    while above is not None:
        if above.type == "for_statement":
            yield above
        above = above.parent
