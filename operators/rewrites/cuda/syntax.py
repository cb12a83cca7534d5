"""The syntax tree of CUDA C++: what a part of it mentions, declares, calls and changes."""

from collections.abc import Iterator

from tree_sitter import Node


def field(node: Node | None, *path: str) -> Node | None:
    """Return the part of a node that fields lead to, one after the other; None where one is missing."""
    for name in path:
        node = node.child_by_field_name(name) if node is not None else None
    return node


def walk(node: Node | None) -> Iterator[Node]:
    """Yield a node and everything in it, in the order of the text; nothing for None."""
    if node is not None:
        yield node
        for child in node.children:
            yield from walk(child)


def plain(node: Node | None) -> str:
    """Return the text of a node, without words that only CUDA has; an empty one for None."""
    return (node.text or b"").decode() if node is not None else ""


def statements(block: Node) -> list[Node]:
    """Return the statements of a block."""
    return [child for child in block.named_children if child.type != "comment"]


def names_in(*nodes: Node | None) -> frozenset[str]:
    """Return every name that the nodes mention; those of fields are none."""
    return frozenset(plain(n) for node in nodes for n in walk(node) if n.type == "identifier")


def calls_in(node: Node) -> dict[str, list[Node]]:
    """Return the calls inside a node, by the name of what is called."""
    found: dict[str, list[Node]] = {}
    for call in walk(node):
        if call.type == "call_expression":
            found.setdefault(plain(field(call, "function")), []).append(call)
    return found


def rebound_in(*nodes: Node) -> frozenset[str]:
    """Return the variables that the nodes may change: those assigned to, and those that a function could change."""
    changed: set[str] = set()
    for node in (n for each in nodes for n in walk(each)):
        if node.type == "call_expression":
            given = field(node, "arguments")
            if given is not None and plain(field(node, "function")) not in PURE:
                changed |= {plain(argument) for argument in given.named_children if argument.type == "identifier"}
        target = target_of(node)
        if target is not None and target.type == "identifier":
            changed.add(plain(target))
        elif target is not None and target.type not in ("subscript_expression", "pointer_expression"):
            changed |= names_in(target)
    return frozenset(changed)


def assigned(stmt: Node) -> tuple[Node, Node] | None:
    """Return place and value of a statement `place = value;`, None for another one."""
    made = stmt.named_children[0] if stmt.type == "expression_statement" and stmt.named_children else None
    if made is None or made.type != "assignment_expression":
        return None
    place, value = field(made, "left"), field(made, "right")
    plainly = plain(field(made, "operator")) == "="
    return (place, value) if plainly and place is not None and value is not None else None


def target_of(node: Node) -> Node | None:
    """Return the operand that a node changes: of an assignment, of `++`, of an address taken."""
    if node.type == "assignment_expression":
        return field(node, "left")
    if node.type == "update_expression" or (node.type == "pointer_expression" and plain(node)[:1] == "&"):
        return field(node, "argument")
    return None


_PURE = """
exp expf exp2f exp10f log logf log2f log10f sqrt sqrtf rsqrtf fabs fabsf abs min max fmin fminf fmax fmaxf
tanhf tanh erff erf powf sinf cosf floorf ceilf roundf fmaf __fmaf_rn __expf __logf __fdividef __frcp_rn
__fsqrt_rn __powf int float unsigned double __int_as_float __float_as_int __bfloat162float __float2bfloat16
__float2bfloat16_rn __half2float __float2half __float2half_rn __syncthreads
"""
PURE = frozenset(_PURE.split())
"""Functions of CUDA that change none of their arguments."""


def declared_in(*nodes: Node) -> frozenset[str]:
    """Return the names that the nodes declare."""
    names: set[str] = set()
    for each in (n for node in nodes for n in walk(node)):
        if each.type in ("declaration", "parameter_declaration"):
            for child in each.children_by_field_name("declarator"):
                inner: Node | None = child
                while inner is not None and inner.type != "identifier":
                    inner = field(inner, "declarator") or next(
                        (c for c in inner.named_children if c.type == "identifier"), None
                    )
                if inner is not None:
                    names.add(plain(inner))
    return frozenset(names)
