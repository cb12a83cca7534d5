"""Cheats in C++ that people and models came up with, none of which pays; honest kernels of all kinds, none rejected.

Cheats whose verdict depends on a time are judged alone; others, and honest kernels, bear a busy machine.
"""

import itertools
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from evokernel.evaluate.client.judge_process import JudgeHostClient
from evokernel.records.evaluation import Evaluation, Stage, Status
from evokernel.records.timing import combined_speedup
from evokernel.self_test.exhibits import CLASSES
from tests.museum.exhibits import CHEATS, GAIN, HONEST, Exhibit, read_exhibits, refuse_incomplete
from tests.museum.on_processor import judge_exhibits

DOCS = Path(__file__).parents[2] / "docs" / "worker-mode.md"
CHEATING, HONEST_ONES = read_exhibits(CHEATS / "cpp"), read_exhibits(HONEST / "cpp")


TIMED = [cheat for cheat in CHEATING if any(stage is Stage.QUICK for _, stage in cheat.verdicts())]
UNTIMED = [cheat for cheat in CHEATING if cheat not in TIMED]
MODELS = {cheat.model for cheat in TIMED if "gains" in cheat.head}
TIMED_BESIDE_MODELS = [*TIMED, *(kernel for kernel in HONEST_ONES if kernel.name in MODELS)]
JUDGES = 3
"""How many judges must agree that a cheat pays: where a process has its memory can change a baseline by a third.

So many are asked where the first verdict on another exhibit is on the wrong side: no other may be.
"""


class Gallery:
    """Judges all exhibits of a task in a wing at the first question about one of them."""

    def __init__(self, wing: list[Exhibit], host: JudgeHostClient) -> None:
        self._wing = wing
        self._host = host
        self._found: dict[str, Evaluation] = {}

    def __getitem__(self, exhibit: Exhibit) -> Evaluation:
        if exhibit.name not in self._found:
            room = (exhibit.task, exhibit.threads)
            inside = [each for each in self._wing if (each.task, each.threads) == room]
            self._found |= judge_exhibits(inside, start=self._host)
        return self._found[exhibit.name]


@pytest.fixture(scope="module")
def host() -> Iterator[JudgeHostClient]:
    """Import torch once for the judges of all tasks."""
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("needs a C++ compiler")
    with JudgeHostClient("cpu") as started:
        yield started


@pytest.fixture(scope="module")
def timed(host: JudgeHostClient) -> Gallery:
    return Gallery(TIMED_BESIDE_MODELS, host)


@pytest.fixture(scope="module")
def untimed(host: JudgeHostClient) -> Gallery:
    return Gallery([*UNTIMED, *HONEST_ONES], host)


def test_every_exhibit_says_what_it_is():
    assert len(CHEATING) >= 30
    assert len(HONEST_ONES) >= 30
    assert len({exhibit.name for exhibit in CHEATING + HONEST_ONES}) == len(CHEATING) + len(HONEST_ONES)
    for exhibit in CHEATING + HONEST_ONES:
        assert exhibit.head["title"]
        assert Path(exhibit.task).is_file(), exhibit.name
    for cheat in CHEATING:
        refuse_incomplete(cheat)
    assert {exhibit.head["class"] for exhibit in CHEATING} == {*CLASSES, "building"}
    assert {Path(exhibit.task).stem for exhibit in HONEST_ONES} == {
        *(
            "gemm",
            "softmax",
            "sum",
            "rmsnorm",
            "layernorm",
            "layernorm_known",
            "scan",
            "transpose",
            "histogram",
            "positives",
            "row_maximum",
            "best",
            "ordered",
            "grey",
            "totals",
            "decays",
            "measured_squares",
            "finite_sums",
            "even_sums",
            "kept",
            "saturated",
            "softplus",
            "clamped_squares",
            "larger",
            "gaps",
            "buckets",
            "first_largest",
            "ranks",
            "complements",
            "narrow_products",
            "cursors",
            "products",
            "logits",
            "largest",
        )
    }


def test_every_known_hole_is_in_the_docs():
    section = DOCS.read_text(encoding="utf-8").partition("## Cheats in C++")[2]
    holes = [exhibit.name for exhibit in CHEATING if "hole" in exhibit.head]
    assert holes
    assert [name for name in holes if f"`{name}`" not in section] == []


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("cheat", TIMED, ids=lambda exhibit: exhibit.name)
def test_no_cheat_pays(timed: Gallery, host: JudgeHostClient, cheat: Exhibit):
    found = timed[cheat]
    assert cheat.foresees(found.status, found.stage), found.feedback
    if "gains" in cheat.head and found.ok:
        fresh = (Gallery(TIMED_BESIDE_MODELS, host) for _ in range(JUDGES - 1))
        assert not all(_pays(cheat, judged) for judged in itertools.chain([timed], fresh))


@pytest.mark.slow
@pytest.mark.filterwarnings("default:a judge erred")
@pytest.mark.parametrize("cheat", UNTIMED, ids=lambda exhibit: exhibit.name)
def test_no_cheat_passes_the_checks(untimed: Gallery, host: JudgeHostClient, cheat: Exhibit):
    found = _by_judges(cheat, untimed, host)
    assert cheat.foresees(found.status, found.stage), found.feedback


@pytest.mark.slow
@pytest.mark.filterwarnings("default:a judge erred")
@pytest.mark.parametrize("kernel", HONEST_ONES, ids=lambda exhibit: exhibit.name)
def test_no_honest_kernel_is_rejected(untimed: Gallery, host: JudgeHostClient, kernel: Exhibit):
    found = _by_judges(kernel, untimed, host)
    assert found.status is Status.OK, found.feedback
    assert found.stage is Stage.QUICK
    assert kernel.nondeterministic or not found.nondeterministic  # on busy cores threads may come in one order


def _by_judges(exhibit: Exhibit, first: Gallery, host: JudgeHostClient) -> Evaluation:
    """Return the first verdict on the wrong side of two further judges, or a right one; of three judges one may err.

    Each draws anew. How often single judges err is measured by benchmarks/misses.py.
    """
    found = first[exhibit]
    if exhibit.rightly_judged(found.status, found.stage):
        return found
    warnings.warn(f"a judge erred about {exhibit.name}: {found.status}, {found.feedback}", stacklevel=2)
    for _ in range(JUDGES - 1):
        found = judge_exhibits([exhibit], start=host)[exhibit.name]
        if not exhibit.rightly_judged(found.status, found.stage):
            break
    return found


def _pays(cheat: Exhibit, judged: Gallery) -> bool:
    honest = judged[_named(cheat.model)]
    return combined_speedup(judged[cheat].timings).low >= GAIN * combined_speedup(honest.timings).high


def _named(name: str) -> Exhibit:
    return next(exhibit for exhibit in HONEST_ONES if exhibit.name == name)
