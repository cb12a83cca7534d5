"""Elements at an edge: what is rounded, compared or ranked after honest arithmetic may fall either way.

Every inexact result of the fp64 reference moves by some roundings, up or down (Monte Carlo arithmetic, Parker 1997).
What is exact stays: a comparison of two inputs has no edges, and neither have sums of small integers.

Directions follow a design of Plackett and Burman (Biometrika 33, 1946): over the runs each two of eleven operations in
a row move in all four ways. Where a quotient ties exactly, its divisor and itself must move apart to show both sides;
drawn at random, one tie of ten did so in no run of eight, and tensors of few bits have thousands of ties.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from evokernel.evaluate.numerics.arrays import Array
from evokernel.evaluate.numerics.decisions import Decision, DecisionLog, decision_of, name_of, same_decisions
from evokernel.evaluate.numerics.dispatch import EagerMode, tensors_of
from evokernel.evaluate.numerics.rankings import RankedNumbers, leaves_order_open, may_round, ranked_numbers, ranks
from evokernel.evaluate.numerics.references import high_answer, native_answer
from evokernel.task import Task, Workload

_DIRECTIONS = (1, 1, -1, 1, 1, 1, -1, -1, -1, 1, -1)
_RUNS = len(_DIRECTIONS) + 1
_LINEAR = {
    *("mm", "bmm", "mv", "dot", "addmm", "addmv", "baddbmm", "convolution", "sum", "cumsum"),
    *("scatter_add", "index_add", "index_put"),
}
"""Operations that only add up, products or numbers."""
_SUMS = {
    *_LINEAR,
    *("mean", "var", "std", "var_mean", "std_mean", "native_layer_norm", "native_group_norm", "native_batch_norm"),
    *("avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "scatter_reduce", "index_reduce"),
    *("_embedding_bag", "_embedding_bag_forward_only"),
}
"""Operations whose terms may cancel."""
_NORMS = {"native_layer_norm", "native_group_norm", "native_batch_norm", "_native_batch_norm_legit"}
"""Operations that take a rounded mean from each number, which may be all that is left of it."""
_DRAWN = 72
"""Runs in which pairs of numbers, too, move in all ways, by chance: of many that tie, 1 in 36 is beyond all of them."""
_IN_ORDER = (_RUNS, _RUNS + 1)
"""Two of these in which the first, or the last, of equal numbers comes first."""
_QUOTIENTS = {"div", "reciprocal"}
"""Operations that some hardware rounds even where the result would be exact."""
_FAR, _FAR_RUNS = 8, 16
"""Factor on the moves by which an edge is told that other runs may have missed, and the number of runs that do."""
AT_EDGES = 3
"""Factor on honest rounding by which edges are found: a division on a GPU alone may be off by four roundings, and
others come before and after it."""
_FUSED = {"_log_softmax", "gelu", "gelu_backward"}
"""Operations that add a number near 1 on the way to one near 0."""
_EPSILON = 2.0**-52
_APART, _LEAST = 2.0**-28, 1e-300
"""Equal numbers are moved apart by at most such a part, which puts none beyond another, or by so much at zero."""


@dataclass(frozen=True, slots=True)
class MovedRun:
    """A run of a reference whose inexact results moved."""

    answer: tuple[Array, ...]
    """Its results."""
    ranked: tuple[RankedNumbers, ...]
    """What its operations ranked, in their order."""
    decisions: tuple[Decision, ...]
    """What they decided, in their order."""


def edge_answers(
    task: Task,
    workload: Workload,
    inputs: Mapping[str, Array],
    *,
    unit: float,
    dtype: torch.dtype = torch.float32,
    decisions: Sequence[Decision] = (),
    terms: bool = False,
    drawn: int = 0,
) -> Iterator[MovedRun]:
    """Yield runs of the reference whose results, where `dtype` does not hold them, move by a part `unit`.

    They decide for themselves, or as another run did. With `terms` those of sums move, too, since a sum that cancels
    errs by their size. Where torch ranks, and any of equal numbers may come first, some more runs are `drawn`: each
    number moves for itself, and any comes first; in two of them the first or the last does, and nothing else moves.
    Where every result is exact nothing is yielded, or, if it ranks, one run and those drawn.
    """
    runs: Iterator[int] = iter((0,))
    while (run := next(runs, None)) is not None:
        step = 0.0 if run in _IN_ORDER else unit
        with _Moved(step, run, dtype, terms=terms) as moved:
            answer = decided_answer(task, workload, inputs, decisions)
        if not moved.nothing or moved.ranked:
            yield MovedRun(answer, tuple(moved.ranked), tuple(moved.decisions))
        if run == 0:  # where all is exact the others would be alike
            more = range(_RUNS, _RUNS + drawn) if moved.free else ()
            runs = itertools.chain(more, () if moved.nothing else range(1, _RUNS))


def noted_answer(
    answer: Callable[[Task, Workload, Mapping[str, Array]], tuple[Array, ...]],
    task: Task,
    workload: Workload,
    inputs: Mapping[str, Array],
) -> tuple[tuple[Array, ...], list[Decision]]:
    """Return `high_answer` or `native_answer`, and the decisions in it."""
    log = DecisionLog()
    with log:
        return answer(task, workload, inputs), log.decisions


def decided_answer(
    task: Task, workload: Workload, inputs: Mapping[str, Array], decisions: Sequence[Decision]
) -> tuple[Array, ...]:
    """Return the fp64 answer under the decisions of another run, if there are any and they fit."""
    if decisions:
        with DecisionLog(decisions) as log:
            answer = high_answer(task, workload, inputs)
        if log.fits:
            return answer
    return high_answer(task, workload, inputs)


def rounded_answers(
    task: Task, workload: Workload, inputs: Mapping[str, Array], *, decisions: Sequence[Decision], runs: int
) -> Iterator[tuple[Array, ...]]:
    """Yield fp64 answers under some decisions, with results on the way that are off by a rounding of fp64 itself.

    In the first run all are, in others any.
    """
    for run in range(runs):
        with _RoundedDown(run):
            yield decided_answer(task, workload, inputs, decisions)


def tied_answers(task: Task, workload: Workload, inputs: Mapping[str, Array]) -> Iterator[tuple[Array, ...]]:
    """Yield answers of a reference that ranks the first, then the last, of equal numbers first; none if none may be."""
    for run in _IN_ORDER:
        with _Moved(0.0, run, torch.float32, terms=False) as moved:
            answer = high_answer(task, workload, inputs)
        if not moved.free:
            return
        yield answer


_Given = tuple[Task, Workload, Mapping[str, Array]]
_MoreRuns = Callable[[float], Iterable[MovedRun]]


class EdgeDecisions:
    """Answers of a reference that decides otherwise at edges; computed when they are asked for, since few ask."""

    def __init__(self, *given: *_Given, unit: float | None, more: _MoreRuns) -> None:
        """Keep task, sizes and inputs, the part by which results move, None if nothing jumps, and who has more runs."""
        self._given, self._unit, self._more = given, unit, more
        self._ends: list[tuple[Array, Array]] = []
        self._far: list[tuple[Array, Array]] = []
        self._steep: list[tuple[Array, Array]] = []
        self._left = self._widened()

    @property
    def bytes(self) -> int:
        """The memory that its answers take by now."""
        return sum(int(array.nbytes) for ends in (*self._ends, *self._far, *self._steep) for array in ends)

    def ends(self, place: int) -> Iterator[tuple[Array, Array]]:
        """Yield the least and the largest numbers that each element of a result may be, wider with each run.

        All between is right, since a result may add up many decisions. Nothing is yielded where nothing jumps.
        """
        if self._ends:
            yield self._ends[place]
        for ends in self._left:
            self._ends = ends
            yield ends[place]

    def far_ends(self, place: int) -> tuple[Array, ...]:
        """Return the ends of a result whose inexact results move several times as far, each for itself.

        Where they are apart is an edge near enough to be missed. Empty where nothing tells what is exact.
        """
        if self._unit is not None and not self._far:
            self._far = [(each, each) for each in high_answer(*self._given)]
            for run in itertools.chain(self._far_runs(self._unit), self._more(_FAR)):
                pairs = zip(decided_answer(*self._given, run.decisions), run.answer, strict=True)
                self._far = _wider(self._far, (one if one.is_floating_point() else other for one, other in pairs))
        return self._far[place] if self._far else ()

    def _far_runs(self, unit: float) -> Iterator[MovedRun]:
        for run in range(_IN_ORDER[-1] + 1, _IN_ORDER[-1] + 1 + _FAR_RUNS):
            with _Moved(_FAR * unit, run, torch.float32, terms=True, far=True) as moved:
                answer = high_answer(*self._given)
            yield MovedRun(answer, (), tuple(moved.decisions))

    def steep_ends(self, place: int) -> tuple[Array, ...]:
        """Return such ends where all moves as far as honest results are off; decisions stay."""
        if self._unit is not None and not self._steep:
            answer, own = noted_answer(high_answer, *self._given)
            self._steep = [(each, each) for each in answer]
            for run in edge_answers(*self._given, unit=self._unit / AT_EDGES, decisions=own, terms=True):
                self._steep = _wider(self._steep, run.answer)
        return self._steep[place] if self._steep else ()

    def _widened(self) -> Iterator[list[tuple[Array, Array]]]:
        """Yield the ends of all results after each run; nothing but decisions differs in them."""
        if self._unit is None:
            return
        answer, own = noted_answer(high_answer, *self._given)
        if not own:
            return
        ends: list[tuple[Array, Array]] = [(each, each) for each in answer]
        moved = (run.decisions for run in edge_answers(*self._given, unit=self._unit, terms=True, drawn=_DRAWN))
        more = (run.decisions for run in self._more(1.0))
        for decisions in itertools.chain([noted_answer(native_answer, *self._given)[1]], more, moved):
            if same_decisions(decisions, own):
                continue
            ends = _wider(ends, decided_answer(*self._given, decisions))
            yield ends


def _wider(ends: Iterable[tuple[Array, Array]], answer: Iterable[Array]) -> list[tuple[Array, Array]]:
    return [(torch.fmin(least, each), torch.fmax(most, each)) for (least, most), each in zip(ends, answer, strict=True)]


class _Moved(EagerMode):
    """Moves the results that a dtype does not hold, to numbers that it holds."""

    def __init__(self, unit: float, run: int, dtype: torch.dtype, *, terms: bool, far: bool = False) -> None:
        super().__init__()
        self._terms, self._far = terms, far
        self._unit, self._run, self._dtype = unit, run, dtype
        self._chances: dict[torch.device, torch.Generator] = {}
        self._seed = self._operations = 0
        self.nothing = True
        """Every result was exact."""
        self.free = False
        """Numbers were ranked of which, where they are equal, any may come first."""
        self.ranked: list[RankedNumbers] = []
        self.decisions: list[Decision] = []
        self._rounded = WeakIdKeyDictionary()
        """Results of operations that may round, whether they did or not, and all that came of them."""
        self._held = WeakIdKeyDictionary()
        """Results: numbers that the dtype holds, or NaN. To look at those of large weights again takes long."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if name_of(func) in _NORMS:
            with self:
                return decomposition_table[func](*args, **dict(kwargs or {}))
        given = tensors_of((args, kwargs))
        rounded, rounds = any(each in self._rounded for each in given), bool(given) and may_round(func)
        free = ranks(func, args) and (args[0] in self._rounded or leaves_order_open(func, args, kwargs or {}))
        self.free |= free
        if free and self._run >= _RUNS:
            args = (self._apart(args[0]), *args[1:])
        rough = self._far and name_of(func) in _QUOTIENTS
        sums = self._terms and name_of(func) in _SUMS and "out" not in (kwargs or {})
        terms = args if sums or rough else ()
        if terms and name_of(func, in_place=True).endswith("_"):
            terms = (args[0].clone(), *args[1:])
        made = func(*args, **dict(kwargs or {}))
        if free and isinstance(made, tuple) and given[0] not in self._rounded and self._is_exact(given[0]).all():
            # equal numbers have changed places, but each is what it was, which a comparison with others must see
            made = tuple(each.to(self._dtype).double() if _is_double(each) else each for each in made)
        self._rounded.update((each, None) for each in tensors_of(made) if rounded or (rounds and _is_double(each)))
        if sums:
            self._sum_moved(func, terms, kwargs or {}, made)
        if (ranked := ranked_numbers(func, args, kwargs or {}, made, ordered=not free)) is not None:
            self.ranked.append(ranked)
        if (decision := decision_of(func, args, kwargs or {}, made)) is not None:
            self.decisions.append(decision)
        if rough and _is_double(terms[0]) and (kwargs or {}).get("rounding_mode"):  # a whole quotient does not move
            made.copy_(func(self._each_moved(terms[0]), *terms[1:], **dict(kwargs or {})))
            rough = False
        # 0.3 * 5 is held by luck
        rough |= rounds and any(
            isinstance(each, float) and not self._holds(each) for each in tree_leaves((args, kwargs))
        )
        kept = bool(given) and self._keeps(func, given[0])
        if isinstance(made, tuple):
            return tuple(self._moved(each, kept=kept) for each in made)
        return self._moved(made, rough=rough, kept=kept)

    def _keeps(self, func: Any, given: torch.Tensor) -> bool:
        """Say whether an operation only looks at results, or widens numbers (none NaN) that the dtype holds."""
        if func.is_view:
            return given in self._held
        return name_of(func) == "_to_copy" and given.dtype == self._dtype and not given.isnan().any()

    def _sum_moved(self, func: Any, terms: tuple[Any, ...], kwargs: Mapping[str, Any], made: Any) -> None:
        """Replace inexact sums by those of moved terms, whose directions are drawn for each run.

        What cancels to few bits is exact in no order but by luck: the sum of the terms' sizes must be exact, too.
        """
        self._draw_for_run()
        moved = func(
            *(self._each_moved(each, step=self._unit) if _is_double(each) else each for each in terms), **kwargs
        )
        sizes = made
        if name_of(func) in _LINEAR:
            factors = {key: abs(each) if key in ("alpha", "beta") else each for key, each in kwargs.items()}
            sizes = func(*(each.abs() if _is_double(each) else each for each in terms), **factors)
        for sums in zip(*(each if isinstance(each, tuple) else (each,) for each in (made, moved, sizes)), strict=True):
            if _is_double(sums[0]):
                exact = self._is_exact(sums[0]) & self._is_exact(sums[2])
                self.nothing &= bool(exact.all())  # by luck the moved terms may cancel to an exact sum, too
                sums[0].copy_(torch.where(exact, sums[0], sums[1]))

    def _apart(self, numbers: Array) -> Array:
        """Return numbers in the same order, equal ones in any."""
        self._draw_for_run()
        shape = {"device": numbers.device, "dtype": numbers.dtype}
        if self._run in _IN_ORDER:  # even steps: two that were drawn may be too close to tell neighbours apart
            ends = (1.0, 0.0) if self._run == _IN_ORDER[1] else (0.0, 1.0)
            drawn = torch.linspace(*ends, numbers.numel(), **shape).view(numbers.shape)
        else:
            drawn = torch.rand(numbers.shape, generator=self._chance(numbers.device), **shape)
        return torch.where(numbers.isfinite(), numbers + drawn * (numbers.abs() * _APART + _LEAST), numbers)

    def _draw_for_run(self) -> None:
        self._draw(self._operations << 8 | self._run)

    def _draw(self, seed: int) -> None:
        self._seed, self._chances = seed, {}

    def _chance(self, device: torch.device) -> torch.Generator:
        """Return the generator of a device: a reference for a GPU may have numbers on the processor."""
        if device not in self._chances:
            self._chances[device] = torch.Generator(device).manual_seed(self._seed)
        return self._chances[device]

    def _each_moved(self, numbers: Array, *, step: float | None = None) -> Array:
        """Return each number a step up or down, by chance; without a step by some part of the unit."""
        shape = {"generator": self._chance(numbers.device), "device": numbers.device, "dtype": numbers.dtype}
        part = torch.rand(numbers.shape, **shape) if step is None else torch.randint(0, 2, numbers.shape, **shape)
        step = self._unit if step is None else step
        return part.mul_(2 * step).add_(1 - step).mul_(numbers)

    def _holds(self, number: float) -> bool:
        return float(torch.tensor(number, dtype=self._dtype)) == number

    def _is_exact(self, made: Array) -> Array:
        exact: Array = made.to(self._dtype).double() == made
        return exact

    def _moved(self, made: Any, *, rough: bool = False, kept: bool = False) -> Any:
        if not _is_double(made):
            return made
        self._operations += 1
        self._held[made] = None
        if not kept and (inexact := (made != 0) if rough else ~self._is_exact(made)).any():
            self.nothing = False
            if self._run < _RUNS:
                # elements differ in their directions, each the same in all runs; no secret: it only sizes the tolerance
                self._draw(self._operations)
                moved = self._each_moved(made, step=self._unit * self._direction())
            else:
                self._draw_for_run()
                moved = self._each_moved(made)
            moved.copy_(moved.to(self._dtype))
            made.copy_(torch.where(inexact & made.isfinite(), moved, made))  # in place, for operations in place
        return made

    def _direction(self) -> int:
        return _DIRECTIONS[(self._run + self._operations) % len(_DIRECTIONS)] if self._run < len(_DIRECTIONS) else -1


class _RoundedDown(EagerMode):
    """Makes each result that fp64 may have rounded smaller by its epsilon: 1 + 1e-26 and sigmoid(60) are 1 in fp64.

    None gets larger: log(1 - sigmoid(x)) must not get a negative number.
    """

    def __init__(self, run: int) -> None:
        super().__init__()
        self._run, self._operations = run, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if name_of(func) in _FUSED:
            with self:
                return decomposition_table[func](*args, **dict(kwargs or {}))
        made = func(*args, **dict(kwargs or {}))
        if may_round(func) and tensors_of((args, kwargs)):
            self._operations += 1
            for each in filter(_is_double, tensors_of(made)):
                chance = torch.Generator(each.device).manual_seed(self._operations << 8 | self._run)
                part = torch.rand(each.shape, generator=chance, device=each.device, dtype=each.dtype).round_()
                each.mul_(1 - _EPSILON * (part if self._run else 1.0))
        return made


def _is_double(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.float64
