"""The rule of right and wrong on tensors that live on a GPU: the same verdicts, at the speed of its memory."""

import time
from typing import Any

import numpy as np
import pytest
import torch

from evokernel.evaluate.bench.admission import admit
from evokernel.evaluate.numerics.arrays import identical, torch_dtype
from evokernel.evaluate.numerics.canary import draw_poison, poison_like
from evokernel.evaluate.numerics.correctness import alike_calls, judge_output, judge_timed
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.references import native_answer
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.records.evaluation import Status
from evokernel.task import DISTRIBUTIONS
from evokernel.tasks import load_task
from tests.evaluate.kernels import fill_poison

DEVICE = "cuda"
POISON = draw_poison(np.random.default_rng(0))


def differing_calls(expected, actual, due, **options):
    """Return the numbers of the calls that are not plainly alike."""
    alike = alike_calls(expected, actual, due, among=range(len(actual[0])), **options)
    return [number for number, right in enumerate(alike.tolist()) if not right]


def largest(name):
    task = load_task(name).on("cuda")
    return task, max(task.workloads["cuda"].search, key=task.bytes_at)


def seconds(action):
    """Return the least time of an action in three tries."""
    times = []
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        action()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize("name", ["gemm", "gemm_deep", "softmax"])
def test_builtin_tasks_are_admitted(name):
    admission = admit(load_task(name).on("cuda"), "cuda", rng=np.random.default_rng(0), device=DEVICE)
    assert "the native operation in chunks" in admission.passed
    assert {"zeros", "the result for other inputs", "shuffled elements"} <= set(admission.rejected)


@pytest.mark.parametrize("name", ["gemm", "softmax"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_right_outputs_pass_and_wrong_ones_do_not(name, distribution):
    task, workload = largest(name)
    inputs = draw(task, workload, distribution, np.random.default_rng(0), device=DEVICE)
    assert all(array.is_cuda for array in inputs.values())
    expected = expect(task, workload, inputs, distribution=distribution)
    (native,) = native_answer(task, workload, inputs)
    assert judge_output(expected, [native], poison=POISON) is None
    wrong = native.clone()
    wrong[-1, -3:] = poison_like(native, POISON)[-1, -3:]
    assert judge_output(expected, [wrong], poison=POISON).status is Status.UNWRITTEN_OUTPUT
    wrong = native.clone()
    wrong[:, -64:] += 10 * expected.outputs[0].limits.scale
    finding = judge_output(expected, [wrong], poison=POISON)
    assert finding.status is Status.NUMERICAL
    assert "the last 64 of" in finding.feedback
    assert judge_timed(expected, [wrong], native=[native]).status is Status.NUMERICAL


def test_drawing_and_judging_take_milliseconds():
    task, workload = largest("softmax")
    rng = np.random.default_rng(0)
    inputs = draw(task, workload, "normal", rng, device=DEVICE)
    expected = expect(task, workload, inputs, distribution="normal")
    native = native_answer(task, workload, inputs)
    assert seconds(lambda: draw(task, workload, "wide", rng, device=DEVICE)) < 0.05
    assert seconds(lambda: judge_output(expected, native, poison=POISON)) < 0.05
    assert seconds(lambda: judge_timed(expected, native, native=native, poison=POISON)) < 0.05


def test_contents_come_again_bit_by_bit_and_batches_are_compared_at_once():
    task, workload = largest("gemm")
    rng = np.random.default_rng(0)
    fresh = FreshInputs(task, workload, rng, device=DEVICE)
    expected = expect(task, workload, draw(task, workload, "normal", rng, device=DEVICE), distribution="normal")
    windows = fresh.draw_windows(4)
    due: list[Any] = []
    for window in windows:
        views = {
            t.name: torch.empty(t.shape_at(workload.sizes), dtype=torch.bfloat16, device=DEVICE)
            for t in task.signature.inputs
        }
        again = {name: torch.empty_like(view) for name, view in views.items()}
        fresh.fill(views, window)
        fresh.fill(again, window)
        assert all(identical(views[name], again[name]) for name in views)
        due += native_answer(task, workload, views)
    batch = torch.stack(due)
    actual = batch.clone()
    assert differing_calls(expected, [actual], [batch], share=0.125, rng=rng) == []
    fill_poison(actual[2], poison=POISON)
    assert differing_calls(expected, [actual], [batch], share=0.125, rng=rng) == [2]


@pytest.mark.parametrize("name", ["gemm", "softmax", "histogram", "embedding"])
def test_a_batch_is_filled_as_one_by_one(name):
    task, workload = largest(name)
    fresh = FreshInputs(task, workload, np.random.default_rng(0), device=DEVICE)
    windows = fresh.draw_windows(3)
    shapes = {t.name: (3, *t.shape_at(workload.sizes)) for t in task.signature.inputs}
    dtypes = {t.name: torch_dtype(t.dtype) for t in task.signature.inputs}
    every = {each: torch.empty(shape, dtype=dtypes[each], device=DEVICE) for each, shape in shapes.items()}
    fresh.fill_sets(every, windows)
    for number, window in enumerate(windows):
        one = {each: torch.empty_like(array[0]) for each, array in every.items()}
        fresh.fill(one, window)
        assert all(identical(one[each], every[each][number]) for each in one)
        assert not any(identical(every[each][0], every[each][1]) for each in one)
