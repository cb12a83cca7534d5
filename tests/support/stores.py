"""Small real stores for tests: filled through the store's own methods, with invented measurements."""

import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from archive.identity import RunIdentity
from archive.store import NoCandidate, Store
from evokernel.records.candidate import Candidate, Proposal, Usage
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Mode, Stage, Status
from evokernel.records.llm import CallStatus, Insight, Message, ModelCall, ModelCallResult, Origin
from evokernel.records.timing import Limit, Speedup, Timing, Verdict

TASK_HASH = "a" * 16
DEVICE = "Test CPU"
IDENTITY = RunIdentity(
    task="gemm",
    task_hash=TASK_HASH,
    seed=0,
    language="cpp",
    device=DEVICE,
    environment="g++ 13 -O3",
    evokernel_version="0.1.0",
    task_spec={},
)
SANDBOX = "bubblewrap: no network, own file system"
LOG_ERROR = 0.01
FREE = Usage()


def make_timing(workload: str, speedup: float, *, baseline: str = "torch", weight: float = 1.0) -> Timing:
    """Return a timing of a kernel that is `speedup` times as fast as a baseline of 100 us, on a floor of 10 us."""
    return Timing(
        workload=workload,
        baseline=baseline,
        weight=weight,
        candidate_us=100.0 / speedup,
        baseline_us=100.0,
        log_speedup=math.log(speedup),
        log_error=LOG_ERROR,
        pairs=20,
        verdict=Verdict.FASTER if speedup > 1 else Verdict.SLOWER,
        floor_us=10.0,
        limit=Limit.MEMORY,
    )


class StoreBuilder:
    """Fills a store step by step; a context manager that closes it. Every method returns what later ones need."""

    def __init__(self, path: Path, *, begin: bool = True, evaluator_version: str = "1") -> None:
        self.store = Store.open(path, write=True)
        self._evaluator_version = evaluator_version
        self._step = 0
        if begin:
            self.store.begin_run(IDENTITY)
            self.store.set_meta("sandbox", SANDBOX)
        self.store.session_start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.close()

    def seed(self, *, speedup: float = 0.1, source: str = "// seed\nvoid run() {}\n") -> str:
        """Add a seed that was judged; return its id."""
        return self.add(source, speedup=speedup, operator="seed", island="*", rationale="seed")

    def add(
        self,
        source: str,
        *,
        speedup: float | None,
        parents: tuple[str, ...] = (),
        operator: str = "rewrite",
        island: str = "builders",
        rationale: str = "tile: split the loop over k by 8",
        status: Status = Status.NUMERICAL,
        feedback: str = "",
        inspirations: tuple[str, ...] = (),
        usage: Usage = FREE,
        mode: Mode = Mode.WORKER,
        predicted_speedup: float | None = None,
        insights: tuple[int, ...] = (),
    ) -> str:
        """Add a candidate with a quick evaluation, failed with `status` where it has no speed-up; return its id."""
        proposal = self.propose(
            source,
            parents=parents,
            operator=operator,
            island=island,
            rationale=rationale,
            inspirations=inspirations,
            usage=usage,
            predicted_speedup=predicted_speedup,
            insights=insights,
        )
        evaluation = self.evaluation(proposal.candidate, speedup=speedup, status=status, feedback=feedback, mode=mode)
        self.store.commit(proposal.step, evaluation)
        return proposal.candidate.id

    def propose(
        self,
        source: str,
        *,
        parents: tuple[str, ...] = (),
        operator: str = "rewrite",
        island: str = "builders",
        rationale: str = "",
        inspirations: tuple[str, ...] = (),
        usage: Usage = FREE,
        predicted_speedup: float | None = None,
        insights: tuple[int, ...] = (),
    ) -> Proposal:
        """Add a candidate that waits for its evaluation."""
        proposal = Proposal(
            candidate=Candidate(source, "cpp"),
            step=self._step,
            island=island,
            operator=operator,
            asked_seq=self.store.last_seq(),
            parents=parents,
            inspirations=inspirations,
            rationale=rationale,
            predicted_speedup=predicted_speedup,
            usage=usage,
            insights=insights,
        )
        self._step += 1
        self.store.propose(proposal, program_hash=f"p{proposal.candidate.id}", skeleton=f"s{proposal.candidate.id}")
        return proposal

    def call(
        self,
        text: str = "a reply",
        *,
        model: str = "small",
        operator: str = "mutate",
        status: CallStatus | None = CallStatus.OK,
        cost_usd: float = 0.25,
        prompt: str = "",
        ordinal: int = 0,
    ) -> None:
        """Call a model for the next step: 300 tokens, or 1000 and a dollar where it stays open (no status)."""
        origin = Origin(self._step, "builders", operator)
        messages = (Message("user", prompt or f"step {self._step}"),)
        number = self.store.calls.begin(ModelCall(origin, ordinal, "code", model, messages, {}, 0, 1000, 1.0))
        if status is not None:
            self.store.calls.end(number, ModelCallResult(status, text, Usage(model, 200, 100, cost_usd, 2.0)))

    def nothing(self, reason: str, *, operator: str = "mutate", exhausted: bool = True) -> None:
        """End the next step without a candidate."""
        self.store.record_no_candidate(self._no_candidate(operator, reason, exhausted=exhausted))

    def insight(self, insight: Insight, *, operator: str = "plan") -> int:
        """End the next step with an insight; return its seq."""
        return self.store.record_insight(self._no_candidate(operator, ""), insight)

    def _no_candidate(self, operator: str, reason: str, *, exhausted: bool = True) -> NoCandidate:
        self._step += 1
        return NoCandidate(self._step - 1, operator, "builders", self.store.last_seq(), reason, exhausted=exhausted)

    def say(self, kind: str, payload: object, *, author: str = "me") -> int:
        """Put something into the inbox, and take it; return its seq."""
        self.store.inbox_put(self.store.database.path, kind, payload, author=author)
        (entry,) = self.store.take_inbox()
        return entry.seq

    def final(
        self,
        candidate_id: str,
        *,
        speedup: float | None,
        panel: Mapping[str, float] | None = None,
        status: Status = Status.HOLDOUT_FAILED,
    ) -> None:
        """Measure a candidate anew on held-out workloads; without a speed-up it does not hold."""
        candidate = self.store.candidate(candidate_id).candidate
        self.store.add_evaluation(
            self.evaluation(candidate, speedup=speedup, budget=Fidelity.FINAL, status=status, panel=panel)
        )

    def evaluation(
        self,
        candidate: Candidate,
        *,
        speedup: float | None,
        budget: Fidelity = Fidelity.QUICK,
        status: Status = Status.NUMERICAL,
        feedback: str = "",
        panel: Mapping[str, float] | None = None,
        mode: Mode = Mode.WORKER,
    ) -> Evaluation:
        """Return an evaluation over two workloads, with exactly this combined speed-up."""
        names = ("holdout-a", "holdout-b") if budget is Fidelity.FINAL else ("small", "large")
        timings = () if speedup is None else (make_timing(names[0], speedup * 2), make_timing(names[1], speedup / 2))
        return Evaluation(
            key=EvaluationKey(
                program_hash=f"p{candidate.id}",
                task_hash=TASK_HASH,
                device=DEVICE,
                environment=IDENTITY.environment,
                evaluator_version=self._evaluator_version,
                mode=mode,
                budget=budget,
            ),
            candidate_id=candidate.id,
            status=Status.OK if timings else status,
            stage=Stage.FINAL if budget is Fidelity.FINAL else Stage.QUICK,
            timings=timings,
            panel={name: Speedup.from_log(math.log(value), LOG_ERROR) for name, value in (panel or {}).items()},
            descriptor={"vector_bits": 256.0},
            metrics={"code_bytes": 640.0},
            feedback=feedback,
            duration_s=0.5,
            sandbox=SANDBOX,
        )


def fill_store(path: Path, *, crowned: bool = True, evaluator_version: str = "1") -> dict[str, str]:
    """Write a small finished run: a seed, a line of three improvements, a failure; return ids by name.

    `best` is crowned, with 5.0x against torch in the final measurement and 6.0x in the search.
    """
    with StoreBuilder(path, evaluator_version=evaluator_version) as builder:
        seed = builder.seed(speedup=0.1)
        tiled = builder.add("// tiled\nvoid run() {}\n", speedup=1.0, parents=(seed,))
        wrong = builder.add("// wrong\n", speedup=None, parents=(tiled,), feedback="output differs by 3.5 at [0, 1]")
        best = builder.add(
            "// best\nvoid run() { int fast; }\n",
            speedup=6.0,
            parents=(tiled, seed),
            operator="tune",
            island="tuners",
            rationale="tune: BLOCK_K 8 -> 16",
            inspirations=(wrong,),
        )
        if crowned:
            builder.final(seed, speedup=0.1, panel={"torch": 0.1, "compiled": 0.08})
            builder.final(best, speedup=4.9, panel={"torch": 5.0, "compiled": 4.5})
        builder.store.heartbeat(12.0)
        builder.store.session_end("budget of 4 evaluations used")
    return {"seed": seed, "tiled": tiled, "wrong": wrong, "best": best}
