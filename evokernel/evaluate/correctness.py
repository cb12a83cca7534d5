"""The rule of right and wrong: error against an fp64 reference, bounded by what honest rounding can cause.

With r the fp64 answer, n the native one, K the length of the longest sum and u the unit roundoff, an output passes if
rms(error) <= max(slack * rms(n - r), (2 + sqrt(K) / 2) * max(u * rms(r), d)) and a like bound holds for each element;
few elements are allowed up to 4 times as much, since nothing averages out.
d is how far r moves when the inputs move by one rounding: where terms cancel (a mean of 100, a sum near 0) a single
native run may be right by luck, and the rounding of any honest kernel is of the size of d (backward error analysis,
Higham, Accuracy and Stability of Numerical Algorithms, ch. 1). Absolute tolerances are not used: they accept bfloat16
in a float32 softmax.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evokernel.evaluate.inputs import (
    Array,
    Poison,
    high_answer,
    is_float,
    is_poison,
    native_answer,
    result_tensors,
    single,
    store,
    widen,
)
from evokernel.evaluation import Status
from evokernel.expressions import evaluate
from evokernel.task import Task, Tensor, Workload

ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_TF32_ROUNDOFF = 2.0**-11
_Answers = tuple[Array, ...]
_Stored = Sequence[Array]
_ALIKE = ("integers01", "needles")  # distributions full of equal values
_FEW_ELEMENTS = 256  # below this many results one shifted run says too little about the size of rounding errors


@dataclass(frozen=True, slots=True)
class Finding:
    """Why an output is wrong. `ratio` is the error over the tolerance, `share` the part of elements that are wrong."""

    status: Status
    feedback: str
    ratio: float = math.inf
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Pattern:
    """Where the wrong elements lie, in words that end in "is" or "are". `spread`: all over the output."""

    text: str
    share: float
    spread: bool


@dataclass(frozen=True, slots=True)
class Limits:
    """The tolerance of one output: rms(error) <= rms, and |error_i| <= peak * |r_i| + floor.

    `scale` is rms(r), `native_*` the native answer's own errors. All but the peaks are in the output's units.
    """

    rms: float
    peak: float
    floor: float
    scale: float
    native_rms: float
    native_peak: float

    def for_timed(self, scale: float) -> "Limits":
        """Return the tolerance against a native answer of other content: wider by its error, twice that measured."""
        growth = max(1.0, scale / self.scale) if self.scale > 0 else 1.0
        return replace(
            self,
            rms=(self.rms + 2 * self.native_rms) * growth,
            peak=self.peak + 2 * self.native_peak,
            floor=(self.floor + 2 * self.native_peak * self.scale) * growth,
            scale=scale,
        )


@dataclass(frozen=True, slots=True)
class ExpectedOutput:
    """What one output must be: `high` in fp64 (integers as they are), `native` as stored. `exact` demands equality."""

    tensor: Tensor
    high: Array
    native: Array
    limits: Limits
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Expected:
    """What all outputs must be on one set of inputs, in the order of in/out tensors and then outputs."""

    workload: Workload
    distribution: str
    outputs: tuple[ExpectedOutput, ...]


def expect(task: Task, workload: Workload, inputs: Mapping[str, Array], *, distribution: str) -> Expected:
    """Compute the expected values and tolerances for one set of inputs. Costs three to six reference calls.

    Raises:
        TaskError: as `native_answer`.
    """
    high, native = high_answer(task, workload, inputs), native_answer(task, workload, inputs)
    shifts = _shifts(task, workload, inputs, high=high)
    reduction = evaluate(task.precision.reduction, workload.sizes)
    growth = _growth(reduction, alike=distribution in _ALIKE)
    demanded = task.precision.exact_on_integers and distribution == "integers01"
    outputs = []
    for index, tensor in enumerate(result_tensors(task)):
        moved = [shift[index] for shift in shifts] if is_float(tensor.dtype) else []
        output = ExpectedOutput(tensor, high[index], native[index], Limits(0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
        exact = demanded and _fits_exactly(output, reduction=reduction)
        outputs.append(replace(output, limits=_limits(task, output, moved=moved, growth=growth), exact=exact))
    return Expected(workload, distribution, tuple(outputs))


def _shifts(task: Task, workload: Workload, inputs: Mapping[str, Array], *, high: _Answers) -> list[_Answers]:
    """Return how far the fp64 answers move when every input moves by one rounding, up or down."""
    floats = [tensor for tensor in task.signature.inputs if is_float(tensor.dtype)]
    if not floats:
        return []
    rng = np.random.default_rng(0)  # not a secret: it only sizes the tolerance
    runs = 1 if min(result.size for result in high) >= _FEW_ELEMENTS else 4
    shifts = []
    for _ in range(runs):
        moved = dict(inputs)
        for tensor in floats:
            unit = _working_roundoff(task, tensor.dtype)
            signs = rng.integers(0, 2, inputs[tensor.name].shape, dtype=np.int8) * (2 * unit) + (1 - unit)
            moved[tensor.name] = widen(inputs[tensor.name], tensor.dtype) * signs
        answers = high_answer(task, workload, moved)
        with np.errstate(invalid="ignore"):
            shifts.append(tuple(answer - base for answer, base in zip(answers, high, strict=True)))
    return shifts


def _working_roundoff(task: Task, dtype: str) -> float:
    """Return the roundoff of intermediate results: float32 under 16-bit tensors, TF32 where the task allows it."""
    if task.precision.allow_tf32 and dtype == "float32":
        return _TF32_ROUNDOFF
    return min(ROUNDOFF[dtype], ROUNDOFF["float32"])


def _limits(task: Task, output: ExpectedOutput, *, moved: Sequence[Array], growth: float) -> Limits:
    dtype = output.tensor.dtype
    if not is_float(dtype):
        return output.limits
    native = widen(output.native, dtype)
    usable = np.isfinite(output.high) & np.isfinite(native)
    size, scale = np.abs(output.high[usable]), _rms(output.high[usable])
    error = np.abs(native[usable] - output.high[usable])
    native_peak = float((error / (size + scale)).max(initial=0.0)) if scale > 0 else 0.0
    unit = _working_roundoff(task, dtype)
    sensitivity = _rms(np.concatenate([shift[usable & np.isfinite(shift)] for shift in moved])) if moved else 0.0
    # under TF32 only the inputs are rounded coarsely, the sum is not: its length hardly counts
    growth = 2 + growth * (ROUNDOFF["float32"] / unit if unit > ROUNDOFF["float32"] else 1.0)
    growth *= 2 if dtype == "float64" else 1  # there, the reference itself is no better than the candidate
    # the errors along an axis may be one and the same (of a row's sum): then few of them average out
    growth *= 1 + 3 / math.sqrt(min(output.high.shape, default=1))
    rounding = growth * max(unit * scale, sensitivity)
    narrow = ROUNDOFF[dtype] > ROUNDOFF["float32"]
    least_rms = rounding + (1.5 * ROUNDOFF[dtype] * scale if narrow else 0.0)
    rms = max(task.precision.slack * _rms(error), least_rms)
    least_floor = 3 * ROUNDOFF[dtype] * scale + 4 * rounding if narrow else 4 * rms
    # where all of r is 0, the native operation's own residue is all there is to go by
    residue = native_peak * scale if scale > 0 else float(error.max(initial=0.0))
    floor = max(task.precision.slack * residue, least_floor)
    return Limits(rms, floor / scale if scale > 0 else 0.0, floor, scale, _rms(error), native_peak)


def _growth(reduction: int, *, alike: bool) -> float:
    """Return by how many roundings a plain sequential sum may be off: a random walk, or a drift for equal terms."""
    # equal terms (exponentials of zeros) all err to one side; the bound ends, for they are to show left-out work
    return min(0.5 * reduction, 2.0**13) if alike else 0.5 * math.sqrt(reduction)


def _fits_exactly(output: ExpectedOutput, *, reduction: int) -> bool:
    """Say whether every partial sum of 0/1 terms is exact in the output's dtype, in any order."""
    if not is_float(output.tensor.dtype):
        return True
    largest = 1 / ROUNDOFF[output.tensor.dtype]
    return (
        bool((output.high == np.rint(output.high)).all())
        and reduction <= largest
        and float(np.abs(output.high).max(initial=0.0)) <= largest
    )


def _rms(values: Array) -> float:
    flat = values.reshape(-1)
    return math.sqrt(float(np.dot(flat, flat)) / flat.size) if flat.size else 0.0


def judge_output(
    expected: Expected, actual: _Stored, *, poison: Poison | None = None, hidden: bool = False
) -> Finding | None:
    """Return what is wrong with the outputs of one call, or None.

    Args:
        expected: from `expect`, for the same inputs.
        actual: one stored array per expected output, in their order.
        poison: the bit pattern the buffers held before the call (see `fill_poison`), a NaN in every output dtype.
        hidden: the shape must not be told.

    Raises:
        ValueError: count, shape or dtype of the arrays differ from the task's.
    """
    where = "a hidden shape" if hidden else expected.workload.name
    place = f"on {where} (distribution {expected.distribution})"
    pairs = _paired(expected.outputs, actual)
    findings = (_judge(output, array, poison=poison, place=place, hidden=hidden) for output, array in pairs)
    return next((finding for finding in findings if finding is not None), None)


def judge_timed(
    expected: Expected, actual: _Stored, *, native: _Stored, poison: Poison | None = None, hidden: bool = False
) -> Finding | None:
    """Return what is wrong with the outputs of a timed call, or None; about 1 ms for a right output of 1 MB.

    `native` is `native_answer` on that call's inputs; `expected` is from other inputs of the same workload and
    distribution and lends its tolerance, widened by the native operation's own error.

    Raises:
        ValueError: as `judge_output`.
    """
    where = "a hidden shape" if hidden else expected.workload.name
    for (output, array), answer in zip(_paired(expected.outputs, actual), native, strict=True):
        if not _quickly_right(output, array, answer):
            high = widen(answer, output.tensor.dtype)
            limits = output.limits.for_timed(_rms(high[np.isfinite(high)].astype(np.float64)))
            against = replace(output, high=high, native=answer, limits=limits)
            finding = _judge(against, array, poison=poison, place=f"in a timed call on {where}", hidden=hidden)
            if finding is not None:
                return finding
    return None


def _paired(outputs: Sequence[ExpectedOutput], actual: Sequence[Array]) -> list[tuple[ExpectedOutput, Array]]:
    wanted = [(output.native.shape, output.native.dtype) for output in outputs]
    found = [(array.shape, array.dtype) for array in actual]
    if wanted != found:
        raise ValueError(f"output arrays must have the shapes and dtypes {wanted}, not {found}")
    return list(zip(outputs, actual, strict=True))


def _quickly_right(output: ExpectedOutput, actual: Array, native: Array) -> bool:
    """Check in the output's own precision; False may still be right. NaN anywhere gives False."""
    dtype = output.tensor.dtype
    if output.exact or not is_float(dtype):
        return bool(np.array_equal(actual, native))
    with np.errstate(all="ignore"):
        size, error = single(native, dtype), single(actual, dtype)
        np.abs(np.subtract(error, size, out=error), out=error)
        np.abs(size, out=size)
        scale = math.sqrt(float(np.dot(size, size)) / size.size)
        if not math.isfinite(scale):  # a sum of squares can overflow; a tolerance from it would let all pass
            return False
        limits = output.limits.for_timed(scale)
        small = math.sqrt(float(np.dot(error, error)) / error.size) <= limits.rms
        np.multiply(size, size.dtype.type(limits.peak), out=size)
        np.add(size, size.dtype.type(limits.floor), out=size)
        return bool(small and (error <= size).all())


def _judge(output: ExpectedOutput, actual: Array, *, poison: Poison | None, place: str, hidden: bool) -> Finding | None:
    subject = f"output {output.tensor.name!r} {place}"
    if poison is not None:
        unwritten = is_poison(actual, poison)
        if unwritten.any() and (unwritten := unwritten & ~is_poison(output.native, poison)).any():
            seen = describe(unwritten, hidden=hidden)
            text = f"{subject}: {seen.text} never written, or added to without being set first"
            return Finding(Status.UNWRITTEN_OUTPUT, text, share=seen.share)
    if not is_float(output.tensor.dtype):
        return _unequal((actual != output.high) & (actual != output.native), subject, hidden=hidden)
    stored = (actual, store(output.high, output.tensor.dtype), output.native)
    values, rounded, native = (widen(array, output.tensor.dtype) for array in stored)
    strange = _misplaced(values, rounded, native)
    if strange.any():
        return _nonfinite(values, strange, subject, hidden=hidden)
    if output.exact:
        return _unequal(values != rounded, f"{subject}, where 0/1 inputs must give exact results", hidden=hidden)
    return _judge_errors(output, values, rounded, subject=subject, hidden=hidden)


def _judge_errors(output: ExpectedOutput, values: Array, due: Array, *, subject: str, hidden: bool) -> Finding | None:
    usable = np.isfinite(values) & np.isfinite(due)
    limits = output.limits
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(usable, np.abs(values - output.high), 0.0)
        allowed = np.where(usable, limits.peak * np.abs(output.high) + limits.floor, math.inf)
    rms, bad = _rms(error), ~(error <= allowed)  # written so that NaN is bad
    if rms <= limits.rms and not bad.any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = float(np.nanmax(error / allowed)) if bad.any() else 0.0
    ratio = max(worst, rms / limits.rms if limits.rms > 0 else math.inf)
    seen = describe(bad, hidden=hidden, error=error)
    text = f"{subject}: the error is {ratio:.3g} times the tolerance; {_causes(seen, rms, limits.scale)}"
    return Finding(Status.NUMERICAL, text, ratio, seen.share)


def _causes(seen: Pattern, rms: float, scale: float) -> str:
    relative = rms / scale if scale > 0 else math.inf
    if seen.share > 0 and not (seen.spread and 0 < relative < 0.02):
        return f"{seen.text} wrong"
    much = f"{seen.text} off" if seen.share > 0 else "no element is far off, but all together are"
    guess = "precision was lost (operands or sums in fewer bits, an approximate function, or an unstable formula)"
    return f"{much}, by about 2^{math.log2(relative):.0f} of the results' size: {guess}"


def _unequal(wrong: Array, subject: str, *, hidden: bool) -> Finding | None:
    if not wrong.any():
        return None
    seen = describe(wrong, hidden=hidden)
    return Finding(Status.NUMERICAL, f"{subject}: {seen.text} not equal", share=seen.share)


def _nonfinite(values: Array, strange: Array, subject: str, *, hidden: bool) -> Finding:
    seen = describe(strange, hidden=hidden)
    kind = "NaN" if np.isnan(values[strange]).any() else "infinite"
    what = "not NaN or infinite as due" if np.isfinite(values[strange]).any() else f"{kind} and should not be"
    return Finding(Status.NONFINITE, f"{subject}: {seen.text} {what}", share=seen.share)


def _misplaced(values: Array, rounded: Array, native: Array) -> Array:
    """Mark where NaN or an infinity is missing or too much; where native and fp64 disagree anything is right."""
    if np.isfinite(values).all() and np.isfinite(rounded).all():
        return np.zeros(values.shape, dtype=bool)
    got, due, other = (np.where(np.isnan(v), 2, np.isinf(v) * np.sign(v)) for v in (values, rounded, native))
    return np.asarray((got != due) & (due == other))


def describe(wrong: Array, *, hidden: bool, error: Array | None = None) -> Pattern:
    """Describe a mask of wrong elements as an author would: tails, blocks, every second row, tiles, growth.

    Axes before the last count as rows. For a hidden shape no extent, position or exact share is told.
    """
    mask = wrong.reshape(-1, wrong.shape[-1]) if wrong.ndim > 1 else wrong.reshape(1, -1)
    share = float(mask.mean())
    rows, columns = np.asarray(mask.any(axis=1)), np.asarray(mask.any(axis=0))
    growth = " (more and more with growing index)" if error is not None and _grows(error.reshape(mask.shape)) else ""
    if mask.all() or not mask.any():
        return Pattern(f"{'every' if mask.any() else 'no'} element{growth} is", share, bool(mask.any()))
    if int(mask.sum()) == 1:
        place = "" if hidden else f" (row {rows.argmax()}, column {columns.argmax()})"
        return Pattern(f"a single element{place} is", share, False)
    coarse = "under 1 %" if share < 0.01 else f"at most {10 * math.ceil(10 * share)} %"
    percent = coarse if hidden else f"{100 * share:.2g} %"
    if mask[np.ix_(rows, columns)].mean() >= 0.5 and not (rows.all() and columns.all()):
        parts = [_along(columns, "column" if mask.shape[0] > 1 else "element", hidden), _along(rows, "row", hidden)]
        return Pattern(f"{percent} of the elements ({' in '.join(part for part in parts if part)}) are", share, False)
    tile = next((t for t in (64, 32, 16, 8, 4) if _in_tiles(mask, t)), None)
    if tile is not None:
        return Pattern(f"{percent} of the elements (whole tiles of {tile}x{tile}) are", share, False)
    return Pattern(f"{percent} of the elements{growth or ' (scattered over the output)'} are", share, share > 0.05)


def _along(bad: Array, noun: str, hidden: bool) -> str:
    """Describe one axis; empty where all of it is meant."""
    count, size = int(bad.sum()), bad.size
    first, last = int(bad.argmax()), size - 1 - int(bad[::-1].argmax())
    if count == size:
        return ""
    for period in range(2, 65):
        if 2 * period <= size and (bad == np.resize(bad[:period], size)).all():
            return f"every second {noun}" if period == 2 else f"{int(bad[:period].sum())} of every {period} {noun}s"
    told = (f"some {noun}s", f"{count} of {size} {noun}s")
    if last - first + 1 == count and last == size - 1:
        told = (f"the last {noun}s: a tail", f"the last {count} of {size} {noun}s: a tail")
    elif count == 1:
        told = (f"a single {noun}", f"a single {noun}, number {first}")
    elif last - first + 1 == count:
        told = (f"one block of {noun}s", f"one block of {noun}s, {first} to {last}")
    return told[0] if hidden else told[1]


def _in_tiles(mask: Array, tile: int) -> bool:
    rows, columns = mask.shape[0] // tile * tile, mask.shape[1] // tile * tile
    if rows * columns == 0 or rows * columns == tile * tile:
        return False
    blocks = mask[:rows, :columns].reshape(rows // tile, tile, columns // tile, tile).mean(axis=(1, 3))
    return bool(((blocks == 0) | (blocks > 0.9)).all() and blocks.any() and not blocks.all())


def _grows(error: Array) -> bool:
    """Say whether the mean error rises steadily along the columns, as with a sum that is carried on."""
    if error.shape[1] < 32:
        return False
    means = np.array([part.mean() for part in np.array_split(error, 8, axis=1)])
    return bool((np.diff(means) > 0).sum() >= 6 and means[-1] > 3 * means[0])
