"""Content for timed calls: never seen before, at the speed of a copy, and the same again as often as needed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from evokernel.evaluate.arrays import Array
from evokernel.evaluate.inputs import draw_values, shape_of
from evokernel.task import Task, Workload

_POOL_EXTRA = 1 << 16
"""Least number of windows a pool offers; twice what is used before the pool is drawn anew."""


@dataclass(frozen=True, slots=True)
class Content:
    """What one tensor holds in one call: a part of a pool, flat, and the factor it is scaled by, if it is."""

    source: Array
    factor: float | None


Window = Mapping[str, Content]
"""The content of all inputs and in/out tensors of one call, by name. It is small: it points into the pools."""


class FreshInputs:
    """Draws contents that were not seen before, and writes them into buffers.

    Every tensor has a pool of random numbers longer than itself; a content is a window of it at a random offset that
    was not used before, and float32 and float64 content is scaled by a random factor near 1. So neither a cache keyed
    by addresses nor one keyed by sampled elements ever hits, and no call's input can be foretold from the calls before
    it. The content follows the workload's own distribution. One instance per worker.
    """

    def __init__(self, task: Task, workload: Workload, rng: np.random.Generator, *, device: str = "cpu") -> None:
        self._task = task
        self._workload = workload
        self._rng = rng
        self._device = device
        self._tensors = {tensor.name: tensor for tensor in task.signature.inputs}
        self._sizes = {name: math.prod(shape_of(task, t, workload)) for name, t in self._tensors.items()}
        self._pools: dict[str, Array] = {}
        self._used: dict[str, set[int]] = {}
        for name in self._tensors:
            self._renew(name)

    def draw_windows(self, count: int) -> list[Window]:
        """Return the contents of `count` calls, all different from each other and from those before."""
        return [{name: self._content(name) for name in self._tensors} for _ in range(count)]

    def fill(self, views: Mapping[str, Array], window: Window) -> None:
        """Overwrite contiguous arrays, one per input and in/out tensor by name; the same bits for the same window."""
        for name, view in views.items():
            if not view.is_contiguous():
                raise ValueError(f"the view of {name!r} must be contiguous")
            flat, content = view.view(-1), window[name]
            if content.factor is None:
                flat.copy_(content.source)
            else:
                torch.mul(content.source, content.factor, out=flat)

    def _content(self, name: str) -> Content:
        size = self._sizes[name]
        start = self._offset(name, size)
        factor = float(self._rng.uniform(0.875, 1.125)) if self._scales(self._tensors[name].dtype) else None
        return Content(self._pools[name][start : start + size], factor)

    def _scales(self, dtype: str) -> bool:
        return dtype in ("float32", "float64") and self._workload.distribution != "integers01"

    def _offset(self, name: str, size: int) -> int:
        windows = self._pools[name].numel() - size + 1
        if 2 * len(self._used[name]) >= windows:
            self._renew(name)
        used = self._used[name]
        start = int(self._rng.integers(windows))
        while start in used:
            start = int(self._rng.integers(windows))
        used.add(start)
        return start

    def _renew(self, name: str) -> None:
        """Draw a new pool; windows of the old one keep it alive."""
        size = self._sizes[name]
        self._pools[name] = draw_values(
            self._task,
            self._workload,
            self._tensors[name],
            self._workload.distribution,
            self._rng,
            count=size + max(size // 4, _POOL_EXTRA),
            device=self._device,
        )
        self._used[name] = set()
