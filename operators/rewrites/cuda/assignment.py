"""Legality of giving the numbers of a loop to other threads: what each thread has of its own, what is combined."""

from collections import Counter

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
    rebound_in,
    statements,
    target_of,
    walk,
)

_EXTREMES = {"fmaxf", "fminf", "fmax", "fmin", "max", "min"}
_CONTROL = {"if_statement", "for_statement", "while_statement", "do_statement", "switch_statement"}


def own_names(module: CudaModule, kernel: CudaKernel, before: int, *sources: str) -> frozenset[str]:
    """Return the variables that may differ between threads at a place of a kernel's own block.

    They come from the `sources`, such as `threadIdx`, from memory that others write, or from a condition on such.
    What a function that combines the values of all threads returns is the same for all of them.
    """
    own: set[str] = {*sources, *(m for m in module.macros if any(s in module.expanded(m) for s in sources))}
    for stmt in statements(kernel.body):
        if stmt.start_byte >= before:
            break
        while True:
            size, cleared = len(own), _spread(module, kernel, stmt, own)
            if len(own) == size:
                break
        own -= cleared
    return frozenset(own - set(sources))


def _spread(module: CudaModule, kernel: CudaKernel, stmt: Node, own: set[str]) -> set[str]:
    """Add what a statement makes a thread's own; return what it makes common to all."""
    cleared: set[str] = set()
    for node in walk(stmt):
        own |= _left_by_function(node)
        declared = node.type == "init_declarator"
        value = field(node, "value" if declared else "right")
        target = field(node, "declarator") if declared else target_of(node)
        if target is None:
            continue
        if value is not None and _combines(module, value):
            cleared |= names_in(target) if node.parent is not None and node.parent.parent == kernel.body else set()
            continue
        needed = names_in(value, target) if declared and value is not None else names_in(node)
        if needed & own or _reads_shared(kernel, value) or _conditions(kernel, node) & own:
            own |= names_in(target) - {"threadIdx", "blockIdx"} if target.type == "identifier" else _base(target)
    return cleared - rebound_in(*(n for n in walk(stmt) if n.type in _CONTROL))


def _base(target: Node) -> frozenset[str]:
    node: Node | None = target
    while node is not None and node.type == "subscript_expression":
        node = field(node, "argument")
    return frozenset() if node is not None and node != target and node.type == "identifier" else names_in(target)


def _left_by_function(node: Node) -> frozenset[str]:
    """Return what a function or assembly may leave in variables, in which it can put anything."""
    if node.type == "gnu_asm_expression":
        return names_in(node)
    given = field(node, "arguments")
    if node.type != "call_expression" or given is None or plain(field(node, "function")) in PURE:
        return frozenset()
    left = [n for n in given.named_children if n.type == "identifier" or plain(n)[:1] == "&"]
    return names_in(*left) - {"threadIdx", "blockIdx"}


def _reads_shared(kernel: CudaKernel, value: Node | None) -> bool:
    """Say whether a value comes from memory other than the kernel's inputs, or from a function of who knows what."""
    if value is not None and calls_in(value).keys() - PURE:
        return True
    for node in walk(value):
        if node.type == "pointer_expression" and plain(node)[:1] == "*":
            return True
        base = field(node, "argument") if node.type == "subscript_expression" else None
        if base is not None and not kernel.is_input(base):
            return True
    return False


def _conditions(kernel: CudaKernel, node: Node) -> frozenset[str]:
    """Return the names on which it depends how often a node runs."""
    names: set[str] = set()
    above = node.parent
    while above is not None and above != kernel.body:
        if above.type in _CONTROL:
            names |= names_in(*(field(above, head) for head in ("condition", "initializer", "update")))
        above = above.parent
    return frozenset(names)


def _combines(module: CudaModule, value: Node) -> bool:
    """Say whether a value is a call of a function that combines what all threads of a block hand it.

    Such a function shuffles downwards or crosswise, waits for the block, and returns one shared value.
    """
    bodies = _bodies(module)
    body = bodies.get(plain(field(value, "function")))
    if value.type != "call_expression" or body is None:
        return False
    text = plain(body) + "".join(plain(bodies[name]) for name in calls_in(body) if name in bodies)
    shuffles = "__shfl_xor_sync" in text or "__shfl_down_sync" in text
    waits = "__syncthreads" in text and "__shfl_up_sync" not in text and "blockIdx" not in text
    results = [n.named_children[0] for n in walk(body) if n.type == "return_statement" and n.named_children]
    return shuffles and waits and bool(results) and all(_is_shared(module, body, n) for n in results)


def _bodies(module: CudaModule) -> dict[str, Node]:
    """Return the blocks of the module's functions, by name."""
    found = {}
    for node in walk(module.root):
        name, body = field(node, "declarator", "declarator"), field(node, "body")
        if node.type == "function_definition" and body is not None and name is not None:
            found[plain(name)] = body
    return found


def _is_shared(module: CudaModule, body: Node, result: Node) -> bool:
    if result.type == "subscript_expression":
        indices, base = field(result, "indices"), field(result, "argument")
        if indices is None or base is None or [n.type for n in indices.named_children] != ["number_literal"]:
            return False
        result = base
    declared = [n for n in walk(body) if n.type == "declaration" and plain(result) in declared_in(n)]
    return len(declared) == 1 and "__shared__" in module.line_before(declared[0])


def sums_are_combined(module: CudaModule, kernel: CudaKernel, loop: CudaLoop) -> bool:
    """Say whether all that a loop carries are sums and extremes that are combined over the block right afterwards."""
    carried = rebound_in(loop.body) - declared_in(loop.body) - {loop.counter}
    mentions = Counter(plain(node) for node in walk(loop.node) if node.type == "identifier")
    folded: Counter[str] = Counter()
    for node in walk(loop.body):
        folded += _fold(node)
    return all(folded[name] == mentions[name] and _combined_next(module, kernel, loop, name) for name in carried)


def _fold(node: Node) -> Counter[str]:
    """Return the mentions of a variable in `v += e` and in `v = fmaxf(v, e)`, if a node is that."""
    left, right = field(node, "left"), field(node, "right")
    if node.type != "assignment_expression" or left is None or right is None or left.type != "identifier":
        return Counter()
    name, sign = plain(left), plain(field(node, "operator"))
    if sign == "+=" and name not in names_in(right):
        return Counter({name: 1})
    given = field(right, "arguments")
    if sign == "=" and right.type == "call_expression" and given is not None:
        own = [argument for argument in given.named_children if name in names_in(argument)]
        extreme = plain(field(right, "function")) in _EXTREMES
        if extreme and [plain(argument) for argument in own] == [name]:
            return Counter({name: 2})
    return Counter()


def _combined_next(module: CudaModule, kernel: CudaKernel, loop: CudaLoop, name: str) -> bool:
    """Say whether the next statement of the kernel's own block that mentions a variable combines it over the block."""
    if loop.node.parent != kernel.body:
        return False
    later = (stmt for stmt in statements(kernel.body) if stmt.start_byte > loop.node.end_byte)
    stmt = next((stmt for stmt in later if name in names_in(stmt)), None)
    if stmt is None or stmt.type not in ("expression_statement", "declaration"):
        return False
    for inner in stmt.named_children:
        value = field(inner, "value" if stmt.type == "declaration" else "right")
        given = field(value, "arguments")
        if value is not None and given is not None and _combines(module, value):
            return name in {plain(argument) for argument in given.named_children}
    return False


def block_is_forgotten(kernel: CudaKernel, loop: CudaLoop) -> bool:
    """Say whether nothing behind a loop depends on which block it is."""
    later = [stmt for stmt in statements(kernel.body) if stmt.start_byte > loop.node.end_byte]
    derived = {"blockIdx"}
    for stmt in statements(kernel.body):
        for node in walk(stmt):
            named = node.type in ("init_declarator", "assignment_expression")
            if named and names_in(node) & derived and stmt != loop.node:
                derived |= rebound_in(node) | (names_in(node.named_children[0]) if node.named_children else frozenset())
    return not names_in(*later) & derived


def atomic_targets(body: Node) -> list[Node]:
    """Return the arrays to which a loop adds atomically, as the nodes that name them."""
    bases = []
    for call in calls_in(body).get("atomicAdd", []):
        given = field(call, "arguments")
        place = given.named_children[0] if given is not None and given.named_children else None
        base = field(place, "argument", "argument")
        ignored = call.parent is not None and call.parent.type == "expression_statement"
        if ignored and base is not None and base.type == "identifier":
            bases.append(base)
    return bases
