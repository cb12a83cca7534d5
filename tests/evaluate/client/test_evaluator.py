"""Several GPUs, one judge each: who judges what, what becomes of a lost judge, and in which mode it was judged."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evokernel.config.run import EvaluationConfig
from evokernel.errors import HarnessError
from evokernel.evaluate.client.evaluator import LocalEvaluator
from evokernel.evaluate.client.judge_process import JudgeLost
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.device.device_class import Machine
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import NONDETERMINISTIC, Evaluation, EvaluationRequest, Fidelity, Mode, Stage, Status
from tests.evaluate.scripted_judge import Judge, Judges, ShapedLanguage, gpus, timing

SETTINGS = EvaluationConfig().on("cuda")
Story = Callable[[LocalEvaluator], Coroutine[Any, Any, Any]]


def tell(
    judges: Judges,
    story: Story,
    *,
    count: int,
    language: ShapedLanguage | None = None,
    profiled: bool = False,
    task: str = "softmax",
    deterministic: bool = False,
) -> Any:
    """Run a story with an evaluator on so many GPUs."""

    async def whole() -> Any:
        first, *others = gpus(count)
        opening = open_evaluator(
            *(task, language or ShapedLanguage()),
            settings=SETTINGS,
            machine=Machine(first, triton=True, others=tuple(others)),
            profiled=profiled,
            deterministic=deterministic,
            start=judges,
        )
        async with opening as evaluator:
            return await story(evaluator)

    found = asyncio.run(whole())
    assert not judges.alive
    return found


def request(source: str, budget: Fidelity = Fidelity.QUICK) -> EvaluationRequest:
    return EvaluationRequest(Candidate(source, "triton"), source, budget)


def judging(*sources: str, budget: Fidelity = Fidelity.QUICK) -> Story:
    """Judge sources at the same time."""

    async def story(evaluator: LocalEvaluator) -> list[Evaluation]:
        return await asyncio.gather(*(evaluator.evaluate(request(source, budget)) for source in sources))

    return story


def one_by_one(*sources: str, budget: Fidelity = Fidelity.QUICK) -> Story:
    async def story(evaluator: LocalEvaluator) -> list[Evaluation]:
        return [await evaluator.evaluate(request(source, budget)) for source in sources]

    return story


def test_each_gpu_judges_a_candidate_at_a_time():
    judges, language = Judges(), ShapedLanguage()
    found = tell(judges, judging(*"abcdefgh"), count=3, language=language)
    assert [evaluation.status for evaluation in found] == 8 * [Status.OK]
    assert judges.most_busy == 3
    assert sorted(judge.gpu for judge in judges.started) == ["GPU-0", "GPU-1", "GPU-2"]
    assert all(judge.seen == ["check", "time"] * (len(judge.seen) // 2) for judge in judges.started)


def test_one_candidate_after_the_other_needs_one_gpu():
    judges = Judges()
    tell(judges, one_by_one(*"abc"), count=3)
    assert [judge.gpu for judge in judges.started] == ["GPU-0"]


def test_all_judges_of_a_run_have_the_hidden_shapes_and_the_sheet_of_the_first():
    judges, language = Judges(), ShapedLanguage()
    tell(judges, judging(*"abcd"), count=2, language=language)
    first, second = (judge.setup for judge in judges.started)
    assert first["admit"]
    assert not {"probes", "distributions"} & first.keys()
    assert "sheet" not in first
    assert not second["admit"]
    assert second["probes"] == [{"M": 1, "N": 0}]
    assert second["distributions"] == ["normal", "patchwork"]
    assert second["sheet"] == {"dram_read_gb_s": 3000.0}
    assert sorted(source.strip() for source, _ in language.built_for) == ["a", "b", "c", "d"]  # once each


def test_a_lost_judge_is_replaced_and_its_candidate_judged_elsewhere(caplog: pytest.LogCaptureFixture):
    lost: list[Judge] = []

    def answer(judge: Judge, message: Any) -> PhaseVerdict | None:
        if judge.candidate == "bad" and not lost:
            lost.append(judge)
            raise JudgeLost("a sticky error")
        return None

    async def story(evaluator: LocalEvaluator) -> list[Evaluation]:
        alone = await one_by_one("a", "bad")(evaluator)  # the other GPU has nothing to do when the judge is lost
        return [*alone, *await asyncio.gather(*(evaluator.evaluate(request(source)) for source in "cdef"))]

    judges = Judges(answer)
    found = tell(judges, story, count=2)
    assert all(evaluation.ok for evaluation in found)
    (said,) = (record.getMessage() for record in caplog.records if "lost" in record.getMessage())
    assert said.endswith("its work begins again: a sticky error")
    (broken,) = lost
    assert not broken.alive
    (successful,) = (judge for judge in judges.started if "bad" in judge.judged and judge is not broken)
    assert successful.gpu != broken.gpu
    first, replaced = (judge for judge in judges.started if judge.gpu == broken.gpu)
    assert first is broken
    assert replaced.setup["probes"] == [{"M": 1, "N": 0}]


def test_the_others_go_on_while_a_judge_is_being_replaced():
    async def story(evaluator: LocalEvaluator) -> list[str]:
        order: list[str] = []

        async def one(source: str) -> None:
            assert (await evaluator.evaluate(request(source))).ok
            order.append(source)

        await asyncio.gather(one("a"), one("b"))  # now both GPUs have a judge
        await judges.started[1].close()
        hold.clear()
        waiting = [asyncio.create_task(one(source)) for source in ("c", "d", "e")]
        async with asyncio.timeout(60):
            while len(order) < 4:  # two go through the judge that is there, one waits for the new judge
                await asyncio.sleep(0.01)
        hold.set()
        await asyncio.gather(*waiting)
        return order

    hold = asyncio.Event()
    hold.set()

    class Slow(Judges):
        async def __call__(self, setup: Any, *, environment: Any) -> Any:
            await hold.wait()
            return await super().__call__(setup, environment=environment)

    judges = Slow()
    order = tell(judges, story, count=2)
    assert len(order[2:]) == 3
    assert judges.started[-1].judged == order[-1:]  # the one that waited for the new judge


def test_a_candidate_that_loses_two_judges_is_a_fault_of_ours():
    def answer(judge: Judge, message: Any) -> PhaseVerdict | None:
        raise JudgeLost("gone")

    judges = Judges(answer)
    with pytest.raises(HarnessError, match="gone"):
        tell(judges, judging("a"), count=1)
    assert len(judges.started) == 2


def test_a_gpu_on_which_no_judge_starts_is_given_up():
    tries: list[str] = []

    def refuse(gpu: str) -> str:
        tries.append(gpu)
        return "no memory" if gpu == "GPU-1" else ""

    found = tell(Judges(refuse=refuse), judging(*"abcdefgh"), count=2)
    assert all(evaluation.ok for evaluation in found)
    assert tries.count("GPU-1") == 2


def test_the_last_gpu_is_never_given_up():
    failing = [True]
    judges = Judges(refuse=lambda gpu: "" if not judges.started or not failing else "no memory")

    async def story(evaluator: LocalEvaluator) -> Evaluation:
        await judges.started[0].close()
        for source in "ab":
            with pytest.raises(HarnessError, match="no memory"):
                await evaluator.evaluate(request(source))
        failing.clear()
        return await evaluator.evaluate(request("c"))

    assert tell(judges, story, count=1).ok


def test_a_gpu_of_another_model_judges_nothing():
    judges = Judges(device=lambda gpu: "NVIDIA H100" if gpu == "GPU-0" else "NVIDIA H200")
    found = tell(judges, judging(*"abcdef"), count=2)
    assert {evaluation.key.device for evaluation in found} == {"NVIDIA H100"}
    assert [judge.seen for judge in judges.started if judge.gpu == "GPU-1"] == [[]]


# ---------------------------------------------------------------------------------------------------- winners


def test_a_winner_is_measured_on_several_gpus_at_a_time():
    judges, language = Judges(), ShapedLanguage()
    (found,) = tell(judges, judging("a", budget=Fidelity.FINAL), count=3, language=language)
    assert found.ok
    assert found.stage is Stage.FINAL
    finals = [judge for judge in judges.started if judge.setup["final"]]
    assert sorted(judge.gpu for judge in finals) == ["GPU-0", "GPU-1", "GPU-2"]
    assert judges.most_busy == 3
    assert len({str(judge.setup["probes"]) for judge in finals}) == 3  # each draws its own
    assert all(judge.setup["distributions"] == ["normal", "patchwork"] for judge in finals)
    assert len({str(hidden) for _, hidden in language.built_for}) == 4


def test_the_first_judge_of_a_winner_is_told_the_numbers_in_its_text():
    judges = Judges()
    tell(judges, judging("wrong = N == 1009", budget=Fidelity.FINAL), count=1)
    assert [judge.setup.get("numbers") for judge in judges.started if judge.setup["final"]] == [(1009,), None, None]
    assert not any("numbers" in judge.setup for judge in judges.started if not judge.setup["final"])


def test_on_one_gpu_one_process_comes_after_the_other_and_none_beside_the_search():
    alive: list[int] = []

    def answer(judge: Judge, message: Any) -> PhaseVerdict | None:
        alive.append(len(judge.bench.alive))
        return None

    ended: list[tuple[int, int]] = []

    async def story(evaluator: LocalEvaluator) -> list[Evaluation]:
        asked = replace(request("a", Fidelity.FINAL), after_process=lambda *each: ended.append(each))
        return [await evaluator.evaluate(asked)]

    judges = Judges(answer)
    (found,) = tell(judges, story, count=1)
    assert found.ok
    assert ended == [(each, SETTINGS.final_processes) for each in range(1, SETTINGS.final_processes)]
    finals = [judge for judge in judges.started if judge.setup["final"]]
    assert len(finals) == SETTINGS.final_processes
    assert [judge.seen for judge in finals] == SETTINGS.final_processes * [["start", "check", "time"]]
    assert alive == [2, 2, 2, 2, 1, 1]  # beside each but the last one waits that has not used the GPU
    assert len({str(judge.setup["probes"]) for judge in finals}) == SETTINGS.final_processes


def test_nothing_is_timed_while_the_next_process_is_made_ready():
    checked, making, beside = asyncio.Event(), set[int](), list[int]()

    class Slow(Judges):
        async def prepare(self, setup: Mapping[str, Any], *, environment: Mapping[str, str]) -> Any:
            if setup["imports"]:
                making.add(len(self.started))
                await checked.wait()
                await asyncio.sleep(0.05)
                making.clear()
            return await super().prepare(setup, environment=environment)

    def answer(judge: Judge, message: Any) -> PhaseVerdict | None:
        checked.set()
        if message["op"] == "time":
            beside.append(len(making))
        return None

    (found,) = tell(Slow(answer), judging("a", budget=Fidelity.FINAL), count=1)
    assert found.ok
    assert beside == SETTINGS.final_processes * [0]


def test_what_a_process_is_asked_for_was_built_before_it_could_be_asked():
    built: list[Any] = []
    language = ShapedLanguage()

    def answer(judge: Judge, message: Any) -> PhaseVerdict | None:
        if message["op"] == "check" and judge.setup["final"]:
            built.append({str(list(hidden)) for _, hidden in language.built_for} & {str(judge.setup["probes"])})
        return None

    judges = Judges(answer)
    tell(judges, judging("a", budget=Fidelity.FINAL), count=1, language=language)
    assert all(built)
    assert len(language.built_for) == 1 + SETTINGS.final_processes  # each shape once


@pytest.mark.parametrize("failure", [JudgeLost("out of processes"), OSError(24, "Too many open files")])
def test_a_next_process_that_could_not_be_made_ready_is_replaced(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [failure]

    class Failing(Judges):
        async def prepare(self, setup: Mapping[str, Any], *, environment: Mapping[str, str]) -> Any:
            if setup["imports"] and failures:
                raise failures.pop()
            return await super().prepare(setup, environment=environment)

    judges = Failing()
    (found,) = tell(judges, judging("a", budget=Fidelity.FINAL), count=1)
    assert found.ok
    assert len([judge for judge in judges.started if judge.setup["final"]]) == SETTINGS.final_processes
    assert f"not made ready on NVIDIA H100 GPU-0, and another one starts: {failure}" in caplog.text


def test_a_process_that_rejects_a_winner_leaves_no_other_behind():
    def answer(judge: Judge, message: Any) -> PhaseVerdict | None:
        return PhaseVerdict(Status.HOLDOUT_FAILED, Stage.CORRECTNESS) if message["op"] == "check" else None

    async def story(evaluator: LocalEvaluator) -> Any:
        found = await evaluator.evaluate(request("a", Fidelity.FINAL))
        return found, list(judges.alive)

    judges = Judges(answer)
    found, left = tell(judges, story, count=1)
    assert found.status is Status.HOLDOUT_FAILED
    assert left == []


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_compared_with_a_winner_is_measured_in_its_last_process(count: int):
    async def story(evaluator: LocalEvaluator) -> Any:
        await evaluator.evaluate(replace(request("a", Fidelity.FINAL), keep_last=True))
        return await evaluator.evaluate(replace(request("b", Fidelity.FINAL), processes=1))

    judges = Judges()
    assert tell(judges, story, count=count).ok
    finals = [judge for judge in judges.started if judge.setup["final"]]
    assert len(finals) == SETTINGS.final_processes
    (kept,) = (judge for judge in finals if "b" in judge.judged)
    assert kept.seen == ["start", "check", "time", "check", "time"]
    assert kept.judged == ["a", "b"]


def test_a_kept_process_ends_before_the_search_goes_on():
    async def story(evaluator: LocalEvaluator) -> Any:
        await evaluator.evaluate(replace(request("a", Fidelity.FINAL), keep_last=True))
        (kept,) = judges.alive
        assert (await evaluator.evaluate(request("b"))).ok
        return kept

    judges = Judges()
    assert not tell(judges, story, count=1).alive
    assert len(judges.started) == 1 + SETTINGS.final_processes + 1


def test_a_winner_that_one_process_refutes_is_refuted():
    def answer(judge: Judge, message: Any) -> PhaseVerdict | None:
        if message["op"] == "check" and judge.gpu == "GPU-1":
            return PhaseVerdict(Status.HOLDOUT_FAILED, Stage.CORRECTNESS, "failed on held-out inputs")
        return None

    (found,) = tell(Judges(answer), judging("a", budget=Fidelity.FINAL), count=2)
    assert found.status is Status.HOLDOUT_FAILED


DTYPES_TASK = str(Path(__file__).parents[2] / "tasks" / "users" / "strided_gemm.py")


def test_a_winner_is_tried_at_further_dtypes_which_are_reported_and_bar_nobody():
    def answer(judge: Judge, message: Any) -> PhaseVerdict | None:
        if message["op"] == "check" and judge.setup.get("dtype") == "float32":
            return PhaseVerdict(Status.NUMERICAL, Stage.CORRECTNESS, "wrong")
        return None

    judges, language = Judges(answer), ShapedLanguage()
    (found,) = tell(judges, judging("a", budget=Fidelity.FINAL), count=1, task=DTYPES_TASK, language=language)
    assert found.ok
    tried = [judge.setup for judge in judges.started if "dtype" in judge.setup]
    assert [setup["dtype"] for setup in tried] == ["float16", "float32"]
    assert all("distributions" not in setup for setup in tried)  # honest kernels may differ on those of another dtype
    assert found.metrics["float16_speedup"] == pytest.approx(2.0)
    assert found.metrics["float32_speedup"] == 0.0
    assert "float16: right, 2.000x" in found.feedback
    assert "float32: not right (numerical, at the stage correctness)" in found.feedback
    assert language.dtypes == [*["bfloat16"] * (1 + SETTINGS.final_processes), "float16", "float32"]


def test_a_further_dtype_that_cannot_be_measured_bars_nobody_either():
    def answer(judge: Judge, message: Any) -> PhaseVerdict | None:
        if judge.setup.get("dtype"):
            raise HarnessError("the baseline takes no such tensors")
        return None

    (found,) = tell(Judges(answer), judging("a", budget=Fidelity.FINAL), count=1, task=DTYPES_TASK)
    assert found.ok
    assert "float16: not measured: the baseline takes no such tensors" in found.feedback
    assert "float16_speedup" not in found.metrics


# ---------------------------------------------------------------------------------------------------- modes


def in_worker_mode(judge: Judge, message: Any) -> PhaseVerdict | None:
    """Judge what says so in worker mode."""
    if "strided" not in judge.candidate:
        return None
    if message["op"] == "check":
        return PhaseVerdict(None, Stage.CORRECTNESS, mode="worker")
    timings = (timing(), timing("holdout:w")) if judge.setup["final"] else (timing(),)
    return PhaseVerdict(Status.OK, Stage.QUICK, "not recorded: a strided copy", timings=timings, mode="worker")


@pytest.mark.parametrize("budget", [Fidelity.QUICK, Fidelity.FINAL])
def test_an_evaluation_says_how_its_candidate_was_run(budget: Fidelity):
    async def story(evaluator: LocalEvaluator) -> Any:
        identity = evaluator.identity
        return identity, [await evaluator.evaluate(request(source, budget)) for source in ("plain", "strided")]

    identity, (plain, strided) = tell(Judges(in_worker_mode), story, count=1)
    assert identity.mode is plain.key.mode is Mode.ARTIFACT
    assert strided.key.mode is Mode.WORKER
    assert plain.key == identity.key("plain", budget)
    assert strided.key == identity.key("strided", budget, mode=Mode.WORKER)
    assert strided.key in identity.keys("strided", budget)
    assert plain.key in identity.keys("plain", budget)


def test_of_what_was_recorded_one_measurement_serves_all_that_compile_to_the_same():
    first, second = tell(Judges(), one_by_one("same#1", "same#2"), count=1)
    assert second.timings == first.timings
    assert second.metrics["twin"] == 1.0


def test_a_clean_verdict_of_the_sanitizers_clears_its_own_source_and_no_other_of_the_same_code():
    def answer(judge: Judge, message: Any) -> PhaseVerdict | None:
        clean = {"sanitized": float(judge.blobs[-1] == 2)}
        return PhaseVerdict(None, Stage.CORRECTNESS, metrics=clean) if message["op"] == "check" else None

    async def story(evaluator: LocalEvaluator) -> list[Evaluation]:
        asked = (("same#1", Fidelity.QUICK), ("same#1", Fidelity.PRECISE), ("same#2", Fidelity.QUICK))
        return [await evaluator.evaluate(request(*each)) for each in asked]

    judges = Judges(answer)
    found = tell(judges, story, count=1, language=ShapedLanguage(checked=b"with sanitizers"))
    assert [evaluation.metrics["sanitized"] for evaluation in found] == [1.0, 1.0, 1.0]
    assert [judge.blobs for judge in judges.started] == [[2, 1, 2]]


def test_what_was_not_recorded_is_measured_each_time():
    found = tell(Judges(in_worker_mode), one_by_one("strided#1", "strided#2"), count=1)
    assert not any("twin" in evaluation.metrics for evaluation in found)


class OtherBits:
    """Answers that one check, of all that are asked for, saw other bits."""

    def __init__(self, which: int = 0) -> None:
        self.checks, self.which = 0, which

    def __call__(self, judge: Judge, message: Any) -> PhaseVerdict | None:
        if message["op"] != "check":
            return None
        self.checks += 1
        return PhaseVerdict(
            None, Stage.CORRECTNESS, metrics={NONDETERMINISTIC: float(self.checks == self.which + 1)}, artifact="same"
        )


def test_other_bits_that_one_process_sees_mark_the_evaluation_and_those_that_share_its_times() -> None:
    (found,) = tell(Judges(OtherBits(which=1)), judging("a", budget=Fidelity.FINAL), count=1)
    assert found.ok
    assert found.nondeterministic
    first, second = tell(Judges(OtherBits()), one_by_one("same#1", "same#2"), count=1)
    assert first.nondeterministic
    assert second.nondeterministic
    (plain,) = tell(Judges(), judging("a"), count=1)
    assert not plain.nondeterministic


@pytest.mark.parametrize("budget", [Fidelity.QUICK, Fidelity.FINAL])
def test_other_bits_are_refused_where_a_run_must_be_deterministic(budget: Fidelity) -> None:
    judges = Judges(OtherBits())
    refused, fine = tell(judges, one_by_one("a", "b", budget=budget), count=1, deterministic=True)
    assert (refused.status, fine.status) == (Status.NONDETERMINISTIC, Status.OK)
    assert "constraint: deterministic" in refused.feedback
    first = next(judge for judge in judges.started if judge.seen)
    asked = [each for each in first.seen if each != "start"]
    assert asked[:2] in (["check"], ["check", "check"])  # what is refused is not timed


@pytest.mark.parametrize("profiled", [True, False])
def test_what_is_timed_precisely_is_profiled_where_somebody_reads_that(profiled: bool) -> None:
    def answer(judge: Judge, message: Any) -> PhaseVerdict | None:
        if not message.get("profile"):
            return None
        profile = "bottleneck: device memory: it is busy 91 % of the time"
        metrics = {"profiled_dram_pct": 91.0}
        return PhaseVerdict(Status.OK, Stage.PRECISE, "w: 10 us", timings=(timing(),), remarks=profile, metrics=metrics)

    asked = {}
    for budget in Fidelity:
        (found,) = tell(Judges(answer), judging("a", budget=budget), count=1, profiled=profiled)
        asked[budget] = "bottleneck: " in found.feedback
        assert asked[budget] == ("profiled_dram_pct" in found.metrics)
    assert asked == {Fidelity.QUICK: False, Fidelity.PRECISE: profiled, Fidelity.FINAL: False}


@pytest.mark.parametrize("count", [1, 2])
def test_a_winner_meets_the_sanitizers_once(count: int) -> None:
    remark = "not checked by compute-sanitizer: it is not installed"

    def answer(judge: Judge, message: Any) -> PhaseVerdict | None:
        if message["op"] != "check":
            return None
        metrics = {"sanitized": float(message["sanitize"])}
        return PhaseVerdict(None, Stage.CORRECTNESS, metrics=metrics, remarks=remark * message["sanitize"])

    judges = Judges(answer)
    (found,) = tell(judges, judging("a", budget=Fidelity.FINAL), count=count)
    assert found.feedback.endswith(f"\n{remark}")
    assert found.feedback.count(remark) == 1
    assert found.metrics["sanitized"] == 1.0
    (quick,) = tell(Judges(answer), judging("a"), count=count)
    assert quick.metrics["sanitized"] == 0.0


def test_what_the_sanitizers_find_in_a_winner_is_its_verdict() -> None:
    def answer(judge: Judge, message: Any) -> PhaseVerdict | None:
        found = PhaseVerdict(Status.SANITIZER, Stage.SANITIZER, "race on shared memory")
        return found if message.get("sanitize") else None

    (found,) = tell(Judges(answer), judging("a", budget=Fidelity.FINAL), count=1)
    assert (found.status, found.stage, found.feedback) == (
        Status.SANITIZER,
        Stage.SANITIZER,
        "race on shared memory",
    )


def test_a_builds_own_word_does_not_pass_for_a_clean_check() -> None:
    """Two sources that say they are built to the same: that the first was checked is not said of the second."""

    def answer(judge: Judge, message: Any) -> PhaseVerdict | None:
        if message["op"] != "check":
            return None
        first = message["source"].startswith("a # 1")
        return PhaseVerdict(None, Stage.CORRECTNESS, metrics={"sanitized": float(first)}, artifact=message["source"])

    one, two = tell(Judges(answer), one_by_one("a # 1", "a # 2"), count=1)
    assert one.artifact_hash != two.artifact_hash
    assert (one.metrics["sanitized"], two.metrics["sanitized"]) == (1.0, 0.0)


def test_feedback_has_sixty_lines_and_remarks_come_first() -> None:
    timings, remarks = "\n".join(map(str, range(100))), "first\nlast"
    told = PhaseVerdict(Status.OK, Stage.PRECISE, timings, remarks=remarks).author_text.split("\n")
    assert len(told) == 60
    assert told[56:] == ["56", "57", "first", "last"]
    assert len(PhaseVerdict(Status.OK, Stage.PRECISE, "a", remarks=timings).author_text.split("\n")) == 60
    assert PhaseVerdict(Status.OK, Stage.PRECISE, remarks=remarks).author_text == remarks
    assert PhaseVerdict(Status.OK, Stage.PRECISE, "a").author_text == "a"
