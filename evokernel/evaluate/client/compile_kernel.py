"""Build of one kernel that is not run: the basis of `evokernel evaluate --compile-only`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evokernel.config.run import DEVICE_OF, DeviceClass, EvaluationConfig
from evokernel.errors import ConfigError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.languages.device_limits import DeviceLimits
from evokernel.records.build import BuildFailure, Built
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Stage
from evokernel.tasks import load_task

FORMAT = 1
TARGETS: Mapping[str, DeviceLimits] = {
    "sm_80": DeviceLimits(80, 163 << 10, 108, 164 << 10),
    "sm_86": DeviceLimits(86, 99 << 10, 84, 100 << 10, multiprocessor_threads=1536, multiprocessor_blocks=16),
    "sm_89": DeviceLimits(89, 99 << 10, 142, 100 << 10, multiprocessor_threads=1536, multiprocessor_blocks=24),
    "sm_90": DeviceLimits(),
}
"""Limits of GPUs that can be built for without one, by the compilers' names: A100, A40, L40S and H100.

CUDA C++ programming guide, "Technical specifications per compute capability".
"""


@dataclass(frozen=True, slots=True)
class KernelCompilation:
    """Result of checking and building one kernel."""

    candidate: Candidate
    environment: str
    """Compilers and target, one line."""
    stage: Stage
    """The last stage reached."""
    complaint: str
    """Why it failed there; empty where it did not."""
    built: Built | None
    """None where it failed."""

    @property
    def ok(self) -> bool:
        """Say whether it passed the static checks and was built."""
        return self.built is not None


def compile_only(
    candidate: Candidate, task_spec: str, *, settings: EvaluationConfig, threads: int = 1, target: str = ""
) -> KernelCompilation:
    """Check and build a kernel for the search workloads of a task. Needs no GPU, whatever the language.

    Args:
        task_spec: a built-in task or the path of a task file.
        threads: threads the kernel may use.
        target: one of `TARGETS`; sm_90 if left out. C++ is built for this processor and takes none.

    Raises:
        ConfigError: the target is not known, or the language takes none.
        TaskError, LanguageError: the task or the tools do not allow a build.
    """
    device = DEVICE_OF[candidate.language]
    task = load_task(task_spec).on(device)
    limits = _limits(target, device)
    language = local_language(candidate.language, settings.on(device), threads=threads, device=limits)
    complaint = language.static_check(candidate.source)
    if complaint is not None:
        return KernelCompilation(candidate, language.environment, Stage.STATIC, complaint, None)
    built = language.build(candidate.source, task)
    if isinstance(built, BuildFailure):
        return KernelCompilation(candidate, language.environment, Stage.COMPILE, built.message, None)
    return KernelCompilation(candidate, language.environment, Stage.COMPILE, "", built)


def _limits(target: str, device: DeviceClass) -> DeviceLimits | None:
    if device == "cpu" and target:
        raise ConfigError(f"C++ is built for the processor of this machine; --target {target} is for GPU kernels")
    if target and target not in TARGETS:
        raise ConfigError(f"unknown target {target!r}: expected one of {', '.join(TARGETS)}")
    return TARGETS[target or "sm_90"] if device == "cuda" else None


def compilation_document(compilation: KernelCompilation, *, task: str, file: str) -> dict[str, Any]:
    """Return the document of `evaluate --compile-only --json`; docs/json.md describes its fields."""
    built = compilation.built
    return {
        "format": FORMAT,
        "file": file,
        "task": task,
        "candidate": compilation.candidate.id,
        "language": compilation.candidate.language,
        "ok": compilation.ok,
        "environment": compilation.environment,
        "stage": compilation.stage.value,
        "feedback": compilation.complaint,
        "artifact_hash": built.hash if built else None,
        "descriptor": dict(built.descriptor) if built else {},
        "metrics": dict(built.metrics) if built else {},
    }
