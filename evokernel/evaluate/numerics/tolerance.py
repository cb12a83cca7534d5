"""Expected outputs and their tolerances: an fp64 reference, and the errors of honest rounding.

With r the fp64 answer, n the native one, K the length of the longest sum and u the unit roundoff, an output passes if
rms(error) <= max(slack * rms(n - r), (2 + sqrt(K) / 2) * max(u * rms(r), d)) and a like bound holds for each element;
a single element is allowed 4 times as much, or sqrt(2 ln n), the largest of n normal errors, since nothing averages
out there.

d is the change of r when the inputs move by one rounding. Where terms cancel (a mean of 100, a sum near 0) a single
native run may be right by luck, and the rounding of any honest kernel is of the size of d (backward error analysis,
Higham, Accuracy and Stability of Numerical Algorithms, ch. 1). Where much cancels, anywhere, d is also the change when
every inexact result on the way to r moves by one rounding, if that is larger. In all this comparisons, roundings and
rankings fall alike: a jump is no rounding, and what may jump at an edge has `ExpectedOutput.ends`. Absolute
tolerances are not used: they accept bfloat16 in a float32 softmax.

Where the reference casts to 16 bits on the way, what the casts change counts among the native errors, too, by 5/8.

r itself is off by roundings of fp64. Where results are tiny beside numbers on the way (1 less a sigmoid of 60, 1e-26,
is 0 in fp64, too), so is the change of r when every result on the way is off by one rounding of fp64 part of d, and
r counts as no smaller than 1 / u of that change.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from evokernel.evaluate.numerics.arrays import Array, differ, float_dtypes, is_float, torch_dtype, widen
from evokernel.evaluate.numerics.cast_answers import CastAnswers
from evokernel.evaluate.numerics.cast_rounding import CastFinder
from evokernel.evaluate.numerics.decisions import Decision, same_decisions
from evokernel.evaluate.numerics.edges import (
    AT_EDGES,
    EdgeDecisions,
    MovedRun,
    decided_answer,
    edge_answers,
    noted_answer,
    rounded_answers,
    tied_answers,
)
from evokernel.evaluate.numerics.expected import ErrorBounds, Expected, ExpectedOutput, rms
from evokernel.evaluate.numerics.inputs import result_tensors
from evokernel.evaluate.numerics.references import high_answer, native_answer
from evokernel.evaluate.numerics.whole_results import with_edges
from evokernel.source.expressions import evaluate
from evokernel.task import PATCHWORKS, TINY, Task, Workload

ROUNDOFF = {
    "float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4, "float8_e5m2": 2.0**-3,
}  # fmt: skip
_TF32_ROUNDOFF = 2.0**-11
_ALIKE = {
    "integers01": 2.0**13,
    "needles": 2.0**13,
    **dict.fromkeys((*PATCHWORKS, TINY), 2.0**11),
}
"""The most roundings allowed on distributions full of equal values: so are the exponentials of tiny ones."""
_WIDE = "wide"  # magnitudes from 1e-4 to 1e4
_FEW_ELEMENTS = 256  # with fewer results one shifted run is no estimate of rounding errors
_MANY_ELEMENTS = 4096  # of these some at edges are no part that would pay to leave out
_CANCELLING = 8  # a result moves by so many roundings of itself where terms cancel
_MOST_BY_CASTS = 1 / 16
"""Casts to 16 bits widen a bound by such a part of a result at most: several products in a row err by 2 % of theirs."""
_BY_CASTS = 5 / 8
"""What casts change counts by so much: native errors are those of one run, these the largest of several."""
_OWN = 2.0**-48
"""Roundings of fp64 are no more beside numbers near 1, or inputs if these are larger; but for steep functions."""

_Answers = tuple[Array, ...]


def expect(task: Task, workload: Workload, inputs: Mapping[str, Array], *, distribution: str) -> Expected:
    """Compute the expected values and tolerances for one set of inputs. Costs three to eighteen reference
    calls, and twelve more, of which some count twice, where results are whole numbers; two to five more where it casts
    to 16 bits, and dozens where whole numbers follow from casts.

    Raises:
        TaskError: as `native_answer`.
    """
    with CastFinder() as casts:
        high, decisions = noted_answer(high_answer, task, workload, inputs)
    given = task, workload, inputs
    casting = CastAnswers(*given, high, decisions, frozenset(casts.dtypes), _runs(high)) if casts.found else None
    uncast = casting.without(decisions) if casting else []
    native, others = noted_answer(native_answer, task, workload, inputs)
    # the native answer is measured by what its own decisions give
    due = high if same_decisions(decisions, others) else decided_answer(task, workload, inputs, others)
    shifts = _shifts(task, workload, inputs, high=high, decisions=decisions)
    own = _own_roundings(task, workload, inputs, high=high, decisions=decisions)
    reduction = max(evaluate(task.precision.reduction, workload.sizes), 1)  # a sum over `N - 8` may be empty
    growth = _growth(reduction, distribution)
    demanded = task.precision.exact_on_integers and distribution == "integers01"
    unit = _edge_unit(task, growth=growth)
    more = casting.edges_of_decisions if casting else lambda _: ()
    decided = EdgeDecisions(task, workload, inputs, unit=unit, more=more)
    ranked = unit is not None and any(each.dtype == torch.int64 for decision in decisions for each in decision)
    tied = [*tied_answers(task, workload, inputs)] if ranked else []
    outputs = []
    for index, tensor in enumerate(result_tensors(task)):
        output = ExpectedOutput(
            tensor,
            high[index],
            native[index],
            ends=partial(decided.ends, index),
            far_ends=partial(decided.far_ends, index),
            steep_ends=partial(decided.steep_ends, index),
        )
        if is_float(tensor.dtype):
            moved = [[shift[index] for shift in runs] for runs in (*shifts, own)]
            measured = _measure(output, due[index], moved, unit=_working_roundoff(task, tensor.dtype))
            if uncast:
                measured = _with_casts(measured, output, [answer[index] for answer in uncast])
                output = output.where_finite(uncast[0][index])
            output = replace(output, limits=_limits(task, output, measured, growth=growth), finite=measured.finite)
            share = _edge_share(output, due[index]) if decisions else 0.0
            output = replace(output, edge_share=share)
        tied_share = max((_jumping_share(output, answer[index]) for answer in tied), default=0.0)
        exact = demanded and _fits_exactly(output, reduction=reduction)
        outputs.append(replace(output, tied_share=tied_share, exact=exact))
    edged = with_edges(outputs, task, workload, inputs, unit=unit, coarse=_coarse_runs(*given), casting=casting)
    return Expected(workload, distribution, tuple(edged), decided, casts=casts.found)


def _coarse_runs(task: Task, workload: Workload, inputs: Mapping[str, Array]) -> Iterable[MovedRun]:
    """Return runs that round each step to 16 bits, as torch rounds; none where no tensor has so few."""
    short = [dtype for dtype in float_dtypes(task.signature.inputs) if ROUNDOFF[dtype] > ROUNDOFF["float32"]]
    if not short:
        return ()
    dtype = max(short, key=lambda name: ROUNDOFF[name])
    return edge_answers(task, workload, inputs, unit=ROUNDOFF[dtype], dtype=torch_dtype(dtype))


def _edge_share(output: ExpectedOutput, due: Array) -> float:
    """Return the share of elements that jump as the native answer decides, and two more: other inputs have others."""
    return _jumping_share(output, due) + (2.0 / due.numel() if due.numel() >= _MANY_ELEMENTS else 0.0)


def _jumping_share(output: ExpectedOutput, answer: Array) -> float:
    """Return the share of elements that differ in another answer by more than roundings."""
    floats = is_float(output.tensor.dtype)
    jumped = (answer - output.high).abs() > output.allowed if floats else differ(answer, output.high)
    return float(jumped.double().mean())


def _shifts(
    task: Task, workload: Workload, inputs: Mapping[str, Array], *, high: _Answers, decisions: Sequence[Decision]
) -> list[list[_Answers]]:
    """Return the changes of the fp64 answers when every input moves by one rounding, up or down, in one run or several.

    Where terms cancel, or results are few, a second list has those when every inexact result on the way moves, too.
    All runs decide as the first, since a jump is no rounding: one would widen the tolerance of every element.
    """
    floats = [tensor for tensor in task.signature.inputs if is_float(tensor.dtype)]
    if not floats:
        return []
    runs = _runs(high)
    generator = torch.Generator(inputs[floats[0].name].device).manual_seed(0)  # no secret: it only sizes the tolerance
    shifts = []
    for _ in range(runs):
        moved = dict(inputs)
        for tensor in floats:
            unit, values = _working_roundoff(task, tensor.dtype), inputs[tensor.name]
            up = torch.randint(0, 2, values.shape, generator=generator, device=values.device, dtype=torch.float64)
            moved[tensor.name] = up.mul_(2 * unit).add_(1 - unit).mul_(widen(values))
        shifts.append(_changes(decided_answer(task, workload, moved, decisions), high))
    dtypes = {tensor.dtype for tensor in floats}
    unit = max(_working_roundoff(task, dtype) for dtype in dtypes)
    if "float64" in dtypes or not (runs > 1 or _cancel(shifts[0], high, unit=unit)):
        return [shifts]
    # a sum that cancels later (of large terms, before a norm) errs by its own size, of which inputs tell little; and
    # few results may all cancel, whatever the inputs are (a gradient along the row itself)
    on_the_way = itertools.islice(edge_answers(task, workload, inputs, unit=unit, decisions=decisions), runs)
    return [shifts, [_changes(run.answer, high) for run in on_the_way]]


def _own_roundings(
    task: Task, workload: Workload, inputs: Mapping[str, Array], *, high: _Answers, decisions: Sequence[Decision]
) -> list[_Answers]:
    """Return the changes of fp64 answers when results on the way are off by a rounding; none if no result is tiny."""
    floats = [inputs[tensor.name] for tensor in task.signature.inputs if is_float(tensor.dtype)]
    least = _OWN * max([1.0, *map(_largest, floats)])
    results = [pair for pair in zip(result_tensors(task), high, strict=True) if is_float(pair[0].dtype)]
    if all(_working_roundoff(task, tensor.dtype) * rms(_known(each)) >= least for tensor, each in results):
        return []
    moved = rounded_answers(task, workload, inputs, decisions=decisions, runs=1 + _runs(high))
    return [_changes(answer, high) for answer in moved]


def _runs(high: _Answers) -> int:
    """Return the number of runs that tell how far results move: one only where they are many."""
    return 4 if min(result.numel() for result in high) < _FEW_ELEMENTS else 1


def _cancel(changes: _Answers, high: _Answers, *, unit: float) -> bool:
    """Tell whether a rounding of the inputs counts for many of a result, anywhere."""
    return any(
        bool(_known(change).abs().max() > _CANCELLING * unit * rms(_known(base)))
        for change, base in zip(changes, high, strict=True)
        if base.is_floating_point()
    )


def _largest(values: Array) -> float:
    """Return the largest size of the numbers that are finite; in one pass where all are, for a network has many."""
    if values.numel() and values.element_size() > 1:  # torch has no limits of float8
        ends = values.aminmax()
        if (largest := max(-float(ends.min), float(ends.max))) < math.inf:  # NaN is not
            return largest
    return float(_known(widen(values)).abs().max())


def _known(values: Array) -> Array:
    """Return numbers with 0 in place of NaN and infinities."""
    return values.nan_to_num(0.0, 0.0, 0.0)


def _changes(answers: _Answers, high: _Answers) -> _Answers:
    pairs = zip(answers, high, strict=True)
    return tuple(answer - base if base.is_floating_point() else base for answer, base in pairs)


def _edge_unit(task: Task, *, growth: float) -> float | None:
    """Return how far inexact results move that look for edges; None where nothing tells what is exact, as in fp64.

    Of a task without floats, what the reference makes on the way is float32.
    """
    dtypes = float_dtypes(task.signature.inputs) or float_dtypes(task.signature.outputs) or ["float32"]
    if "float64" in dtypes:
        return None
    return AT_EDGES * (2 + growth) * max(_working_roundoff(task, dtype) for dtype in dtypes)


def _working_roundoff(task: Task, dtype: str) -> float:
    """Return the roundoff of intermediate results: float32 under 16-bit tensors, TF32 where the task allows it."""
    if task.precision.allow_tf32 and dtype == "float32":
        return _TF32_ROUNDOFF
    return min(ROUNDOFF[dtype], ROUNDOFF["float32"])


@dataclass(frozen=True, slots=True)
class _Measured:
    """Errors measured on one output."""

    scale: float
    """rms(r)."""
    size: float
    """The same, or that of which the roundings of fp64 are roundings, if it is larger."""
    native_rms: float
    """Of the native answer."""
    native_worst: float
    """The native answer's largest error."""
    native_peak: float
    """The native answer's largest relative error."""
    sensitivity: float
    """d as rms."""
    most_sensitive: float
    """The largest |d|."""
    finite: bool
    """Both answers are finite everywhere."""


def _measure(output: ExpectedOutput, due: Array, moved: Sequence[Sequence[Array]], *, unit: float) -> _Measured:
    """Measure errors; the last of the lists of changes has those by roundings of fp64."""
    native = widen(output.native)
    usable = output.high.isfinite() & native.isfinite() & due.isfinite()
    size = torch.where(usable, output.high, 0.0).abs()
    error = torch.where(usable, native - due, 0.0).abs()
    count = usable.sum()
    scale = _root_mean(_squares(size), count)
    sensitivity, largest, own = torch.zeros_like(scale), torch.zeros_like(scale), torch.zeros_like(scale)
    for runs in moved:
        squares, moves = torch.zeros_like(scale), torch.zeros_like(count)
        for shift in runs:
            known = usable & shift.isfinite()
            changes = torch.where(known, shift, 0.0)
            squares += _squares(changes)
            moves += known.sum()
            largest = torch.maximum(largest, changes.abs().max())
        own = _root_mean(squares, moves)
        sensitivity = torch.maximum(sensitivity, own)
    whole = torch.maximum(scale, own / unit)
    peak = (error / (size + whole)).nan_to_num(0.0).max()
    facts = scale, whole, _root_mean(_squares(error), count), error.max(), peak, sensitivity, largest
    # one transfer from the device for all of them
    rms_r, large, native_rms, worst, most, rms_d, most_d, finite = torch.stack([*facts, usable.all().double()]).tolist()
    return _Measured(rms_r, large, native_rms, worst, most, rms_d, most_d, bool(finite))


def _with_casts(measured: _Measured, output: ExpectedOutput, uncast: Sequence[Array]) -> _Measured:
    """Count what casts to 16 bits change among the errors of the native answer, up to a part of the result.

    Where a cast leaves nothing (1e-9 is 0 in fp16) a bound as large as the result would show no wrong one.
    """
    most, first = _MOST_BY_CASTS * measured.scale, uncast[0]
    bases = (output.high, *(first for _ in uncast[1:]))
    pairs = [(answer - base).abs() for answer, base in zip(uncast, bases, strict=True)]
    changes = [torch.where(output.high.isfinite() & each.isfinite(), each, 0.0) for each in pairs]
    size = output.high.abs() + measured.size
    largest = max(float(change.max()) for change in changes)
    peak = max(float((change / size).nan_to_num(0.0).max()) for change in changes)
    return replace(
        measured,
        native_rms=max(measured.native_rms, _BY_CASTS * min(max(map(rms, changes)), most)),
        native_worst=max(measured.native_worst, _BY_CASTS * min(largest, 4 * most)),
        native_peak=max(measured.native_peak, _BY_CASTS * min(peak, 4 * _MOST_BY_CASTS)),
    )


def _squares(values: Array) -> Array:
    flat = values.reshape(-1)
    return torch.dot(flat, flat)


def _root_mean(squares: Array, count: Array) -> Array:
    return (squares / count.clamp(min=1)).sqrt()


def _limits(task: Task, output: ExpectedOutput, measured: _Measured, *, growth: float) -> ErrorBounds:
    dtype, scale, size = output.tensor.dtype, measured.scale, measured.size
    unit = _working_roundoff(task, dtype)
    # under TF32 only the inputs are rounded coarsely, the sum is not: its length hardly counts
    growth = 2 + growth * (ROUNDOFF["float32"] / unit if unit > ROUNDOFF["float32"] else 1.0)
    growth *= 2 if dtype == "float64" else 1  # in fp64 the reference is as inexact as the candidate
    # the errors along an axis may be one and the same (of a row's sum), so that few of them average out
    growth *= 1 + 3 / math.sqrt(min(output.high.shape, default=1))
    # what is smaller than all normal numbers may become 0 on the way, in one library's exponential and not in another's
    least = torch.finfo(torch.float64 if dtype == "float64" else torch.float32).tiny
    rounding = growth * max(unit * scale, measured.sensitivity, least)
    narrow = ROUNDOFF[dtype] > ROUNDOFF["float32"]
    least_rms = rounding + (1.5 * ROUNDOFF[dtype] * scale if narrow else 0.0)
    bound = max(task.precision.slack * measured.native_rms, least_rms)
    most = max(4.0, math.sqrt(2 * math.log(max(1, output.high.numel()))))  # the largest of n normal errors
    least_floor = 3 * ROUNDOFF[dtype] * scale + most * rounding if narrow else most * bound
    # a few loud rows, or few in which terms cancel, are far above the mean
    least_floor = max(least_floor, growth * measured.most_sensitive)
    native_peak = measured.native_peak if size > 0 else 0.0
    # where all of r is 0, only the native operation's residue gives a scale
    residue = native_peak * size if size > 0 else measured.native_worst
    floor = max(task.precision.slack * residue, least_floor)
    return ErrorBounds(bound, floor / size if size > 0 else 0.0, floor, size, measured.native_rms, native_peak)


def _growth(reduction: int, distribution: str) -> float:
    """Return the roundings that a plain sequential sum may be off by: a random walk, or a drift for equal terms."""
    if distribution in _ALIKE:
        # equal terms (exponentials of zeros) all err to one side; capped, since these inputs must reveal left-out work
        return min(0.5 * reduction, _ALIKE[distribution])
    # small terms are lost beside a large one, all to one side: squares of 1000 wide numbers are off by 100 roundings
    return (1.5 if distribution == _WIDE else 0.5) * math.sqrt(reduction)


def _fits_exactly(output: ExpectedOutput, *, reduction: int) -> bool:
    """Say whether every partial sum of 0/1 terms is exact in the output's dtype, in any order."""
    if not is_float(output.tensor.dtype):
        return True
    largest = 1 / ROUNDOFF[output.tensor.dtype]
    whole = (output.high == output.high.round()) & (output.high.abs() <= largest)
    return reduction <= largest and bool(whole.all())
