"""The rule of right and wrong: outputs against the expected ones, within the bounds of `tolerance`.

Most outputs are right, which a few passes show. A wrong one is analysed further, for its author.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from evokernel.evaluate.numerics.arrays import EDGED, Array, bits, differ, is_float, store, widen
from evokernel.evaluate.numerics.canary import is_poison
from evokernel.evaluate.numerics.error_regions import ErrorPattern, describe
from evokernel.evaluate.numerics.expected import ErrorBounds, Expected, ExpectedOutput, rms
from evokernel.evaluate.numerics.hidden_shapes import hidden_name
from evokernel.records.evaluation import Status

_LEAST_PART = 1 << 16
"""Least number of elements compared, where only a share of an output is."""
_CACHED = 1 << 18
_FITTING = 1 << 26
"""Elements compared at once: on a processor, and on a GPU."""

_MISSED_EDGES = 1 / 32
"""Share of the edges that no run may have told, though honest arithmetic falls the other way there."""

_Arrays = Sequence[Array]


_BYTES = (torch.int8, torch.uint8)
_FEW_STEEP = 1 / 100
"""Share of elements that may each be far more sensitive to rounding than the tolerance of all tells."""

_TELLING_RUNS = 8
"""Runs after which half of what is wrong must have been told to be at edges, or the rest is not asked for."""


@dataclass(frozen=True, slots=True)
class _MissedEdges:
    """Elements that may have jumped at edges that no run has told."""

    most: int
    """Their number."""
    gap: float
    """The widest jump anywhere."""


_NONE_MISSED = _MissedEdges(0, 0.0)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A wrong output."""

    status: Status
    feedback: str
    """The reason, for the author."""
    ratio: float = math.inf
    """Error over tolerance; infinite where there is no finite error."""
    share: float = 1.0
    """Share of elements that are wrong, 0 to 1."""


def judge_output(
    expected: Expected, actual: _Arrays, *, poison: int | None = None, hidden: bool = False
) -> Mismatch | None:
    """Return the mismatch of the outputs of one call, or None.

    Args:
        expected: from `expect`, for the same inputs.
        actual: one array per expected output, in their order, on the device of the expected ones.
        poison: the pattern of the buffers before the call (see `poison_like`), a NaN in every output dtype.
        hidden: feedback must not reveal the shape.

    Raises:
        ValueError: count, shape or dtype of the arrays differ from the task's.
    """
    where = hidden_name(expected.workload) if hidden else expected.workload.name
    place = f"on {where} (distribution {expected.distribution})"
    pairs = _paired(expected.outputs, actual)
    right = torch.stack([_plainly_right(output, array) for output, array in pairs]).tolist()
    doubtful = (pair for pair, fine in zip(pairs, right, strict=True) if not fine)
    findings = (_judge(output, array, poison=poison, place=place, hidden=hidden) for output, array in doubtful)
    return next((finding for finding in findings if finding is not None), None)


def judge_timed(
    expected: Expected, actual: _Arrays, *, native: _Arrays, poison: int | None = None, hidden: bool = False
) -> Mismatch | None:
    """Return the mismatch of the outputs of a timed call, or None; about 1 ms for a right output of 1 MB.

    `native` is `native_answer` on that call's inputs; `expected` is from other inputs of the same workload and
    distribution and provides its tolerance, widened by the native operation's own error.

    Raises:
        ValueError: as `judge_output`.
    """
    where = hidden_name(expected.workload) if hidden else expected.workload.name
    for (output, array), answer in zip(_paired(expected.outputs, actual), native, strict=True):
        if not _alike(output, array.reshape(-1), answer.reshape(-1)):
            high = widen(answer)
            limits = output.limits.for_timed(rms(high[high.isfinite()].double()))
            against = replace(output.of_other_inputs(high, answer), limits=limits)
            finding = _judge(against, array, poison=poison, place=f"in a timed call on {where}", hidden=hidden)
            if finding is not None:
                return finding
    return None


def alike_calls(
    expected: Expected, actual: _Arrays, due: _Arrays, *, share: float, rng: np.random.Generator, among: Sequence[int]
) -> Array:
    """Return, for each call of a batch, whether its outputs plainly match another runner's on the same inputs.

    The truth values are on the device, which is not waited for. False means undecided: `judge_timed` decides. True
    means that the compared part has passed it: of each output a contiguous part, the same in all calls and drawn after
    the batch, and all of one call. Poison is NaN, so a match contains none.

    Args:
        expected: provides its tolerance, as for `judge_timed`.
        actual: one array of shape (calls, *shape) per output.
        due: the other runner's outputs, of the same shapes.
        share: the part of each output that is compared; never less than 65536 elements.
        among: the calls that count; of one of these everything is compared.
    """
    calls = len(actual[0])
    whole = int(rng.choice(among))
    alike = torch.ones(calls, dtype=torch.bool, device=actual[0].device)
    for output, wrote, other in zip(expected.outputs, actual, due, strict=True):
        mine, theirs = wrote.reshape(calls, -1), other.reshape(calls, -1)
        part = _secret_part(mine.shape[1], share, rng)
        alike &= rows_alike(output, mine[:, part], theirs[:, part])
        if part.stop - part.start < mine.shape[1]:
            alike[whole] &= _alike(output, mine[whole], theirs[whole])[0]
    return alike


def _secret_part(size: int, share: float, rng: np.random.Generator) -> slice:
    """Draw a part so that its first and last elements are as likely as others."""
    length = min(size, max(math.ceil(share * size), _LEAST_PART))
    start = int(rng.integers(1 - length, size))  # starts beyond the ends are clamped
    start = min(max(start, 0), size - length)
    return slice(start, start + length)


def _paired(outputs: Sequence[ExpectedOutput], actual: _Arrays) -> list[tuple[ExpectedOutput, Array]]:
    wanted = [(tuple(output.native.shape), output.native.dtype) for output in outputs]
    found = [(tuple(array.shape), array.dtype) for array in actual]
    if wanted != found:
        raise ValueError(f"output arrays must have the shapes and dtypes {wanted}, not {found}")
    return list(zip(outputs, actual, strict=True))


# ----------------------------------------------------------------------------------- plainly right, without a transfer


def _plainly_right(output: ExpectedOutput, actual: Array) -> Array:
    """Return one truth value, on the device. False means undecided; poison, NaN and infinities give False."""
    if not is_float(output.tensor.dtype):
        return ~differ(actual, output.native).any()  # at an edge undecided
    if output.exact:
        return ~differ(actual, store(output.high, output.tensor.dtype)).any()
    if not output.finite:
        return torch.zeros((), dtype=torch.bool, device=actual.device)
    return _within(actual.reshape(1, -1), output.high.reshape(1, -1), output.limits)[0]


def rows_alike(output: ExpectedOutput, actual: Array, native: Array) -> Array:
    """Return whether each row plainly matches, in its own precision; rows are compared in pieces that fit."""
    rows, size = actual.shape
    some = max(1, (_CACHED if actual.device.type == "cpu" else _FITTING) // size)
    steps = range(0, rows, some)
    return torch.cat([_alike(output, actual[row : row + some], native[row : row + some]) for row in steps])


def timed_limits(output: ExpectedOutput) -> ErrorBounds:
    """Return the tolerance between two answers to inputs of a timed call; zero where they must be equal."""
    return ErrorBounds(*(6 * (0.0,))) if output.exact else output.limits.for_timed(output.limits.scale)


def rows_right(output: ExpectedOutput, *, error: Array, due: Array, worst: Array) -> Array:
    """Return whether each row plainly is right, from numbers about it.

    Args:
        output: provides its tolerance, `timed_limits`.
        error: the root mean square of the errors.
        due: that of the answer it is compared with.
        worst: the largest error, less the allowance for its element's size.
    """
    limits = timed_limits(output)
    growth = (due / limits.scale).clamp(min=1.0) if limits.scale > 0 else 1.0
    # a sum of squares can overflow; a tolerance from it would let all pass
    return due.isfinite() & (error <= limits.rms * growth) & (worst <= limits.floor * growth)


def _alike(output: ExpectedOutput, actual: Array, native: Array) -> Array:
    """Compare rows with native answers on the same inputs, in their own precision; one truth value each.

    As `_plainly_right`; an array of one dimension counts as one row.
    """
    actual, native = torch.atleast_2d(actual), torch.atleast_2d(native)
    edges = math.ceil(2 * output.may_differ * actual.shape[1])  # of what honest arithmetic may give otherwise
    if edges and not is_float(output.tensor.dtype):
        return differ(actual, native).sum(dim=1) <= edges
    if output.exact or not is_float(output.tensor.dtype):
        return ~differ(actual, native).any(dim=1)
    native = native.to(torch.float64 if native.dtype == torch.float64 else torch.float32)
    limits, error = timed_limits(output), (actual.to(native.dtype) - native).abs_()
    if edges:
        jumped = error > native.abs() * limits.peak + limits.floor  # no NaN is one
        error.masked_fill_(jumped & (jumped.sum(dim=1, keepdim=True) <= edges), 0.0)
    rms_error = _row_rms(error)
    worst = error.sub_(native.abs().mul_(limits.peak)).amax(dim=1)  # NaN where there is one
    return rows_right(output, error=rms_error, due=_row_rms(native), worst=worst)


def _within(actual: Array, due: Array, limits: ErrorBounds) -> Array:
    """Compare rows."""
    error = (actual.to(due.dtype) - due).abs_()
    small = _row_rms(error) <= limits.rms
    worst = error.sub_(due.abs().mul_(limits.peak)).amax(dim=1)  # NaN where there is one
    return small & (worst <= limits.floor)


def _row_rms(values: Array) -> Array:
    return torch.linalg.vector_norm(values, dim=1) / math.sqrt(values.shape[1])


# ------------------------------------------------------------------------------------------------- wrong, and how


def _judge(output: ExpectedOutput, actual: Array, *, poison: int | None, place: str, hidden: bool) -> Mismatch | None:
    subject = f"output {output.tensor.name!r} {place}"
    judge = _judge_floats_at_edges if is_float(output.tensor.dtype) else _judge_whole
    if actual.dtype in _BYTES and judge(output, actual, subject=subject, hidden=hidden) is None:
        return None  # one byte at an edge equals the pattern by chance
    if poison is not None:
        unwritten = is_poison(actual, poison) & ~is_poison(output.native, poison)
        if _is_no_chance(unwritten, actual, output.native):
            seen = describe(unwritten, hidden=hidden)
            text = f"{subject}: {seen.text} never written, or added to without being set first"
            return Mismatch(Status.UNWRITTEN_OUTPUT, text, share=seen.share)
    return judge(output, actual, subject=subject, hidden=hidden)


def _judge_whole(output: ExpectedOutput, actual: Array, *, subject: str, hidden: bool) -> Mismatch | None:
    answers = (output.high, output.native, *output.others)
    wrong = _unlike(actual, answers, positions=output.ranking is not None)
    if output.ranking is not None and wrong.any():
        wrong &= ~output.ranking.allows(actual, output.high)
    most_missed = math.ceil(_MISSED_EDGES * output.edge_share * wrong.numel())
    if wrong.sum() <= most_missed and _no_farther(actual, wrong, answers) and _at_edges(output, wrong, most_missed):
        return None
    for number, ends in enumerate(output.ends()):
        left = wrong & _unlike(actual, ends, positions=False)
        if left.sum() <= most_missed and _no_farther(actual, left, ends) and _at_edges(output, left, most_missed):
            return None
        if number >= _TELLING_RUNS and 2 * left.sum() > wrong.sum():
            break
    if actual.dtype == torch.bool and (bits(actual) > 1).any():
        subject += ", which holds bytes other than 0 and 1"
    return _unequal(wrong, subject, hidden=hidden)


def _at_edges(output: ExpectedOutput, wrong: Array, most: int) -> bool:
    """Say whether nearly all wrong elements jump where all moves somewhat farther: others are wrong, however few."""
    ends = output.far_ends() if wrong.any() else ()
    if not ends:
        return True
    least, most_there = ends
    jump = differ(least, most_there) if least.dtype in EDGED else (most_there - least) > output.allowed
    return bool((wrong & ~jump).sum() <= most // 8)


def _no_farther(actual: Array, wrong: Array, answers: Sequence[Array]) -> bool:
    """Say whether wrong elements are no farther off than edges are apart anywhere: others are no missed edges."""
    if not wrong.any():
        return True
    numbers = torch.stack([each.double() for each in answers])
    least, most = numbers.amin(dim=0), numbers.amax(dim=0)
    off = torch.maximum(least - actual.double(), actual.double() - most)
    return bool(off[wrong].max() <= (most - least).max())


def _judge_floats_at_edges(output: ExpectedOutput, actual: Array, *, subject: str, hidden: bool) -> Mismatch | None:
    first = finding = _judge_floats(output, actual, subject=subject, hidden=hidden)
    if first is None or output.exact:
        return first
    values = widen(actual)
    if 0 < first.share <= _FEW_STEEP:
        output = output.forgiving(values)
        finding = _judge_floats(output, actual, subject=subject, hidden=hidden)
        if finding is None:
            return None
    for number, (least, most) in enumerate(output.ends()):
        high = torch.where(values.isnan() | least.isnan() | most.isnan(), output.high, values.clamp(least, most))
        native = torch.where((high == output.high) | high.isnan(), output.native, store(high, output.tensor.dtype))
        gaps = (most - least).nan_to_num(0.0, 0.0, 0.0)
        missed = _MissedEdges(int(_MISSED_EDGES * (gaps > output.allowed).sum()), float(gaps.max()))
        at_edges = replace(output, high=high, native=native)
        finding = _judge_floats(at_edges, actual, subject=subject, hidden=hidden, missed=missed)
        if finding is None or (number >= _TELLING_RUNS and 2 * finding.share > first.share):
            break
    return finding


def _unlike(actual: Array, answers: Sequence[Array], *, positions: bool) -> Array:
    """Mark elements that are none of some answers nor, of counts and levels, between them: many edges may add up."""
    if positions or actual.dtype == torch.bool:
        return torch.stack([differ(actual, each) for each in answers]).all(dim=0)
    return (actual < torch.stack([*answers]).amin(dim=0)) | (actual > torch.stack([*answers]).amax(dim=0))


def _judge_floats(
    output: ExpectedOutput, actual: Array, *, subject: str, hidden: bool, missed: _MissedEdges = _NONE_MISSED
) -> Mismatch | None:
    values, rounded, native = map(widen, (actual, store(output.high, output.tensor.dtype), output.native))
    strange = _misplaced(values, rounded, native) & ~_near_overflow(output, values)
    if strange.any():
        return _nonfinite(values, strange, subject, hidden=hidden)
    if output.exact:
        return _unequal(values != rounded, f"{subject}, where 0/1 inputs must give exact results", hidden=hidden)
    return _judge_errors(output, values, rounded, subject=subject, hidden=hidden, missed=missed)


def _is_no_chance(unwritten: Array, actual: Array, native: Array) -> bool:
    """Say whether elements hold the pattern since nothing wrote them: one wrong byte in 256 equals it by chance."""
    if actual.dtype not in _BYTES:
        return bool(unwritten.any())
    return bool(unwritten.any()) and bool(2 * unwritten.sum() > (bits(actual) != bits(native)).sum())


def _judge_errors(
    output: ExpectedOutput, values: Array, due: Array, *, subject: str, hidden: bool, missed: _MissedEdges
) -> Mismatch | None:
    usable = values.isfinite() & due.isfinite()
    limits = output.limits
    error = torch.where(usable, (values - output.high).abs(), 0.0)
    allowed = torch.where(usable, output.allowed, math.inf)
    bad = ~(error <= allowed)  # written so that NaN is bad
    few = bad.sum() <= missed.most and not (error[bad] > missed.gap + allowed[bad]).any()
    if few and _at_edges(output, bad, missed.most):
        error, bad = torch.where(bad, 0.0, error), torch.zeros_like(bad)
    much = rms(error)
    if much <= limits.rms and not bad.any():
        return None
    worst = float((error / allowed).nan_to_num(0.0, posinf=math.inf).max()) if bad.any() else 0.0
    ratio = max(worst, much / limits.rms if limits.rms > 0 else math.inf)
    seen = describe(bad, hidden=hidden, error=error)
    text = f"{subject}: the error is {ratio:.3g} times the tolerance; {_causes(seen, much, limits.scale)}"
    return Mismatch(Status.NUMERICAL, text, ratio, seen.share)


def _causes(seen: ErrorPattern, much: float, scale: float) -> str:
    relative = much / scale if scale > 0 else math.inf
    if seen.share > 0 and not (seen.spread and 0 < relative < 0.02):
        return f"{seen.text} wrong"
    what = f"{seen.text} off" if seen.share > 0 else "no element is far off, but all together are"
    guess = (
        "precision was lost (operands or sums in fewer bits, an approximate function, or an unstable formula), "
        "or a small part is missing (a scalar such as eps, a remainder)"
    )
    return f"{what}, by about 2^{math.log2(relative):.0f} of the results' size: {guess}"


def _unequal(wrong: Array, subject: str, *, hidden: bool) -> Mismatch | None:
    if not wrong.any():
        return None
    seen = describe(wrong, hidden=hidden)
    return Mismatch(Status.NUMERICAL, f"{subject}: {seen.text} not equal", share=seen.share)


def _nonfinite(values: Array, strange: Array, subject: str, *, hidden: bool) -> Mismatch:
    seen = describe(strange, hidden=hidden)
    kind = "NaN" if values[strange].isnan().any() else "infinite"
    what = "not NaN or infinite as due" if values[strange].isfinite().any() else f"{kind} and should not be"
    return Mismatch(Status.NONFINITE, f"{subject}: {seen.text} {what}", share=seen.share)


def _misplaced(values: Array, rounded: Array, native: Array) -> Array:
    """Mark where NaN or an infinity is missing or too much; where native and fp64 disagree anything is right."""
    got, due, other = map(_kind, (values, rounded, native))
    return (got != due) & (due == other)


def _near_overflow(output: ExpectedOutput, values: Array) -> Array:
    """Mark where the tolerance holds an infinity and finite numbers: sums of another order may round to either."""
    largest = torch.finfo(output.native.dtype).max
    error = (values.clamp(-largest, largest) - output.high).abs()
    return output.high.isfinite() & (error <= output.allowed)


def _kind(values: Array) -> Array:
    """Return 0 for a finite number, -1 or 1 for an infinity, 2 for NaN."""
    signs = torch.where(values.isinf(), values.sign(), 0.0)
    return torch.where(values.isnan(), 2.0, signs)
