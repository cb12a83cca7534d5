"""Hidden checks of a run: what is admitted to a task, and the contents that their words make."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from evokernel.evaluate.bench.check_admission import refusal_of
from evokernel.evaluate.numerics.check_contents import compose
from evokernel.records.hidden_check import HiddenCheck, digest_of, words_for
from evokernel.task import Task
from evokernel.tasks import load_task

SOFTMAX = load_task("softmax").on("cpu")
EMBEDDING = load_task("embedding").on("cpu")


def refused(check: HiddenCheck, task: Task = SOFTMAX) -> str:
    return refusal_of(task, "cpu", check, rng=np.random.default_rng(1), device="cpu")


def sizes(**changed: int) -> dict[str, int]:
    offered = SOFTMAX.workloads["cpu"]
    least = offered.fixed_sizes
    return {name: offered.range_of(name, least)[0] + 4 for name in offered.probe} | changed


def test_what_fits_is_admitted_with_contents_and_without() -> None:
    (name,) = (tensor.name for tensor in SOFTMAX.signature.inputs)
    assert refused(HiddenCheck(sizes())) == ""
    assert refused(HiddenCheck(sizes(), {name: ("normal", "ties", "equal")})) == ""


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (HiddenCheck({}), "expected a size for each of"),
        (HiddenCheck(sizes(EXTRA=3)), "expected a size for each of"),
        (HiddenCheck({name: 1 << 39 for name in sizes()}), "is out of range"),
        (HiddenCheck(sizes(), {"nothing": ("normal",)}), "there is no input 'nothing'"),
        (HiddenCheck(sizes(), {"x": ("nonsense",)}), "x cannot be nonsense; the words for it are"),
        (HiddenCheck(sizes(), {"x": ("normal",) * 9}), "x has 9 parts, and 1 to 4 are taken"),
    ],
)
def test_what_is_unfit_is_refused_in_words(check: HiddenCheck, reason: str) -> None:
    assert reason in refused(check)


def test_memory_is_capped() -> None:
    offered = SOFTMAX.workloads["cpu"]
    wider = replace(offered, probe=dict.fromkeys(offered.probe, (1, 1 << 13)))
    task = replace(SOFTMAX, workloads={"cpu": wider})
    assert "tensors take 512 MiB, and 32 MiB is the most" in refused(HiddenCheck(sizes(R=1 << 13, C=1 << 13)), task)


def test_each_part_holds_what_its_word_says() -> None:
    offered = EMBEDDING.workloads["cpu"]
    shape = {name: min(offered.range_of(name, offered.fixed_sizes)[1], 64) for name in offered.probe}
    index = next(tensor for tensor in EMBEDDING.signature.inputs if "int" in tensor.dtype)
    assert set(words_for(EMBEDDING, index)) >= {"extremes", "ordered", "crowded"}
    check = HiddenCheck(shape, {index.name: ("extremes", "equal")})
    workload = check.workload(offered)
    found = compose(EMBEDDING, workload, check.contents, np.random.default_rng(1))
    values = found[index.name].reshape(-1)
    assert values.dtype == getattr(torch, index.dtype)
    assert values.min() >= 0
    first = values[: values.numel() // 2 - 8]
    assert len(first.unique()) <= 2, "only the least and the largest index"
    for tensor in EMBEDDING.signature.inputs:
        assert tuple(found[tensor.name].shape) == tensor.shape_at(workload.sizes)


def test_the_key_knows_the_set_of_checks_whatever_their_order_and_reasons() -> None:
    one, other = HiddenCheck({"M": 1}), HiddenCheck({"M": 2}, {"x": ("ties",)}, "why")
    assert digest_of(()) == ""
    assert digest_of((one, other)) == digest_of((other, HiddenCheck({"M": 1}, {}, "another reason")))
    assert len({digest_of(()), digest_of((one,)), digest_of((other,)), digest_of((one, other))}) == 4
    assert HiddenCheck.from_message(other.as_message()) == other
    with pytest.raises(ValueError, match="whole numbers"):
        HiddenCheck.from_message({"sizes": {"M": 1.5}})
