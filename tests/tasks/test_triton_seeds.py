"""The plain Triton seeds are right for any size, in Triton's interpreter, and compile for a GPU without one."""

import importlib.util
from collections.abc import Mapping
from typing import Any

import pytest

from evokernel.source.tunables import read_tunables
from evokernel.task import Task
from evokernel.tasks import load_task
from tests.support.due_outputs import Question, ask, complaint
from tests.support.interpret import Case, interpret

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")

ROWS = ({"R": 1, "C": 2}, {"R": 3, "C": 37}, {"R": 5, "C": 64}, {"R": 19, "C": 70})
PRODUCTS = ({"M": 1, "N": 1, "K": 1}, {"M": 33, "N": 35, "K": 37}, {"M": 16, "N": 64, "K": 32})
SIZES: Mapping[str, tuple[dict[str, int], ...]] = {
    **dict.fromkeys(("softmax", "cumsum", "rmsnorm", "add_rmsnorm", "layernorm", "silu_mul", "transpose"), ROWS),
    "layernorm_backward": tuple({"R": sizes["R"], "C": 2 + sizes["C"]} for sizes in ROWS),
    "cross_entropy": ({"R": 1, "V": 2}, {"R": 5, "V": 37}),
    **dict.fromkeys(("gemm", "gemm_bias_gelu"), PRODUCTS),
    "attention": (
        {"B": 1, "H": 1, "S": 1, "D": 1},
        {"B": 2, "H": 3, "S": 37, "D": 20},
        {"B": 1, "H": 1, "S": 64, "D": 16},
    ),
    "embedding": ({"T": 1, "V": 1, "C": 1}, {"T": 7, "V": 11, "C": 37}, {"T": 20, "V": 3, "C": 16}),
    "histogram": ({"N": 1, "B": 1}, {"N": 300, "B": 37}, {"N": 1000, "B": 64}),
    "conv2d_bias_relu": (
        {"N": 1, "C": 1, "H": 1, "W": 1, "K": 1},
        {"N": 2, "C": 19, "H": 5, "W": 7, "K": 18},
        {"N": 1, "C": 3, "H": 8, "W": 4, "K": 33},
    ),
}
"""By task, sizes on the edges of the small blocks below; the gemm tasks share a seed."""
SMALL = {
    **{"BLOCK": 16, "BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16, "BLOCK_R": 16, "BLOCK_C": 16, "BLOCK_P": 16},
    **{"ROWS": 8, "COLS": 32, "SHARES": 2, "PROGRAMS": 3},
}
MISTAKES = {
    "rmsnorm": ("/ C + eps", "/ BLOCK + eps"),
    "add_rmsnorm": ("tl.store(s + row * C + cols, total", "tl.store(s + row * C + cols, left"),
    "layernorm": ("tl.where(cols < C, values - mean, 0.0)", "values - mean"),
    "layernorm_backward": ("range(share * ROWS, R,", "range(share * ROWS, R - 1,"),
    "silu_mul": ("tl.exp(-left)", "tl.exp(left)"),
    "gemm_bias_gelu": ("acc * 0.5 *", "acc * 0.5 * 1.001 *"),
    "attention": ("cols[None, :] <= rows[:, None]", "cols[None, :] < S"),
    "transpose": ("tl.trans(tile)", "tile"),
    "cumsum": ("carried += tl.sum", "carried = tl.sum"),
    "embedding": ("table + token * C", "table + row * C"),
    "histogram": ("BINS, mask=at < N", "BINS"),
    "conv2d_bias_relu": (" & (right >= 0)", ""),
}


def source_of(name: str) -> str:
    return load_task(name).seeds["triton"].read_text(encoding="utf-8")


def mistaken(name: str) -> str:
    old, new = MISTAKES[name]
    source = source_of(name)
    assert old in source
    return source.replace(old, new)


def questions(name: str, *, distributions: tuple[str, ...] = ("normal", "integers01")) -> list[Question]:
    """What is asked of a source: its task's sizes and some distributions."""
    return [
        ask(load_task(name), dims, distribution)
        for dims in SIZES[name]
        for distribution in load_task(name).distributions
        if distribution in distributions
    ]


Verdicts = Mapping[tuple[str, bool], list[str | None]]


@pytest.fixture(scope="module")
def verdicts() -> Verdicts:
    """What is wrong with each seed, and on one distribution with each that has a mistake; one interpreter for all."""
    sources = {(name, True): source_of(name) for name in SIZES} | {(name, False): mistaken(name) for name in MISTAKES}
    asked = {
        (name, right): questions(name) if right else questions(name, distributions=("normal",))
        for name, right in sources
    }
    cases = [Case(sources[key], question.arguments, SMALL) for key in sources for question in asked[key]]
    left = iter(interpret(cases, timeout_s=600))
    return {key: [_verdict(question, next(left)) for question in asked[key]] for key in sources}


def _verdict(question: Question, left: list[Any] | str) -> str | None:
    return left if isinstance(left, str) else complaint(question, left)


@pytest.mark.parametrize("name", SIZES)
def test_a_plain_seed_is_right_for_any_size(verdicts: Verdicts, name: str) -> None:
    told = verdicts[name, True]
    assert not any(told), next(filter(None, told))


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_seen(verdicts: Verdicts, name: str) -> None:
    assert any(verdicts[name, False])


@pytest.mark.parametrize("name", [name for name in SIZES if name not in ("gemm", "softmax")])
def test_a_plain_seed_begins_within_its_own_space(name: str) -> None:
    """That it compiles for a GPU: tests/evaluate/artifact_mode/test_seed_cubins.py."""
    space = read_tunables(source_of(name))
    assert space.allows(space.values)
    assert {"NUM_WARPS", "NUM_STAGES"} <= space.values.keys()


def test_every_task_is_tried() -> None:
    from evokernel.tasks import builtin_tasks

    seeds = {load_task(name).seeds["triton"] for name in builtin_tasks()}
    assert {load_task(name).seeds["triton"] for name in SIZES} == seeds
    task: Task = load_task("gemm_deep")
    assert task.seeds["triton"] == load_task("gemm").seeds["triton"]
