"""The scales of weights: which operations get them, and what numbers become with them."""

from pathlib import Path

import pytest
import torch

from evokernel.scaffold.operation.dimensions import derive_layout
from evokernel.scaffold.operation.user_operation import UserOperation, find_subject
from evokernel.scaffold.weight_scales import weight_scales

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
DEEP = """
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 32, 3, padding=1)
        self.body = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Conv2d(32, 32, 3, padding=1), NORM)))
        self.last = nn.Linear(32, 10)

    def forward(self, x):
        return self.last(self.body(self.first(x).relu()).mean((2, 3)))
"""
UP = """
def up(x, w0, w1, w2, w3, w4, shift, g):
    for w in (w0, w1, w2, w3) * 3:
        x = (x @ w.t().contiguous() + shift).relu()
    x = F.conv_transpose1d(x[:, :, None], w4, stride=2)
    return torch.bmm(x, g)
"""


def subject_of(tmp_path: Path, text: str, inputs: str) -> UserOperation:
    path = tmp_path / "operation.py"
    path.write_text(HEAD + text, encoding="utf-8")
    return find_subject(path, inputs=inputs)


def scales_of(tmp_path: Path, text: str, inputs: str) -> dict[str, float]:
    subject = subject_of(tmp_path, text, inputs)
    return weight_scales(subject, derive_layout(subject))


def test_in_a_deep_network_each_input_counts_and_nothing_grows(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, DEEP.replace("NORM", "nn.ReLU()"), "x: 2x3x8x8")
    scales = weight_scales(subject, derive_layout(subject))
    assert scales["first_weight"] == pytest.approx((2 / 27) ** 0.5, rel=1e-2)
    assert scales["last_weight"] == pytest.approx((2 / 32) ** 0.5, rel=1e-2)
    assert set(scales) == set(subject.inputs) - {"x"}
    torch.manual_seed(0)
    inputs = {name: scales.get(name, 1.0) * torch.randn(each.shape) for name, each in subject.inputs.items()}
    with torch.no_grad():
        result = subject.call(inputs)
        assert 0.05 < float(result.std()) < 20
        for name, each in inputs.items():
            change = (subject.call({**inputs, name: torch.zeros_like(each)}) - result).abs().max()
            assert change > 1e-2 * result.abs().max(), name


def test_norms_and_few_layers_need_none(tmp_path: Path) -> None:
    assert not scales_of(tmp_path, DEEP.replace("NORM", "nn.GroupNorm(4, 32)"), "x: 2x3x8x8")
    shallow = "def f(x, a, b, c):\n    return (((1e3 * x @ a).relu() @ b).relu() @ c)"
    assert not scales_of(tmp_path, shallow, "x: 4x64, a: 64x64, b: 64x64, c: 64x64")


def test_weights_of_a_function_are_found_behind_views_and_copies(tmp_path: Path) -> None:
    sizes = ", ".join(f"w{number}: 48x48" for number in range(4))
    found = scales_of(tmp_path, UP, f"x: 4x48, {sizes}, w4: 48x6x4, shift: 48, g: 4x4x5")
    square = pytest.approx((2 / 48) ** 0.5, rel=1e-2)
    assert {name: found[name] for name in ("w0", "w1", "w2", "w3")} == dict.fromkeys(("w0", "w1", "w2", "w3"), square)
    assert found["w4"] == pytest.approx((2 / 96) ** 0.5, rel=1e-2)  # a stride of 2 leaves half of 4 places
    assert found["g"] == pytest.approx((2 / 4) ** 0.5, rel=1e-2)
    assert found["shift"] == 0.125


def test_beside_integers_nothing_is_scaled(tmp_path: Path) -> None:
    text = "def f(x, i, a):\n    for _ in range(9):\n        x = x @ a\n    return x[i]"
    assert not scales_of(tmp_path, text, "x: 4x64, i: int64[3] < 4, a: 64x64")


def test_an_operation_that_fails_gets_none_and_a_fault_of_ours_is_seen(tmp_path: Path) -> None:
    body = "    for _ in range(20):\n        x = x @ a\n    return x"
    inputs = "x: 100000x64, a: 64x64"
    good = subject_of(tmp_path, f"def f(x, a):\n{body}", inputs)
    layout = derive_layout(good)
    assert set(weight_scales(good, layout)) == {"a"}
    for fails in ("True", "type(x) is torch.Tensor"):  # always, and on data alone
        bad = subject_of(tmp_path, f"def f(x, a):\n    if {fails}:\n        raise ArithmeticError\n{body}", inputs)
        assert not weight_scales(bad, layout)
    other = subject_of(tmp_path, "def g(x, b):\n    return x @ b", "x: 4x64, b: 64x64")
    with pytest.raises(KeyError):
        weight_scales(good, derive_layout(other))
