"""Contract of evaluators."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ClassVar

import pytest

from evokernel.config.run import EvaluationConfig
from evokernel.protocols import Evaluator, Language
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, EvaluatorIdentity, Fidelity, Mode, Stage, Status
from evokernel.records.timing import Verdict

TASK = Path(__file__).with_name("small_task.py.txt").read_text(encoding="utf-8")
KERNEL = Path(__file__).with_name("small_kernel.cpp.txt").read_text(encoding="utf-8")
REMEMBER = """
static int n = 0;
++n;
if (c[0] != std::rint(c[0]))
    for (int i = n % 13; i > 0; --i) c[0] = std::nextafter(c[0], 1e9f);
"""
SETTINGS = EvaluationConfig(
    quick_ms=10, precise_ms=20, final_ms=30, final_processes=2, timeout_s=2, compile_timeout_s=120
)


def write_task(folder: Path, flops: str = "2 * M * N * K") -> str:
    """Write the task of the contract, a small matrix product, to a folder and return its path."""
    path = folder / "small.py"
    path.write_text(TASK.replace("FLOPS", flops))
    return str(path)


def kernel(before: str = "", after: str = "") -> str:
    """Return a right kernel of that task, with statements before and after its work."""
    return KERNEL.replace("BEFORE", before).replace("AFTER", after)


class EvaluatorDriver:
    """Driver of one evaluator on its own event loop."""

    def __init__(self, opening: AbstractAsyncContextManager[Evaluator], language: Language) -> None:
        self.language = language
        self.runner = asyncio.Runner()
        self._opening = opening
        try:
            self.evaluator = self.runner.run(opening.__aenter__())
        except BaseException:
            self.runner.close()
            raise

    def evaluate(
        self, *sources: str, budget: Fidelity = Fidelity.QUICK, incumbent: dict[str, float] | None = None
    ) -> list[Evaluation]:
        """Return the evaluations of sources that are handed in together."""

        async def together() -> list[Evaluation]:
            return await asyncio.gather(*(self.evaluator.evaluate(self.request(s, budget, incumbent)) for s in sources))

        return self.runner.run(together())

    def request(self, source: str, budget: Fidelity, incumbent: dict[str, float] | None = None) -> EvaluationRequest:
        """Return the request for a source."""
        candidate = Candidate(source, self.language.name)
        return EvaluationRequest(candidate, self.language.program_hash(source), budget, incumbent or {})

    @property
    def identity(self) -> EvaluatorIdentity:
        """Identity of the evaluator."""
        return self.evaluator.identity

    def close(self) -> None:
        """End the evaluator and the loop."""
        self.runner.run(self._opening.__aexit__(None, None, None))
        self.runner.close()


class EvaluatorContract:
    """Tests for one evaluator of C++ kernels; give `driver`, for the task of `write_task` and one thread."""

    BAD: ClassVar[dict[str, tuple[str, Status]]] = {
        "wrong": (kernel(after="c[0] += 1.0f;"), Status.NUMERICAL),
        "not finite": (kernel(after="c[M * N - 1] = std::log(-1.0f - a[0] * a[0]);"), Status.NONFINITE),
        "crashing": (kernel("*(volatile int*)8 = 1;"), Status.WORKER_DIED),
        "leaving": (kernel('asm("syscall" : : "a"(231), "D"(0) : "rcx", "r11");'), Status.WORKER_DIED),
        "hanging": (kernel("for (volatile int x = 0; x >= 0;) x = 0;"), Status.TIMEOUT),
        "not compiling": (kernel("int x = nobody;"), Status.COMPILE_ERROR),
        "unwritten": (kernel("if (M * N > 4) return;"), Status.UNWRITTEN_OUTPUT),
        "writing past the end": (kernel(after="c[M * N] = 1.0f;"), Status.OUT_OF_BOUNDS),
        "writing an input": (kernel("const_cast<float*>(a)[0] += 1.0f;"), Status.WORKER_DIED),
        "remembering": (kernel(after=REMEMBER), Status.NONDETERMINISTIC),
        "no run": ("int walk() { return 1; }\n", Status.STATIC_REJECT),
    }

    @pytest.fixture(scope="class")
    @classmethod
    def driver(cls) -> Iterator[EvaluatorDriver]:
        """Yield the evaluator, and close it."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def verdicts(cls, driver: EvaluatorDriver) -> dict[str, Evaluation]:
        """Return the evaluations of the bad kernels, by name."""
        found = driver.evaluate(*(source for source, _ in cls.BAD.values()))
        return dict(zip(cls.BAD, found, strict=True))

    def test_a_right_kernel_is_measured(self, driver: EvaluatorDriver) -> None:
        (found,) = driver.evaluate(kernel())
        assert found.status is Status.OK, found.feedback
        assert found.stage is Stage.QUICK
        assert [timing.workload for timing in found.timings] == ["64x64x64", "48x80x32"]
        for timing in found.timings:
            assert timing.pairs >= 4
            assert timing.speedup.low <= timing.speedup.value <= timing.speedup.high
            assert timing.verdict in Verdict
        assert found.artifact_hash
        assert found.feedback
        assert found.duration_s > 0
        assert found.sandbox

    @pytest.mark.parametrize("name", list(BAD))
    def test_a_bad_kernel_gets_its_status(self, verdicts: dict[str, Evaluation], name: str) -> None:
        found, expected = verdicts[name], self.BAD[name][1]
        assert found.status is expected, found.feedback
        assert not found.timings
        assert 0 < len(found.feedback.splitlines()) <= 60

    def test_a_crash_names_its_signal(self, verdicts: dict[str, Evaluation]) -> None:
        assert "SIGSEGV" in verdicts["crashing"].feedback

    def test_only_equal_texts_have_equal_keys(self, driver: EvaluatorDriver) -> None:
        one, two, again = driver.evaluate(kernel(), kernel("// a comment"), kernel())
        assert one.key == again.key != two.key
        assert one.candidate_id == again.candidate_id != two.candidate_id
        identity = driver.identity
        assert one.key == identity.key(one.key.program_hash, Fidelity.QUICK)
        assert identity.mode in Mode
        assert identity.device_sheet
        assert set(identity.baseline_us) == {"64x64x64", "48x80x32"}

    def test_a_larger_budget_is_another_key(self, driver: EvaluatorDriver) -> None:
        (precise,) = driver.evaluate(kernel(), budget=Fidelity.PRECISE)
        assert precise.ok
        assert precise.stage is Stage.PRECISE
        assert precise.key.budget is Fidelity.PRECISE

    def test_the_far_slower_is_left_early(self, driver: EvaluatorDriver) -> None:
        slow = kernel("for (volatile int x = 0; x < 200000;) x = x + 1;")
        (found,) = driver.evaluate(slow, incumbent={"64x64x64": 1.0, "48x80x32": 1.0})
        assert found.ok
        assert found.stopped_early

    def test_a_winner_is_measured_on_held_out_workloads(self, driver: EvaluatorDriver) -> None:
        (found,) = driver.evaluate(kernel(), budget=Fidelity.FINAL)
        assert found.status is Status.OK, found.feedback
        assert found.stage is Stage.FINAL
        assert [timing.workload for timing in found.timings] == ["64x64x64", "48x80x32"]
        assert found.metrics["holdout_speedup_low"] <= found.metrics["holdout_speedup"]
        assert set(found.panel) == {"reference"}

    def test_failing_held_out_inputs_says_only_that(self, driver: EvaluatorDriver) -> None:
        (found,) = driver.evaluate(kernel(after="if (M == 56) c[5] += 1.0f;"), budget=Fidelity.FINAL)
        assert found.status is Status.HOLDOUT_FAILED
        assert found.feedback == "failed on held-out inputs"
