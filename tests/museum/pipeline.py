"""What becomes of a kernel for a GPU before there must be one: static check, build in the sandbox, check of the plans.

These are the evaluator's own functions in its own order, for an H100. What they refuse has its verdict; what they let
through is judged on a GPU.
"""

import re
from dataclasses import dataclass

import numpy as np

from evokernel.config.run import EvaluationConfig
from evokernel.errors import WorkerError
from evokernel.evaluate.artifact_mode.build_checks import CheckedBuild, Target, read_artifact
from evokernel.evaluate.artifact_mode.plan import PlanLimits
from evokernel.evaluate.bench.feedback import failure
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.builds import Build
from evokernel.evaluate.client.evaluations import unbuilt
from evokernel.evaluate.numerics.hidden_shapes import probe_workloads
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.languages.device_limits import DeviceLimits
from evokernel.protocols import Language
from evokernel.records.build import Built
from evokernel.records.evaluation import Stage, Status
from evokernel.task import Task, Workload

SETTINGS = EvaluationConfig(compile_timeout_s=120).on("cuda")
IMPATIENT = EvaluationConfig(compile_timeout_s=5).on("cuda")
"""For what never ends; what does takes less than 5 s, unless the machine is busy."""
DEVICE = DeviceLimits()
TARGET = Target(DEVICE.capability, PlanLimits(shared_bytes=DEVICE.shared_bytes, scratch_bytes=4 << 30))
_RUN = re.compile(r"^def run\((\w+).*\):\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Passed:
    """What the doors let through: its plans, none where it must be run in a worker."""

    checked: CheckedBuild

    @property
    def recorded(self) -> bool:
        return not self.checked.plans.unrecordable


def language_for(name: str, settings: EvaluationConfig = SETTINGS) -> Language:
    """Return a language as the evaluator uses it, for an H100; it needs none."""
    return local_language(name, settings, device=DEVICE)


def hidden_shapes(task: Task) -> tuple[Workload, ...]:
    """Return hidden shapes as a judge draws them, but always the same ones."""
    return probe_workloads(task.workloads["cuda"], np.random.default_rng(0))


def pass_doors(language: Language, source: str, task: Task, *, hidden: tuple[Workload, ...]) -> PhaseVerdict | Passed:
    """Return the verdict that is due without a GPU, or what was built.

    Args:
        language: what `language_for` returned.
        source: the kernel.
        task: on the device class "cuda".
        hidden: the shapes beside the search workloads.
    """
    complaint = language.static_check(source)
    if complaint is not None:
        return PhaseVerdict(Status.STATIC_REJECT, Stage.STATIC, complaint)
    built = language.build(source, task, hidden=[workload.dims for workload in hidden])
    refused = unbuilt(Build(built))
    if refused is not None:
        return refused
    assert isinstance(built, Built)
    workloads = (*task.workloads["cuda"].search, *hidden)
    try:
        return Passed(read_artifact(built.artifact, task, workloads=workloads, target=TARGET))
    except WorkerError as error:
        return failure(error, Stage.SMOKE, "while loading")


def in_a_worker(source: str) -> str:
    """Return a source with something in `run` that cannot be recorded, so that it is run in a worker."""
    marked, count = _RUN.subn(r"\g<0>    \1.new_empty(2, 2)[:, 0].fill_(0)\n", source)
    assert count == 1, "run() must be defined once, on one line, with a tensor as its first argument"
    return marked
