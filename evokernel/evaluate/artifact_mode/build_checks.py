"""A build's plans for all workloads of a bench and the kernels they launch, checked together."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evokernel.evaluate.artifact_mode.cubin import inspect, refusal, refuse_misfits
from evokernel.evaluate.artifact_mode.plan import BufferFacts, LaunchPlans, PlanError, PlanLimits, read_plans
from evokernel.evaluate.inside.driver.cubin_facts import CubinFacts
from evokernel.evaluate.inside.process.bundle import unpack
from evokernel.evaluate.worker_mode.cpu_pool import LoadFailed
from evokernel.task import Role, Task, Workload

PLANS = "plans.json"


@dataclass(frozen=True, slots=True)
class Target:
    """The device that plans are made for."""

    capability: int
    """Compute capability times 10: 90 for 9.0."""
    limits: PlanLimits
    """Bounds that a plan keeps to."""


@dataclass(frozen=True, slots=True)
class CheckedBuild:
    """A build that passed every check."""

    plans: LaunchPlans
    """One plan for each shape, by its number."""
    cubins: Mapping[str, bytes]
    """Machine code by its SHA-256 in hex."""
    stateful: bool
    """Some kernel keeps variables in device memory between launches."""

    def digest(self, shapes: int) -> str:
        """Return a hash of the launches on the first shapes; builds with equal hashes take the same time."""
        plans = [plan.as_message() for plan in self.plans.shapes[:shapes]]
        return hashlib.sha256(json.dumps(plans, sort_keys=True).encode()).hexdigest()

    def as_message(self) -> dict[str, Any]:
        """Return the build as a runner takes it, without the cubins."""
        return {"shapes": [plan.as_message() for plan in self.plans.shapes], "stateful": self.stateful}


def read_artifact(artifact: bytes, task: Task, *, workloads: Sequence[Workload], target: Target) -> CheckedBuild:
    """Read a bundle and check all of it; nothing that the building process said is believed.

    Args:
        task: for the device class.
        workloads: those it was built for, in that order.

    Raises:
        LoadFailed: a check of the bundle, a plan or a kernel failed; the message names it.
    """
    try:
        files = unpack(artifact)
        found = {hashlib.sha256(image).hexdigest(): image for name, image in files.items() if name.endswith(".cubin")}
        buffers = [_buffers(task, workload) for workload in workloads]
        plans = read_plans(files.get(PLANS, b""), buffers=buffers, cubins=found, limits=target.limits)
        used = {launch.cubin for plan in plans.shapes for launch in plan.launches}
        cubins = {digest: found[digest] for digest in sorted(used)}
        facts = {digest: _facts(plans, digest, image, target) for digest, image in cubins.items()}
        refuse_misfits(plans, facts, limits=target.limits)
    except PlanError as error:
        on_search = error.shape is None or error.shape < len(task.workloads["cuda"].search)
        raise LoadFailed(str(error) if on_search else "on a hidden shape") from None  # a number would tell the shape
    except ValueError as error:
        raise LoadFailed(str(error)) from None
    return CheckedBuild(plans, cubins, stateful=any(known.state_bytes for known in facts.values()))


def _facts(plans: LaunchPlans, digest: str, image: bytes, target: Target) -> CubinFacts:
    """Return the facts of a cubin. Raises `PlanError` with the first shape that launches one of its kernels."""
    try:
        facts = inspect(image)
        reason = refusal(facts, capability=target.capability)
    except ValueError as error:
        reason = str(error)
    if reason is not None:
        first = next(n for n, plan in enumerate(plans.shapes) if any(each.cubin == digest for each in plan.launches))
        raise PlanError(reason, first)
    return facts


def _buffers(task: Task, workload: Workload) -> dict[str, BufferFacts]:
    return {
        tensor.name: BufferFacts(tensor.storage_bytes_at(workload.sizes), writable=tensor.role is not Role.INPUT)
        for tensor in task.signature.tensors
    }
