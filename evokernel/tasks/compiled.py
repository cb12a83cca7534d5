"""A baseline handed to torch's compiler; for all tasks, so that they compare with the same compiler in the same way."""

import functools
from typing import Any

import torch

from evokernel.task import Baseline

_SHAPES = 256
"""After 8 of them, if it is left to itself, torch runs what it was to compile as it is, and only warns of it. Newer
versions keep the limit for each thread: it is set in the one that first calls a baseline, which calls all of them.
"""


class Compiled:
    """A baseline that does what another one does, compiled for each shape at its first call there.

    What the other writes into its outputs by `copy_` is fused with what comes before. Nothing is compiled, and the
    compiler is not imported, before the first call: both take seconds.

    Args:
        baseline: what is compiled.
        mode: what torch calls its mode of compiling; None for its default.
    """

    def __init__(self, baseline: Baseline, *, mode: str | None = None) -> None:
        self._baseline, self._mode = baseline, mode

    def __call__(self, inputs: dict[str, Any], outputs: tuple[torch.Tensor, ...]) -> None:
        """Read the inputs, and write the outputs."""
        self._made(inputs, outputs)

    def thorough(self) -> "Compiled":
        """Return it compiled by trial of many kernels, which takes far longer.

        Without graphs of its own: baselines are captured into those of a batch.
        """
        return Compiled(self._baseline, mode="max-autotune-no-cudagraphs")

    @functools.cached_property
    def _made(self) -> Baseline:
        from torch._dynamo import config  # the compiler itself

        config.cache_size_limit = max(config.cache_size_limit, _SHAPES)
        function: Baseline = torch.compile(self._baseline, dynamic=False, mode=self._mode)
        return function


def compiled(baseline: Baseline) -> Compiled:
    """Return a baseline as torch's compiler makes it by default: what the kernels of a search are timed against."""
    return Compiled(baseline)
