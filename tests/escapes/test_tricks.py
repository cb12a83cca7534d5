"""Every trick is judged at every level, as root and as an ordinary user: what it ends with, and what it leaves.

A program whose trick is refused computes the right product and is measured. One that gets through says so, and may do
so only where the sandbox names that hole: there it must, so that what is documented stays true.
"""

import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest

from evokernel.evaluate.sandbox.levels import SandboxLevel
from evokernel.records.evaluation import Status
from tests.escapes.judging import PROGRAMS, SOURCES, judged, make_place
from tests.escapes.tricks import GOT_THROUGH, LEAVING, OUT_OF_TIME, TRICKS, WRITABLE
from tests.evaluate.ordinary_user import UID

pytestmark = pytest.mark.slow

EVERY = 4
"""Of so many programs one is followed by a witness at a place, another one at the next: each is at some."""
PLACES = [(level, user) for level in SandboxLevel for user in (False, True)]


@pytest.fixture(scope="module", params=PLACES, ids=[f"{level}-{'user' if user else 'root'}" for level, user in PLACES])
def report(request: pytest.FixtureRequest) -> dict[str, Any]:
    level, user = request.param
    if os.geteuid() != 0 and not user:
        pytest.skip("needs root")
    return reports()[level, user].result()


@cache
def reports() -> Mapping[tuple[SandboxLevel, bool], Future[dict[str, Any]]]:
    """Return the reports by level and whether an ordinary user judges; root makes all at once: a judge mostly waits.

    They know nothing of each other: all that is counted is of one process, one place, and one user.
    """
    root = os.geteuid() == 0
    chosen = [(level, user) for level, user in PLACES if user or root]
    with ThreadPoolExecutor(len(chosen) if root else 1) as pool:
        return {
            (level, user): pool.submit(judge_at, level, list(TRICKS), user=user, first=number)
            for number, (level, user) in enumerate(chosen)
        }


def judge_at(
    level: SandboxLevel, programs: list[str], *, user: bool, first: int = 0, every: int = EVERY, threads: int = 1
) -> dict[str, Any]:
    """Return the report of one level; skips where this machine does not have it.

    A witness follows one in `every` programs, from number `first` on.
    """
    somebody_else = user and os.geteuid() == 0
    # one user for each level: the kernel counts the processes of a user, and a fork bomb starts all that it may
    uid = UID + list(SandboxLevel).index(level) if somebody_else else os.geteuid()
    with make_place(uid) as place:
        witnessed = programs[first % every :: every]
        found = judged(place, level, programs, witnessed=witnessed, as_somebody_else=somebody_else, threads=threads)
    if found["level"] != level:
        pytest.skip(f"this machine does not allow level {level}: {found['sandbox']}")
    if "seccomp" not in found["sandbox"]:
        pytest.skip("without seccomp many tricks get through, as the sandbox says")
    return found


def test_every_program_of_the_folder_is_judged() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.cpp")} | set(SOURCES) == {*TRICKS, "witness"}


@pytest.mark.parametrize("name", list(TRICKS))
def test_a_trick_ends_with_a_fitting_status(report: dict[str, Any], name: str) -> None:
    trick, verdict = TRICKS[name], report["verdicts"][name]
    if trick.is_open(report["holes"]):
        assert verdict["status"] == Status.WORKER_DIED, verdict
        assert GOT_THROUGH in verdict["feedback"]
        return
    if trick.sanitized and verdict["status"] == Status.OK:
        assert not verdict["sanitized"], verdict
        return
    if trick.sanitized and OUT_OF_TIME in verdict["feedback"]:
        return
    assert verdict["status"] in trick.statuses, verdict
    assert verdict["status"] != trick.statuses[0] or trick.told in verdict["feedback"]
    assert len(verdict["feedback"].splitlines()) <= 60
    assert len(verdict["feedback"]) < 20_000


def test_the_next_candidate_finds_nothing_of_the_one_before(report: dict[str, Any]) -> None:
    leaving = LEAVING if writable(report) else ()
    for name, witness in report["witnesses"].items():
        assert witness["status"] == (Status.WORKER_DIED if name in leaving else Status.OK), (name, witness)
    assert report["first"]["status"] == report["last"]["status"] == Status.OK


def test_nothing_is_left_of_all_of_them(report: dict[str, Any]) -> None:
    assert report["more_processes"] <= 0
    assert report["more_files"] <= 0
    assert report["processes"] == []
    assert not report["changed"]
    assert bool(report["left"]) == writable(report), report["left"]


def writable(report: dict[str, Any]) -> bool:
    """Tell whether candidates may write what everybody may, as the sandbox says."""
    return any(words in hole for hole in report["holes"] for words in WRITABLE)


@pytest.mark.parametrize("level", [SandboxLevel.FULL, SandboxLevel.RLIMITS])
def test_with_threads_only_threads_are_started_and_they_end_with_the_candidate(level: SandboxLevel) -> None:
    report = judge_at(level, ["thread_left_behind", "daemons", "fork_bomb", "signals"], user=False, every=2, threads=2)
    assert {verdict["status"] for verdict in report["verdicts"].values()} == {Status.OK}, report["verdicts"]
    assert {witness["status"] for witness in report["witnesses"].values()} == {Status.OK}, report["witnesses"]
    assert report["processes"] == []
    assert report["more_processes"] <= 0
