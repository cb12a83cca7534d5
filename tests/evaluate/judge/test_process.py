import asyncio
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from evokernel.errors import HarnessError, TaskError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.judge_process import JudgeClient, JudgeHostClient, JudgeLost
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.device.cores import share_out
from evokernel.evaluate.numerics.pooling import HOLDOUT_PREFIX, pool_finals
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import Evaluation, Fidelity, Stage, Status
from evokernel.records.timing import Limit, Timing, Verdict
from evokernel.tasks import load_task
from evokernel.testing import evaluator as contract
from tests.support.processes import descendants

ROOT = Path(__file__).parents[3]


kernel, SETTINGS = contract.kernel, contract.SETTINGS
MARKS = itertools.count(1000)
"""Make each kernel another one: its builds and verdicts are its own."""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    language = local_language("cpp", SETTINGS)
    task = contract.write_task(tmp_path_factory.mktemp("task"))
    found = contract.EvaluatorDriver(open_evaluator(task, language, settings=SETTINGS), language)
    yield found
    found.close()


def setup(task: str, *, cores: Sequence[int] = sorted(os.sched_getaffinity(0))) -> dict[str, Any]:
    return {
        "task": task,
        "device": "cpu",
        "threads": 1,
        "settings": SETTINGS.model_dump(mode="json"),
        "cores": asdict(share_out(cores, device="cpu", threads=1)[0]),
        "admit": True,
        "final": False,
    }


def unlike_others(number: int) -> str:
    """Return a right kernel whose machine code no other has, so that it is measured and not answered as a twin."""
    return str(kernel(f"volatile int mark = {number}; (void)mark;"))


def with_client(judge_host: JudgeHostClient, work: Callable[[JudgeClient], Any]) -> Any:
    async def story() -> Any:
        client = await judge_host.launch(limit_s=60.0)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(story())


def test_a_task_that_cannot_be_judged_is_a_clear_error(judge_host: JudgeHostClient, tmp_path: Path):
    path = tmp_path / "bad.py"
    path.write_text(contract.TASK.replace("return a @ b", "return (a @ b) * 0").replace("FLOPS", "2 * M * N * K"))
    with pytest.raises(TaskError, match="small"):
        with_client(judge_host, lambda client: client.ask({"op": "start", **setup(str(path))}))


def test_a_reference_that_dies_in_native_code_is_named(judge_host: JudgeHostClient, tmp_path: Path):
    path = tmp_path / "dies.py"
    path.write_text(contract.TASK.replace("return a @ b", "import os; os.abort()").replace("FLOPS", "2 * M * N * K"))
    with pytest.raises(JudgeLost, match="SIGABRT, which may come from native code of the task's"):
        with_client(judge_host, lambda client: client.ask({"op": "start", **setup(str(path))}))


def test_a_faulty_start_is_a_harness_error(judge_host: JudgeHostClient, tmp_path: Path):
    task = contract.write_task(tmp_path)
    with pytest.raises(HarnessError, match="cores"):
        with_client(judge_host, lambda client: client.ask({"op": "start", **setup(task, cores=[4095])}))


def test_a_judge_that_has_drawn_its_shapes_before_the_start_judges_on_them(judge_host: JudgeHostClient, tmp_path: Path):
    task = contract.write_task(tmp_path)

    async def work(client: JudgeClient) -> tuple[Any, Any]:
        winner = {"final": True, "numbers": [78]}
        drawn = await client.ask({"op": "prepare", **setup(task), **winner, "imports": True})
        hello = await client.ask({"op": "start", **setup(task), "final": True, "probes": drawn["probes"]})
        return drawn, hello

    drawn, hello = with_client(judge_host, work)
    offered = load_task(task).workloads["cpu"]
    held_out = [dict(each.dims) for each in offered.holdout]
    probes, odd = drawn["probes"][: offered.probes], drawn["probes"][offered.probes :]
    assert drawn["hidden_shapes"] == [*probes, *held_out, *odd]  # in the order in which a judge numbers them
    assert len(probes) >= 2
    assert len(odd) > 20
    assert 78 in {size for shape in odd[-16:] for size in shape.values()}
    for shape in probes:
        for name, (low, high) in offered.probe.items():
            assert low <= shape[name] <= high
    assert hello["baseline_us"]


def test_a_task_that_cannot_be_loaded_is_named_before_the_start(judge_host: JudgeHostClient, tmp_path: Path):
    missing = str(tmp_path / "nothing.py")
    with pytest.raises(TaskError, match="nothing"):
        with_client(judge_host, lambda client: client.ask({"op": "prepare", **setup(missing), "imports": True}))


def test_a_winners_last_process_measures_what_is_compared_with_it(driver: Any):
    before = set(descendants())
    fast, slow = (
        driver.request(unlike_others(next(MARKS)), Fidelity.FINAL),
        driver.request(unlike_others(next(MARKS)), Fidelity.FINAL),
    )
    won = driver.runner.run(driver.evaluator.evaluate(replace(fast, keep_last=True)))
    assert won.ok, won.feedback
    kept = set(descendants()) - before
    compared = driver.runner.run(driver.evaluator.evaluate(replace(slow, processes=1)))
    assert compared.ok, compared.feedback
    assert "holdout_speedup" in compared.metrics
    assert compared.metrics["start_s"] < won.metrics["start_s"]  # it was there already
    driver.evaluate(unlike_others(next(MARKS)))
    assert not kept & set(descendants())


def test_questions_out_of_turn_are_refused(judge_host: JudgeHostClient):
    with pytest.raises(JudgeLost, match="check before start"):
        with_client(judge_host, _unstarted)


async def _unstarted(client: JudgeClient) -> None:
    with pytest.raises(JudgeLost, match="unknown question"):
        await client.ask({"op": "sing"})
    await client.ask({"op": "check", "source": ""}, [b"x"])


def changing_when_timed(driver: Any, deed: str, *, before: str = "") -> Evaluation:
    """Judge a kernel that is right for as long as any check of single calls goes on, and then does something else.

    On a busy machine it may be timed for fewer calls than it waits for, and so be right: then another one is judged.
    """
    for _ in range(20):
        waits = f"static int calls = 0; calls += M == 64; if (calls > 30) {{ {deed} }}"
        marked = kernel(f"{before} volatile int mark = {next(MARKS)}; (void)mark; {waits}")
        found: Evaluation = driver.evaluate(marked)[0]
        if found.status is not Status.OK:
            break
    return found


def test_a_stateful_cheat_is_found_in_timed_calls(driver: Any):
    found = changing_when_timed(driver, "return;")  # a stale answer for free
    assert found.status is Status.CHEAT_SUSPECT, found.feedback
    assert found.feedback.endswith("outputs must be computed from the given inputs in each call")


def test_kernels_that_die_in_timed_calls_cost_no_judge(driver: Any):
    before = _judges()
    for _ in range(6):  # each dies before its baseline's batch, or after it, as is drawn
        found = changing_when_timed(driver, "__builtin_trap();")
        assert (found.status, found.stage) == (Status.WORKER_DIED, Stage.QUICK), found.feedback
    assert set(before) <= set(_judges())


def test_no_kernel_is_blamed_for_the_last_writes_of_an_earlier_one(driver: Any):
    # behind the output that it was last given with fences, when it is timed
    keep = "static float* behind = nullptr; if (M < 10) behind = c + M * N;"
    dying = changing_when_timed(driver, "*behind = 0; __builtin_trap();", before=keep)
    assert (dying.status, dying.stage) == (Status.WORKER_DIED, Stage.QUICK), dying.feedback
    (right,) = driver.evaluate(unlike_others(4))
    assert right.ok, right.feedback


def test_a_killed_judge_is_replaced(driver: Any):
    async def story() -> Any:
        before = _judges()
        os.kill(before[0], signal.SIGKILL)
        return await driver.evaluator.evaluate(driver.request(unlike_others(1), Fidelity.QUICK))

    found = driver.runner.run(story())
    assert found.ok, found.feedback


def test_a_cancelled_evaluation_leaves_a_working_evaluator(driver: Any):
    async def story() -> Any:
        task = asyncio.create_task(driver.evaluator.evaluate(driver.request(unlike_others(2), Fidelity.QUICK)))
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await driver.evaluator.evaluate(driver.request(unlike_others(3), Fidelity.QUICK))

    assert driver.runner.run(story()).ok


def test_faster_than_the_device_is_impossible(judge_host: JudgeHostClient, tmp_path: Path):
    language = local_language("cpp", SETTINGS)
    task = contract.write_task(tmp_path)
    Path(task).write_text(
        Path(task).read_text().replace("    flops=", '    bytes_moved="2000000 * M * N",\n    flops=')
    )
    opening = open_evaluator(task, language, settings=SETTINGS, start=judge_host)
    impossible = contract.EvaluatorDriver(opening, language)
    try:
        (found,) = impossible.evaluate(kernel())
    finally:
        impossible.close()
    assert found.status is Status.IMPOSSIBLE_SPEED


LOOK_UP = """
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

def one(rows):
    return Workload(f"{rows}", {"M": 8, "K": rows})

task = Task(
    name="rows",
    reference=lambda table, i, **_: table[i],
    signature=Signature(
        inputs=(Tensor("table", ("K", 256)), Tensor("i", ("M",), "int64", below="K")),
        scalars=(Scalar("M"), Scalar("K")),
        outputs=(Tensor("out", ("M", 256), role=Role.OUTPUT),),
    ),
    workloads={"cpu": WorkloadSet(search=(one(4096),), holdout=(one(3000),), probe={"M": (1, 20), "K": (1, 99)})},
    flops="1",
)
"""
ROWS = """
#include <cstdint>
#include <cstring>

extern "C" void run(const float* table, const int64_t* i, int64_t M, int64_t K, float* out) {
    for (int64_t m = 0; m < M; ++m) std::memcpy(out + m * 256, table + i[m] * 256, 1024);
}
"""


def test_a_look_up_is_no_impossible_speed_in_a_table_that_no_kernel_can_read_in_that_time(
    judge_host: JudgeHostClient, tmp_path: Path
):
    path = tmp_path / "rows.py"
    path.write_text(LOOK_UP)
    language = local_language("cpp", SETTINGS)
    driver = contract.EvaluatorDriver(
        open_evaluator(str(path), language, settings=SETTINGS, start=judge_host), language
    )
    try:
        (found,) = driver.evaluate(ROWS)
    finally:
        driver.close()
    assert found.ok, found.feedback
    assert all(timing.floor_share is not None and timing.floor_share < 1.2 for timing in found.timings)


def test_nothing_outlives_a_killed_engine(tmp_path: Path):
    script = (
        "import asyncio, sys\n"
        "from evokernel.config.run import EvaluationConfig\n"
        "from evokernel.evaluate.build.confined_compilers import local_language\n"
        "from evokernel.evaluate.client.open_evaluator import open_evaluator\n"
        "async def main():\n"
        "    settings = EvaluationConfig()\n"
        "    async with open_evaluator(sys.argv[1], local_language('cpp', settings), settings=settings):\n"
        "        print('ready', flush=True)\n"
        "        await asyncio.sleep(3600)\n"
        "asyncio.run(main())\n"
    )
    others = descendants()
    engine = subprocess.Popen(
        [sys.executable, "-c", script, contract.write_task(tmp_path)],
        stdout=subprocess.PIPE,
        start_new_session=True,
        cwd=ROOT,
    )
    assert engine.stdout is not None
    with engine.stdout:
        assert engine.stdout.readline() == b"ready\n"
        ours = descendants() - others
        assert len(ours) > 3
        os.killpg(engine.pid, signal.SIGKILL)
        engine.wait()
    deadline = time.monotonic() + 60
    while left := [pid for pid in ours if _alive(pid)]:
        assert time.monotonic() < deadline, f"still there: {[_command(pid) for pid in left]}"
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _judges() -> list[int]:
    """Return the forks of judge hosts."""
    ours = [pid for pid in descendants() if "evokernel.evaluate.judge.host" in _command(pid)]
    return [pid for pid in ours if _parent(pid) in ours]


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def timing(workload: str, baseline: str, log_speedup: float, baseline_us: float = 10.0) -> Timing:
    return Timing(workload, baseline, 1.0, 5.0, baseline_us, log_speedup, 0.001, 10, Verdict.FASTER, 2.0, Limit.MEMORY)


def test_finals_are_pooled_by_workload_and_baseline():
    outcomes = [
        PhaseVerdict(
            Status.OK,
            Stage.FINAL,
            timings=(
                timing(HOLDOUT_PREFIX + "h", "eager", 0.7 + shift),
                timing("s", "eager", 0.5 + shift),
                timing("s", "compiled", 0.4 + shift, baseline_us=9.0),
            ),
            metrics={"time_s": 1.0},
        )
        for shift in (-0.01, 0.01)
    ]
    found = pool_finals(outcomes)
    assert [(t.workload, t.baseline) for t in found.timings] == [("s", "compiled")]
    assert found.timings[0].log_speedup == pytest.approx(0.4)
    assert (found.timings[0].floor_us, found.timings[0].limit) == (2.0, Limit.MEMORY)
    assert found.timings[0].log_error > 0.05  # two processes that differ by 2 % leave much open
    assert set(found.panel) == {"eager", "compiled"}
    assert found.metrics["holdout_speedup"] == pytest.approx(2.0138, rel=1e-3)
    said = re.search(r"^  s: 1\.492x \(.*\) compiled, 1\.649x \(.*\) eager$", found.feedback, re.MULTILINE)
    assert said, found.feedback  # the whole panel, the fastest first


def test_outcomes_survive_the_wire():
    import json

    known = timing("w", "b", 0.1)
    timings, panel = (known, replace(known, floor_us=None, limit=None)), {"b": (1.0, 0.9, 1.1)}
    outcome = PhaseVerdict(Status.OK, Stage.QUICK, "text", timings, True, {"x_s": 1.0}, panel)
    assert PhaseVerdict.from_message(json.loads(json.dumps(outcome.as_message()))) == outcome
