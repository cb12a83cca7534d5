"""Project from a Triton kernel that exists: a PyTorch reference as the task, the kernel as seed and as the expert."""

import inspect
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from evokernel.errors import TaskError
from evokernel.scaffold.extract.kernel_text import check_function, constant_text, function_text, kernel_text
from evokernel.scaffold.extract.recorded_call import KernelCall, record_call
from evokernel.scaffold.inductor.seed import NoInductorSeed, check_program
from evokernel.scaffold.project import Project, ProjectSettings, init_project, whole_or_nothing
from evokernel.scaffold.user_file import load_source
from evokernel.task import Task

_HEAD = '''"""`{function}` of {file}, as `evokernel extract` found it.

It compiles for sm_90. {checked}
"""

'''
_ORIGIN = """
# The function that this task was made from; `evokernel export --patch` writes a winner back behind its signature.
origin = {{
    "file": HERE / "{file}",
    "function": "{function}",
    "arguments": {arguments},
    "constants": {constants},
}}
"""
_EXPERT = """evaluation:
  expert: {file} # {function} as it was, with {configuration}: one more baseline
"""


def extract_project(
    place: str,
    *,
    script: Path,
    reference: str,
    out: Path | None = None,
    force: bool = False,
    shapes: Sequence[str] = (),
    config: int = 0,
) -> Project:
    """Write task, seed, expert and config for a function that launches Triton kernels.

    The task computes what the reference does. The function's own results are compared with it first, on small sizes
    in Triton's interpreter; where they differ nothing is written.

    Args:
        place: `FILE.py:FUNCTION`, at the top of a file; it allocates its results, launches kernels and returns them.
        script: calls the function; its first call gives sizes, types and layouts.
        reference: `FILE.py:FUNCTION` of PyTorch with the same arguments.
        out: the folder to write to; that of the function's file if left out.
        force: replace files that are there.
        shapes: further sizes that matter, each as example inputs are given.
        config: number of the configuration, of those that Triton tunes over, that seed and expert begin with.

    Raises:
        TaskError: the call cannot be recorded, the file has a form that is not understood, or results differ.
    """
    module, function = _split(place)
    file, name = _split(reference, what="--reference")
    call = record_call(module, function, script)
    order, given = _matched(call, file, name)
    out = out or module.parent
    apart = out / f"{function}_reference.py" if file.samefile(module) else None
    expert = out / f"{function}_before.py"
    if not force and (there := [str(path) for path in (expert, apart) if path and path.exists()]):
        raise TaskError(f"{', '.join(there)} exist; pass --force to replace them, or --out for another folder")

    def kernel(task: Task, task_file: Path) -> str:
        for tiles in (True, False):
            text = kernel_text(call, task.signature, order, config=config, tiles=tiles)
            try:
                checked = check_program(str(task_file), text, whose=f"`{function}`")
                return _HEAD.format(function=function, file=module.name, checked=checked) + text
            except NoInductorSeed as error:
                fault = error
            if text == kernel_text(call, task.signature, order, config=config, tiles=False):
                break
        raise TaskError(f"{fault}. Nothing was written") from None

    settings = ProjectSettings(devices=("cuda",), shapes=tuple(shapes), stem=function, kernel=kernel)
    files = (expert, *([apart] if apart else []))
    with whole_or_nothing((*files, *(out / f"{function}{end}" for end in ("_task.py", "_triton.py", ".yaml")))):
        if apart:  # a patch of the kernel's file leaves the reference as it was
            out.mkdir(parents=True, exist_ok=True)
            head = f'"""`{name}` of {module.name}, the reference of `{function}`."""\n\n'
            apart.write_text(head + function_text(file, name), encoding="utf-8")
        project = init_project(apart or file, name=name, out=out, force=force, example_inputs=given, settings=settings)
        task_file, seed, config_file = project.files
        expert.write_text(seed.read_text(encoding="utf-8"), encoding="utf-8")
        constants = {key: value for key, value in call.arguments.items() if key not in call.tensors}
        spelt = ", ".join(f'"{key}": {constant_text(value)}' for key, value in constants.items())
        origin = _ORIGIN.format(
            file=os.path.relpath(module.resolve(), out.resolve()),
            function=function,
            arguments="(" + "".join(f'"{key}", ' for key in order).rstrip() + ")",
            constants=f"{{{spelt}}}",
        )
        task_file.write_text(task_file.read_text(encoding="utf-8") + origin, encoding="utf-8")
        configuration = f"configuration {config} of its own" if call.tuned else "the numbers it had"
        text = _EXPERT.format(file=expert.name, function=function, configuration=configuration)
        config_file.write_text(
            config_file.read_text(encoding="utf-8").replace("islands:\n", f"{text}islands:\n", 1), encoding="utf-8"
        )
    return replace(project, files=(*project.files, *files))


def _split(place: str, *, what: str = "the kernel") -> tuple[Path, str]:
    """Return file and function of `FILE.py:FUNCTION`."""
    file, _, function = place.rpartition(":")
    path = Path(file or place)
    if path.suffix in (".cu", ".cuh") or function.endswith((".cu", ".cuh")):
        raise TaskError(
            f"{place}: CUDA C++ cannot be extracted; Triton can. Write the kernel as docs/kernels.md says, judge it "
            "with `evokernel evaluate`, and name it under `evaluation.expert`"
        )
    if path.suffix != ".py" or not function.isidentifier():
        raise TaskError(f"{what}: expected FILE.py:FUNCTION, got {place!r}")
    if not path.is_file():
        raise TaskError(f"{what}: there is no file {path}")
    check_function(path, function)
    return path, function


def _matched(call: KernelCall, file: Path, name: str) -> tuple[list[str], list[Any]]:
    """Return the tensors of the call, in the order in which the reference takes them, and the reference's arguments.

    Arguments match by name where the reference has those names, else by position. Raises `TaskError` where it does not
    take all tensors.
    """
    parameters = list(inspect.signature(getattr(load_source(file), name)).parameters)
    known = list(call.arguments)
    if {*call.tensors} <= {*parameters}:
        pairs = [(parameter, parameter) for parameter in parameters if parameter in known]
    else:
        pairs = list(zip(known, parameters, strict=False))
    left = [tensor for tensor in call.tensors if tensor not in dict(pairs)]
    if left:
        raise TaskError(
            f"{name} of {file.name} takes {', '.join(parameters) or 'nothing'}, and {call.function} also the tensors "
            f"{', '.join(left)}: give the reference the same arguments"
        )
    if [parameter for _, parameter in pairs] != parameters[: len(pairs)]:
        raise TaskError(
            f"{name} of {file.name} takes {', '.join(parameters)}; those that {call.function} has, too, "
            f"({', '.join(parameter for _, parameter in pairs)}) must come first"
        )
    order = [ours for ours, _ in pairs if isinstance(call.arguments[ours], torch.Tensor)]
    return order, [call.arguments[ours] for ours, _ in pairs]
