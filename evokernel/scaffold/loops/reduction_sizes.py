"""Numbers of elements behind means, written as the extents that are summed.

Two traces do not tell the product of a half and an eighth from that of two quarters, where sizes halve evenly.
"""

from collections.abc import Iterable
from math import prod
from typing import Any

import torch

from evokernel.scaffold.operation.sizes import SymbolicSizes

_prims = torch.ops.prims
_KEEPS = (_prims.broadcast_in_dim.default, _prims.convert_element_type.default, _prims.squeeze.default)


class ReductionSize(float):
    """A number that a sum is divided by."""

    text: str
    """The product of the extents in C++."""


def with_reduction_sizes(nodes: Iterable[Any], sizes: SymbolicSizes) -> None:
    """Let divisors of sums in a trace be counts of what is summed, where they are and depend on sizes."""
    for node in nodes:
        if node.target is not _prims.div.default or not isinstance(node.args[1], float):
            continue
        total = node.args[0]
        while total.target in _KEEPS:
            total = total.args[0]
        if total.target is not _prims.sum.default:
            continue
        extents = [total.args[0].meta["val"].shape[dim] for dim in total.args[1]]
        if prod(extents) == node.args[1] and any(map(sizes.depends, extents)):
            count = ReductionSize(node.args[1])
            count.text = f"static_cast<float>({sizes.product(extents)})"
            node.args = (node.args[0], count)
