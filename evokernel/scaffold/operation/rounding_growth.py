"""Growth of roundings in an operation: a batch norm of two numbers that are nearly equal leaves little else."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from evokernel.scaffold.operation.nested_values import results_of

_SMALL = 1e-10
"""Relative size of the roundings that are tried, in fp64."""


def rounding_growth(call: Callable[[Mapping[str, Any]], Any], inputs: Mapping[str, torch.Tensor]) -> float:
    """Return the largest change of results, over the largest result, in units of the rounding of each step.

    Args:
        call: the operation.
        inputs: in fp64.
    """
    with torch.no_grad():
        exact = call(inputs)
        with _Rounding():
            moved = call(inputs)
    growth = 0.0
    for (_, due), (_, made) in zip(results_of(exact), results_of(moved), strict=True):
        if due.is_floating_point() and due.numel() and (largest := float(due.abs().max())) > 0:
            growth = max(growth, float((made - due).abs().max()) / largest / _SMALL)
    return growth


class _Rounding(TorchDispatchMode):  # type: ignore[misc]
    """Moves the results of each step a little, each number by itself."""

    def __init__(self) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(0)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        if function._schema.is_mutable or any(each.alias_info for each in function._schema.returns):
            return made
        return tree_map_only(torch.Tensor, self._moved, made)

    def _moved(self, values: torch.Tensor) -> torch.Tensor:
        if not values.is_floating_point():
            return values
        noise = torch.randn(values.shape, generator=self._generator, dtype=torch.float64).to(values.dtype)
        return values * (1 + _SMALL * noise)
