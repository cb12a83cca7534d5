"""A baseline handed to torch's compiler; for all tasks, so that they compare with the same compiler in the same way."""

import functools
from collections.abc import Callable, Mapping

import torch

from evokernel.task import Baseline

_Inputs = Mapping[str, torch.Tensor]
_Outputs = tuple[torch.Tensor, ...]


def compiled(baseline: Callable[[_Inputs, _Outputs], None]) -> Baseline:
    """Return a baseline that does what another one does, compiled for each shape at its first call there.

    What the other writes into its outputs by `copy_` is fused with what comes before. Nothing is compiled, and the
    compiler is not imported, before the first call: both take seconds.
    """

    @functools.cache
    def made() -> Callable[[_Inputs, _Outputs], None]:
        function: Callable[[_Inputs, _Outputs], None] = torch.compile(baseline, dynamic=False)
        return function

    @functools.wraps(baseline)
    def call(inputs: _Inputs, outputs: _Outputs) -> None:
        made()(inputs, outputs)

    return call
