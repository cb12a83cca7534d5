"""Outputs that atomic operations lead to: their bits may differ from run to run, since the order of a sum may."""

from collections.abc import Collection, Iterator, Mapping

from evokernel.evaluate.artifact_mode.parameters import Place
from evokernel.evaluate.artifact_mode.plan import Copy, LaunchPlan, RecordedLaunch
from evokernel.evaluate.inside.driver.kernel_parameters import TensorMap


def atomic_results(plan: LaunchPlan, atomic: Mapping[str, Collection[str]], *, read_only: Collection[str]) -> set[str]:
    """Return the buffers whose content may come from atomic operations.

    They are those given to a kernel with such operations, and those given to a kernel beside one of these.

    Args:
        atomic: by SHA-256 of a cubin, its kernels with atomic operations.
        read_only: buffers that no kernel can write.
    """
    found = set[str]()
    for step in plan.steps:
        match step:
            case RecordedLaunch():
                buffers = set(_buffers(step)).difference(read_only)
                if step.kernel in atomic[step.cubin] or buffers & found:
                    found |= buffers
            case Copy(place=target, source=source) if source.buffer in found:
                found.add(target.buffer)
    return found


def _buffers(launch: RecordedLaunch) -> Iterator[str]:
    for parameter in launch.parameters:
        value = parameter.value.base if isinstance(parameter.value, TensorMap) else parameter.value
        if isinstance(value, Place):
            yield value.buffer
