"""A workload in the judge: shared buffers, secret inputs, expected values."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

import numpy as np

from evokernel.errors import TaskError
from evokernel.evaluate.memory.arena import Arena
from evokernel.evaluate.numerics.arrays import Array, bits, release_unused, synchronize
from evokernel.evaluate.numerics.canary import draw_loud, draw_poison, poison_like
from evokernel.evaluate.numerics.check_contents import compose
from evokernel.evaluate.numerics.expected import Expected
from evokernel.evaluate.numerics.hidden_shapes import hidden_name
from evokernel.evaluate.numerics.inputs import draw, result_tensors
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.task import ENDS, PATCHWORK, PATCHWORK_BEATS, PATCHWORK_FEW, TINY, Role, Task, Workload


class WorkloadPurpose(StrEnum):
    """Purpose of a workload in judging."""

    SEARCH = "search"
    """Timed in the search, its shape public."""
    PROBE = "probe"
    """A hidden shape, for correctness only."""
    HOLDOUT = "holdout"
    """Timed for winners only."""
    ADDED = "added"
    """A hidden check that the run has added, for correctness only."""


_ORDINARY = 3
"""One element in so many of loud outputs is 1; a pattern repeats after a power of two."""
TIMED = (WorkloadPurpose.SEARCH, WorkloadPurpose.HOLDOUT)


class Attaching(Protocol):
    """A process that can map the arenas of one kind; see `RunnerProcess.attach`."""

    def attach(self, name: str, arena: Any, scalars: Mapping[str, int | float]) -> None:
        """Make an arena usable under a name."""


@dataclass(frozen=True, slots=True)
class HiddenCase:
    """Secret inputs and the expected outputs."""

    inputs: Mapping[str, Array]
    expected: Expected
    _arrays_bytes: int = field(init=False, repr=False)
    """That of its arrays, counted once: it is asked for before each check of every workload."""

    def __post_init__(self) -> None:
        """Count."""
        held = [*self.inputs.values()]
        for output in self.expected.outputs:
            held += [output.high, output.native, *output.others]
            held += [output.ranking.numbers, output.ranking.moves] if output.ranking else []
        object.__setattr__(self, "_arrays_bytes", sum(int(array.nbytes) for array in held))

    @property
    def bytes(self) -> int:
        """The memory that it takes; more once a kernel was compared with what its decisions may be."""
        return self._arrays_bytes + (self.expected.decided.bytes if self.expected.decided else 0)


class BoundWorkload:
    """A workload with its arena, which may be replaced; `attach` keeps a runner's mapping current.

    `make_arena` returns buffers for a number of sets; inputs and expected values live on the same device. `calls` is
    the number of calls in a timed batch, `baseline_us` the time of one call of each baseline. `contents` are words of a
    hidden check for the inputs, by name (see `evokernel.evaluate.numerics.check_contents`).
    """

    def __init__(
        self,
        task: Task,
        workload: Workload,
        kind: WorkloadPurpose,
        rng: np.random.Generator,
        *,
        make_arena: Callable[[int], Arena],
        sets: int = 2,
        contents: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.task = task
        self.workload = workload
        self.kind = kind
        self._rng = rng
        self._contents = contents or {}
        self.calls = 1
        self.baseline_us: dict[str, float] = {}
        self.chosen = ""
        self._poison, self._loud = draw_poison(rng), draw_loud(rng)
        self._cases: dict[str, HiddenCase] = {}
        self._tolerances: dict[str, Expected] = {}
        self._generation = 0
        self._make = make_arena
        self._arena = make_arena(sets)
        self._results = result_tensors(task)
        self._patterns: dict[str, Array] = {}

    @property
    def hidden(self) -> bool:
        """Say whether feedback must not reveal its shape."""
        return self.kind is not WorkloadPurpose.SEARCH

    @property
    def changes_inputs(self) -> bool:
        """Say whether a call changes what another call on the same copy of the buffers reads."""
        return any(tensor.role is Role.INOUT for tensor in self.task.signature.inputs)

    @property
    def label(self) -> str:
        """Its name in feedback to a candidate's author."""
        names = {
            WorkloadPurpose.SEARCH: self.workload.name,
            WorkloadPurpose.PROBE: hidden_name(self.workload),
            WorkloadPurpose.HOLDOUT: "held-out inputs",
            WorkloadPurpose.ADDED: hidden_name(self.workload),
        }
        return names[self.kind]

    @property
    def distributions(self) -> tuple[str, ...]:
        """The distributions of its checks: that of its timed calls, if it has any, and then the others of its task."""
        if self._contents:
            return (PATCHWORK,)
        own = (self.workload.distribution,) if self.kind in TIMED else ()
        # few rows stand out only among many, which hidden shapes seldom have; others are for shapes of their own
        without = (*ENDS, TINY) if own else (PATCHWORK_FEW, PATCHWORK_BEATS, *ENDS, TINY)
        others = (each for each in self.task.distributions if each not in without)
        return tuple(dict.fromkeys((*own, *others)))

    @property
    def anchor(self) -> str:
        """The baseline that a search times against: the one chosen first, or the fastest."""
        return self.chosen or min(self.baseline_us, key=lambda name: self.baseline_us[name])

    @property
    def least_us(self) -> float:
        """The time of the fastest baseline; infinite where none was timed."""
        return min(self.baseline_us.values(), default=math.inf)

    @property
    def name(self) -> str:
        """The arena's name between judge and runners."""
        return f"{self.kind}:{self.workload.name}:{self._generation}"

    @property
    def sets(self) -> int:
        """The number of copies of the buffers."""
        return self._arena.sets

    @property
    def set_bytes(self) -> int:
        """The size of one copy, guard bars included."""
        return self._arena.set_bytes

    @property
    def device(self) -> str:
        """The device of the buffers, as torch calls it."""
        return self._arena.device

    @property
    def memories(self) -> tuple[Array, Array]:
        """The memory of the buffers as bytes: that of inputs, and that of writable tensors."""
        return self._arena.inputs.memory, self._arena.outputs.memory

    @property
    def poison_word(self) -> int:
        """The pattern the outputs held before a call."""
        return self._poison

    def resize(self, sets: int) -> None:
        """Replace the arena, with a new number of sets or after its guard bars were broken."""
        self._arena.close()
        self._generation += 1
        self._arena = self._make(sets)

    def attach(self, runner: Attaching, known: set[str]) -> None:
        """Map the arena into a runner; `known` holds the names that it has mapped, and is updated."""
        if self.name not in known:
            runner.attach(self.name, self._arena, self.workload.dims)
            known.add(self.name)

    def case(self, distribution: str) -> HiddenCase:
        """Return the secret inputs of a distribution, drawn at the first request. Raises `TaskError`."""
        if distribution not in self._cases:
            make = (
                partial(compose, contents=self._contents)
                if self._contents
                else partial(draw, distribution=distribution)
            )
            inputs = make(self.task, self.workload, rng=self._rng, device=self.device)
            expected = expect(self.task, self.workload, inputs, distribution=distribution)
            self._cases[distribution] = HiddenCase(inputs, expected)
            self._tolerances[distribution] = expected.tolerance()
        return self._cases[distribution]

    def tolerance(self, distribution: str) -> Expected:
        """Return what timed calls are compared by; it outlives the case. Raises `TaskError`."""
        if distribution not in self._tolerances:
            self.case(distribution)
        return self._tolerances[distribution]

    @property
    def case_bytes(self) -> int:
        """The memory that its secret inputs and expected values take."""
        return sum(case.bytes for case in self._cases.values())

    @property
    def due_bytes(self) -> int:
        """The memory that those which are not drawn yet will take."""
        sizes, due = self.workload.sizes, len(set(self.distributions) - self._cases.keys())
        drawn = sum(tensor.bytes_at(sizes) for tensor in (*self.task.signature.inputs, *self._results))
        exact = sum(8 * math.prod(tensor.shape_at(sizes)) for tensor in self._results)
        return due * (drawn + exact)

    def forget_cases(self) -> None:
        """Free the memory of secret inputs and expected values; others are drawn when they are asked for."""
        self._cases.clear()

    def views(self, set_index: int) -> dict[str, Array]:
        """Return the inputs and in/out tensors of one copy, writable."""
        return {tensor.name: self._arena.view(set_index, tensor.name) for tensor in self.task.signature.inputs}

    def all_inputs(self) -> dict[str, Array]:
        """Return the inputs and in/out tensors of all copies, each of shape (sets, *shape), writable."""
        return {tensor.name: self._arena.views(tensor.name) for tensor in self.task.signature.inputs}

    def call_arguments(self, set_index: int) -> tuple[dict[str, Any], tuple[Array, ...]]:
        """Return one copy as a baseline takes it: inputs and scalars by name, and its outputs in order."""
        tensors = self.task.signature.tensors
        scalars = {scalar.name: self.workload.dims[scalar.name] for scalar in self.task.signature.scalars}
        written = tuple(self._arena.view(set_index, each.name) for each in tensors if each.role is not Role.INPUT)
        return {**self.views(set_index), **scalars}, written

    def copies(self, name: str) -> Array:
        """Return all copies of one tensor, of shape (sets, *shape); a view."""
        return self._arena.views(name)

    def patterns(self) -> dict[str, Array]:
        """Return the content of each poisoned output of one copy, as integers, by name."""
        outputs = [tensor.name for tensor in self._results if tensor.role is Role.OUTPUT]
        return {name: self._pattern(name, self._arena.view(0, name)) for name in outputs}

    def put(self, set_index: int, inputs: Mapping[str, Array], *, loud: bool = False, poisoned: bool = True) -> None:
        """Copy inputs into one copy and poison its outputs, or leave the answer to earlier inputs there.

        `loud` does so with large numbers, which no maximum skips, and some ordinary ones, which none can tell from
        results.
        """
        for name, view in self.views(set_index).items():
            view.copy_(inputs[name])
        if not poisoned:
            return
        self._poison_sets(slice(set_index, set_index + 1))
        for tensor in self._results if loud else ():
            if tensor.role is Role.OUTPUT:
                view = self._arena.view(set_index, tensor.name)
                bits(view).copy_(bits(poison_like(view, self._loud)))
                view.reshape(-1)[::_ORDINARY] = 1

    def poison_all(self, sets: int) -> None:
        """Fill the outputs of the first copies with a secret NaN pattern."""
        self._poison_sets(slice(sets))

    def wipe(self, sets: int) -> None:
        """Overwrite the first copies, so that a candidate finds no earlier content there.

        Outputs count, too: a baseline's outputs answer the very inputs that the candidate gets next.
        """
        for tensor in self.task.signature.inputs:
            self._arena.views(tensor.name)[:sets].zero_()
        self.poison_all(sets)
        synchronize(self.device)

    def outputs(self, set_index: int) -> Sequence[Array]:
        """Return views of the outputs of one copy, in the order of a reference's results."""
        return [self._arena.view(set_index, tensor.name) for tensor in self._results]

    def all_outputs(self, sets: int) -> Sequence[Array]:
        """Return views of the outputs of the first copies, each of shape (sets, *shape)."""
        return [self._arena.views(tensor.name)[:sets] for tensor in self._results]

    def broken_guards(self) -> tuple[str, ...]:
        """Return the names of tensors that were written out of bounds."""
        return self._arena.broken_guards()

    def close(self) -> None:
        """Free the buffers."""
        self._arena.close()

    def _poison_sets(self, which: slice) -> None:
        for tensor in self._results:
            if tensor.role is Role.OUTPUT:
                views = self._arena.views(tensor.name)[which]
                bits(views).copy_(self._pattern(tensor.name, views[0]))

    def _pattern(self, name: str, view: Array) -> Array:
        if name not in self._patterns:
            self._patterns[name] = bits(poison_like(view, self._poison))
        return self._patterns[name]


def has_answer(bound: BoundWorkload, distribution: str) -> bool:
    """Say whether the reference has a finite answer, which nobody has promised beyond the ranges of a task."""
    try:
        expected = bound.case(distribution).expected
    except TaskError:
        return False
    return all(bool(output.high.isfinite().all()) for output in expected.outputs)


def draw_ahead(cases: Iterable[tuple[BoundWorkload, str]], *, until: Callable[[], bool], most_bytes: int) -> None:
    """Draw secret inputs and compute expected values, which the first check needs, for as long as `until` is false.

    It ends, too, where what was drawn takes more than `most_bytes`.
    """
    held = 0
    for bound, distribution in cases:
        if until() or held > most_bytes:
            return
        held += bound.case(distribution).bytes


def spare_memory(workloads: Iterable[BoundWorkload], current: BoundWorkload, *, most_bytes: int) -> None:
    """Forget cases of all workloads but the current one, the largest first, until all of that one fit in `most_bytes`.

    Other processes on a GPU get what is freed.
    """
    held = {bound: bound.case_bytes for bound in workloads}
    for bound in sorted(held, key=lambda bound: -held[bound]):
        if sum(held.values()) + current.due_bytes <= most_bytes:
            return
        if bound is not current and held[bound]:
            bound.forget_cases()
            held[bound] = 0
            release_unused(bound.device)
