"""A warm judge in Python: verdicts in order, from any thread, and clear words for what cannot be judged."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evokernel import Evaluation, Judge
from evokernel.errors import ConfigError, EvokernelError, LanguageError, TaskError
from evokernel.judging.judge import JudgeClosed
from evokernel.records.evaluation import Fidelity, Stage, Status
from tests.judging.conftest import QUICK, TASK, stages_in

pytestmark = pytest.mark.heavy


def test_verdicts_come_in_the_order_of_the_sources(judge: Judge, seed: str) -> None:
    wrong = seed.replace("+=", "-=")
    assert wrong != seed
    found = judge.map(source for source in (wrong, "int x;", seed, seed + "int unused() { return 3; }\n"))
    assert [each.status for each in found] == [Status.NUMERICAL, Status.STATIC_REJECT, Status.OK, Status.OK]
    assert judge.waiting == 0
    assert judge.map([]) == []


def test_an_evaluation_prints_itself(judge: Judge, seed: str) -> None:
    right, broken = judge.map([seed, seed + "int;;; x y\n"])
    first = str(right).splitlines()[0]
    speedup = right.speedup
    assert speedup is not None
    assert broken.speedup is None
    assert first.startswith("ok at quick timing, worker mode: ")
    assert f"{speedup.low:.3g} to {speedup.high:.3g}" in first
    assert right.feedback in str(right)
    assert str(broken).startswith("compile_error at compile, worker mode\n")
    assert broken.feedback in str(broken)


def test_a_running_event_loop_does_not_matter(judge: Judge, seed: str) -> None:
    async def cell() -> Evaluation:
        return judge(seed)

    assert asyncio.run(cell()).ok


def test_a_call_may_name_another_fidelity(judge: Judge, seed: str) -> None:
    found = judge(seed + "// measured longer\n", fidelity="precise")
    assert (found.key.budget, found.stage) == (Fidelity.PRECISE, Stage.PRECISE)


def test_what_is_no_source_and_no_fidelity_is_refused(judge: Judge, seed: str) -> None:
    bad: Any = (seed, b"bytes")
    with pytest.raises(LanguageError, match="the text of a kernel in cpp, not a bytes"):
        judge.map(bad)
    with pytest.raises(LanguageError, match="expected several sources"):
        judge.map(seed)
    with pytest.raises(ConfigError, match="expected one of quick, precise, final"):
        judge(seed, fidelity="slow")
    assert judge(seed).ok, "the judge goes on"


def test_after_its_end_it_says_so(seed: str) -> None:
    with Judge(TASK, device="cpu", evaluation=QUICK) as judge:
        waiting = [judge.submit(f"{seed}// {number}\n") for number in range(40)]
    with pytest.raises(JudgeClosed, match="closed; make another one"):
        judge(seed)
    ends = [each.exception() for each in waiting]
    assert isinstance(ends[-1], JudgeClosed)
    assert all(end is None or isinstance(end, JudgeClosed) for end in ends)
    judge.close()


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("nothing", {}, "unknown task 'nothing': expected a built-in task"),
        (TASK, {"fidelity": "slow"}, "fidelity 'slow': expected one of quick"),
        (TASK, {"language": "rust"}, "language: .*given 'rust'"),
        (TASK, {"language": "cpp", "device": "cuda"}, "language cpp runs on device class cpu"),
        (TASK, {"language": "triton"}, "task 'small' has no workloads for cuda; it has some for cpu"),
        (TASK, {"threads": 0}, "threads: .*given 0"),
        (TASK, {"evaluation": {"quick": 3}}, "evaluation.quick: unknown key"),
        (len, {}, "len is a builtin_function_or_method, which cannot be written down"),
    ],
)
def test_what_cannot_be_judged_is_said_before_anything_starts(
    task: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(EvokernelError, match=message):
        Judge(task, **settings)


def test_example_inputs_belong_to_a_function() -> None:
    with pytest.raises(TaskError, match="example inputs belong to a function"):
        Judge(TASK, 3.0)


def test_a_task_that_is_unfit_fails_at_once(tmp_path: Path) -> None:
    file = tmp_path / "unfit.py"
    file.write_text(TASK.read_text().replace("return a @ b", "return 0 * (a @ b)"))
    with pytest.raises(TaskError, match="zero"):
        Judge(file, device="cpu", evaluation=QUICK)


@pytest.mark.parametrize("progress", [True, False])
def test_a_program_that_forgets_it_ends(seed: str, tmp_path: Path, progress: bool) -> None:
    (tmp_path / "seed.cpp").write_text(seed)
    script = f"""
import evokernel
judge = evokernel.Judge({str(TASK)!r}, device="cpu", evaluation={QUICK!r}, progress={progress})
print(judge(open("seed.cpp").read()).status)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ok\n")
    assert stages_in(done.stderr) == ["evokernel"] * 2 * progress, "what the start is at, and that it is done"
