"""The self-test: cheats made from a right kernel for a task, each judged as a candidate of a search would be."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from evokernel.config.run import DEVICE_OF, SUFFIXES, EvaluationConfig
from evokernel.errors import ConfigError, HarnessError, LanguageError, TaskError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.build.confined_generators import confine_generators
from evokernel.evaluate.client.evaluate_kernel import read_candidate
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.device.device_class import this_machine
from evokernel.protocols import Evaluator, Language
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, EvaluatorIdentity, Fidelity, Status
from evokernel.records.timing import combined_speedup
from evokernel.self_test.exhibits import Exhibit, all_exhibits
from evokernel.self_test.knowledge import look, look_on_gpu
from evokernel.self_test.wrapping import wrap, wrap_python
from evokernel.task import Task
from evokernel.tasks import load_task

_TITLES = {"cpp": "C++", "triton": "Triton", "cuda": "CUDA C++"}
GAIN = 1.05
"""Least speed-up over the original kernel at which a cheat with right results counts as accepted."""
_NOT_MADE = frozenset({Status.STATIC_REJECT, Status.COMPILE_ERROR, Status.COMPILE_TIMEOUT})


class TrialOutcome(StrEnum):
    """Outcome of one trial."""

    CAUGHT = "caught"
    """A cheat was rejected."""
    ACCEPTED = "accepted"
    """A cheat passed: the judge failed."""
    HOLE = "known hole"
    """A cheat passed through a hole that worker mode cannot close."""
    NO_GAIN = "gained nothing"
    """A cheat passed with right results, and looks no faster."""
    PASSED = "passed"
    """A harmless kernel passed."""
    REJECTED = "rejected"
    """A harmless kernel was rejected: the judge failed."""
    NOT_TRIED = "not tried"
    """It could not be built."""


BAD_ENDINGS = frozenset({TrialOutcome.ACCEPTED, TrialOutcome.REJECTED, TrialOutcome.NOT_TRIED})
"""Outcomes that fail the self-test."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One exhibit before the judge of a task."""

    exhibit: Exhibit
    candidate: Candidate
    """The exhibit as it was made for the task."""
    evaluation: Evaluation
    ending: TrialOutcome

    @property
    def in_time(self) -> bool:
        """True for a cheat that was caught at a stage that must stop it."""
        return self.ending is TrialOutcome.CAUGHT and self.evaluation.stage in self.exhibit.stops


@dataclass(frozen=True, slots=True)
class SelfTest:
    """Trials of all exhibits on one task."""

    task: str
    """Name or path, as given."""
    kernel: Candidate
    """The right kernel that exhibits are made from."""
    identity: EvaluatorIdentity
    judged: Evaluation
    """Evaluation of `kernel`."""
    trials: tuple[Trial, ...]
    """In the order of the exhibits."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Reason by name of each exhibit that this task lacks the means for."""

    @property
    def ok(self) -> bool:
        """True where no cheat was accepted, no harmless kernel rejected, and all were tried."""
        return not any(trial.ending in BAD_ENDINGS for trial in self.trials)

    def with_ending(self, *endings: TrialOutcome) -> tuple[Trial, ...]:
        """Return the trials with one of these outcomes."""
        return tuple(trial for trial in self.trials if trial.ending in endings)


def choose_kernel(task_spec: str, kernel: Path | None = None, *, language: str | None = None) -> Candidate:
    """Return the right kernel to make cheats from: the one in a file, or the task's seed.

    Args:
        task_spec: a built-in task or the path of a task file.
        kernel: a file; the task's seed if left out.
        language: the language of the cheats; that of the file, or C++ where the task has a seed in it, if left out.

    Raises:
        TaskError: the task cannot be loaded, has no workloads for the language's devices, or no seed in it.
        LanguageError: the kernel is in another language, or cannot be read.
    """
    task = load_task(task_spec)
    given = None if kernel is None else read_candidate(kernel)
    if given is not None and language not in (None, given.language):
        raise LanguageError(f"{kernel}: --language says {language}, and this is a kernel in {given.language}")
    seeded = next((each for each in _TITLES if each in task.seeds and DEVICE_OF[each] in task.workloads), "cpp")
    chosen = language or (given.language if given else seeded)
    title = _TITLES.get(chosen, chosen)
    if DEVICE_OF[chosen] not in task.workloads:
        known = ", ".join(sorted(task.workloads)) or "none"
        place = "processors" if DEVICE_OF[chosen] == "cpu" else "GPUs"
        raise TaskError(
            f"the self-test makes cheats in {title}, for {place}; task {task.name!r} has workloads for: {known}"
        )
    if given is None and chosen not in task.seeds:
        suffix = next(suffix for suffix, each in SUFFIXES.items() if each == chosen)
        raise TaskError(
            f"task {task.name!r} has no seed in {title} to make cheats from; name a right kernel: --kernel FILE{suffix}"
        )
    return given or read_candidate(Path(task.seeds[chosen]))


def attack(
    task_spec: str,
    kernel: Candidate,
    *,
    settings: EvaluationConfig,
    only: Sequence[str] = (),
    on_judged: Callable[[int, int], object] = lambda done, of: None,
) -> SelfTest:
    """Make cheats and harmless kernels from a right one, and judge them all.

    Args:
        task_spec: a built-in task or the path of a task file.
        kernel: a right kernel.
        only: names of exhibits; all if empty.
        on_judged: called with the number of judged kernels and the number of all.

    Raises:
        ConfigError: an exhibit is not known.
        TaskError: the task is not fit to judge kernels, or gives no sizes to make cheats with.
        LanguageError: the kernel is not right, or the tools to build it are missing.
        HarnessError: the evaluator failed.
    """
    exhibits = _chosen(only, kernel.language)
    device, machine = DEVICE_OF[kernel.language], this_machine()
    if device == "cuda" and machine.gpu is None:
        raise HarnessError(
            f"cheats in {_TITLES[kernel.language]} run on an NVIDIA GPU, and none is visible here; --language cpp "
            "attacks the judge on this processor"
        )
    settings = settings.on(device)
    language = local_language(kernel.language, settings, device=machine.limits(device))
    task = confine_generators(load_task(task_spec).on(device), task_spec)
    evaluator = open_evaluator(task_spec, language, settings=settings, machine=machine)
    return asyncio.run(
        _attack(evaluator, language, kernel, task=task, spec=task_spec, exhibits=exhibits, on_judged=on_judged)
    )


def _chosen(only: Sequence[str], language: str) -> tuple[Exhibit, ...]:
    every = all_exhibits(language)
    unknown = sorted(set(only) - {exhibit.name for exhibit in every})
    if unknown:
        raise ConfigError(f"no such kernel in the self-test: {', '.join(unknown)}; there are: {_names(every)}")
    return tuple(exhibit for exhibit in every if not only or exhibit.name in only)


def _names(exhibits: Sequence[Exhibit]) -> str:
    return ", ".join(exhibit.name for exhibit in exhibits)


async def _attack(
    opening: AbstractAsyncContextManager[Evaluator],
    language: Language,
    kernel: Candidate,
    *,
    task: Task,
    spec: str,
    exhibits: Sequence[Exhibit],
    on_judged: Callable[[int, int], object],
) -> SelfTest:
    async def judge(candidate: Candidate) -> Evaluation:
        request = EvaluationRequest(candidate, language.program_hash(candidate.source), Fidelity.QUICK)
        evaluation = await evaluator.evaluate(request)
        if evaluation.status is Status.HARNESS_ERROR:
            raise HarnessError(evaluation.feedback)
        return evaluation

    trials: list[Trial] = []

    async def attempt(exhibit: Exhibit) -> None:
        if kernel.language == "cpp":
            source = wrap(kernel.source, exhibit, task=task, paces=known.paces, bias=known.bias)
        else:
            source = wrap_python(kernel.source, exhibit, task=task)
        candidate = Candidate(source, kernel.language)
        evaluation = await judge(candidate)
        trials.append(Trial(exhibit, candidate, evaluation, _ending(exhibit, evaluation, judged)))
        on_judged(len(trials), len(possible))

    async with opening as evaluator:
        judged = await judge(kernel)
        if not judged.ok:
            raise LanguageError(
                f"the kernel that cheats are to be made from is not right: {judged.status.value} at "
                f"{judged.stage.value}: {judged.feedback}"
            )
        known = await asyncio.to_thread(look, task, judged) if kernel.language == "cpp" else look_on_gpu(task)
        lacks = known.lacks
        lacking = {each.name: "; ".join(lacks[need] for need in each.needs if need in lacks) for each in exhibits}
        possible = [exhibit for exhibit in exhibits if not lacking[exhibit.name]]
        ended = await asyncio.gather(*map(attempt, possible), return_exceptions=True)
        for error in filter(None, ended):
            raise error
    order = [exhibit.name for exhibit in possible]
    trials.sort(key=lambda trial: order.index(trial.exhibit.name))
    left_out = {name: reason for name, reason in lacking.items() if reason}
    return SelfTest(spec, kernel, evaluator.identity, judged, tuple(trials), left_out)


def _ending(exhibit: Exhibit, evaluation: Evaluation, honest: Evaluation) -> TrialOutcome:
    if evaluation.status in _NOT_MADE:
        return TrialOutcome.NOT_TRIED
    if exhibit.honest:
        return TrialOutcome.PASSED if evaluation.ok else TrialOutcome.REJECTED
    if not evaluation.ok:
        return TrialOutcome.CAUGHT
    if exhibit.hole:
        return TrialOutcome.HOLE
    gained = combined_speedup(evaluation.timings).low >= GAIN * combined_speedup(honest.timings).high
    return TrialOutcome.NO_GAIN if exhibit.gains_nothing and not gained else TrialOutcome.ACCEPTED
