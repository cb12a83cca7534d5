"""Answers of a reference that casts to 16 bits, rounded in other places: what they change is what kernels may."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.arrays import Array, differ
from evokernel.evaluate.numerics.cast_rounding import KEPT, CastFinder
from evokernel.evaluate.numerics.decisions import Decision, same_decisions
from evokernel.evaluate.numerics.edges import MovedRun, decided_answer, edge_answers, noted_answer
from evokernel.evaluate.numerics.references import high_answer
from evokernel.task import Task, Workload

_SPOILT, _NOISE = 2, 0.5
"""Runs that tell what casts have a say in, twice as many as turned ones; and a part by which results move there."""
_Answers = tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class CastAnswers:
    """A reference with casts to 16 bits, and what it is called on."""

    task: Task
    workload: Workload
    inputs: Mapping[str, Array]
    high: _Answers
    """Its fp64 answer."""
    decisions: Sequence[Decision]
    """Those in it."""
    dtypes: frozenset[torch.dtype]
    """What it casts to."""
    turns: int
    """Number of runs in which the errors of casts are turned."""

    def without(self, decisions: Sequence[Decision] = ()) -> list[_Answers]:
        """Return fp64 answers under some decisions: one with no cast to 16 bits, then some with their errors turned.

        There are none where the reference needs its casts: it multiplies by weights of 16 bits, say, that it brings.
        """
        found = []
        for turn in range(1 + self.turns):
            try:
                with CastFinder(skip=True, turn=turn):
                    found.append(decided_answer(self.task, self.workload, self.inputs, decisions))
            except TaskError:
                break
        return found

    def changed(self) -> list[int]:
        """Return the places of the results in which roundings behind casts have a say."""

        def differ_at(place: int, run: MovedRun, plain: MovedRun) -> bool:
            return bool(differ(run.answer[place], plain.answer[place]).any())

        return [place for place in range(len(self.high)) if self._have_a_say(partial(differ_at, place))]

    def edges(self, times: float = 1.0) -> Iterator[MovedRun]:
        """Yield runs without casts; in most each inexact result moves by so many roundings to 16 bits."""
        for turn in (0, KEPT):
            if (plain := self._next(self._moved(0.0), turn, times)) is not None:
                yield plain
            else:  # all is exact, and nothing ranked
                yield from self._turned(turn)
        runs = self._moved(times)
        for number in itertools.count():
            if (run := self._next(runs, KEPT if number % 2 else number // 2, times)) is None:
                return
            yield run

    def edges_of_decisions(self, times: float) -> Iterator[MovedRun]:
        """Yield these runs where casts have a say in what the reference decides."""
        if self._have_a_say(lambda run, plain: not same_decisions(run.decisions, plain.decisions)):
            yield from self.edges(times)

    def _have_a_say(self, apart: Callable[[MovedRun, MovedRun], bool]) -> bool:
        """Say whether a run is another in which casts leave nothing but noise, and one of noise in arithmetic alone.

        What is ranked or compared as it was cast, with no arithmetic, is due as it is.
        """
        high = MovedRun(self.high, (), tuple(self.decisions))
        turns = range(1, 1 + _SPOILT * self.turns)
        if not any(apart(run, high) for turn in turns for run in self._turned(turn, times=2 / self._eps)):
            return False
        held = {
            name: each.bfloat16().to(each.dtype) if each.is_floating_point() else each
            for name, each in self.inputs.items()
        }
        short = replace(self, inputs=held)
        runs = edge_answers(self.task, self.workload, held, unit=_NOISE, dtype=torch.bfloat16)
        moved = [*iter(lambda: self._next(runs, KEPT, 1.0), None)]
        return any(apart(run, plain) for plain in short._turned(KEPT) for run in moved)

    def _moved(self, times: float) -> Iterator[MovedRun]:
        return edge_answers(self.task, self.workload, self.inputs, unit=times * self._eps / 2)

    def _next(self, runs: Iterator[MovedRun], turn: int, times: float) -> MovedRun | None:
        try:
            with CastFinder(skip=True, turn=turn, times=times):
                return next(runs, None)
        except TaskError:
            return None

    @property
    def _eps(self) -> float:
        return float(max(torch.finfo(dtype).eps for dtype in self.dtypes))

    def _turned(self, turn: int, *, times: float = 1.0) -> Iterator[MovedRun]:
        """Yield a run in which nothing moves but by casts; none where the reference needs these."""
        try:
            with CastFinder(skip=True, turn=turn, times=times):
                answer, decisions = noted_answer(high_answer, self.task, self.workload, self.inputs)
        except TaskError:
            return
        yield MovedRun(answer, (), tuple(decisions))
