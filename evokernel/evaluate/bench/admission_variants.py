"""Answers that a task must tell apart: honest ones, which round otherwise than the reference, and empty ones.

The idea of null candidates is from the post-mortems of KernelBench and robust-kbench: tasks were won by kernels that
returned zeros, a mean, an old result or the input, because the check could not tell.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.arrays import Array, as_bits, identical, is_float, store, widen
from evokernel.evaluate.numerics.dispatch import EagerMode
from evokernel.evaluate.numerics.expected import Expected
from evokernel.evaluate.numerics.inputs import bound_of, draw, result_tensors, secret_generator
from evokernel.evaluate.numerics.references import high_answer, native_answer
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.source.expressions import names_in
from evokernel.task import Task, Tensor, Workload

Answers = tuple[Array, ...]
_TRUNCATED_PART = 64
"""Truncated answers leave out one part in this many: the last block of a long sum."""
_ARITHMETIC = {
    *("add", "sub", "rsub", "mul", "neg", "abs", "square", "pow", "prod", "cumprod", "sum", "cumsum", "mean", "dot"),
    *("mm", "bmm", "mv", "addmm", "baddbmm", "addcmul", "lerp", "var", "std", "var_mean", "scatter_add", "index_add"),
    *("div", "floor_divide", "remainder", "fmod", "lshift", "rshift", "bitwise_left_shift", "bitwise_right_shift"),
}
"""Operations that may overflow."""
_QUOTIENTS, _RIGHT_SHIFTS = {"div", "floor_divide", "remainder", "fmod"}, {"rshift", "bitwise_right_shift"}
"""Of these, what overflows only where a number is divided by 0 or -1, or shifted by more bits than it has."""
_ENOUGH = 4
"""Bytes that sums and products of bytes need."""
WITHOUT_TAIL = "the answer without the tail"
"""How the names of answers begin that leave out the end of an input."""
DOWNCAST = {"bfloat16": "bfloat16 inputs", "float16": "float16 inputs"}
"""Names of answers to rounded inputs, by the dtype they are rounded to."""


@dataclass(frozen=True, slots=True)
class AdmissionVariant:
    """One case of an admission."""

    task: Task
    workload: Workload
    inputs: Mapping[str, Array]
    """Inputs by name."""
    others: Mapping[str, Array]
    """Other inputs of the same distribution."""
    expected: Expected
    """Expected outputs for `inputs`."""

    @classmethod
    def drawn(
        cls, task: Task, workload: Workload, distribution: str, rng: np.random.Generator, *, device: str
    ) -> "AdmissionVariant":
        """Draw inputs and others on a device, and compute the expected outputs. Raises `TaskError`."""
        inputs = draw(task, workload, distribution, rng, device=device)
        others = draw(task, workload, distribution, rng, device=device)
        return cls(task, workload, inputs, others, expect(task, workload, inputs, distribution=distribution))

    @property
    def native(self) -> Answers:
        """The reference's answer in the dtypes of the task."""
        return tuple(output.native for output in self.expected.outputs)

    @property
    def name(self) -> str:
        """Distribution and sizes, for people."""
        return f"{self.expected.distribution} on {dict(self.workload.dims)}"


# ---------------------------------------------------------------------------------------------------- honest answers


def honest_answers(case: AdmissionVariant, rng: np.random.Generator) -> dict[str, Answers]:
    """Return right answers by name.

    They are the native operation, also in chunks of rows and with permuted sums where the reference allows it, and the
    rounded fp64 result.
    """
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
        chance = torch.Generator(case.native[0].device).manual_seed(int(rng.integers(1 << 63)))
        order = torch.randperm(case.workload.sizes.get(symbol, 1), generator=chance, device=chance.device)
        permuted = _derived(case, partial(_permuted, symbol=symbol, order=order))
        if permuted is not None:
            answers[f"the native operation with permuted {symbol}"] = permuted
    return answers


_Run = Callable[[Task, Workload, Mapping[str, Array]], Answers]


def _derived(case: AdmissionVariant, make: Callable[[AdmissionVariant, _Run], Answers | None]) -> Answers | None:
    """Return a rearranged native answer where the same rearrangement in fp64 proves that it is the same operation."""
    try:
        high = make(case, high_answer)
        if high is None or not _same_numbers(high, [output.high for output in case.expected.outputs]):
            return None
        return make(case, native_answer)
    except TaskError:  # the reference refuses such pieces, so nothing can be derived
        return None


def _same_numbers(left: Sequence[Array], right: Sequence[Array]) -> bool:
    for a, b in zip(left, right, strict=True):
        if a.shape != b.shape or not (a.isfinite().all() and b.isfinite().all()):
            return False
        a, b = a.double(), b.double()  # neither truth values nor bytes have differences
        if (a - b).abs().max() > 1e-9 * b.abs().max():
            return False
    return True


def _in_chunks(case: AdmissionVariant, run: _Run) -> Answers | None:
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


def _permuted(case: AdmissionVariant, run: _Run, *, symbol: str, order: Array) -> Answers | None:
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
            array = as_bits(array, partial(torch.index_select, dim=axis, index=order))
    return array


# ---------------------------------------------------------------------------------------------------- empty answers


def empty_answers(case: AdmissionVariant, rng: np.random.Generator) -> dict[str, Callable[[], Answers | None]]:
    """Return makers of answers that must not pass, by name; a maker returns None where it has no such answer.

    Zeros, ones, the mean, inputs passed through, the result for other inputs, rolled and shuffled elements, a left-out
    tail of any input, zeros in one of several outputs, 16-bit operands under a 32-bit task that casts to no such.
    """
    native, task = case.native, case.task
    several = any(array.numel() > 1 for array in native)  # of a single number, the mean is the answer
    answers: dict[str, Callable[[], Answers | None]] = {
        "zeros": lambda: tuple(torch.zeros_like(array) for array in native),
        "ones": lambda: _constant(case, lambda _: 1.0),
        "the mean": lambda: _constant(case, _finite_mean) if several else None,
        "the result for other inputs": lambda: attempt(task, case.workload, case.others),
        "rolled rows": lambda: tuple(_rolled(array) for array in native) if several else None,
        "shuffled elements": lambda: tuple(_shuffled(array, rng) for array in native) if several else None,
    }
    for tensor in task.signature.inputs:
        answers[f"{tensor.name} passed through"] = partial(_passed_through, case, tensor)
        for axis, extent in enumerate(tensor.shape if tensor.generator is None else ()):  # zeros may not be valid there
            name = f"{WITHOUT_TAIL} of {tensor.name} along {extent}"
            answers[name] = partial(_truncated, case, tensor, axis)
    for index, output in enumerate(result_tensors(task) if len(native) > 1 else ()):
        blank = torch.zeros_like(native[index])
        answers[f"right answers but for zeros in {output.name}"] = partial(_with_other, native, index, blank)
    for dtype in () if case.expected.casts else _downcasts(task):
        answers[DOWNCAST[dtype]] = partial(downcast, case, dtype)
    return answers


def _with_other(answers: Answers, index: int, other: Array) -> Answers:
    return (*answers[:index], other, *answers[index + 1 :])


def attempt(task: Task, workload: Workload, inputs: Mapping[str, Array]) -> Answers | None:
    """Return the native answer to altered inputs; None where the reference refuses them."""
    try:
        return native_answer(task, workload, inputs)
    except TaskError:
        return None


def _constant(case: AdmissionVariant, value: Callable[[Array], float]) -> Answers:
    filled = (torch.full_like(output.high, value(output.high), dtype=torch.float64) for output in case.expected.outputs)
    return tuple(
        store(numbers, output.tensor.dtype) for numbers, output in zip(filled, case.expected.outputs, strict=True)
    )


def _rolled(array: Array) -> Array:
    axis = next((axis for axis, extent in enumerate(array.shape) if extent > 1), None)
    return array if axis is None else as_bits(array, lambda raw: raw.roll(1, axis))


def _shuffled(array: Array, rng: np.random.Generator) -> Array:
    generator = secret_generator(rng, str(array.device))
    order = torch.randperm(array.numel(), generator=generator, device=array.device)
    return as_bits(array.reshape(-1), lambda raw: raw[order]).reshape(array.shape)


def _finite_mean(values: Array) -> float:
    finite = values[values.isfinite()]
    return float(finite.double().mean()) if finite.numel() else 0.0


def _passed_through(case: AdmissionVariant, tensor: Tensor) -> Answers:
    numbers = widen(case.inputs[tensor.name]).reshape(-1)
    answers = []
    for output in case.expected.outputs:  # cut or repeated where the sizes differ
        size = output.native.numel()
        filled = numbers.repeat(-(-size // numbers.numel()))[:size]
        answers.append(store(filled.reshape(output.native.shape), output.tensor.dtype))
    return tuple(answers)


def _truncated(case: AdmissionVariant, tensor: Tensor, axis: int) -> Answers | None:
    extent = case.inputs[tensor.name].shape[axis]
    if extent < 2:
        return None
    shortened = case.inputs[tensor.name].clone()
    tail = max(1, extent // _TRUNCATED_PART)
    shortened.narrow(axis, extent - tail, tail).zero_()
    return attempt(case.task, case.workload, {**case.inputs, tensor.name: shortened})


def _downcasts(task: Task) -> tuple[str, ...]:
    """Return the dtypes whose use inside the task would be a cheat; none where the tensors have 16 bits anyway."""
    wide = ("float32", "float64")
    if not any(t.dtype in wide for t in task.signature.inputs) or not any(
        t.dtype in wide for t in result_tensors(task)
    ):
        return ()
    return ("bfloat16",) if task.precision.allow_tf32 else ("bfloat16", "float16")  # TF32 is as coarse as float16


def downcast(case: AdmissionVariant, dtype: str) -> Answers | None:
    """Return the answer to inputs rounded to another dtype; None where the reference refuses them."""
    rounded = dict(case.inputs)
    for tensor in case.task.signature.inputs:
        if tensor.dtype in ("float32", "float64"):
            rounded[tensor.name] = store(store(case.inputs[tensor.name], dtype), tensor.dtype)
    return attempt(case.task, case.workload, rounded)


def open_integers(task: Task, workload: Workload) -> tuple[str, ...]:
    """Return the names of inputs of integers that nothing bounds: those of all bits are numbers like others."""
    drawn = (each for each in task.signature.inputs if each.generator is None and each.dtype != "bool")
    return tuple(each.name for each in drawn if not is_float(each.dtype) and bound_of(task, workload, each) is None)


def may_overflow(case: AdmissionVariant) -> bool:
    """Say whether a kernel's arithmetic on the task's integers may overflow, though the reference's does not.

    Sums and products of bytes in 32 bits do not, nor do sums of 32 bits in 64.
    """
    by_name = {tensor.name: tensor.dtype for tensor in case.task.signature.inputs}
    small = all(by_name[name] in ("int8", "uint8") for name in open_integers(case.task, case.workload))
    seen = _Arithmetic(small=small)
    with seen:
        attempt(case.task, case.workload, case.inputs)
    return seen.overflows


class _Arithmetic(EagerMode):
    """Notes arithmetic whose results need more bits than they have."""

    def __init__(self, *, small: bool) -> None:
        super().__init__()
        self._small = small
        self.overflows = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **dict(kwargs or {}))
        name = func.overloadpacket.__name__.strip("_")
        if name in _ARITHMETIC and isinstance(made, torch.Tensor) and not _shrinks(name, *args[:2]):
            given = max((each.itemsize for each in tree_leaves(args) if isinstance(each, torch.Tensor)), default=0)
            self.overflows |= bool(made.itemsize < _ENOUGH if self._small else made.itemsize <= given)
        return made


def _shrinks(name: str, whole: Any, *by: Any) -> bool:
    """Say whether an operation makes numbers nearer to 0, whatever they are."""
    if by and name in _RIGHT_SHIFTS:
        bits = torch.as_tensor(by[0])
        return bool(((bits >= 0) & (bits < 8 * torch.as_tensor(whole).itemsize)).all())
    # the absolute value of the least integer stays negative
    return bool(by) and name in _QUOTIENTS and bool((torch.as_tensor(by[0]).abs() > 1).all())


def same_bits(left: Sequence[Array], right: Sequence[Array]) -> bool:
    """Say whether two answers are equal, bit for bit."""
    return all(map(identical, left, right))
