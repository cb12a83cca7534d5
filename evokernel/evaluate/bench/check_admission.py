"""Admission of the hidden checks that a run adds."""

from collections.abc import Iterator

import numpy as np

from evokernel.errors import TaskError
from evokernel.evaluate.bench.admission import is_right
from evokernel.evaluate.bench.admission_variants import AdmissionVariant
from evokernel.evaluate.numerics.check_contents import compose
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.records.hidden_check import MOST_PARTS, HiddenCheck, words_for
from evokernel.task import PATCHWORK, Task, Workload, WorkloadSet

MOST_BYTES = 32 << 20
"""Largest memory of the tensors of a check: its buffers and expected values stay as long as the judge."""


def refusal_of(task: Task, device_class: str, check: HiddenCheck, *, rng: np.random.Generator, device: str) -> str:
    """Return why a check is not fit for a task, or nothing.

    Its sizes must be of the ranges of hidden shapes, its memory at most `MOST_BYTES`, and its words of the vocabulary.
    The reference must be finite there, and honest answers pass, as at the admission of the task.
    """
    offered = task.workloads[device_class]
    wrong = next(_wrong_words(task, check), "") or _wrong_sizes(offered, check)
    if wrong:
        return wrong
    workload = check.workload(offered)
    try:
        taken = sum(tensor.storage_bytes_at(workload.sizes) for tensor in task.signature.tensors)
        if taken > MOST_BYTES:
            return f"its tensors take {taken / 2**20:.0f} MiB, and {MOST_BYTES >> 20} MiB is the most"
        for distribution in (PATCHWORK,) if check.contents else task.distributions:
            case = _case(task, workload, check, distribution, rng=rng, device=device)
            if not is_right(case, rng):
                on = "these contents" if check.contents else f"distribution {distribution}"
                return f"the reference is not finite on {on}, or honest answers differ there"
    except (TaskError, ValueError) as error:
        return f"the reference refuses it: {error}"
    return ""


def _case(
    task: Task, workload: Workload, check: HiddenCheck, distribution: str, *, rng: np.random.Generator, device: str
) -> AdmissionVariant:
    if not check.contents:
        return AdmissionVariant.drawn(task, workload, distribution, rng, device=device)
    inputs = compose(task, workload, check.contents, rng, device=device)
    return AdmissionVariant(task, workload, inputs, inputs, expect(task, workload, inputs, distribution=distribution))


def _wrong_sizes(offered: WorkloadSet, check: HiddenCheck) -> str:
    if check.sizes.keys() != offered.probe.keys():
        return f"expected a size for each of {', '.join(offered.probe)}, and got {', '.join(check.sizes) or 'none'}"
    sizes = offered.fixed_sizes
    for name in offered.probe:  # an end of a range may be an expression over dimensions before it
        low, high = offered.range_of(name, sizes)
        sizes[name] = check.sizes[name]
        if not low <= sizes[name] <= high:
            return f"{name}={sizes[name]} is out of range: {name} is from {low} to {high}"
    return ""


def _wrong_words(task: Task, check: HiddenCheck) -> Iterator[str]:
    inputs = {tensor.name: tensor for tensor in task.signature.inputs}
    for name, words in check.contents.items():
        if name not in inputs:
            yield f"there is no input {name!r}; the inputs are {', '.join(inputs)}"
            return
        known = words_for(task, inputs[name])
        if not known:
            yield f"{name} comes from a generator of the task, and no words change it"
        unknown = [word for word in words if word not in known]
        if unknown:
            yield f"{name} cannot be {', '.join(unknown)}; the words for it are {', '.join(known)}"
        if not 1 <= len(words) <= MOST_PARTS:
            yield f"{name} has {len(words)} parts, and 1 to {MOST_PARTS} are taken"
