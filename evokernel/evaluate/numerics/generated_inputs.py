"""Contents of the inputs that a task's own generators make: checked, and new for timed calls by and by."""

import time
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from evokernel.errors import HarnessError, TaskError
from evokernel.evaluate.numerics.arrays import Array, identical
from evokernel.source.expressions import evaluate
from evokernel.task import Task, Tensor, Workload

_BUDGET_S, _START_S = 0.1, 2.0
"""Time for new contents of one batch of timed calls, and of the first ones, until each call of a batch has its own."""
_UNLIMITED = 1 << 30
_AHEAD = 256
"""Contents that are made at once, where there is time: a request costs more than a small content."""
_LEAST = 4
"""Contents that are made even where one takes longer than that, and calls that a batch has at least."""
_ROOM_BYTES = 256 << 20
"""Contents that are kept beyond those of one batch."""


@runtime_checkable
class ConfinedSource(Protocol):
    """An input generator that runs in the sandbox."""

    earlier: dict[str, list[dict[str, Array]]]
    """Contents that were made for candidates before, by sizes and device; a new candidate has seen none of them."""

    def contents(
        self, sizes: Mapping[str, int], seeds: Sequence[int], *, tensors: Sequence[Tensor], budget_s: float
    ) -> list[dict[str, Array]]:
        """Return the contents for the first seeds, one at least, as many as are made in time; on the processor.

        Raises `TaskError` if the generator failed, or returned other tensors than declared.
        """


def generate(task: Task, workload: Workload, rng: np.random.Generator, *, device: str) -> dict[str, Array]:
    """Return new content for every input with a generator, by name, on a device. Raises `TaskError`."""
    found: dict[str, Array] = {}
    for tensors in task.signature.generators.values():
        (content,) = _made(task, workload, tensors, [_seed(rng)], budget_s=0.0)
        found |= {name: values.to(device) for name, values in content.items()}
    return found


def check_generators(task: Task, workload: Workload, rng: np.random.Generator) -> None:
    """Refuse generators whose contents depend on anything else than sizes and seed, or not on the seed.

    Raises `TaskError` for one of these, or as `generate`.
    """
    for tensors in task.signature.generators.values():
        one, other = _seed(rng), _seed(rng)
        first, again, second = (_made(task, workload, tensors, [seed], budget_s=0.0)[0] for seed in (one, one, other))
        where = f"task {task.name!r}: the generator of {', '.join(first)} on {workload.name}"
        if not all(identical(first[name], again[name]) for name in first):
            raise TaskError(f"{where} gives other contents for the same seed: draw from `seed` alone")
        if all(identical(first[name], second[name]) for name in first):
            raise TaskError(f"{where} gives the same contents for two seeds: draw from `seed`")


class GeneratedInputs:
    """Contents of a workload's generated inputs for the timed calls of one candidate.

    A generator that is fast enough makes new ones for every call. Where it is not, those come first that were made for
    earlier candidates, and then those that were used least recently.
    """

    def __init__(self, task: Task, workload: Workload, rng: np.random.Generator, *, device: str) -> None:
        groups = task.signature.generators.values()
        self._groups = [_Group(task, workload, tensors, rng=rng, device=device) for tensors in groups]

    @property
    def affordable(self) -> int:
        """Number of calls of a batch that all get new contents, and a few at least; known once contents were drawn."""
        return min((group.affordable for group in self._groups), default=_UNLIMITED)

    def draw(self, count: int) -> list[dict[str, Array]]:
        """Return contents for so many calls, flat, by name."""
        calls: list[dict[str, Array]] = [{} for _ in range(count)]
        for group in self._groups:
            for call, content in zip(calls, group.draw(count), strict=True):
                call |= content
        return calls


class _Group:
    """Contents of the tensors of one generator."""

    def __init__(
        self, task: Task, workload: Workload, tensors: Sequence[Tensor], *, rng: np.random.Generator, device: str
    ) -> None:
        self._task = task
        self._workload = workload
        self._tensors = tensors
        self._rng = rng
        self._device = device
        key = f"{sorted(workload.sizes.items())} {device}"
        self._earlier = _confined(task, tensors).earlier.setdefault(key, [])
        self._ahead: list[dict[str, Array]] = []  # made, and not used yet
        # the least recently used first
        self._kept = [self._earlier[place] for place in rng.permutation(len(self._earlier))]
        self._cost_s = 0.0

    @property
    def affordable(self) -> int:
        return max(_LEAST, int(_BUDGET_S / self._cost_s)) if self._cost_s else _UNLIMITED

    def draw(self, count: int) -> list[dict[str, Array]]:
        new = self._new(count)
        chosen = [*new, *self._kept[: count - len(new)]]
        size_bytes = sum(values.nbytes for values in chosen[0].values())
        most = max(count, _ROOM_BYTES // max(size_bytes, 1))
        self._kept = [*self._kept[len(chosen) - len(new) :], *chosen][-most:]
        self._earlier += new
        del self._earlier[:-most]
        return [chosen[place % len(chosen)] for place in self._rng.permutation(count)]

    def _new(self, count: int) -> list[dict[str, Array]]:
        """Return up to `count` contents that were never used."""
        slow = len(self._kept) >= _LEAST and self._rng.random() * self._cost_s > _BUDGET_S
        if len(self._ahead) < count and not slow:
            begin = time.monotonic()
            seeds = [_seed(self._rng) for _ in range(max(count, _AHEAD))]
            budget_s = _START_S if len(self._ahead) + len(self._kept) < count else _BUDGET_S
            made = _made(self._task, self._workload, self._tensors, seeds, budget_s=budget_s)
            self._cost_s = (time.monotonic() - begin) / len(made)
            self._ahead += ({name: values.to(self._device).reshape(-1) for name, values in one.items()} for one in made)
        new = self._ahead[:count]
        del self._ahead[:count]
        return new


def _confined(task: Task, tensors: Sequence[Tensor]) -> ConfinedSource:
    source = tensors[0].generator
    if not isinstance(source, ConfinedSource):
        raise HarnessError(f"task {task.name!r}: its input generators were not confined")
    return source


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**63))


def _made(
    task: Task, workload: Workload, tensors: Sequence[Tensor], seeds: Sequence[int], *, budget_s: float
) -> list[dict[str, Array]]:
    """Return checked contents."""
    made = _confined(task, tensors).contents(workload.sizes, seeds, tensors=tensors, budget_s=budget_s)
    for content in made:
        for tensor in tensors:
            _check_range(task, workload, tensor, content[tensor.name])
    return made


def _check_range(task: Task, workload: Workload, tensor: Tensor, values: Array) -> None:
    if tensor.below is None or not values.numel():
        return
    bound, least, most = evaluate(tensor.below, workload.sizes), int(values.min()), int(values.max())
    if least < 0 or most >= bound:
        raise TaskError(
            f"task {task.name!r}: the generator of {tensor.name!r} gave values from {least} to {most} with "
            f"{dict(workload.dims)}; declared are 0 to {bound - 1} (below={tensor.below!r})"
        )
