"""A kernel that a user names to be beaten: judged as a candidate is, and then one of the baselines."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evokernel.config.run import DEVICE_OF, SUFFIXES, EvaluationConfig, language_of
from evokernel.errors import ConfigError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.build_lock import BuildLock, NoBuildLock
from evokernel.evaluate.client.builds import Builder, Shapes
from evokernel.evaluate.client.devices import JudgeHandle
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
    """The kernel in `file`, and the language that it is built with."""

    file: str
    candidate: Candidate
    language: Language


def read_expert(
    settings: EvaluationConfig, *, device: str, threads: int, limits: DeviceLimits | None
) -> ExpertKernel | None:
    """Return the kernel that `evaluation.expert` names; None where it names none.

    Raises:
        ConfigError: it cannot be read, or is in no language of this class of devices.
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


class ExpertAddition:
    """Checks the expert with the first judge of a run, and keeps what the others load until it is closed."""

    def __init__(self, expert: ExpertKernel, gate: BuildLock | NoBuildLock, cores: tuple[int, ...]) -> None:
        self.expert = expert
        self._gate = gate
        self._builder = Builder(expert.language, gate, cores)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.file = ""
        """What judges run as a baseline; empty before it was found right."""

    async def hire(self, judge: JudgeHandle, task: Task, *, hidden: Shapes) -> dict[str, Any]:
        """Return the judge's answer: `baseline_us`, the times of all baselines anew.

        Raises:
            ConfigError: the kernel is not right; the message says why.
            JudgeLost: the judge ended.
        """
        if EXPERT in (task.baselines or {}):
            raise ConfigError(f"evaluation.expert: task {task.name!r} has a baseline called {EXPERT!r} already")
        source, language = self.expert.candidate.source, self.expert.language
        complaint = language.static_check(source)
        if complaint is not None:
            raise self._refusal(PhaseVerdict(Status.STATIC_REJECT, Stage.STATIC, complaint))
        build = await self._builder.build(self.expert.candidate, task, hidden=hidden)
        if (failure := unbuilt(build)) is not None:
            raise self._refusal(failure)
        assert isinstance(build.built, Built)
        blobs = [build.built.artifact, *([build.checked] if isinstance(build.checked, bytes) else [])]
        async with self._gate.alone():
            question = {"op": "check", "source": source, "sanitize": False}  # it is the user's own
            checked = PhaseVerdict.from_message(await judge.ask(question, blobs))
            if checked.status is not None:
                raise self._refusal(checked)
            self.file = self._placed(build.built)
            return await judge.ask({"op": "hire", "expert": self.file})

    async def close(self) -> None:
        """Wait for the compilers, and remove what judges loaded."""
        await self._builder.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _placed(self, built: Built) -> str:
        """Write down what is run: what was compiled from C++, and of Python the text that was judged."""
        self._folder = tempfile.TemporaryDirectory(prefix="evokernel-expert-")
        compiled = DEVICE_OF[self.expert.candidate.language] == "cpu"
        path = Path(self._folder.name, "expert.so" if compiled else "expert.py")
        path.write_bytes(built.artifact if compiled else self.expert.candidate.source.encode())
        return str(path)

    def _refusal(self, found: PhaseVerdict) -> ConfigError:
        return ConfigError(
            f"evaluation.expert: {self.expert.file} is not right, so nothing can be compared with it: {found.status}, "
            f"at the stage {found.stage}: {found.feedback}"
        )
