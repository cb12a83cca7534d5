"""A task is fit to judge kernels only if empty answers fail on it and honest ones pass; this is tried once, at start.

The idea of null candidates is from the post-mortems of KernelBench and robust-kbench: tasks were won by kernels that
returned zeros, a mean, an old result or the input, because the check could not tell.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from evokernel.errors import TaskError
from evokernel.evaluate.arrays import Array, identical, store, widen
from evokernel.evaluate.correctness import judge_output
from evokernel.evaluate.inputs import draw, result_tensors, secret_generator
from evokernel.evaluate.probes import probe_workloads
from evokernel.evaluate.references import high_answer, native_answer
from evokernel.evaluate.tolerance import Expected, expect
from evokernel.expressions import names_in
from evokernel.task import Task, Tensor, Workload

_Answers = tuple[Array, ...]
_TRUNCATED_PART = 64
"""One part in this many is left out by the truncated answers: a last block of a long sum."""
_MORE_ROUNDS = 4
_DOWNCAST = {"bfloat16": "bfloat16 inputs", "float16": "float16 inputs"}


@dataclass(frozen=True, slots=True)
class Admission:
    """What was tried: honest answers that passed everywhere; empty answers, each with the check that caught it."""

    passed: tuple[str, ...]
    rejected: Mapping[str, str]
    message: str


@dataclass(frozen=True, slots=True)
class _Case:
    """One set of inputs, what is due on it, and the right answer to other inputs of the kind."""

    task: Task
    workload: Workload
    inputs: Mapping[str, Array]
    others: Mapping[str, Array]
    expected: Expected

    @property
    def native(self) -> _Answers:
        return tuple(output.native for output in self.expected.outputs)

    @property
    def name(self) -> str:
        return f"{self.expected.distribution} on {dict(self.workload.dims)}"


def admit(task: Task, device_class: str, *, rng: np.random.Generator, device: str = "cpu") -> Admission:
    """Return what was tried on a task on a device (as torch calls it), about a second's work.

    Empty answers (zeros, ones, the mean, inputs passed through, the result for other inputs, rolled and shuffled
    elements, a left-out tail of any input, zeros in one of several outputs, 16-bit operands under a 32-bit task) must
    each be rejected on at least one shape and distribution; honest answers (the native operation, in chunks of rows and
    with permuted sums where the reference allows it, fp64 rounded) must pass on all. Shapes: hidden ones and the
    smallest search workload.

    Raises:
        TaskError: an empty answer would pass, an honest one fails, an input is ignored, results vary from call to
            call, or the reference does not fit the signature; the message says where and what to change.
    """
    if device_class not in task.workloads:
        known = ", ".join(sorted(task.workloads)) or "none"
        raise TaskError(f"task {task.name!r} has no workloads for device class {device_class!r}; it has: {known}")
    honest: dict[str, None] = {}
    rejected: dict[str, str] = {}
    survivors: dict[str, bool] = {}
    mattering: set[str] = set()
    cases = 0
    for case in _cases(task, device_class, rng, device=device):
        if cases == 0:
            _check_repeatable(case)
        if cases > 2 * len(task.distributions) and not _open(task, survivors, rejected):
            break
        cases += 1
        honest.update(dict.fromkeys(_check_honest(case, rng)))
        mattering.update(_mattering_inputs(case, skip=mattering))
        _try_empty(case, rng, rejected=rejected, survivors=survivors)
    _check_inputs_matter(task, mattering)
    for name in _open(task, survivors, rejected):
        on = f"{cases} checks (distributions {', '.join(task.distributions)})"
        raise TaskError(f"task {task.name!r}: {name} would pass as an answer in all of {on}. {_advice(task, name)}")
    message = f"{len(honest)} honest answers passed and {len(rejected)} empty ones failed in {cases} checks"
    return Admission(tuple(honest), rejected, message)


def _cases(task: Task, device_class: str, rng: np.random.Generator, *, device: str) -> Iterator[_Case]:
    workloads = task.workloads[device_class]
    least, odd, *_ = probe_workloads(workloads, rng)
    search = min(workloads.search, key=task.bytes_at)
    extra = search.distribution if search.distribution in task.distributions else task.distributions[0]
    plan = [(odd, name) for name in task.distributions]
    plan += [(search, extra)]
    plan += [(least, name) for name in task.distributions]
    # drawn only while an empty answer survives: a maximum over a row seldom lies in its tail
    plan += [(search, name) for name in task.distributions] * _MORE_ROUNDS
    for workload, distribution in plan:
        inputs = draw(task, workload, distribution, rng, device=device)
        others = draw(task, workload, distribution, rng, device=device)
        expected = expect(task, workload, inputs, distribution=distribution)
        yield _Case(task, workload, inputs, others, expected)


# ---------------------------------------------------------------------------------------------------- honest answers


def _check_honest(case: _Case, rng: np.random.Generator) -> list[str]:
    answers = {
        "the native operation": case.native,
        "fp64 computed, then rounded": tuple(
            store(output.high, output.tensor.dtype) for output in case.expected.outputs
        ),
    }
    chunked = _derived(case, _in_chunks)
    if chunked is not None:
        answers["the native operation in chunks"] = chunked
    for symbol in sorted(names_in(str(case.task.precision.reduction))):
        order = torch.from_numpy(rng.permutation(case.workload.sizes.get(symbol, 1)))
        permuted = _derived(case, partial(_permuted, symbol=symbol, order=order))
        if permuted is not None:
            answers[f"the native operation with permuted {symbol}"] = permuted
    for name, answer in answers.items():
        finding = judge_output(case.expected, answer)
        if finding is not None:
            raise TaskError(
                f"task {case.task.name!r}: an honest answer ({name}) would be rejected: {finding.feedback}, "
                f"{dict(case.workload.dims)}. Raise Precision.reduction (now {case.task.precision.reduction!r}) to the "
                f"length of the longest sum, raise Precision.slack (now {case.task.precision.slack:g}), unset "
                f"exact_on_integers, or leave {case.expected.distribution!r} out of Task.distributions"
            )
    return list(answers)


_Run = Callable[[Task, Workload, Mapping[str, Array]], _Answers]


def _derived(case: _Case, make: Callable[[_Case, _Run], _Answers | None]) -> _Answers | None:
    """Return a rearranged native answer where the same rearrangement in fp64 proves that it is the same operation."""
    try:
        high = make(case, high_answer)
        if high is None or not _same_numbers(high, [output.high for output in case.expected.outputs]):
            return None
        return make(case, native_answer)
    except TaskError:  # the reference does not take such pieces: nothing can be derived
        return None


def _same_numbers(left: Sequence[Array], right: Sequence[Array]) -> bool:
    for a, b in zip(left, right, strict=True):
        if a.shape != b.shape or not (a.isfinite().all() and b.isfinite().all()):
            return False
        if (a - b).abs().max() > 1e-9 * b.abs().max():
            return False
    return True


def _in_chunks(case: _Case, run: _Run) -> _Answers | None:
    """Compute the halves of the first dimension of the outputs on their own."""
    results = result_tensors(case.task)
    symbol = results[0].shape[:1]
    name = str(symbol[0]) if symbol else ""
    extent = case.workload.sizes.get(name, 0)
    inner = {other for tensor in results for size in tensor.shape[1:] for other in names_in(str(size))}
    if extent < 2 or name in inner or any(tensor.shape[:1] != symbol for tensor in results):
        return None
    parts = []
    for rows in (slice(0, extent // 2), slice(extent // 2, extent)):
        pieces = {
            tensor.name: case.inputs[tensor.name][rows] if tensor.shape[:1] == symbol else case.inputs[tensor.name]
            for tensor in case.task.signature.inputs
        }
        smaller = replace(case.workload, dims={**case.workload.dims, name: rows.stop - rows.start})
        parts.append(run(case.task, smaller, pieces))
    return tuple(torch.cat(pair) for pair in zip(*parts, strict=True))


def _permuted(case: _Case, run: _Run, *, symbol: str, order: Array) -> _Answers | None:
    """Reorder one dimension in all inputs and put the outputs back in order: sums along it change their order."""
    tensors = case.task.signature.inputs
    if not any(symbol in tensor.shape for tensor in tensors):
        return None
    moved = {tensor.name: _reordered(case.inputs[tensor.name], tensor, symbol, order) for tensor in tensors}
    back = order.argsort()
    results = zip(run(case.task, case.workload, moved), result_tensors(case.task), strict=True)
    return tuple(_reordered(result, tensor, symbol, back) for result, tensor in results)


def _reordered(array: Array, tensor: Tensor, symbol: str, order: Array) -> Array:
    for axis, extent in enumerate(tensor.shape):
        if extent == symbol:
            array = array.index_select(axis, order.to(array.device))
    return array


# ---------------------------------------------------------------------------------------------------- empty answers


def _try_empty(case: _Case, rng: np.random.Generator, *, rejected: dict[str, str], survivors: dict[str, bool]) -> None:
    """Note which empty answers this case rejects, and whether the others were equal to the native answer so far."""
    for name, make in _empty_answers(case, rng).items():
        if name in rejected:
            continue
        answer = make()
        if answer is None:
            continue
        if judge_output(case.expected, answer) is not None:
            rejected[name] = case.name
        else:
            survivors[name] = survivors.get(name, True) and _identical(answer, case.native)


def _empty_answers(case: _Case, rng: np.random.Generator) -> dict[str, Callable[[], _Answers | None]]:
    native, task = case.native, case.task
    several = any(array.numel() > 1 for array in native)  # of a single number, the mean is the answer
    answers: dict[str, Callable[[], _Answers | None]] = {
        "zeros": lambda: tuple(torch.zeros_like(array) for array in native),
        "ones": lambda: _constant(case, lambda _: 1.0),
        "the mean": lambda: _constant(case, _finite_mean) if several else None,
        "the result for other inputs": lambda: _attempt(task, case.workload, case.others),
        "rolled rows": lambda: tuple(_rolled(array) for array in native) if several else None,
        "shuffled elements": lambda: tuple(_shuffled(array, rng) for array in native) if several else None,
    }
    for tensor in task.signature.inputs:
        answers[f"{tensor.name} passed through"] = partial(_passed_through, case, tensor)
        for axis, extent in enumerate(tensor.shape):
            name = f"the answer without the tail of {tensor.name} along {extent}"
            answers[name] = partial(_truncated, case, tensor, axis)
    for index, output in enumerate(result_tensors(task) if len(native) > 1 else ()):
        blank = torch.zeros_like(native[index])
        answers[f"right answers but for zeros in {output.name}"] = partial(_with_other, native, index, blank)
    for dtype in _downcasts(task):
        answers[_DOWNCAST[dtype]] = partial(_downcast, case, dtype)
    return answers


def _with_other(answers: _Answers, index: int, other: Array) -> _Answers:
    return (*answers[:index], other, *answers[index + 1 :])


def _attempt(task: Task, workload: Workload, inputs: Mapping[str, Array]) -> _Answers | None:
    try:
        return native_answer(task, workload, inputs)
    except TaskError:  # a reference may refuse altered inputs; then there is no such answer
        return None


def _constant(case: _Case, value: Callable[[Array], float]) -> _Answers:
    filled = (torch.full_like(output.high, value(output.high), dtype=torch.float64) for output in case.expected.outputs)
    return tuple(
        store(numbers, output.tensor.dtype) for numbers, output in zip(filled, case.expected.outputs, strict=True)
    )


def _rolled(array: Array) -> Array:
    axis = next((axis for axis, extent in enumerate(array.shape) if extent > 1), None)
    return array if axis is None else array.roll(1, axis)


def _shuffled(array: Array, rng: np.random.Generator) -> Array:
    generator = secret_generator(rng, str(array.device))
    order = torch.randperm(array.numel(), generator=generator, device=array.device)
    return array.reshape(-1)[order].reshape(array.shape)


def _finite_mean(values: Array) -> float:
    finite = values[values.isfinite()]
    return float(finite.double().mean()) if finite.numel() else 0.0


def _passed_through(case: _Case, tensor: Tensor) -> _Answers:
    numbers = widen(case.inputs[tensor.name]).reshape(-1)
    answers = []
    for output in case.expected.outputs:  # cut or repeated where the sizes differ
        size = output.native.numel()
        filled = numbers.repeat(-(-size // numbers.numel()))[:size]
        answers.append(store(filled.reshape(output.native.shape), output.tensor.dtype))
    return tuple(answers)


def _truncated(case: _Case, tensor: Tensor, axis: int) -> _Answers | None:
    extent = case.inputs[tensor.name].shape[axis]
    if extent < 2:
        return None
    shortened = case.inputs[tensor.name].clone()
    tail = max(1, extent // _TRUNCATED_PART)
    shortened.narrow(axis, extent - tail, tail).zero_()
    return _attempt(case.task, case.workload, {**case.inputs, tensor.name: shortened})


def _downcasts(task: Task) -> tuple[str, ...]:
    """Return the dtypes whose use inside the task would be a cheat; none where the tensors have 16 bits anyway."""
    wide = ("float32", "float64")
    if not any(t.dtype in wide for t in task.signature.inputs) or not any(
        t.dtype in wide for t in result_tensors(task)
    ):
        return ()
    return ("bfloat16",) if task.precision.allow_tf32 else ("bfloat16", "float16")  # TF32 is as coarse as float16


def _downcast(case: _Case, dtype: str) -> _Answers | None:
    rounded = dict(case.inputs)
    for tensor in case.task.signature.inputs:
        if tensor.dtype in ("float32", "float64"):
            rounded[tensor.name] = store(store(case.inputs[tensor.name], dtype), tensor.dtype)
    return _attempt(case.task, case.workload, rounded)


def _identical(left: Sequence[Array], right: Sequence[Array]) -> bool:
    return all(map(identical, left, right))


# ---------------------------------------------------------------------------------------------------- the task itself


def _check_repeatable(case: _Case) -> None:
    again = native_answer(case.task, case.workload, case.inputs)
    # on a GPU, sums by atomic additions may come out with other roundings each time; that is no state
    if not _identical(again, case.native) and (again[0].device.type == "cpu" or judge_output(case.expected, again)):
        raise TaskError(
            f"task {case.task.name!r}: the reference gives other results for the same inputs; "
            "it must not use random numbers or keep state"
        )


def _mattering_inputs(case: _Case, *, skip: set[str]) -> list[str]:
    """Return the inputs whose exchange changes the native answer."""
    found = []
    for tensor in case.task.signature.inputs:
        if tensor.name not in skip:
            answer = _attempt(case.task, case.workload, {**case.inputs, tensor.name: case.others[tensor.name]})
            if answer is None or not _identical(answer, case.native):
                found.append(tensor.name)
    return found


def _check_inputs_matter(task: Task, mattering: set[str]) -> None:
    ignored = [tensor.name for tensor in task.signature.inputs if tensor.name not in mattering]
    if ignored:
        raise TaskError(
            f"task {task.name!r}: the reference ignores {', '.join(map(repr, ignored))} on every input tried; use it, "
            "take it out of the signature, or make it an output if it is only written"
        )


def _open(task: Task, survivors: Mapping[str, bool], rejected: Mapping[str, str]) -> list[str]:
    """Return the empty answers nothing rejected yet.

    Fewer bits that never change the result (a sign, a comparison) are right, not a cheat.
    """
    harmless = {name for name in _DOWNCAST.values() if survivors.get(name) and "normal" in task.distributions}
    return [name for name in survivors if name not in rejected and name not in harmless]


def _advice(task: Task, name: str) -> str:
    if name in _DOWNCAST.values():
        return f"Add 'normal' to Task.distributions or lower Precision.slack (now {task.precision.slack:g})"
    if "tail" in name:
        return (
            "The tail hardly counts in the result: add 'needles' and 'normal' to Task.distributions; or indices drawn "
            "below the least extent of the floating-point inputs do not reach it: make that extent the least"
        )
    if "passed through" in name:
        return "The task only copies on these inputs: add distributions or shapes where it does not"
    if name in ("rolled rows", "shuffled elements"):
        return "All elements of the result are alike: make the task depend on its inputs elementwise or by rows"
    return "The result is the same whatever the inputs are: change the task or add distributions where it varies"
