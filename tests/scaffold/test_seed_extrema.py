"""Largest numbers in kernels of `init`: NaN where one of them is, as torch has it."""

from pathlib import Path

import pytest

from evokernel.scaffold.loops.selection_text import keeping_nan
from evokernel.scaffold.project import Project, ProjectSettings, init_project

FILE = """
import torch


def deepest(prices):
    peak = torch.cummax(prices, dim=-1).values
    return ((peak - prices) / peak).amax(-1)


def deepest_day(prices):
    peak = torch.cummax(prices, dim=-1).values
    worst = ((peak - prices) / peak).max(-1)
    return worst.values, worst.indices


def columns(shares):
    return (shares / shares.sum(-1, keepdim=True)).amin(0)


def largest(x):
    return x.amax(-1)
"""


def _init(folder: Path, name: str) -> Project:
    path = folder / "fn.py"
    path.write_text(FILE, encoding="utf-8")
    settings = ProjectSettings(devices=("cpu",))
    inputs = {"columns": "shares: 12x8", "largest": "x: 12x80"}.get(name, "prices: 12x80")
    return init_project(path, name=name, inputs=inputs, out=folder, settings=settings)


@pytest.mark.parametrize("name", ["deepest", "deepest_day", "columns"])
def test_extrema_of_quotients_are_nan_where_one_is(tmp_path: Path, name: str) -> None:
    (seed,) = _init(tmp_path, name).seeds
    assert (seed.why, seed.remark) == ("", "")
    assert "_or_nan(" in seed.file.read_text(encoding="utf-8")


def test_extrema_of_numbers_take_one_comparison(tmp_path: Path) -> None:
    (seed,) = _init(tmp_path, "largest").seeds
    source = seed.file.read_text(encoding="utf-8")
    assert (seed.why, seed.remark) == ("", "")
    assert "std::max<float>(" in source
    assert keeping_nan(source) != source
    assert keeping_nan(source).count("max_or_nan(") > 1
