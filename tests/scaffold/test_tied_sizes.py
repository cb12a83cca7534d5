"""Sizes of an example that belong together though shapes alone do not say so, and ranges of its integers."""

from pathlib import Path

import pytest
import torch

from evokernel.errors import TaskError
from evokernel.scaffold.operation.dimensions import Layout, derive_layout
from evokernel.scaffold.operation.index_bounds import ValueRange, find_bounds, find_signed, tied_by_indices
from evokernel.scaffold.operation.user_operation import UserOperation, find_subject
from evokernel.scaffold.operation_analysis import analyse

FILE = """
import torch
import torch.nn.functional as F


def heads(x, y):
    rows, steps, count, _ = x.shape
    x, y = (each.reshape(rows, steps // 4, 4, count, -1) for each in (x, y))
    return x.unsqueeze(-1) * y.unsqueeze(-2)


def pages(q, keys, values, table):
    k, v = keys[table].flatten(1, 2), values[table].flatten(1, 2)
    return torch.einsum("bht,bthd->bhd", torch.einsum("bhd,bthd->bht", q, k).softmax(-1), v)


def stored(cache, new, at):
    cache = cache.clone()
    cache[torch.arange(new.shape[0]), :, at] = new
    return cache


def turned(x, lengths):
    steps = torch.arange(x.shape[1])
    at = torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    return x.gather(1, at)


def beams(scores, tokens):
    best = scores.flatten(1).topk(2, -1)[1] // scores.shape[2]
    return tokens.gather(1, best[..., None].expand(-1, -1, tokens.shape[2])) + 1.0


def kept(boxes, scores):
    ordered, keep = boxes[scores.argsort()], torch.ones_like(scores)
    for i in range(len(scores)):
        keep = keep * (1 - ordered[i] * keep[i])
    return keep


def rotated(x):
    base = 10000.0 * 4.0 ** (x.shape[-1] / (x.shape[-1] - 2))
    return x * base ** (-torch.arange(x.shape[-1], device=x.device) / x.shape[-1])


def unpacked(x, bits):
    return x * ((bits[:, None] >> torch.arange(0, 32, 4)[:, None]) & 15).reshape(-1, bits.shape[1])


def long_convolution(x, k):
    size = 2 * x.shape[1]
    return torch.fft.irfft(torch.fft.rfft(x, n=size) * torch.fft.rfft(k, n=size), n=size)[:, : x.shape[1]]


def rolled(cache, new):
    return torch.cat([cache[:, new.shape[1] :], new], 1)


def coded(x, packed, code):
    return x * code[torch.stack([packed >> 4, packed & 15], -1).long()].flatten(1)


def loss(x, labels):
    return F.cross_entropy(x, labels)


def moved(x, steps):
    return x + steps
"""


def laid_out(folder: Path, name: str, *example: torch.Tensor) -> tuple[UserOperation, Layout]:
    (path := folder / "ops.py").write_text(FILE, encoding="utf-8")
    subject = find_subject(path, name=name, example_inputs=example)
    return subject, tied_by_indices(subject, derive_layout(subject))


def test_a_shape_that_takes_any_number_of_rows_ties_them(tmp_path: Path) -> None:
    _, layout = laid_out(tmp_path, "heads", torch.randn(2, 8, 3, 5), torch.randn(2, 8, 3, 16))
    assert layout.inputs["y"][:3] == layout.inputs["x"][:3]
    assert len(layout.dimensions) == 5


def test_of_equal_sizes_only_those_that_an_index_ties_are_one(tmp_path: Path) -> None:
    q, pool, table = torch.randn(4, 8, 32), torch.randn(32, 16, 8, 32), torch.randint(32, (4, 8))
    subject, layout = laid_out(tmp_path, "pages", q, pool, pool.clone(), table)
    count, _, heads, width = layout.inputs["keys"]
    assert layout.inputs["values"][0] == count
    assert find_bounds(subject, layout) == {"table": count}
    assert len({count, heads, width, layout.inputs["table"][1], layout.inputs["values"][3]}) == 5


def test_two_sizes_that_places_tie_do_not_tie_a_third(tmp_path: Path) -> None:
    new, at = torch.randn(8, 8, 16), torch.arange(8)
    _, layout = laid_out(tmp_path, "stored", torch.randn(8, 8, 32, 16), new, at)
    rows, heads, *_ = layout.inputs["cache"]
    assert layout.inputs["new_"][:2] == (rows, heads)
    assert rows != heads


def test_lengths_go_up_to_the_size(tmp_path: Path) -> None:
    subject, layout = laid_out(tmp_path, "turned", torch.randn(4, 9), torch.tensor([9, 3, 1, 5]))
    assert find_bounds(subject, layout) == {"lengths": f"{layout.inputs['x'][1]} + 1"}


def test_rows_that_ranks_name_are_as_many_as_are_ranked(tmp_path: Path) -> None:
    _, layout = laid_out(tmp_path, "beams", torch.randn(4, 4, 30), torch.randn(4, 4, 9))
    rows, beams, _ = layout.inputs["scores"]
    assert layout.inputs["tokens"][:2] == (rows, beams)
    assert rows != beams


def test_what_is_ordered_like_an_axis_of_steps_stays_as_it_is(tmp_path: Path) -> None:
    _, layout = laid_out(tmp_path, "kept", torch.rand(6), torch.rand(6))
    assert layout.inputs["boxes"] == (6,)


def test_a_size_of_which_a_number_follows_stays_as_it_is(tmp_path: Path) -> None:
    subject, layout = laid_out(tmp_path, "rotated", torch.randn(6, 32))
    assert len(layout.dimensions) == 2
    fixed, analysis = analyse(subject, layout)
    assert analysis.traced is not None
    assert [fixed.inputs["x"][1], len(fixed.dimensions)] == [32, 1]


def test_signed_integers_beside_floats(tmp_path: Path) -> None:
    bits = torch.tensor([[-(2**31), 2**31 - 1, 7], [5, -9, 2**30]], dtype=torch.int32)
    assert find_signed(*laid_out(tmp_path, "unpacked", torch.randn(16, 3), bits)) == {
        "bits": ValueRange(-(2**31), 2**31)
    }
    steps = torch.tensor([[-3, 4, 0], [-1, 2, 2]])
    assert find_signed(*laid_out(tmp_path, "moved", torch.randn(2, 3), steps)) == {"steps": ValueRange(-3, 5)}
    subject, layout = laid_out(tmp_path, "loss", torch.randn(8, 5), torch.tensor([4, -100, 2, -100, 0, 1, 1, 3]))
    assert find_signed(subject, layout) == {"labels": ValueRange(0, layout.inputs["x"][1], -100, 0.25)}
    with pytest.raises(TaskError, match=r"'labels' go from -2 to 4, which loss refuses"):
        find_signed(*laid_out(tmp_path, "loss", torch.randn(8, 5), torch.tensor([4, -2, 2, -1, 0, 1, 1, 3])))


def test_equal_sizes_of_which_one_is_padded_to_the_other_are_one(tmp_path: Path) -> None:
    subject, layout = laid_out(tmp_path, "long_convolution", torch.randn(3, 20), torch.randn(3, 20))
    layout, made = analyse(subject, layout)
    assert layout.inputs["k"] == layout.inputs["x"]
    assert made.traced is not None


def test_rows_that_a_cache_takes_in_stay_as_many_as_they_are(tmp_path: Path) -> None:
    _, layout = laid_out(tmp_path, "rolled", torch.randn(3, 20), torch.randn(3, 4))
    assert layout.inputs["new_"][1] == 4
    assert layout.outputs == (layout.inputs["cache"],)


def test_a_table_that_bits_name_keeps_its_size(tmp_path: Path) -> None:
    packed = torch.randint(256, (16, 8), dtype=torch.uint8)
    _, layout = laid_out(tmp_path, "coded", torch.randn(16, 16), packed, torch.randn(16))
    assert layout.inputs["code"] == (16,)
    assert layout.example
