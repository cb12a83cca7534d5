"""Judgement of one kernel without a search: the basis of `evokernel evaluate` and `evokernel export`."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evokernel.config.run import DEVICE_OF, SUFFIXES, EvaluationConfig, language_of
from evokernel.errors import HarnessError, LanguageError, TaskError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.devices import StartJudge
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.device.device_class import this_machine
from evokernel.protocols import Evaluator, Language
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, EvaluatorIdentity, Fidelity, Status
from evokernel.records.evaluation_document import evaluation_document, fields_document
from evokernel.records.hidden_check import HiddenCheck

FORMAT = 1
_FIELDS = (
    "budget", "mode", "nondeterministic", "status", "stage", "stages", "feedback", "speedup", "baselines", "workloads",
    "descriptor", "metrics", "duration_s",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KernelVerdict:
    """Verdict on one kernel."""

    candidate: Candidate
    identity: EvaluatorIdentity
    """The evaluator."""
    evaluations: tuple[Evaluation, ...]
    """One for each budget in order, up to the first that failed."""

    @property
    def ok(self) -> bool:
        """Say whether the kernel is right, and was measured at every budget."""
        return all(evaluation.ok for evaluation in self.evaluations)

    @property
    def last(self) -> Evaluation:
        """The last evaluation, which decides."""
        return self.evaluations[-1]


def read_candidate(path: Path) -> Candidate:
    """Return the kernel in a file; its suffix names the language.

    Raises `LanguageError` if the suffix is not known, or the file cannot be read.
    """
    language = language_of(path)
    if language is None:
        known = ", ".join(f"{suffix} ({name})" for suffix, name in SUFFIXES.items())
        raise LanguageError(f"{path}: the suffix says the language, and {path.suffix or 'none'} is not known: {known}")
    try:
        return Candidate(path.read_text(encoding="utf-8"), language)
    except (OSError, UnicodeDecodeError) as error:
        raise LanguageError(f"cannot read the kernel {path}: {error}") from None


def judge(  # noqa: PLR0913 - each is a choice of some caller
    candidate: Candidate,
    task_spec: str,
    *,
    budgets: Sequence[Fidelity],
    settings: EvaluationConfig,
    threads: int = 1,
    deterministic: bool = False,
    task_hash: str = "",
    checks: Sequence[HiddenCheck] = (),
    start: StartJudge | None = None,
) -> KernelVerdict:
    """Put a kernel through the whole cascade, once for each budget, and stop where it fails.

    Args:
        task_spec: a built-in task or the path of a task file.
        budgets: `final` judges on the held-out workloads too, in fresh processes.
        settings: how to judge; missing values come from the language's device class.
        threads: threads the kernel may use.
        deterministic: refuse a kernel whose bits differ from run to run.
        task_hash: that of earlier evaluations; another one is refused before anything is measured.
        checks: further hidden checks, those that the kernel's run has added.
        start: how judges are started, as in `open_evaluator`; one host for several kernels imports torch once.

    Raises:
        TaskError, LanguageError, HarnessError: it could not be judged.
        ConfigError: the settings name an expert that cannot be used.
    """
    evaluator, language = _opening(
        *(candidate.language, task_spec),
        settings=settings,
        threads=threads,
        deterministic=deterministic,
        profiled=True,
        start=start,
    )
    program = language.program_hash(candidate.source)
    requests = [EvaluationRequest(candidate, program, budget, checks=tuple(checks)) for budget in budgets]
    return asyncio.run(_judge(evaluator, requests, task_hash=task_hash))


def judge_each(
    candidates: Sequence[Candidate],
    task_spec: str,
    *,
    budget: Fidelity,
    settings: EvaluationConfig,
    threads: int = 1,
    deterministic: bool = False,
    start: StartJudge | None = None,
) -> list[Evaluation]:
    """Put kernels of one language through the cascade, one after the other, by one judge where not `final`.

    Arguments and errors are those of `judge`; a kernel that fails does not end the others.
    """
    evaluator, language = _opening(
        *(candidates[0].language, task_spec),
        settings=settings,
        threads=threads,
        deterministic=deterministic,
        start=start,
    )
    requests = [EvaluationRequest(each, language.program_hash(each.source), budget) for each in candidates]

    async def judged() -> list[Evaluation]:
        async with evaluator as opened:
            return [await _evaluated(opened, request) for request in requests]

    return asyncio.run(judged())


def _opening(
    language_name: str,
    task_spec: str,
    *,
    settings: EvaluationConfig,
    threads: int,
    deterministic: bool,
    profiled: bool = False,
    start: StartJudge | None = None,
) -> tuple[AbstractAsyncContextManager[Evaluator], Language]:
    """Return an evaluator to enter, and how kernels are compiled. Raises as `judge`."""
    device, machine = DEVICE_OF[language_name], this_machine()
    if device == "cuda" and machine.gpu is None:
        raise HarnessError(
            f"{language_name} kernels run on an NVIDIA GPU, and none is visible here; what can be done here is "
            "to build one and look at what was built: evokernel evaluate FILE --task T --compile-only"
        )
    settings = settings.on(device)
    language = local_language(language_name, settings, threads=threads, device=machine.limits(device))
    evaluator = open_evaluator(
        task_spec,
        language,
        settings=settings,
        threads=threads,
        machine=machine,
        deterministic=deterministic,
        profiled=profiled,
        start=start,
    )
    return evaluator, language


async def _judge(
    opening: AbstractAsyncContextManager[Evaluator], requests: Sequence[EvaluationRequest], *, task_hash: str
) -> KernelVerdict:
    made: list[Evaluation] = []
    async with opening as evaluator:
        identity = evaluator.identity
        if task_hash and task_hash not in (identity.task_hash, *identity.earlier_task_hashes):
            raise TaskError(
                "the task is not the one this kernel was found for: its text or the evaluation settings have changed. "
                "Bring back the old text, or judge the kernel anew with `evokernel evaluate`"
            )
        for request in requests:
            made.append(await _evaluated(evaluator, request))
            if not made[-1].ok:
                break
    return KernelVerdict(requests[0].candidate, identity, tuple(made))


async def _evaluated(evaluator: Evaluator, request: EvaluationRequest) -> Evaluation:
    made = await evaluator.evaluate(request)
    if made.status is Status.HARNESS_ERROR:
        raise HarnessError(made.feedback)
    return made


def judgement_document(judgement: KernelVerdict, *, task: str, file: str) -> dict[str, Any]:
    """Return the document of `evaluate --json`; docs/json.md describes its fields."""
    return {
        "format": FORMAT,
        "file": file,
        "task": task,
        "candidate": judgement.candidate.id,
        "language": judgement.candidate.language,
        "ok": judgement.ok,
        "mode": judgement.last.key.mode.value,
        **fields_document(judgement.identity, "device", "environment", "sandbox"),
        "evaluations": [evaluation_document(evaluation, *_FIELDS) for evaluation in judgement.evaluations],
    }
