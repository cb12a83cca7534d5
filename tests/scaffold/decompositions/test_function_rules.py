"""Functions of torch in terms of others, against torch's own; offsets that an example shows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from evokernel.scaffold.decompositions.function_rules import FUNCTION_RULES, functions_replaced
from evokernel.scaffold.operation.dimensions import derive_layout
from evokernel.scaffold.operation.index_bounds import find_bounds, find_offsets
from evokernel.scaffold.operation.user_operation import find_subject
from evokernel.scaffold.workloads import least_sizes

X, N = torch.randn(4, 6, 5), torch.tensor([3, 0, 2, 3, 1])
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "one_hot": (functional.one_hot, (N, 5), {}),
    "one_hot by names": (functional.one_hot, (), {"input": N, "num_classes": 5}),
    "one_hot of what comes": (functional.one_hot, (N,), {}),
    "bincount": (torch.bincount, (N,), {"minlength": 5}),
    "bincount by names": (torch.bincount, (), {"input": N, "minlength": 5}),
    "bincount of weights": (torch.bincount, (N, torch.arange(5.0)), {"minlength": 5}),
    "bincount of what comes": (torch.Tensor.bincount, (N,), {}),
    "cov": (torch.cov, (X[0],), {"correction": 0}),
    "cov of integers": (torch.cov, (N,), {}),
    "cov of complex numbers": (torch.cov, (torch.view_as_complex(X[..., :4].reshape(6, 8, 2)),), {}),
    "corrcoef of integers": (torch.corrcoef, (torch.stack([N, N.flip(0)]),), {}),
    "cov of a row": (torch.cov, (X[0, 0],), {}),
    "cov with weights": (torch.cov, (X[0],), {"fweights": N}),
    "corrcoef": (torch.corrcoef, (X[0],), {}),
    "corrcoef of a row": (torch.corrcoef, (X[0, 0],), {}),
    "take_along_dim": (torch.take_along_dim, (X, 5 * N.view(1, 1, 5) - 6), {"dim": 1}),
    "take_along_dim by names": (torch.take_along_dim, (), {"input": X, "indices": N}),
    "take_along_dim of all": (torch.take_along_dim, (X, N), {}),
    "repeat_interleave": (torch.repeat_interleave, (X, N[:4]), {"dim": 0, "output_size": 8}),
    "repeat_interleave of all": (torch.Tensor.repeat_interleave, (X[0, 0], N), {"output_size": 9}),
    "repeat_interleave of one share": (torch.repeat_interleave, (X, N[:1]), {"dim": 1, "output_size": 18}),
    "repeat_interleave of shares alone": (torch.repeat_interleave, (N,), {"output_size": 9}),
    "repeat_interleave by names": (torch.repeat_interleave, (), {"input": X[0, 0], "repeats": N, "output_size": 9}),
    "repeat_interleave by a number": (torch.repeat_interleave, (X, 2), {"dim": 1}),
    "stft": (torch.stft, (torch.randn(2, 90), 16), {"window": torch.hann_window(16), "return_complex": True}),
    "stft of a row": (
        torch.stft,
        (torch.randn(90), 16, 5, 10, torch.hann_window(10)),
        {"center": False, "normalized": True, "return_complex": True},
    ),
    "stft of both sides": (
        torch.stft,
        (torch.randn(2, 90), 16),
        {"window": torch.ones(16), "onesided": False, "return_complex": True},
    ),
    "pad by names": (functional.pad, (), {"input": X, "pad": (2, 1), "mode": "circular"}),
    "pad around": (functional.pad, (X, (2, 1, 0, 3)), {"mode": "circular"}),
    "pad with zeros": (functional.pad, (X, (2, 1)), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_rules_give_what_torch_gives(case: str) -> None:
    function, given, named = CASES[case]
    rule = FUNCTION_RULES[function]
    torch.testing.assert_close(rule(*given, **named), function(*given, **named))


def test_numbers_that_a_compiler_would_put_on_a_device() -> None:
    cases: list[Any] = [[1, 2], [[1.0, 2], [3, 4]], [True, False], 3.0, [[]], [torch.tensor(1)]]
    due = [torch.tensor(each, device="cpu") for each in cases]
    with functions_replaced():
        made = [torch.tensor(each, device="cpu") for each in cases]
    for one, other in zip(made, due, strict=True):
        torch.testing.assert_close(one, other)


FILE = """
import torch

def rows(crow, col, values, x):
    row = torch.repeat_interleave(torch.arange(crow.numel() - 1), crow.diff(), output_size=col.numel())
    return x.new_zeros(crow.numel() - 1).index_add(0, row, values * x[col])

def put(cache, x, place=40):
    y = cache * 2.0
    y[:, place] = x
    return y

def placed(at, x, y):
    return x[at], y * 2

@torch.jit.script
def scripted(x, y):
    return torch.relu(x) * y
"""


def test_offsets_of_an_example(tmp_path: Path) -> None:
    (path := tmp_path / "ops.py").write_text(FILE, encoding="utf-8")
    given = (torch.tensor([0, 3, 3, 8]), torch.tensor([4, 0, 1, 2, 3, 4, 0, 1]), torch.randn(8), torch.randn(5))
    subject = find_subject(path, name="rows", example_inputs=given)
    layout = derive_layout(subject)
    (total,), (width,) = layout.inputs["values"], layout.inputs["x"]
    assert find_offsets(subject, layout) == {"crow": total}
    assert find_bounds(subject, layout) == {"crow": f"{total} + 1", "col": width}
    positions = find_subject(path, name="rows", example_inputs=(torch.arange(9), *given[1:]))
    assert find_offsets(positions, layout) == {"crow": total}
    positions = find_subject(path, name="rows", example_inputs=(torch.arange(8), *given[1:]))
    assert not find_offsets(positions, layout)
    positions = find_subject(path, name="placed", example_inputs=(torch.arange(9), torch.randn(9), torch.randn(8)))
    assert not find_offsets(positions, derive_layout(positions))


def test_a_place_that_is_fixed_bounds_one_size_alone(tmp_path: Path) -> None:
    (path := tmp_path / "ops.py").write_text(FILE, encoding="utf-8")
    subject = find_subject(path, name="put", inputs="cache: 4x64, x: 4")
    assert sorted(least_sizes(subject, derive_layout(subject)).values()) == [1, 41]


def test_a_scripted_function_is_the_one_that_was_written(tmp_path: Path) -> None:
    (path := tmp_path / "ops.py").write_text(FILE, encoding="utf-8")
    subject = find_subject(path, name="scripted", inputs="x: 4x64, y: 64")
    assert subject.name == "scripted._torchdynamo_inline"
    assert subject.title == "scripted"
