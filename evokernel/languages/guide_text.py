"""Text that guides of several languages share."""

from evokernel.task import Tensor


def range_of(tensor: Tensor) -> str:
    """Return what a tensor says of its values, as the end of a line on it; nothing where it says nothing."""
    return "" if tensor.below is None else f", all values from 0 to {tensor.below} - 1"
