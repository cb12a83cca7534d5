"""Layouts of tensors by strides: the elements they span, and the gaps between these."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evokernel.source.expressions import names_in


@dataclass(frozen=True, slots=True)
class Padding:
    """A stretch of a storage that holds no element, perhaps repeated at regular distances."""

    begin: int
    """Its first place, in elements."""
    size: int
    """Its length, in elements, > 0."""
    repeats: tuple[tuple[int, int], ...]
    """Count and distance, in elements, of each of its repetitions."""


def declaration_fault(strides: object, shape: tuple[str | int, ...]) -> str:
    """Return the fault of strides as a task declares them, or nothing."""
    if (
        not isinstance(strides, tuple)
        or len(strides) != len(shape)
        or not all(isinstance(s, int | str) for s in strides)
    ):
        return (
            f"`strides` must be a tuple with one number or expression for each of its {len(shape)} dimensions {shape}, "
            f"not {strides!r}"
        )
    fixed = [stride for stride in strides if isinstance(stride, int) and stride < 1]
    if fixed:
        return f"every stride must be at least 1 element, not {fixed[0]}"
    try:
        sizes_in(strides)
    except ValueError as error:
        return f"strides {strides}: {error}"
    return ""


def sizes_in(expressions: Iterable[str | int]) -> tuple[str, ...]:
    """Return the sizes that extents or strides are made of. Raises `ValueError` where one is no expression."""
    found = (sorted(names_in(str(each))) for each in expressions)
    return tuple(dict.fromkeys(name for names in found for name in names))


def storage_size(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the elements from the first to the last one, gaps included."""
    return 0 if 0 in shape else 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))


def misfit(shape: Sequence[int], strides: Sequence[int]) -> str:
    """Return the fault of a layout, or nothing: each dimension must step over all that the denser ones span."""
    if any(stride < 1 for stride in strides):
        return "every stride must be at least 1"
    span = 1
    for stride, extent in _densest_first(shape, strides):
        if stride < span:
            return f"elements overlap: a stride of {stride} steps into the {span} elements that other dimensions span"
        span += (extent - 1) * stride
    return ""


def gaps(shape: Sequence[int], strides: Sequence[int]) -> list[Padding]:
    """Return the gaps between the elements of a layout without a fault."""
    found, span, order = [], 1, _densest_first(shape, strides)
    for place, (stride, extent) in enumerate(order):
        if stride > span:
            outer = tuple((count, step) for step, count in order[place + 1 :])
            found.append(Padding(span, stride - span, ((extent - 1, stride), *outer)))
        span += (extent - 1) * stride
    return found


def _densest_first(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Return stride and extent of the dimensions that have more than one element."""
    return sorted((stride, extent) for extent, stride in zip(shape, strides, strict=True) if extent > 1)
