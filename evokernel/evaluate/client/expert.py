"""A kernel that a user names to be beaten: judged like a candidate, then one of the baselines."""

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from evokernel.config.run import DEVICE_OF, SUFFIXES, EvaluationConfig, language_of
from evokernel.errors import ConfigError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.build_lock import BuildLock, NoBuildLock
from evokernel.evaluate.client.builds import Builder
from evokernel.evaluate.client.devices import SearchJudge
from evokernel.evaluate.client.evaluations import unbuilt
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.evaluate.worker_mode.expert_loop import EXPERT
from evokernel.languages.device_limits import DeviceLimits
from evokernel.protocols import Language
from evokernel.records.build import Built
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Stage, Status
from evokernel.task import Task


@dataclass(frozen=True, slots=True)
class ExpertKernel:
    """A user's kernel and the language that builds it."""

    file: str
    candidate: Candidate
    language: Language


def read_expert(
    settings: EvaluationConfig, *, device: str, threads: int, limits: DeviceLimits | None
) -> ExpertKernel | None:
    """Return the kernel that `evaluation.expert` names; None where it names none.

    Raises:
        ConfigError: it cannot be read, or its language is not one of this class of devices.
        LanguageError: its tool chain is missing.
    """
    if not settings.expert:
        return None
    name = language_of(settings.expert)
    if name is None or DEVICE_OF[name] != device:
        known = ", ".join(f"{suffix} ({each})" for suffix, each in SUFFIXES.items() if DEVICE_OF[each] == device)
        raise ConfigError(
            f"evaluation.expert: {settings.expert} must be a kernel for device class {device}, and its suffix says "
            f"{name or 'no language'}; expected one of {known}. Name another"
        )
    try:
        candidate = Candidate(Path(settings.expert).read_text(encoding="utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"evaluation.expert: cannot read the kernel {settings.expert}: {error}") from None
    return ExpertKernel(settings.expert, candidate, local_language(name, settings, threads=threads, device=limits))


@asynccontextmanager
async def expert_baseline(
    expert: ExpertKernel, judge: SearchJudge, task: Task, *, lock: BuildLock | NoBuildLock, cores: Sequence[int]
) -> AsyncIterator[tuple[str, Mapping[str, Mapping[str, float]]]]:
    """Make the expert a baseline of the first judge; yield the file for other judges, and the times of all baselines.

    The file exists until the context ends; times are in us, by workload and baseline. `cores` are for compilers.

    Raises:
        ConfigError: the kernel is not right; the message says why.
        JudgeLost: the judge ended.
    """
    if EXPERT in (task.baselines or {}):
        raise ConfigError(f"evaluation.expert: task {task.name!r} has a baseline called {EXPERT!r} already")
    complaint = expert.language.static_check(expert.candidate.source)
    if complaint is not None:
        raise _refusal(expert, PhaseVerdict(Status.STATIC_REJECT, Stage.STATIC, complaint))
    builder = Builder(expert.language, lock, cores)
    try:
        build = await builder.build(expert.candidate, task, hidden=judge.hidden)
    finally:
        await builder.close()
    if (failure := unbuilt(build)) is not None:
        raise _refusal(expert, failure)
    assert isinstance(build.built, Built)
    blobs = [build.built.artifact, *([build.checked] if isinstance(build.checked, bytes) else [])]
    with tempfile.TemporaryDirectory(prefix="evokernel-expert-") as folder:
        async with lock.alone():
            question = {"op": "check", "source": expert.candidate.source, "sanitize": False}  # it is the user's own
            checked = PhaseVerdict.from_message(await judge.handle.ask(question, blobs))
            if checked.status is not None:
                raise _refusal(expert, checked)
            file = str(_place(expert, build.built, Path(folder)))
            answer = await judge.handle.ask({"op": "hire", "expert": file})
        yield file, answer["baseline_us"]


def _place(expert: ExpertKernel, built: Built, folder: Path) -> Path:
    """Write the file that judges run: the artifact compiled from C++, or the judged text of Python."""
    compiled = DEVICE_OF[expert.candidate.language] == "cpu"
    path = folder / ("expert.so" if compiled else "expert.py")
    path.write_bytes(built.artifact if compiled else expert.candidate.source.encode())
    return path


def _refusal(expert: ExpertKernel, found: PhaseVerdict) -> ConfigError:
    return ConfigError(
        f"evaluation.expert: {expert.file} is not right, so nothing can be compared with it: {found.status}, "
        f"at the stage {found.stage}: {found.feedback}"
    )
