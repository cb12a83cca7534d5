"""Admission of a task: empty answers must fail on it and honest ones pass, tried once at the start.

It also chooses the judge's own distributions for the task: a patchwork where honest answers pass on one, and small or
large numbers, NaN or infinities where only they show that a constant was left out, or what an operation is for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np
import torch

from evokernel.errors import TaskError
from evokernel.evaluate.bench.admission_constants import (
    Changeable,
    TaskConstant,
    TaskOperation,
    constants_of,
    unnoticed,
)
from evokernel.evaluate.bench.admission_conversions import undefined_conversion
from evokernel.evaluate.bench.admission_variants import (
    DOWNCAST,
    WITHOUT_TAIL,
    AdmissionVariant,
    attempt,
    empty_answers,
    honest_answers,
    may_overflow,
    open_integers,
    same_bits,
)
from evokernel.evaluate.numerics.arrays import float_dtypes, is_float
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.generated_inputs import check_generators
from evokernel.evaluate.numerics.hidden_shapes import probe_workloads
from evokernel.evaluate.numerics.inputs import bound_of, result_tensors
from evokernel.evaluate.numerics.references import native_answer
from evokernel.task import (
    COARSE,
    ENDS,
    EXTREME,
    PATCHWORK,
    PATCHWORK_BEATS,
    PATCHWORK_FEW,
    PATCHWORK_KEPT,
    TELLING,
    TINY,
    ZEROS,
    Task,
    Workload,
)

_MORE_ROUNDS = 4
_TELLING_DRAWS = 4
"""Draws of a distribution that may tell: one may show nothing, and where NaN of two inputs meet a result is none."""
_COSTLY = 1e10
"""Operations of a workload above which other inputs of the same sizes are drawn only for what they may still reject."""
_LOOSE = 0.1
"""Tolerance, as a part of the results, above which a distribution of the judge's own says nothing."""
_Open = dict[Changeable, list[str]]
"""Changes of constants that no check has noticed yet."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Result of an admission that succeeded."""

    passed: tuple[str, ...]
    """Names of honest answers, which passed everywhere."""
    rejected: Mapping[str, str]
    """The case that caught each empty answer, by the answer's name."""
    task: Task
    """The task with the judge's own distributions."""
    unnoticed: tuple[str, ...]
    """Changes of the task's constants that no check notices, for people."""
    message: str
    """One line for people."""


def with_patchwork(task: Task, device_class: str, *, rng: np.random.Generator, device: str = "cpu") -> Task:
    """Return the task with a patchwork among its distributions, unless honest answers may differ much on one.

    Where they do, masks with a true element in each row are tried: others may leave nothing to normalise by. Raises
    `TaskError` as `admit`.
    """
    workloads = probe_workloads(task.workloads[device_class], rng)[1:]
    masks = any(tensor.dtype == "bool" for tensor in task.signature.inputs)
    for patchwork in (PATCHWORK, PATCHWORK_KEPT)[: 1 + masks]:
        wider = replace(task, distributions=(*task.declared, patchwork))
        cases = [_drawn(wider, each, patchwork, rng, device=device) for each in workloads]
        right = [case for case in cases if case is not None and is_right(case, rng)]
        if len(right) == len(cases) and any(map(_telling, right)):
            for large in (PATCHWORK_FEW, *([PATCHWORK_BEATS] if _has_indices(task, workloads) else [])):
                more = replace(wider, distributions=(*wider.distributions, large))
                drawn = (_drawn(more, each, large, rng, device=device) for each in workloads)
                wider = more if all(case is not None and is_right(case, rng) for case in drawn) else wider
            return wider
    return task


def _has_indices(task: Task, workloads: Sequence[Workload]) -> bool:
    return any(
        tensor.generator is None and tensor.dtype != "bool" and bound_of(task, workload, tensor) is not None
        for tensor in task.signature.inputs
        for workload in workloads
    )


def _drawn(
    task: Task, workload: Workload, distribution: str, rng: np.random.Generator, *, device: str
) -> AdmissionVariant | None:
    """Draw contents that the task's author did not name; None where the reference raises an error on them."""
    try:
        return AdmissionVariant.drawn(task, workload, distribution, rng, device=device)
    except TaskError:
        return None


def is_right(case: AdmissionVariant, rng: np.random.Generator) -> bool:
    """Say whether the fp64 answer is finite and defined, and honest answers pass."""
    return (
        _is_finite(case)
        and not undefined_conversion(case.task, case.workload, case.inputs)
        and all(judge_output(case.expected, each) is None for each in honest_answers(case, rng).values())
    )


def _is_finite(case: AdmissionVariant) -> bool:
    return all(bool(output.high.isfinite().all()) for output in case.expected.outputs)


def _telling(case: AdmissionVariant) -> bool:
    """Say whether the tolerance is small: a division by a variance of 0 may have any result."""
    limits = [output.limits for output in case.expected.outputs if is_float(output.tensor.dtype)]
    return all(each.rms <= _LOOSE * each.scale for each in limits)


def admit(task: Task, device_class: str, *, rng: np.random.Generator, device: str = "cpu") -> Admission:
    """Try a task on a device (as torch calls it) and return the result; takes about a second.

    Each of `empty_answers` must be rejected on at least one shape and distribution; `honest_answers` must pass on all.
    Shapes: hidden ones and the smallest search workload, and all of these while an empty answer is left. Raises
    `TaskError` if an empty answer would pass, an honest one fails, an input is ignored, results vary from call to call,
    a generator does not depend on its seed alone, or the reference does not fit the signature; the message says where
    and what to change.
    """
    if device_class not in task.workloads:
        known = ", ".join(sorted(task.workloads)) or "none"
        raise TaskError(f"task {task.name!r} has no workloads for device class {device_class!r}; it has: {known}")
    check_generators(task, min(task.workloads[device_class].search, key=task.bytes_at), rng)
    try:
        return _admitted(with_patchwork(task, device_class, rng=rng, device=device), device_class, rng, device=device)
    except _UnfitPatchwork:  # a later one: the first ones were fit
        return _admitted(task, device_class, rng, device=device)


class _UnfitPatchwork(TaskError):
    """The task is unfit on a distribution that its author did not name."""


def _unfit(case: AdmissionVariant) -> type[TaskError]:
    return TaskError if case.expected.distribution in case.task.declared else _UnfitPatchwork


def _admitted(task: Task, device_class: str, rng: np.random.Generator, *, device: str) -> Admission:
    honest: dict[str, None] = {}
    rejected: dict[str, str] = {}
    survivors: dict[str, bool] = {}
    relevant: set[str] = set()
    found: list[Changeable] = []
    constants: _Open = {}
    rough: _Open = {}
    scalars: _Open = {}
    cases = 0
    for case in _cases(task, device_class, rng, device=device):
        if cases == 0:
            _check_repeatable(case)
            found = constants_of(case)
            constants = {each: [*each.others] for each in found}
            rough = {each: [*each.others] for each in found if isinstance(each, TaskOperation) and each.is_rough}
            # a patchwork shows an epsilon in one draw, and not in another
            given = [each for each in found if isinstance(each, TaskConstant) and not each.argument]
            scalars = _try_constants(case, {each: [*each.others] for each in given})
        if cases > 2 * len(task.distributions) and not _open(task, survivors, rejected):
            break
        cases += 1
        _check_conversions(case)
        honest.update(dict.fromkeys(_check_honest(case, rng)))
        relevant.update(_relevant_inputs(case, skip=relevant))
        _try_empty(case, rng, rejected=rejected, survivors=survivors)
        constants = _try_constants(case, constants)
        if case.workload in task.workloads[device_class].search:  # small sums show them anyway
            rough = _try_constants(case, rough)
    _check_inputs_matter(task, relevant)
    for name in _open(task, survivors, rejected):
        on = f"{cases} checks (distributions {', '.join(task.distributions)})"
        raise TaskError(f"task {task.name!r}: {name} would pass as an answer in all of {on}. {_advice(task, name)}")
    # ordinary inputs may show what an operation is for now and then, and other judges' may not
    operations = [each for each in found if isinstance(each, TaskOperation) and not each.is_rough]
    wanted = constants | scalars | {each: [*each.others] for each in operations} | rough
    task, left = _tell(task, device_class, wanted, rng, device=device)
    constants = {
        each: wrongs for each, wrongs in left.items() if each in constants and each.told_by not in ((COARSE,), (ZEROS,))
    }
    task = _with_odd(task, device_class, rng, device=device)
    missed = tuple(f"{constant} is {wrong}" for constant, wrongs in constants.items() for wrong in wrongs)
    message = f"{len(honest)} honest answers passed and {len(rejected)} empty ones failed in {cases} checks"
    if not {PATCHWORK, PATCHWORK_KEPT} & set(task.distributions):
        message += "; not checked on a patchwork of its distributions, since honest answers may differ on one"
    if missed:
        message += f"; but no check notices it if {', or if '.join(missed)}"
    return Admission(tuple(honest), rejected, task, missed, message)


def _cases(task: Task, device_class: str, rng: np.random.Generator, *, device: str) -> Iterator[AdmissionVariant]:
    workloads = task.workloads[device_class]
    least, odd, *_ = probe_workloads(workloads, rng)
    search, *larger = sorted(workloads.search, key=task.bytes_at)
    extra = search.distribution if search.distribution in task.distributions else task.distributions[0]
    plan = [(odd, name) for name in task.distributions]
    plan += [(search, extra)]
    if least.dims != odd.dims or task.flops_at(least) < _COSTLY:  # sizes that are fixed have been tried
        plan += [(least, name) for name in task.distributions]
    for workload, distribution in plan:
        yield AdmissionVariant.drawn(task, workload, distribution, rng, device=device)
    # drawn only while an empty answer survives: a maximum over a row seldom lies in its tail, and the upper part of a
    # matrix that is cut to a triangle counts where it has more rows than columns; the rim of a window counts where the
    # image that a deep network has left is more than one element
    for _, again in zip(range(_MORE_ROUNDS), cycle((*larger, search)), strict=False):
        for distribution in task.distributions:
            for workload in (again, probe_workloads(workloads, rng)[1]):
                yield AdmissionVariant.drawn(task, workload, distribution, rng, device=device)


def _check_honest(case: AdmissionVariant, rng: np.random.Generator) -> list[str]:
    answers = honest_answers(case, rng)
    for name, answer in answers.items():
        finding = judge_output(case.expected, answer)
        if finding is not None:
            raise _unfit(case)(
                f"task {case.task.name!r}: an honest answer ({name}) would be rejected: {finding.feedback}, "
                f"{dict(case.workload.dims)}. Raise Precision.reduction (now {case.task.precision.reduction!r}) to the "
                f"length of the longest sum, raise Precision.slack (now {case.task.precision.slack:g}), unset "
                f"exact_on_integers, or leave {case.expected.distribution!r} out of Task.distributions"
            )
    return list(answers)


def _try_empty(
    case: AdmissionVariant, rng: np.random.Generator, *, rejected: dict[str, str], survivors: dict[str, bool]
) -> None:
    """Note the empty answers that this case rejects, and whether each other one still equals the native answer."""
    for name, make in empty_answers(case, rng).items():
        if name in rejected:
            continue
        answer = make()
        if answer is None:
            continue
        if judge_output(case.expected, answer) is not None:
            rejected[name] = case.name
        else:
            survivors[name] = survivors.get(name, True) and same_bits(answer, case.native)


def _try_constants(case: AdmissionVariant, constants: _Open) -> _Open:
    """Return the changes of constants that this case does not notice either."""
    found = {constant: unnoticed(case, constant, wrongs) for constant, wrongs in constants.items()}
    return {constant: wrongs for constant, wrongs in found.items() if wrongs}


def _tell(
    task: Task, device_class: str, constants: _Open, rng: np.random.Generator, *, device: str
) -> tuple[Task, _Open]:
    """Add distributions that notice more changes of constants and operations; return what stays unnoticed, too."""
    _, odd, *_ = probe_workloads(task.workloads[device_class], rng)
    for distribution in TELLING if "normal" in task.declared else ():
        if not any(distribution in each.told_by for each in constants):
            continue
        for _ in range(_TELLING_DRAWS):
            case = _drawn(task, odd, distribution, rng, device=device)
            left = _try_constants(case, constants) if case else constants
            if case is None or (left != constants and _is_finite(case)):
                break
        if case and left != constants and is_right(case, rng) and _telling(case) and _has_room(case):
            task = replace(task, distributions=(*task.distributions, distribution))
            constants = left
    return task, constants


def _with_odd(task: Task, device_class: str, rng: np.random.Generator, *, device: str) -> Task:
    """Add the distributions of odd contents on which the task has right answers on all shapes.

    Where one number alone is at both ends, what looks for a number that ends a row goes on behind the last row. Beside
    tiny numbers nothing is hidden that a kernel takes for 0. Integers of all bits are for tasks without arithmetic on
    them that may overflow, such as sorting, whose results tell nothing of other types.
    """
    workloads = probe_workloads(task.workloads[device_class], rng)
    normal, wanted = "normal" in task.declared, list[str]()
    if device_class == "cpu":  # fences are a processor's
        wanted += ENDS if normal or "integers01" in task.declared else ()
    wanted += [TINY] if normal and float_dtypes(task.signature.inputs) else ()
    if normal and not float_dtypes(result_tensors(task)) and open_integers(task, workloads[0]):
        wanted.append(EXTREME)
    for distribution in wanted:
        cases = (_drawn(task, each, distribution, rng, device=device) for each in workloads)
        if all(case is not None and is_right(case, rng) and not _overflows(case, distribution) for case in cases):
            task = replace(task, distributions=(*task.distributions, distribution))
    return task


def _overflows(case: AdmissionVariant, distribution: str) -> bool:
    return distribution == EXTREME and may_overflow(case)


def _has_room(case: AdmissionVariant) -> bool:
    """Say whether nothing overflows on the way: in a kernel in C++ that may have any result."""
    wide = {name: values.long() if values.dtype == torch.int32 else values for name, values in case.inputs.items()}
    answer = attempt(case.task, case.workload, wide)
    return answer is not None and same_bits(answer, case.native)


def _check_repeatable(case: AdmissionVariant) -> None:
    again = native_answer(case.task, case.workload, case.inputs)
    # on a GPU, sums by atomic additions may round otherwise each time, without any state
    if not same_bits(again, case.native) and (again[0].device.type == "cpu" or judge_output(case.expected, again)):
        raise TaskError(
            f"task {case.task.name!r}: the reference gives other results for the same inputs; "
            "it must not use random numbers or keep state"
        )


def _check_conversions(case: AdmissionVariant) -> None:
    found = undefined_conversion(case.task, case.workload, case.inputs)
    if found:
        raise _unfit(case)(
            f"task {case.task.name!r}: the reference converts {found} on {case.name}, and each machine makes another "
            "number of it. Clamp what is converted, and keep NaN out (no division by 0), or leave "
            f"{case.expected.distribution!r} out of Task.distributions"
        )


def _relevant_inputs(case: AdmissionVariant, *, skip: set[str]) -> list[str]:
    """Return the inputs whose exchange changes the native answer; those of one generator are exchanged together."""
    found = list[str]()
    groups = case.task.signature.generators
    for tensor in case.task.signature.inputs:
        if tensor.name not in skip and tensor.name not in found:
            together = groups[tensor.generator] if tensor.generator else (tensor,)
            names = [each.name for each in together]
            others = {name: case.others[name] for name in names}
            answer = attempt(case.task, case.workload, {**case.inputs, **others})
            if answer is None or not same_bits(answer, case.native):
                found += names
    return found


def _check_inputs_matter(task: Task, relevant: set[str]) -> None:
    ignored = [tensor.name for tensor in task.signature.inputs if tensor.name not in relevant]
    if ignored:
        raise TaskError(
            f"task {task.name!r}: the reference ignores {', '.join(map(repr, ignored))} on every input tried; use it, "
            "take it out of the signature, or make it an output if it is only written"
        )


def _open(task: Task, survivors: Mapping[str, bool], rejected: Mapping[str, str]) -> list[str]:
    """Return the empty answers that no case has rejected yet.

    Fewer bits that never change the result (a sign, a comparison) are right, not a cheat. So is a tail left out that
    never changes it (the first row of each image); but indices, which integers may be, could reach it.
    """
    normal = "normal" in task.distributions
    harmless = {name for name in DOWNCAST.values() if survivors.get(name) and normal}
    if normal and all(is_float(tensor.dtype) for tensor in task.signature.inputs):
        harmless |= {name for name, same in survivors.items() if same and name.startswith(WITHOUT_TAIL)}
    return [name for name in survivors if name not in rejected and name not in harmless]


def _advice(task: Task, name: str) -> str:
    if name in DOWNCAST.values():
        return f"Add 'normal' to Task.distributions or lower Precision.slack (now {task.precision.slack:g})"
    if name.startswith(WITHOUT_TAIL):
        return (
            "The tail hardly counts in the result: add 'needles' and 'normal' to Task.distributions; or indices drawn "
            "below the least extent of the floating-point inputs do not reach it: make that extent the least"
        )
    if "passed through" in name:
        return "The task only copies on these inputs: add distributions or shapes where it does not"
    if name in ("rolled rows", "shuffled elements"):
        return "All elements of the result are alike: make the task depend on its inputs elementwise or by rows"
    return "The result is the same whatever the inputs are: change the task or add distributions where it varies"
