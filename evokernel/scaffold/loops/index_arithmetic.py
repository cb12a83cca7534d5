"""Index arithmetic, from loop variables through views to subscripts of a buffer."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import cast

from evokernel.scaffold.loops.operation_graph import Node, Shape, in_order
from evokernel.scaffold.operation.sizes import SymbolicSizes

Digits = tuple[tuple[str, int], ...]
"""An index as a number in mixed radix: digits (C++ text, extent), the most significant first; none is 0."""
Index = tuple[Digits, ...]


def loop_extents(shape: Shape, sizes: SymbolicSizes) -> list[int]:
    """Return the extents of the loops over a shape: none for 1, several for merged dimensions."""
    return [part for extent in shape for part in sizes.parts(extent)]


def loop_index(shape: Shape, variables: Sequence[str], sizes: SymbolicSizes) -> Index:
    """Return the index over a shape with the variables of these loops."""
    names = iter(variables)
    return tuple(tuple((next(names), part) for part in sizes.parts(extent)) for extent in shape)


def reduced_shape(node: Node) -> Shape:
    """Return the extents that a reduction reduces."""
    return tuple(node.args[0].shape[dim] for dim in _reduced(node))


def summands(node: Node, index: Index, across: Index) -> list[tuple[Node, Index]]:
    """Return the operands of one step of a reduction, at an element and an index over the reduced extents."""
    source, dims = node.args[0], _reduced(node)
    if node.op == "matmul":
        right = node.args[1]
        batch = index[:-2] if len(right.shape) > 2 else ()
        return [(source, (*index[:-1], *across)), (right, (*batch, *across, index[-1]))]
    reduced, kept = iter(across), iter(index)
    return [(source, tuple(next(reduced if dim in dims else kept) for dim in range(len(source.shape))))]


def _reduced(node: Node) -> tuple[int, ...]:
    dims = (len(node.args[0].shape) - 1,) if node.op == "matmul" else node.attrs[0]
    assert isinstance(dims, tuple)
    return dims


def resolve(node: Node, index: Index, sizes: SymbolicSizes) -> tuple[Node, Index]:
    """Return the value behind all views, and the index of the element in it."""
    while node.op in _STEPS:
        index = _STEPS[node.op](node, index, sizes)
        node = node.args[0]
    return node, index


def indexed(node: Node, index: Index, texts: Sequence[str], sizes: SymbolicSizes) -> Index:
    """Return the index into the first argument of a lookup or a store, given what the indices are in C++."""
    dims, named, found = node.attrs[0], iter(texts), list[Digits]()
    assert isinstance(dims, tuple)
    for dim, extent in zip(dims, node.args[0].shape, strict=True):
        text = next(named) if dim < 0 else value_of(index[dim], sizes)
        text = text if dim < 0 or text.isalnum() else f"({text})"
        found.append(() if extent == 1 or text == "0" else ((text, extent),))
    return tuple(found)


def subscript(shape: Shape, index: Index, sizes: SymbolicSizes) -> str:
    """Return the C++ subscript of an element in a contiguous buffer."""
    terms: list[str] = []
    for dim, digits in enumerate(index):
        rest = shape[dim + 1 :]
        for position, (text, _) in enumerate(digits):
            stride = (*(extent for _, extent in digits[position + 1 :]), *rest)
            terms.append(_term(text, stride, sizes))
    return " + ".join(terms) or "0"


def value_of(digits: Digits, sizes: SymbolicSizes) -> str:
    """Return an index as one C++ expression."""
    return subscript(tuple(extent for _, extent in digits), tuple((digit,) for digit in digits), sizes)


def digit(text: str, extent: int) -> Digits:
    """Return the index that a C++ expression is."""
    return () if extent == 1 or text == "0" else ((text, extent),)


def _term(text: str, stride: tuple[int, ...], sizes: SymbolicSizes) -> str:
    return text if prod(stride) == 1 else f"{text} * {sizes.product(stride)}"


def _broadcast(node: Node, index: Index, _: SymbolicSizes) -> Index:
    dims = node.attrs[0]
    assert isinstance(dims, tuple)
    return tuple(() if extent == 1 else index[dim] for dim, extent in zip(dims, node.args[0].shape, strict=True))


def _transpose(node: Node, index: Index, _: SymbolicSizes) -> Index:
    permutation = node.attrs[0]
    assert isinstance(permutation, tuple)
    source: list[Digits] = [()] * len(index)
    for place, dim in enumerate(permutation):
        source[dim] = index[place]
    return tuple(source)


def _squeeze(node: Node, index: Index, _: SymbolicSizes) -> Index:
    dims = node.attrs[0]
    assert isinstance(dims, tuple)
    rest = iter(index)
    return tuple(() if dim in dims else next(rest) for dim in range(len(node.args[0].shape)))


def _collapse(node: Node, index: Index, sizes: SymbolicSizes) -> Index:
    first, last = node.attrs
    assert isinstance(first, int)
    assert isinstance(last, int)
    parts = _split_merged(index[first], node.args[0].shape[first : last + 1], sizes)
    return (*index[:first], *parts, *index[first + 1 :])


def _split_merged(digits: Digits, shape: Shape, sizes: SymbolicSizes) -> tuple[Digits, ...]:
    """Return an index into a merged dimension as indices into its parts."""
    parts: list[Digits] = []
    for extent in reversed(shape):
        taken = 0
        while taken < len(digits) and prod(e for _, e in digits[len(digits) - taken :]) < extent:
            taken += 1
        cut = len(digits) - taken
        if extent == 1 or not digits or prod(e for _, e in digits[cut:]) == extent:
            parts.append(digits[cut:])
            digits = digits[:cut]
            continue
        value, divisor = value_of(digits, sizes), sizes.text(extent)
        value = value if value.isalnum() else f"({value})"
        divisor = divisor if divisor.isalnum() else f"({divisor})"
        whole = prod(e for _, e in digits)
        parts.append(((f"({value} % {divisor})", extent),))
        digits = ((f"({value} / {divisor})", whole // extent),)
    return tuple(reversed(parts))


def _split(node: Node, index: Index, _: SymbolicSizes) -> Index:
    dim = node.attrs[0]
    assert isinstance(dim, int)
    return (*index[:dim], (*index[dim], *index[dim + 1]), *index[dim + 2 :])


def _slice(node: Node, index: Index, sizes: SymbolicSizes) -> Index:
    dim, start = node.attrs
    assert isinstance(dim, int)
    assert isinstance(start, int)
    inner = value_of(index[dim], sizes)
    first = sizes.text(abs(start))
    back = f"({first})" if " + " in first or " - " in first else first
    moved = inner if start == 0 else f"({inner} - {back})" if start < 0 else f"({inner} + {first})"
    moved = first if inner == "0" and start > 0 else moved
    moved = moved if moved.isalnum() or moved.startswith("(") else f"({moved})"
    return (*index[:dim], ((moved, node.args[0].shape[dim]),), *index[dim + 1 :])


def _reverse(node: Node, index: Index, sizes: SymbolicSizes) -> Index:
    dims = node.attrs[0]
    assert isinstance(dims, tuple)
    found = list(index)
    for dim in dims:
        if index[dim]:
            back = value_of(index[dim], sizes)
            text = f"({sizes.text(node.shape[dim])} - 1 - {back if back.isalnum() else f'({back})'})"
            found[dim] = ((text, node.shape[dim]),)
    return tuple(found)


def _window(node: Node, index: Index, sizes: SymbolicSizes) -> Index:
    dim, *numbers = node.attrs
    assert isinstance(dim, int)
    stride, _, _, transposed = numbers
    place = window_place(numbers, value_of(index[dim], sizes), value_of(index[dim + 1], sizes), sizes)
    place = f"({place} / {stride})" if transposed and stride != 1 else place
    return (*index[:dim], ((place, node.args[0].shape[dim]),), *index[dim + 2 :])


def window_place(numbers: Sequence[object], place: str, tap: str, sizes: SymbolicSizes) -> str:
    """Return the input position of an output position and a tap in C++, times the stride where it is transposed.

    `numbers`: stride, dilation, padding, and 1 for a transposed convolution. A padding may follow from the width of the
    window.
    """
    stride, dilation, given, transposed = numbers
    assert isinstance(given, int)
    padding = f"({sizes.text(given)})" if sizes.depends(given) else given
    moved = _scaled(tap, dilation)
    if transposed:
        text = place if padding == 0 else f"{place} + {padding}"
        return f"({text} - {moved})" if moved != "0" else f"({text})"
    text = _scaled(place, stride)
    text = text if moved == "0" else f"{text} + {moved}"
    return f"({text} - {padding})" if padding else f"({text})"


def _scaled(text: str, factor: object) -> str:
    if factor == 1 or text == "0":
        return text
    return f"{text if text.isalnum() else f'({text})'} * {factor}"


_STEPS = {
    "window": _window,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "squeeze": _squeeze,
    "collapse": _collapse,
    "split": _split,
    "slice": _slice,
    "reverse": _reverse,
}


def missing_parts(outputs: tuple[Node, ...], sizes: SymbolicSizes, dims: Mapping[str, int]) -> int:
    """Return the number of parts that do not lie within their tensors at these dimensions, as in the trace they do.

    There the reference is another function: of ten rows, `x[-16:]` is all.
    """

    def at(size: int) -> int:
        return sizes.at(size, dims) if sizes.depends(size) else size

    found = 0
    for node in (each for each in in_order(outputs) if each.op == "slice"):
        dim, start = cast(tuple[int, int], node.attrs)
        count, whole = at(node.shape[dim]), at(node.args[0].shape[dim])
        # tensors behind each other look up what lies beyond a part, and take another
        alone = start > 0 or (start == 0 and not sizes.depends(node.shape[dim]))
        found += alone and not 0 <= at(start) <= whole - count
    return found
