"""Loops that the threads of a block or of a grid share: `for (int i = threadIdx.x; i < n; i += THREADS)`."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from operators.rewrites.cuda.source import CudaKernel, CudaLaunch, CudaModule
from operators.rewrites.cuda.syntax import declared_in, field, plain, statements, walk

_COUNTERS = {"int", "unsigned", "unsigned int", "long", "long long", "size_t", "unsigned long long"}
_SOMETIMES = {"if_statement", "for_statement", "while_statement", "do_statement", "switch_statement"}
_SOMETIMES |= {"conditional_expression", "lambda_expression"}
_LEAVES = {"break_statement", "return_statement", "goto_statement", "continue_statement"}
BARRIERS = ("__syncthreads", "__syncwarp", "__shfl", "asm", "cp_async", "cuda::")


@dataclass(frozen=True, slots=True)
class CudaLoop:
    """A loop `for (T i = start; i < bound; i += step)` among the statements of a block."""

    node: Node
    """The statement."""
    first: int
    """Offset of the first pragma in front of it, else of the statement."""
    kind: str
    """The type of its counter."""
    counter: str
    """Its counter."""
    start: Node
    """Where it starts."""
    bound: Node
    """Where it ends."""
    step: Node
    """How far it goes at once."""
    body: Node
    """What it does."""

    def pragmas(self, module: CudaModule) -> list[str]:
        """Return the lines of the pragmas in front of it."""
        return [line.strip() for line in module.cpp[self.first : self.node.start_byte].split("\n")[:-1]]

    def head(self, module: CudaModule) -> tuple[str, str, str, str, str]:
        """Return what two loops have in common that give each thread the same numbers."""
        start, bound, step = ("".join(module.written(n).split()) for n in (self.start, self.bound, self.step))
        return self.kind, self.counter, start, bound, step

    def inside(self, module: CudaModule) -> tuple[int, int]:
        """Return the offsets between which its body stands, without its brackets."""
        start, end = self.body.start_byte, self.body.end_byte
        if self.body.type == "compound_statement":
            inner = module.cpp[start + 1 : end - 1]
            start, end = start + 1 + len(inner) - len(inner.lstrip()), end - 1 - len(inner) + len(inner.rstrip())
        return start, end

    def inner(self) -> list[Node]:
        """Return the statements of its body."""
        return statements(self.body) if self.body.type == "compound_statement" else [self.body]


def loop_of(module: CudaModule, node: Node) -> CudaLoop | None:
    """Return a statement of a block as such a loop; None for anything else."""
    parent = node.parent
    if node.type != "for_statement" or parent is None or parent.type != "compound_statement":
        return None
    initializer, body = field(node, "initializer"), field(node, "body")
    first = initializer.children_by_field_name("declarator") if initializer is not None else []
    if body is None or len(first) != 1 or first[0].type != "init_declarator":
        return None
    start, bound, step = field(first[0], "value"), field(node, "condition", "right"), field(node, "update", "right")
    if start is None or bound is None or step is None:
        return None
    kind, counter = plain(field(initializer, "type")), plain(field(first[0], "declarator"))
    head = [
        (plain(field(node, part, "left")), plain(field(node, part, "operator"))) for part in ("condition", "update")
    ]
    if head != [(counter, "<"), (counter, "+=")] or kind not in _COUNTERS or counter in declared_in(body):
        return None
    return CudaLoop(node, module.pragma_before(node.start_byte), kind, counter, start, bound, step, body)


def loops_of(module: CudaModule, block: Node) -> list[CudaLoop]:
    """Return the loops among the statements of a block."""
    return [loop for node in statements(block) if (loop := loop_of(module, node)) is not None]


def blocks_in(kernel: CudaKernel) -> Iterator[Node]:
    """Yield every block of a kernel, outermost first."""
    return (node for node in walk(kernel.body) if node.type == "compound_statement")


def leaves(node: Node) -> bool:
    """Say whether a node may end a loop or the kernel, so that what follows it does not run."""
    return any(each.type in _LEAVES for each in walk(node))


def always(loop: CudaLoop, place: Node) -> bool:
    """Say whether every round of a loop comes to a place."""
    node = place.parent
    while node is not None and node != loop.node:
        chained = node.type == "binary_expression" and {"&&", "||"} & {child.type for child in node.children}
        if node.type in _SOMETIMES or chained:
            return False
        node = node.parent
    return True


def waits(node: Node) -> bool:
    """Say whether a node waits for other threads, talks to them or holds assembly."""
    return any(word in plain(node) for word in BARRIERS)


def over_block(module: CudaModule, kernel: CudaKernel, loop: CudaLoop) -> bool:
    """Say whether the threads of each block share the loop's numbers, each number once, in a block of one dimension."""
    starts = plain(loop.start) == "threadIdx.x"
    return starts and all(_is_block(module, launch, plain(loop.step)) for launch in kernel.launches)


def over_grid(module: CudaModule, kernel: CudaKernel, loop: CudaLoop) -> bool:
    """Say whether the threads of the whole grid share the loop's numbers, each number once, in one dimension."""
    step, start = local_value(kernel, plain(loop.step)), plain(loop.start)
    for launch in kernel.launches:
        size, blocks = _one(launch.block), _one(launch.grid)
        if size is None or blocks is None:
            return False
        widths = ("blockDim.x", size)
        if not any(_among(module, start, _orders("blockIdx.x", width, "threadIdx.x")) for width in widths):
            return False
        counts = ("gridDim.x", blocks)
        if not any(_among(module, step, (f"{a}*{b}", f"{b}*{a}")) for a in widths for b in counts):
            return False
    return True


def local_value(kernel: CudaKernel, name: str) -> str:
    """Return the value of a name that the kernel declares once as const, else the name."""
    found = [
        plain(value)
        for node in statements(kernel.body)
        if node.type == "declaration" and plain(node).startswith("const ")
        for each in node.children_by_field_name("declarator")
        if each.type == "init_declarator"
        and plain(field(each, "declarator")) == name
        and (value := field(each, "value")) is not None
    ]
    return found[0] if len(found) == 1 else name


def _orders(block: str, width: str, thread: str) -> tuple[str, ...]:
    return (f"{block}*({width})+{thread}", f"({width})*{block}+{thread}", f"{thread}+{block}*({width})")


def _among(module: CudaModule, text: str, forms: tuple[str, ...]) -> bool:
    return any(module.same(text, form) for form in forms)


def _is_block(module: CudaModule, launch: CudaLaunch, step: str) -> bool:
    size = _one(launch.block)
    return size is not None and (step == "blockDim.x" or module.same(step, size))


def _one(extent: ast.expr) -> str | None:
    """Return an extent of one dimension, as Python writes it."""
    if isinstance(extent, ast.Tuple):
        return ast.unparse(extent.elts[0]) if len(extent.elts) == 1 else None
    return ast.unparse(extent)
