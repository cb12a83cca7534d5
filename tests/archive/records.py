"""Records for the tests of the store."""

from typing import Any

from archive.store import RunIdentity, Store
from evokernel.records.candidate import Candidate, Proposal, Usage
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Mode, Stage, Status
from evokernel.records.llm import CallStatus, Message, ModelCall, ModelCallResult, Origin
from evokernel.records.timing import Timing, Verdict

IDENTITY = RunIdentity(
    task="gemm",
    task_hash="t0",
    seed=7,
    language="cpp",
    device="Some CPU",
    environment="gcc 12",
    evokernel_version="0.1.0",
    task_spec={"precision": {"slack": 4.0}, "name": "gemm"},
)


def candidate(name: str | int) -> Candidate:
    return Candidate(f"void run_{name}() {{}}\n", "cpp")


def proposal(step: int, name: str | int | None = None, **changes) -> Proposal:
    values: dict[str, Any] = {
        "island": "main",
        "operator": "tune",
        "asked_seq": 0,
        "usage": Usage(duration_s=0.5),
    } | changes
    return Proposal(candidate(step if name is None else name), step, **values)


def key(name: str | int, budget: Fidelity = Fidelity.QUICK, **changes) -> EvaluationKey:
    values = {
        "program_hash": f"p{name}",
        "task_hash": "t0",
        "device": "Some CPU",
        "environment": "gcc 12",
        "evaluator_version": "1",
        "mode": Mode.WORKER,
        "budget": budget,
    } | changes
    return EvaluationKey(**values)


def timing(log_speedup: float = 0.0, error: float = 0.01) -> Timing:
    return Timing("n64", "torch", 1.0, 2.0, 2.0, log_speedup, error, 10, Verdict.SAME)


def good(name: str | int, log_speedup: float = 0.0, budget: Fidelity = Fidelity.QUICK, **changes) -> Evaluation:
    timings = (timing(log_speedup),)
    return Evaluation(key(name, budget, **changes), candidate(name).id, Status.OK, Stage.QUICK, timings)


def bad(name: str | int, status: Status = Status.NUMERICAL, budget: Fidelity = Fidelity.QUICK) -> Evaluation:
    return Evaluation(key(name, budget), candidate(name).id, status, Stage.CORRECTNESS, feedback="off by one")


def propose(store: Store, step: int, name: str | int | None = None, **changes) -> Proposal:
    made = proposal(step, name, **changes)
    store.propose(made, program_hash=f"p{step if name is None else name}", skeleton="s")
    return made


def result(store: Store, step: int, log_speedup: float = 0.0, **changes) -> int:
    propose(store, step, **changes)
    return store.commit(step, good(step, log_speedup))


def make_call(
    step: int, *, ordinal: int = 0, sample: int = 0, reserved_tokens: int = 100, reserved_usd: float = 0.5, **origin
) -> ModelCall:
    return ModelCall(
        origin=Origin(step, **({"island": "main", "operator": "mutate"} | origin)),
        ordinal=ordinal,
        role="code",
        model="small",
        messages=(Message("user", "make it faster"),),
        parameters={"temperature": 0.5},
        sample=sample,
        reserved_tokens=reserved_tokens,
        reserved_usd=reserved_usd,
    )


def ended(
    text: str = "a reply",
    *,
    status: CallStatus = CallStatus.OK,
    tokens: tuple[int, int] = (2, 1),
    cost_usd: float = 0.25,
) -> ModelCallResult:
    return ModelCallResult(status, text, Usage("small-7", *tokens, cost_usd, 1.5))
