"""Text that guides of several languages share."""

from collections.abc import Callable

from evokernel.task import Scalar, Signature, Tensor


def range_of(tensor: Tensor) -> str:
    """Return the range of a tensor's values as the end of a line on it; an empty text without one."""
    scaled = "" if tensor.scale == 1.0 else f", numbers scaled by {tensor.scale:g}"
    return scaled if tensor.below is None else f", all values from 0 to {tensor.below} - 1"


def bytes_of(tensor: Tensor) -> str:
    """Return how a tensor's elements lie in memory, as a part of a line on it; an empty text where that is plain."""
    return " (a byte each, 0 or 1)" if tensor.dtype == "bool" else ""


def layout_of(tensor: Tensor) -> str:
    """Return the strides of a tensor as a part of a line on it; an empty text for a row-major one."""
    if tensor.strides is None:
        return ""
    terms = [_term(f"i{axis}", str(stride)) for axis, stride in enumerate(tensor.strides)]
    strides, indices = ", ".join(map(str, tensor.strides)), ", ".join(f"i{axis}" for axis in range(len(terms)))
    return f", strides ({strides}): element [{indices}] is at {' + '.join(terms)}"


def row_major(signature: Signature) -> str:
    """Return the layout of all tensors that have no strides, as the middle of a sentence."""
    return "contiguous and row-major" + (" unless strides are given" if _has_strides(signature) else "")


def arguments_of(signature: Signature, describe: Callable[[Tensor | Scalar], str]) -> str:
    """Return one line on each argument, and what strides mean where there are any."""
    lines = [describe(argument) for argument in signature.arguments]
    if _has_strides(signature):
        lines += [
            "Strides count elements. Between the elements of such a tensor lies memory that may be read but holds",
            "garbage, and nothing is promised after its last element.",
        ]
    return "\n".join(lines)


def _has_strides(signature: Signature) -> bool:
    return any(tensor.strides is not None for tensor in signature.tensors)


def _term(index: str, stride: str) -> str:
    if stride == "1":
        return index
    return f"{index} * {stride if stride.isalnum() else f'({stride})'}"
