"""Content for timed calls: new for every call, as fast as a copy, and reproducible as often as needed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from evokernel.evaluate.numerics.arrays import Array, torch_dtype
from evokernel.evaluate.numerics.inputs import draw_values, secret_generator, shape_of
from evokernel.task import Task, Workload

_POOL_EXTRA = 1 << 16
"""Least number of windows of a pool; half of them are used before the pool is drawn anew."""


@dataclass(frozen=True, slots=True)
class Content:
    """Content of one tensor in one call: a window of a pool, perhaps scaled or mixed with another."""

    pool: Array
    """Random numbers, flat."""
    start: int
    """First element of the window."""
    size: int
    """Elements of the window."""
    factor: float | Array | None = None
    """Scale of all elements, or of each."""
    choice: Array | None = None
    """Mask of the elements taken from the window; the others are from `other`."""
    other: Array | None = None
    """Elements where `choice` is False."""

    @property
    def source(self) -> Array:
        """The numbers of the window, flat, before scaling or mixing."""
        return self.pool[self.start : self.start + self.size]


Window = Mapping[str, Content]
"""Content of all inputs and in/out tensors of one call, by name. It is small, since it refers to the pools."""


class FreshInputs:
    """Draws unused contents, and writes them into buffers.

    Every tensor has a pool of random numbers longer than itself. A content is a window of it at an unused random
    offset, and float32 and float64 content is scaled by a random factor near 1. So neither a cache keyed by addresses
    nor one keyed by sampled elements ever hits, and no call's input follows from earlier ones. The content has the
    workload's own distribution. One instance per worker.

    A processor's worker keeps its memory between calls. It could reassemble the pool and answer by running sums over
    it. So there every element has a factor of its own, from a window of random factors at another offset. Content that
    must not be scaled is a random choice between two windows. Knowledge of one pair of offsets does not help with
    others.
    """

    def __init__(self, task: Task, workload: Workload, rng: np.random.Generator, *, device: str = "cpu") -> None:
        self._task = task
        self._workload = workload
        self._rng = rng
        self._device = device
        self._tensors = {tensor.name: tensor for tensor in task.signature.inputs}
        self._sizes = {name: math.prod(shape_of(task, t, workload)) for name, t in self._tensors.items()}
        self._pools: dict[str, Array] = {}
        self._mixers: dict[str, Array] = {}
        self._used: dict[str, set[int]] = {}
        for name in self._tensors:
            self._renew(name)

    def draw_windows(self, count: int) -> list[Window]:
        """Return the contents of `count` calls, all different from each other and from earlier ones."""
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
        starts: list[tuple[Array, int]] = []
        while len(starts) < count:
            starts += self._unused(name, count - len(starts))
        return [self._content(name, pool, start) for pool, start in starts]

    def _content(self, name: str, pool: Array, start: int) -> Content:
        size, scales = self._sizes[name], self._scales(self._tensors[name].dtype)
        if self._device != "cpu":
            return Content(pool, start, size, float(self._rng.uniform(*self._range)) if scales else None)
        mixer = self._part(self._mixers[name], size)
        if scales:
            return Content(pool, start, size, factor=mixer)
        return Content(pool, start, size, choice=mixer, other=self._part(pool, size))

    def _part(self, of: Array, size: int) -> Array:
        start = int(self._rng.integers(of.numel() - size + 1))
        return of[start : start + size]

    @property
    def _range(self) -> tuple[float, float]:
        """The range of factors; where differences cancel the factors must stay small beside them."""
        return (0.998, 1.002) if self._device == "cpu" and self._workload.distribution == "offset" else (0.875, 1.125)

    def _scales(self, dtype: str) -> bool:
        return dtype in ("float32", "float64") and self._workload.distribution != "integers01"

    def _unused(self, name: str, count: int) -> list[tuple[Array, int]]:
        """Return up to `count` unused places in the pool; a half-used pool is replaced."""
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
        size, tensor = self._sizes[name], self._tensors[name]
        count = size + max(size // 4, _POOL_EXTRA)
        self._pools[name] = draw_values(
            self._task,
            self._workload,
            tensor,
            self._workload.distribution,
            self._rng,
            count=count,
            device=self._device,
        )
        self._used[name] = set()
        if self._device == "cpu":
            self._mixers[name] = self._mixer(count, torch_dtype(tensor.dtype) if self._scales(tensor.dtype) else None)

    def _mixer(self, count: int, dtype: torch.dtype | None) -> Array:
        """Return random factors, or random truth values without a dtype."""
        generator = secret_generator(self._rng, self._device)
        if dtype is None:
            return torch.randint(0, 2, (count,), generator=generator, dtype=torch.uint8).bool()
        return torch.empty(count, dtype=dtype).uniform_(*self._range, generator=generator)


def _write(flat: Array, content: Content) -> None:
    if content.factor is not None:
        torch.mul(content.source, content.factor, out=flat)
    elif content.choice is not None and content.other is not None:
        torch.where(content.choice, content.source, content.other, out=flat)
    else:
        flat.copy_(content.source)


def _write_rows(rows: list[Array], contents: Sequence[Content]) -> None:
    """Write one content to each row with a few launches; the same bits as `_write`."""
    torch._foreach_copy_(rows, [content.source for content in contents])
    if any(
        content.factor is not None for content in contents
    ):  # the contents of checks have none, and times 1 is exact
        torch._foreach_mul_(rows, [1.0 if content.factor is None else content.factor for content in contents])
