"""Plain kernel of a traced reference, and its comparison with that reference."""

import ctypes
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.inputs import draw, result_tensors
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.languages import make_language
from evokernel.languages.cpp.guide import entry_signature
from evokernel.languages.toolchain import run_plain
from evokernel.records.build import BuildFailure
from evokernel.scaffold.cpp_writer import CppWriter
from evokernel.scaffold.trace import Traced
from evokernel.task import Scalar, Signature, Task, Workload

_C_SCALARS: dict[str, Any] = {"int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}
_ALIGNMENT = 64


def write_seed(traced: Traced, signature: Signature) -> str:
    """Return a C++ kernel with one plain loop nest for each step."""
    outputs = [tensor.name for tensor in signature.outputs]
    arguments = [tensor.name for tensor in signature.inputs]
    taken = [*outputs, *(scalar.name for scalar in signature.scalars)]
    made = dict(zip(outputs, traced.outputs, strict=True))
    body = "\n".join(CppWriter(made, traced.sizes, arguments=arguments, taken=taken).body())
    headers = ["cmath"] * ("std::" in body.replace("std::vector", "") or "INFINITY" in body) + ["cstdint"]
    headers += ["vector"] * ("std::vector" in body)
    includes = "".join(f"#include <{name}>\n" for name in headers)
    return f"{includes}\n{entry_signature(signature)} {{\n{body}\n}}\n"


def check_seed(task: Task, source: str, workloads: Sequence[Workload]) -> None:
    """Compile a kernel and compare it with the reference on workloads, as the evaluator would.

    Only for source from `write_seed`: it runs in this process.

    Raises:
        HarnessError: it does not compile, or its results differ.
    """
    built = make_language("cpp", run=run_plain).build(source, task)
    if isinstance(built, BuildFailure):
        raise HarnessError(f"the generated kernel does not compile: {built.message}")
    with tempfile.TemporaryDirectory(prefix="evokernel-") as folder:
        library = Path(folder) / "seed.so"
        library.write_bytes(built.artifact)
        run = ctypes.CDLL(str(library)).run
        run.restype = None
        for workload in workloads:
            _compare(task, run, workload)


def _compare(task: Task, run: Any, workload: Workload) -> None:
    inputs = draw(task, workload, "normal", np.random.default_rng(0))
    expected = expect(task, workload, inputs, distribution="normal")
    aligned = {name: _aligned(array.numpy()) for name, array in inputs.items()}
    outputs = [
        _aligned(np.full(tensor.shape_at(workload.sizes), np.nan, np.float32)) for tensor in result_tensors(task)
    ]
    values: list[Any] = []
    given = iter(outputs)
    for argument in task.signature.arguments:
        if isinstance(argument, Scalar):
            values.append(_C_SCALARS[argument.dtype](workload.dims[argument.name]))
        else:
            array = aligned[argument.name] if argument in task.signature.inputs else next(given)
            values.append(ctypes.c_void_p(array.ctypes.data))
    run(*values)
    finding = judge_output(expected, tuple(map(torch.from_numpy, outputs)))
    if finding is not None:
        raise HarnessError(f"the generated kernel is wrong on {dict(workload.dims)}: {finding.feedback}")


def _aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy aligned to 64 bytes, as kernels require."""
    room = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    copy: np.ndarray[Any, Any] = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
