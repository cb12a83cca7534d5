"""Content for timed calls: never seen before, at the speed of a copy, and the same again as often as needed."""

import math
from collections.abc import Mapping, Sequence
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
    """What one tensor holds in one call: a part of a pool, from `start`, and the factor it is scaled by, if it is."""

    pool: Array
    start: int
    size: int
    factor: float | None

    @property
    def source(self) -> Array:
        """The numbers, flat, before they are scaled."""
        return self.pool[self.start : self.start + self.size]


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
        contents = {name: self._contents(name, count) for name in self._tensors}
        return [{name: of[call] for name, of in contents.items()} for call in range(count)]

    def fill(self, views: Mapping[str, Array], window: Window) -> None:
        """Overwrite contiguous arrays, one per input and in/out tensor by name; the same bits for the same window."""
        for name, view in views.items():
            if not view.is_contiguous():
                raise ValueError(f"the view of {name!r} must be contiguous")
            _write(view.view(-1), window[name])

    def fill_sets(self, views: Mapping[str, Array], windows: Sequence[Window]) -> None:
        """Overwrite the first copies of all arrays, as `fill` does; `views` are of shape (sets, *shape)."""
        for name, every in views.items():
            contents = [window[name] for window in windows]
            rows = every[: len(windows)].view(len(windows), -1)
            if rows.device.type == "cpu":
                for row, content in zip(rows, contents, strict=True):
                    _write(row, content)
            else:
                _write_rows(list(rows.unbind()), contents)

    def _contents(self, name: str, count: int) -> list[Content]:
        size, starts = self._sizes[name], list[tuple[Array, int]]()
        while len(starts) < count:
            starts += self._unused(name, count - len(starts))
        factors: list[float | None] = [None] * count
        if self._scales(self._tensors[name].dtype):
            factors = self._rng.uniform(0.875, 1.125, count).tolist()
        return [Content(pool, start, size, factor) for (pool, start), factor in zip(starts, factors, strict=True)]

    def _scales(self, dtype: str) -> bool:
        return dtype in ("float32", "float64") and self._workload.distribution != "integers01"

    def _unused(self, name: str, count: int) -> list[tuple[Array, int]]:
        """Return up to `count` places in the pool that were not used before; a pool that is half used is replaced."""
        windows = self._pools[name].numel() - self._sizes[name] + 1
        if 2 * (len(self._used[name]) + count) > windows:
            self._renew(name)
        used, pool = self._used[name], self._pools[name]
        drawn = [
            start for start in dict.fromkeys(self._rng.integers(windows, size=count).tolist()) if start not in used
        ]
        used.update(drawn)
        return [(pool, start) for start in drawn]

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


def _write(flat: Array, content: Content) -> None:
    if content.factor is None:
        flat.copy_(content.source)
    else:
        torch.mul(content.source, content.factor, out=flat)


def _write_rows(rows: list[Array], contents: Sequence[Content]) -> None:
    """Write one content to each row with a few launches; the same bits as `_write`."""
    torch._foreach_copy_(rows, [content.source for content in contents])
    if contents[0].factor is not None:
        torch._foreach_mul_(rows, [content.factor for content in contents])
