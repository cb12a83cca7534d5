"""Answers of the reference: in the task's own precision, and in fp64 as the measure of errors."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.arrays import Array, is_float, widen
from evokernel.evaluate.numerics.index_checks import IndexChecks
from evokernel.evaluate.numerics.inputs import result_tensors, shape_of
from evokernel.task import Task, Tensor, Workload


def native_answer(task: Task, workload: Workload, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
    """Return the reference's results in the dtypes of the task; one thread, full-precision sums and products.

    Computed where the inputs live; they are left as they are. Raises `TaskError` if the reference raised, or its
    results do not fit the signature in count, shape, dtype or device.
    """
    # copies, for the reference may work in place
    given = {tensor.name: inputs[tensor.name].clone() for tensor in task.signature.inputs}
    return _call(task, workload, given, high=False)


def high_answer(task: Task, workload: Workload, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
    """Return the reference's results on fp64 copies of the inputs; integer tensors keep their dtype.

    `inputs` may hold the task's dtypes or, where an input is floating-point, fp64 numbers.

    Raises:
        TaskError: as `native_answer`.
    """
    given = {}
    for tensor in task.signature.inputs:
        values = inputs[tensor.name]
        wide = widen(values)
        given[tensor.name] = wide.clone() if wide is values else wide
    return _call(task, workload, given, high=True)


def _call(task: Task, workload: Workload, given: Mapping[str, Array], *, high: bool) -> tuple[Array, ...]:
    scalars = {}
    for scalar in task.signature.scalars:
        value = workload.dims[scalar.name]
        # the kernel gets the rounded number, so the reference must, too
        scalars[scalar.name] = float(np.float32(value)) if scalar.dtype == "float32" else value
    on_gpu = any(array.is_cuda for array in given.values())
    try:
        with strict_torch(), _in_double() if high else nullcontext(), IndexChecks() if on_gpu else nullcontext():
            results = task.reference(**given, **scalars)
    except Exception as error:  # a user's reference may raise anything
        raise TaskError(
            f"task {task.name!r}: the reference raised {type(error).__name__}: {error} (it is called with "
            f"{'fp64 copies of ' if high else ''}its tensors as keywords: {', '.join([*given, *scalars])}; with "
            f"{dict(workload.dims)}). If only some inputs are allowed, name those distributions in Task.distributions; "
            "integers that must fit other inputs, as block tables do, need a generator (docs/tasks.md)"
        ) from error
    if isinstance(results, torch.Tensor):
        results = (results,)
    wanted = result_tensors(task)
    if not isinstance(results, (tuple, list)) or len(results) != len(wanted):
        count = len(results) if isinstance(results, (tuple, list)) else type(results).__name__
        raise TaskError(
            f"task {task.name!r}: the reference must return {len(wanted)} tensors "
            f"({', '.join(tensor.name for tensor in wanted)}), but returned {count}"
        )
    devices = {array.device for array in given.values()}
    return tuple(
        _checked(task, tensor, result, workload=workload, high=high, devices=devices)
        for tensor, result in zip(wanted, results, strict=True)
    )


def _checked(
    task: Task, tensor: Tensor, result: object, *, workload: Workload, high: bool, devices: set[torch.device]
) -> Array:
    where = f"task {task.name!r}: the reference's result {tensor.name!r}"
    if not isinstance(result, torch.Tensor):
        raise TaskError(f"{where} must be a tensor, not {type(result).__name__}")
    shape = shape_of(task, tensor, workload)
    if tuple(result.shape) != shape:
        raise TaskError(f"{where} has shape {tuple(result.shape)}; the signature says {shape} ({tensor.shape})")
    wanted = "float64" if high and is_float(tensor.dtype) else tensor.dtype
    found = str(result.dtype).removeprefix("torch.")
    if high and found == tensor.dtype and is_float(found) and result.element_size() < 4:
        return widen(result)  # a cast to so few bits rounds on purpose
    if found != wanted:
        pinned = high and is_float(tensor.dtype)
        hint = "do not cast to a fixed float type in it" if pinned else "cast the result in it"
        raise TaskError(
            f"{where} is {found} where {wanted} is needed{' (called with fp64 inputs)' if pinned else ''}: {hint}"
        )
    if devices and result.device not in devices:
        raise TaskError(f"{where} lies on {result.device}: make new tensors on the device of the inputs")
    # a copy: a stateful reference could change its earlier results
    copy: Array = result.detach().clone(memory_format=torch.contiguous_format)
    return copy


@contextmanager
def _in_double() -> Iterator[None]:
    """Let a reference compute in fp64 throughout, with the tensors that it makes itself."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _DoubleKept():
            yield
    finally:
        torch.set_default_dtype(default)


class _DoubleKept(TorchFunctionMode):  # type: ignore[misc]
    """Casts of a reference to fp32, which widen 16-bit inputs in code for models, keep fp64.

    Casts to 16 bits stay: they round on purpose. What they change counts among the roundings that are allowed.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.float:
            return args[0].double()
        named = {name: _wide(value) for name, value in (kwargs or {}).items()}
        return func(*map(_wide, args), **named)


def _wide(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


@contextmanager
def strict_torch() -> Iterator[None]:
    """Run on one thread and without reduced-precision products or sums, whatever the process has set.

    On a GPU, TF32 is off, and sums of 16-bit products stay in fp32.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    tf32 = cudnn.allow_tf32
    halves = matmul.allow_fp16_reduced_precision_reduction, matmul.allow_bf16_reduced_precision_reduction
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("highest")  # sets the flag for cuBLAS, too
    cudnn.allow_tf32 = False
    matmul.allow_fp16_reduced_precision_reduction = matmul.allow_bf16_reduced_precision_reduction = False
    try:
        with torch.no_grad():
            yield
    finally:
        matmul.allow_fp16_reduced_precision_reduction, matmul.allow_bf16_reduced_precision_reduction = halves
        cudnn.allow_tf32 = tf32
        torch.set_float32_matmul_precision(precision)
        torch.set_num_threads(threads)
