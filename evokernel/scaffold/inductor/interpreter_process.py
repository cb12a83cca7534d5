"""Program of a child process: compares a Triton program with its task's reference, in Triton's interpreter, as JSON.

The interpreter computes numbers of 16 and 8 bits in its own way, so the program is run as it would be for fp32.
"""

import contextlib
import inspect
import json
import re
import sys
from collections.abc import Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from triton.runtime.interpreter import GridExecutor

from evokernel.errors import TaskError
from evokernel.evaluate.build.confined_generators import confine_generators
from evokernel.evaluate.numerics.arrays import is_float
from evokernel.evaluate.numerics.canary import draw_poison, poison_like
from evokernel.evaluate.numerics.cast_rounding import CastFinder
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.inputs import draw, result_tensors
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.scaffold.inductor.interpreted_library import InterpretedLibrary, folds_of_slices, masks_of_numbers
from evokernel.scaffold.inductor.trace_sizes import check_workloads
from evokernel.source.python_file import load_file
from evokernel.source.tunables import read_tunables, with_values
from evokernel.task import DTYPES, Role, Scalar, Task, Tensor, Workload
from evokernel.tasks import load_task

_TILE, _FLAT_TILE = 32, 128
"""Most elements along a side of a tile, and along one that counts those of several axes as one."""
_MOST_PROGRAMS = 300


def main(task_spec: str, device_class: str, program: str, answer: str) -> None:
    """Write `{"wrong": why}`, empty where all is right, or `{"failed": why}` where the interpreter raised.

    After each size it writes what it found until then, and how many there were, as `sizes`.
    """
    task = confine_generators(load_task(task_spec), task_spec).on(device_class)
    text = Path(program).read_text()
    if any(is_float(tensor.dtype) and DTYPES[tensor.dtype] < 4 for tensor in task.signature.tensors):
        task, text = task.with_floats("float32"), re.sub(r"\bfloat8\w+\b", "float32", text)
    text = re.sub(r"\bb?float16\b", "float32", text)
    told = {"wrong": ""}
    masks_of_numbers()
    folds_of_slices()
    torch.cuda.device = contextlib.nullcontext  # host code may choose the device of its tensors, which lie here
    try:
        run = _loaded(_in_small_tiles(text), Path(answer).with_name("interpreted.py"))
        quick = partial(_is_quick, task, run)
        for count, workload in enumerate(check_workloads(task, quick=quick), 1):
            told["wrong"] = told["wrong"] or _compare(task, run, workload)
            Path(answer).write_text(json.dumps({**told, "sizes": count}))  # for when the next one takes too long
    except TaskError as error:
        told = {"failed": str(error)[:200]}
    except Exception as error:  # noqa: BLE001  the interpreter runs what was generated, which may raise anything
        told = {"failed": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"[:200]}
    Path(answer).write_text(json.dumps(told))


def _in_small_tiles(text: str) -> str:
    """Return a program with tiles that small sizes fill several times: the interpreter is slow."""
    space = read_tunables(text)
    small = {
        tunable.name: max((value for value in tunable.choices if value <= most), default=min(tunable.choices))
        for tunable in space.tunables
        for most in [_FLAT_TILE if tunable.name.startswith("XBLOCK") else _TILE]
    }
    return with_values(text, small) if space.allows(small) else text


def _loaded(text: str, path: Path) -> Any:
    path.write_text(text)
    module = load_file(path, "interpreted")
    vars(module)["libdevice"] = InterpretedLibrary()
    return module.run


def _compare(task: Task, run: Any, workload: Workload) -> str:
    """Return how the program's results differ from the reference's on a workload, or nothing."""
    inputs = draw(task, workload, task.declared[0], np.random.default_rng(0))
    with CastFinder(skip=True):  # as in the program's text
        expected = expect(task, workload, inputs, distribution=task.declared[0])
    given = _arguments(task, workload, inputs)
    run(*given.values())
    found = judge_output(expected, [given[tensor.name] for tensor in result_tensors(task)])
    return found.feedback if found else ""


def _is_quick(task: Task, run: Any, workload: Workload) -> bool:
    """Say whether the interpreter, which takes some 10 ms for a program, is given few on a workload."""
    counted = 0

    def launch(kernel: GridExecutor, *args: Any, **named: Any) -> None:
        nonlocal counted
        known = {name: value for name, value in named.items() if name in kernel.arg_names}
        grid = kernel.grid(inspect.getcallargs(kernel.fn, *args, **known)) if callable(kernel.grid) else kernel.grid
        counted += prod(map(int, grid))

    given = _arguments(task, workload, draw(task, workload, task.declared[0], np.random.default_rng(0)))
    with mock.patch.object(GridExecutor, "__call__", launch):
        run(*given.values())
    return counted <= _MOST_PROGRAMS


def _arguments(task: Task, workload: Workload, inputs: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for argument in task.signature.arguments:
        if isinstance(argument, Scalar):
            given[argument.name] = workload.dims[argument.name]
        elif argument.role is Role.OUTPUT:
            empty = torch.empty(argument.shape_at(workload.sizes), dtype=getattr(torch, argument.dtype))
            given[argument.name] = poison_like(empty, draw_poison(np.random.default_rng()))
        else:
            given[argument.name] = _laid_out(argument, inputs[argument.name], workload)
    return given


def _laid_out(tensor: Tensor, values: Any, workload: Workload) -> Any:
    strides = tensor.strides_at(workload.sizes)
    if strides is None:
        return values.clone()
    return torch.empty_strided(values.shape, strides, dtype=values.dtype).copy_(values)


if __name__ == "__main__":
    main(*sys.argv[1:])
