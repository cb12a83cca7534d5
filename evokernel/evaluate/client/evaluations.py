"""Identity of an evaluator, and its evaluations."""

import hashlib
import importlib.metadata
from collections.abc import Mapping
from typing import Any

from evokernel.config.run import EvaluationConfig
from evokernel.errors import HarnessError
from evokernel.evaluate import EVALUATOR_VERSION
from evokernel.evaluate.client.builds import Build
from evokernel.evaluate.client.earlier_tasks import earlier_texts
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.protocols import Language
from evokernel.records.build import BuildFailure
from evokernel.records.evaluation import Evaluation, EvaluationRequest, EvaluatorIdentity, Mode, Stage, Status
from evokernel.records.timing import Speedup
from evokernel.tasks import task_hashes

MODES: Mapping[str, Mode] = {"cpu": Mode.WORKER, "cuda": Mode.ARTIFACT}
"""The usual mode on each class of devices; a candidate that does not fit it runs in another."""
_NOT_IN_THE_HASH = {
    "sandbox",
    "compile_timeout_s",
    "gpus",
    "hosts",
    "address",
    "devices",
    "expert",
    "cuda_include",
}  # the expert's text is in the hash, its path is not; the headers' text is in the language's environment
_ALWAYS_IN_IT = {"quick_ms", "precise_ms", "final_ms", "final_processes", "timeout_s", "memory_mib"}
"""Settings of the first release; a later one is in the hash only where it changes something."""


def identify(
    hello: Mapping[str, Any],
    task_spec: str,
    *,
    language: Language,
    settings: EvaluationConfig,
    threads: int,
    device: str,
    expert: str = "",
) -> EvaluatorIdentity:
    """Return the evaluator's identity from its first judge's hello; `expert` is the id of a user's kernel."""
    rest = f" {threads} {settings.model_dump_json(exclude=_left_out(settings))}" + (expert and f" {expert}")
    texts = task_hashes(task_spec)
    texts += earlier_texts(texts[0], device=device)
    now, *earlier = (hashlib.sha256((each + rest).encode()).hexdigest()[:16] for each in texts)
    return EvaluatorIdentity(
        task_hash=now,
        earlier_task_hashes=frozenset(earlier),
        device=hello["device"],
        environment=f"{language.environment}; torch {importlib.metadata.version('torch')}",
        evaluator_version=EVALUATOR_VERSION,
        mode=MODES[device],
        device_sheet=hello["sheet"],
        sandbox=hello["sandbox"],
        baseline_us=hello["baseline_us"],
    )


def _left_out(settings: EvaluationConfig) -> set[str]:
    later = type(settings).model_fields.keys() - _ALWAYS_IN_IT
    unused = {name for name in later if getattr(settings, name) == type(settings).model_fields[name].default}
    return _NOT_IN_THE_HASH | unused


def entry(
    request: EvaluationRequest,
    identity: EvaluatorIdentity,
    *,
    outcome: PhaseVerdict,
    build: Build | None,
    build_s: float,
    duration_s: float,
) -> Evaluation:
    """Return the evaluation of a candidate. `build` is None where the source was not built."""
    if outcome.status is None:
        raise HarnessError(f"the judge came to no verdict on {request.candidate.id}")
    built = build.built if build is not None and not isinstance(build.built, BuildFailure) else None
    mode = Mode(outcome.mode) if outcome.mode else None
    return Evaluation(
        key=identity.key(request.program_hash, request.budget, mode=mode, checks=request.checks),
        candidate_id=request.candidate.id,
        status=outcome.status,
        stage=outcome.stage,
        timings=outcome.timings if outcome.status is Status.OK else (),
        panel={name: Speedup(*values) for name, values in outcome.panel.items()},
        descriptor=built.descriptor if built else {},
        metrics={**(built.metrics if built else {}), **outcome.metrics, "build_s": build_s},
        feedback=outcome.author_text,
        artifact_hash=outcome.artifact or (built.hash if built else ""),
        stopped_early=outcome.stopped_early,
        duration_s=duration_s,
        sandbox=identity.sandbox,
    )


def unbuilt(build: Build) -> PhaseVerdict | None:
    """Return the verdict where the build failed, or its sanitizer executable did not compile."""
    if isinstance(build.built, BuildFailure):
        status = Status.HOST_EXCEPTION if build.built.raised else Status.COMPILE_ERROR
        status = Status.COMPILE_TIMEOUT if build.built.timed_out else status
        return PhaseVerdict(status, Stage.COMPILE, build.built.message)
    if isinstance(build.checked, BuildFailure) and not build.checked.timed_out:
        text = f"it compiles, but not with the address and undefined-behaviour sanitizers:\n{build.checked.message}"
        return PhaseVerdict(Status.COMPILE_ERROR, Stage.COMPILE, text)
    return None
