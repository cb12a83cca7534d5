"""Checks of a cubin before it is loaded: it fits its launches and needs nothing beside its own code.

The driver runs the x86-64 code of a section `.nv.host` in the process that loads the cubin. So sections must be among
those that compilers make (`inside.driver.cubin_sections`). Each image of a candidate is checked here before a trusted
process loads it: `checked_build` is the only way from a build to the runner and to the instruments. Otherwise runner,
judge and baselines load code of ours only; a worker loads that of the candidate whose host code it runs.

Machine code is the candidate's own and may use whatever the device allows. These checks refuse what the driver would do
for a kernel beside running it: printing, allocating, launching.
"""

from collections.abc import Mapping

from evokernel.evaluate.artifact_mode.fields import PlanError
from evokernel.evaluate.artifact_mode.plan import LaunchPlans, PlanLimits, RecordedLaunch
from evokernel.evaluate.inside.driver.cubin_facts import CubinFacts
from evokernel.evaluate.inside.driver.cubin_facts import inspect as inspect
from evokernel.evaluate.inside.driver.kernel_parameters import size_bytes

_ALLOWED = frozenset({"__assertfail"})  # ends the kernel with an error
_STATE_LIMIT_BYTES = 64 << 20
_REASONS = {
    "vprintf": "kernels must not print",
    "malloc": "kernels must not allocate memory",
    "free": "kernels must not free memory",
}


def refusal(facts: CubinFacts, *, capability: int) -> str | None:
    """Return why a cubin is not loaded, or None.

    Args:
        capability: of the device, 90 for 9.0.
    """
    if facts.foreign:
        name, kind = facts.foreign[0]
        return f"a kernel's cubin has the section {_shown(name)} of type {kind:#x}, which no supported compiler makes"
    if facts.capability != capability:
        return f"a kernel was compiled for compute capability {facts.capability}; the device has {capability}"
    if facts.state_bytes > _STATE_LIMIT_BYTES:
        return f"a kernel has {facts.state_bytes} bytes of __device__ variables; the limit is {_STATE_LIMIT_BYTES}"
    needed = [name for name in facts.undefined if name not in _ALLOWED]
    if not needed:
        return None
    if needed[0] in _REASONS:
        return _REASONS[needed[0]]
    if needed[0].startswith(("cuda", "cnp")):
        return "kernels must not use the device's runtime: no launches, streams or copies from a kernel"
    return f"a kernel needs {_shown(needed[0])}, which is not in it"


def refuse_misfits(plans: LaunchPlans, cubins: Mapping[str, CubinFacts], *, limits: PlanLimits) -> None:
    """Check each launch against the kernel it names.

    The driver reads a parameter at its full size: one larger than the value passed would expose the runner's memory.
    Raises `PlanError` if a kernel is not in its cubin, takes other parameters, or cannot have such blocks.

    Args:
        cubins: facts from `inspect`, by SHA-256, of every cubin that the plans name.
    """
    for number, plan in enumerate(plans.shapes):
        for launch in plan.launches:
            reason = _misfit(launch, cubins[launch.cubin], limits)
            if reason is not None:
                raise PlanError(reason, number)


def _misfit(launch: RecordedLaunch, facts: CubinFacts, limits: PlanLimits) -> str | None:
    name = _shown(launch.kernel)
    kernel = facts.kernels.get(launch.kernel)
    if kernel is None:
        return f"kernel {name} is not in its cubin"
    given = tuple(size_bytes(parameter.kind) for parameter in launch.parameters)
    if given != kernel.parameter_bytes:
        return f"kernel {name} takes parameters of {list(kernel.parameter_bytes)} bytes and is given {list(given)}"
    x, y, z = launch.block
    if kernel.max_threads and x * y * z > kernel.max_threads:
        return f"kernel {name} is compiled for blocks of {kernel.max_threads} threads and launched with {x * y * z}"
    shared = kernel.shared_bytes + launch.shared_bytes
    if shared > limits.shared_bytes:
        return f"kernel {name} needs {shared} bytes of shared memory for a block; the device has {limits.shared_bytes}"
    return None


def _shown(name: str) -> str:
    return repr(name[:80])
