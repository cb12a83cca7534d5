"""The rule of right and wrong, on drawn tasks, shapes and content."""

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.evaluate.numerics.arrays import store
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.records.evaluation import Status
from evokernel.task import DISTRIBUTIONS, Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from tests.evaluate.kernels import fill_poison

POISON = 0x7FF97FCA7FD37FE5
REFERENCES = {
    "softmax": (lambda x, **_: torch.softmax(x, 1), ("R", "C"), Precision(reduction="C")),
    "rowsum": (lambda x, **_: x.sum(1), ("R",), Precision(reduction="C", exact_on_integers=True)),
    "cumsum": (lambda x, **_: x.cumsum(1), ("R", "C"), Precision(reduction="C", exact_on_integers=True)),
    "gelu": (lambda x, **_: torch.nn.functional.gelu(x), ("R", "C"), Precision()),
    "double": (lambda x, **_: x + x, ("R", "C"), Precision(exact_on_integers=True)),
    "normalise": (lambda x, **_: torch.nn.functional.layer_norm(x, x.shape[1:]), ("R", "C"), Precision(reduction="C")),
}


def make(name, dtype):
    reference, shape, precision = REFERENCES[name]
    workload = Workload("w", {"R": 4, "C": 4})
    return Task(
        name=name,
        reference=reference,
        signature=Signature(
            inputs=(Tensor("x", ("R", "C"), dtype),),
            scalars=(Scalar("R"), Scalar("C")),
            outputs=(Tensor("y", shape, dtype, Role.OUTPUT),),
        ),
        workloads={"cpu": WorkloadSet(search=(workload,), holdout=(workload,), probe={"R": (1, 9), "C": (1, 9)})},
        flops="R * C",
        precision=precision,
    )


@st.composite
def cases(draw_from, dtypes=("float32", "float64", "float16", "bfloat16")):
    task = make(draw_from(st.sampled_from(sorted(REFERENCES))), draw_from(st.sampled_from(dtypes)))
    rows, columns = draw_from(st.integers(1, 40)), draw_from(st.integers(1, 400))
    distribution = draw_from(st.sampled_from(DISTRIBUTIONS))
    rng = np.random.default_rng(draw_from(st.integers(0, 2**32)))
    workload = Workload("w", {"R": rows, "C": columns})
    return expect(task, workload, draw(task, workload, distribution, rng), distribution=distribution), rng


def rounded(output):
    return store(output.high, output.tensor.dtype).clone()


def any_place(array, rng):
    return tuple(int(rng.integers(extent)) for extent in array.shape)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_fp64_rounded_and_the_native_answer_always_pass(case):
    output = case[0].outputs[0]
    assert judge_output(case[0], [rounded(output)], poison=POISON) is None
    assert judge_output(case[0], [output.native], poison=POISON) is None


@settings(max_examples=150, deadline=None)
@given(cases(dtypes=("float32", "float64")), st.floats(1.1, 1e6), st.sampled_from([-1, 1]))
def test_one_element_moved_by_more_than_the_tolerance_fails(case, factor, sign):
    expected, rng = case
    output = expected.outputs[0]
    actual = rounded(output)
    place = any_place(actual, rng)
    allowed = output.limits.peak * abs(output.high[place]) + output.limits.floor
    size = actual[place].abs()
    spacing = size.nextafter(torch.full_like(size, math.inf)) - size
    resolution = 4 * spacing.double()  # an element cannot move by less than its own rounding
    actual[place] = output.high[place] + sign * (factor * allowed + resolution)
    finding = judge_output(expected, [actual], poison=POISON)
    assert finding is not None
    assert finding.status in (Status.NUMERICAL, Status.NONFINITE)
    assert "w" in finding.feedback
    assert finding.share > 0


@settings(max_examples=100, deadline=None)
@given(cases(), st.booleans())
def test_poison_is_always_found(case, hidden):
    expected, rng = case
    actual = rounded(expected.outputs[0])
    blank = torch.empty_like(actual)
    fill_poison(blank, poison=POISON)
    places = [any_place(actual, rng) for _ in range(int(rng.integers(1, 5)))]
    for place in places:
        actual[place] = blank[place]
    finding = judge_output(expected, [actual], poison=POISON, hidden=hidden)
    assert finding is not None
    assert finding.status is Status.UNWRITTEN_OUTPUT
    assert np.isclose(finding.share, len(set(places)) / actual.numel())


@settings(max_examples=100, deadline=None)
@given(cases(), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_nan_and_infinities_never_pass(case, value):
    expected, rng = case
    output = expected.outputs[0]
    actual = rounded(output)
    place = any_place(actual, rng)
    if not output.high[place].isfinite() or not store(output.high, "float16")[place].isfinite():
        return  # the right answer may be infinite there
    actual[place] = value
    finding = judge_output(expected, [actual])
    assert finding is not None
    assert finding.status is Status.NONFINITE


@settings(max_examples=60, deadline=None)
@given(cases(), st.data())
def test_hidden_shapes_are_not_told(case, data):
    expected, _ = case
    output = expected.outputs[0]
    wrong = rounded(output)
    start = data.draw(st.integers(0, wrong.shape[-1] - 1))
    wrong[..., start:] = 30000.0
    finding = judge_output(expected, [wrong], hidden=True)
    if finding is not None:
        assert "a hidden shape" in finding.feedback
        assert " of " + str(wrong.shape[-1]) not in finding.feedback
        assert str(dict(expected.workload.dims)) not in finding.feedback
