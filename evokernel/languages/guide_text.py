"""Text that guides of several languages share."""

from evokernel.task import Tensor


def range_of(tensor: Tensor) -> str:
    """Return the range of a tensor's values as the end of a line on it; an empty text without one."""
    return "" if tensor.below is None else f", all values from 0 to {tensor.below} - 1"
