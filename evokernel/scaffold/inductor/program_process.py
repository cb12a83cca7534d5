"""Program of a child process: writes Inductor's Triton program for a task, or why there is none, as JSON."""

import json
import logging
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

from evokernel.scaffold.inductor.trace_sizes import trace_sizes
from evokernel.task import Task
from evokernel.tasks import load_task

_EXPLAINED = "Explanation: "
"""Begins the line of an error of torch's compiler that says what it met."""


def made_program(task: Task) -> str:
    """Return the program for a task that is resolved for one device class. Raises `Unusable` where there is none."""
    try:
        return _made_program(task)
    except Exception as error:
        if not isinstance(_cause(error), AssertionError):
            raise
    from torch._inductor import config

    # an analysis for faster tiles fails where sizes follow from each other: torch 2.11, transposed convolutions
    config.triton.coalesce_tiling_analysis = False
    return _made_program(task)


def _made_program(task: Task) -> str:
    import torch

    if not torch.cuda.is_available():
        from evokernel.scaffold.inductor.stand_in_gpu import stand_in_gpu

        stand_in_gpu()
    from evokernel.scaffold.inductor.inductor_code import OutputAlias, Unusable, inductor_code
    from evokernel.scaffold.inductor.program_writer import write_program

    sizes = trace_sizes(task)
    for in_place in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            try:
                code = inductor_code(task, sizes, in_place=in_place)
                return write_program(code, task.signature, sizes.dims, folder=Path(folder))
            except OutputAlias as error:
                name = str(error)
    raise Unusable(f"the output {name!r} cannot be written in place")


def main(task_spec: str, device_class: str, answer: str) -> None:
    """Write `{"program": ...}` or `{"reason": ...}` to a file."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    try:
        import torch

        from evokernel.scaffold.decompositions.function_rules import functions_replaced

        with functions_replaced():  # before the file takes them from torch
            program = made_program(load_task(task_spec).on(device_class))
        told = {"program": program, "version": torch.__version__}
    except Exception as error:  # noqa: BLE001  torch's compiler raises anything
        told = {"reason": _one_line(error)}
    Path(answer).write_text(json.dumps(told))


def _one_line(error: BaseException) -> str:
    from evokernel.errors import EvokernelError

    error = _cause(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line.removeprefix(_EXPLAINED) for line in lines if line.startswith(_EXPLAINED)]
    text = ": ".join([*lines[:1], *said[:1]]) or _place(error)
    return text if isinstance(error, EvokernelError) else f"{type(error).__name__}: {text}"[:300]


def _cause(error: BaseException) -> BaseException:
    """Return what torch's compiler met and wrapped."""
    while (inner := getattr(error, "inner_exception", None)) is not None:
        error = inner
    return error


def _place(error: BaseException) -> str:
    """Return where an error without a message was raised, and the line that did it."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].line} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


if __name__ == "__main__":
    main(*sys.argv[1:])
