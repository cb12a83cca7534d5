"""Masks of -inf in an example: the task draws such, too, and a kernel that trips over them is found."""

from pathlib import Path

import numpy as np
import pytest
import torch

from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.scaffold.operation.additive_masks import AdditiveMask, find_masks
from evokernel.scaffold.operation.user_operation import find_subject
from evokernel.scaffold.project import ProjectSettings, init_project

ATTENTION = """
import torch


def attention(q, k, v, mask):
    return torch.softmax(q @ k.mT / 8 + mask, dim=-1) @ v


def get_inputs():
    return [torch.randn(40, 24), torch.randn(56, 24), torch.randn(56, 32), torch.full((40, 56), -torch.inf).triu(1)]
"""
LOWEST = torch.finfo(torch.float32).min
HOLES = torch.tensor([[1.0, 2.0, torch.nan, 3.0], [torch.nan, 0.5, 4.0, torch.nan]])


def online(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Attention by blocks as it is often written: a block without any place open makes NaN of -inf less -inf."""
    largest, total, answer = (
        torch.full((len(q), 1), -torch.inf),
        torch.zeros(len(q), 1),
        torch.zeros(len(q), v.shape[1]),
    )
    for keys, values, closed in zip(k.split(8), v.split(8), mask.split(8, dim=1), strict=True):
        scores = q @ keys.T / 8 + closed
        now = torch.maximum(largest, scores.amax(1, keepdim=True))
        shares, kept = (scores - now).exp(), (largest - now).exp()
        total, answer = total * kept + shares.sum(1, keepdim=True), answer * kept + shares @ values
        largest = now
    return answer / total


def test_a_task_has_masks_as_the_example_and_a_kernel_that_gives_nan_for_them_is_wrong(tmp_path: Path) -> None:
    (path := tmp_path / "attention.py").write_text(ATTENTION, encoding="utf-8")
    project = init_project(path, out=tmp_path / "out", settings=ProjectSettings(devices=("cpu",)))
    assert not project.unfit
    assert not project.seeds[0].why
    assert "-inf stands in places of mask, as in your example" in project.remarks
    task = project.task.on("cpu")
    workload = task.workloads["cpu"].search[0]
    honest, blocks = [], []
    for seed in range(12):
        inputs = draw(task, workload, "normal", np.random.default_rng(seed))
        closed = inputs["mask"] == -torch.inf
        assert closed.any()
        assert not closed.all(dim=1).any()
        assert (inputs["mask"][~closed] == 0).all()
        expected = expect(task, workload, inputs, distribution="normal")
        blocks.append(judge_output(expected, [online(**inputs)]))
        honest.append(judge_output(expected, [task.reference(**inputs)]))
    assert not any(honest)
    assert any(blocks)


@pytest.mark.parametrize(
    ("mask", "found"),
    [
        (torch.full((4, 6), -torch.inf).triu(1), AdditiveMask(-torch.inf, 0.0)),
        (torch.full((4, 6), LOWEST).triu(1), AdditiveMask(LOWEST, 0.0)),
        (torch.where(torch.arange(12) % 3 == 0, -1e4, 0.0), AdditiveMask(-1e4, 0.0)),
        (torch.tensor([[1.0, 3.0, torch.inf, 1.0], [3.0, torch.inf, 1.0, 3.0]]), AdditiveMask(torch.inf, 1.0)),
        (torch.full((4, 6), -torch.inf), None),
        (torch.cat([torch.full((1, 6), -torch.inf), torch.zeros(3, 6)]), None),  # one row has no answer
        (torch.tensor([-torch.inf, torch.inf, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), None),
        (torch.linspace(-9e4, 9e4, 12), None),
        (torch.tensor([-2e4, -2e4, 9e3, 0.0, 1.0, 2.0, 3.0, 4.0]), None),  # one among large numbers
        (torch.arange(12), None),
    ],
)
def test_a_mask_is_told_by_one_number_in_many_places(
    mask: torch.Tensor, found: AdditiveMask | None, tmp_path: Path
) -> None:
    (path := tmp_path / "added.py").write_text("def added(mask): return mask * 2", encoding="utf-8")
    assert find_masks(find_subject(path, example_inputs=[mask])).get("mask") == found


@pytest.mark.slow
def test_numbers_that_are_missing_are_missing_in_the_task(tmp_path: Path) -> None:
    (path := tmp_path / "means.py").write_text("def means(x): return x.nanmean(1)", encoding="utf-8")
    found = find_masks(find_subject(path, example_inputs=[HOLES]))["x"]
    assert np.isnan(found.closed)
    settings = ProjectSettings(devices=("cpu",))
    project = init_project(path, out=tmp_path / "out", settings=settings, example_inputs=[HOLES.repeat(8, 16)])
    assert not project.unfit
    task = project.task.on("cpu")
    drawn = draw(task, task.workloads["cpu"].search[0], "normal", np.random.default_rng(0))["x"]
    assert drawn.isnan().any()
    assert not drawn.isnan().all(dim=1).any()
