"""Project from a kernel that exists: a PyTorch reference as the task, the kernel as seed and as the expert."""

import inspect
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from evokernel.errors import TaskError
from evokernel.scaffold.config_schema import SCHEMA_FILE
from evokernel.scaffold.extract.cuda_check import check_cuda_program
from evokernel.scaffold.extract.cuda_text import CudaSeedWriter, check_launch
from evokernel.scaffold.extract.kernel_text import check_function, constant_text, function_text, kernel_text
from evokernel.scaffold.extract.recorded_call import KernelCall, record_call
from evokernel.scaffold.inductor.seed import NoInductorSeed, check_program
from evokernel.scaffold.operation.user_file import load_source
from evokernel.scaffold.project import Project, ProjectSettings, init_project, whole_or_nothing
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
_ENDS = {"triton": ("_triton.py", "_before.py"), "cuda": (".cu.py", "_before.cu.py")}
"""Ends of the names of seed and expert."""


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

    The task computes what the reference does. The function's own results are compared with it first, on small sizes in
    Triton's interpreter; where they differ nothing is written. Raises `TaskError` if the call cannot be recorded, the
    file has a form that is not understood, or results differ.

    Args:
        place: `FILE.py:FUNCTION`, at the top of a file; it allocates its results, launches kernels and returns them.
        script: calls the function; its first call gives sizes, types and layouts.
        reference: `FILE.py:FUNCTION` of PyTorch with the same arguments.
        out: the folder to write to; that of the function's file if left out.
        force: replace files that are there.
        shapes: further sizes that matter, each as example inputs are given.
        config: number of the configuration, of those that Triton tunes over, that seed and expert begin with.
    """
    module, function = _split(place)
    right = _split(reference, what="--reference")
    call = record_call(module, function, script)
    if call.cuda_texts:
        raise TaskError(
            f"{module.name} launches CUDA C++: name its file, and the function with --launch: evokernel extract "
            f"FILE.cu --entry KERNEL --launch {place}"
        )

    def kernel(task: Task, task_file: Path, order: Sequence[str]) -> str:
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

    had = f"configuration {config} of its own" if call.tuned else "the numbers it had"
    found = _Found(call, function, kernel, had)
    return _written(found, right, out=out or module.parent, force=force, shapes=shapes)


def extract_cuda_project(  # noqa: PLR0913 - places of the kernel, its launch and what it must do
    cu: Path,
    *,
    entry: str,
    launch: str,
    reference: str,
    script: Path | None = None,
    out: Path | None = None,
    force: bool = False,
    shapes: Sequence[str] = (),
    headers: Sequence[str] = (),
) -> Project:
    """Write task, seed, expert and config for a kernel in CUDA C++ and the function that launches it.

    The launch is recorded without a GPU: `evokernel.cuda` compiles for sm_90, and notes grid, block, shared memory and
    arguments in place of launching. Where there is a GPU, the judge says first that results are right; where they are
    wrong nothing is written. Raises `TaskError` as `extract_project`.

    Args:
        cu: the CUDA C++ file.
        entry: name of the kernel in it.
        launch: `FILE.py:FUNCTION`, or `FILE.py` for its function `launch`. It allocates its results, launches the
            kernel by `evokernel.cuda.Module` and returns them.
        reference: as for `extract_project`, as all that follows.
        script: calls the function; the function's own file if left out.
        headers: folders of headers that the file includes, beside files in its own folder.
    """
    module, function = _split(launch if ":" in launch else f"{launch}:launch", what="--launch")
    right = _split(reference, what="--reference")
    check_launch(cu, entry, module)
    call = record_call(module, function, script or module, folders=(cu.parent,))

    def kernel(task: Task, task_file: Path, order: Sequence[str]) -> str:
        text = CudaSeedWriter(call, task.signature, order, cu=cu).text()
        try:
            checked = check_cuda_program(task_file, text, entry=entry, whose=f"`{function}`", headers=headers)
        except NoInductorSeed as error:
            raise TaskError(f"{error}. Nothing was written") from None
        return _HEAD.format(function=function, file=f"{module.name} with {cu.name}", checked=checked) + text

    found = _Found(call, entry, kernel, "the numbers it had", language="cuda", headers=headers)
    return _written(found, right, out=out or module.parent, force=force, shapes=shapes)


@dataclass(frozen=True, slots=True)
class _Found:
    """A function of the user's that launches kernels."""

    call: KernelCall
    stem: str
    """Beginning of the names of the files."""
    kernel: Callable[[Task, Path, Sequence[str]], str]
    """Returns the seed, for the task, its file, and the function's tensors in the task's order."""
    had: str
    """Values of its tunables, in words."""
    language: str = "triton"
    headers: Sequence[str] = ()
    """Folders of headers that they include."""


def _written(found: _Found, reference: tuple[Path, str], *, out: Path, force: bool, shapes: Sequence[str]) -> Project:
    call, stem, (file, name) = found.call, found.stem, reference
    seed_end, expert_end = _ENDS[found.language]
    order, given = _matched(call, file, name)
    apart = out / f"{stem}_reference.py" if file.samefile(call.module) else None
    expert = out / f"{stem}{expert_end}"
    if not force and (there := [str(path) for path in (expert, apart) if path and path.exists()]):
        raise TaskError(f"{', '.join(there)} exist; pass --force to replace them, or --out for another folder")
    settings = ProjectSettings(
        devices=("cuda",),
        shapes=tuple(shapes),
        stem=stem,
        kernel=lambda task, task_file: found.kernel(task, task_file, order),
        gpu_language=found.language,
    )
    files = (expert, *([apart] if apart else []))
    written = (out / SCHEMA_FILE, *(out / f"{stem}{each}" for each in ("_task.py", seed_end, ".yaml")))
    with whole_or_nothing((*files, *written)):
        if apart:  # a patch of the kernel's file leaves the reference as it was
            out.mkdir(parents=True, exist_ok=True)
            head = f'"""`{name}` of {call.module.name}, the reference of `{call.function}`."""\n\n'
            apart.write_text(head + function_text(file, name), encoding="utf-8")
        project = init_project(apart or file, name=name, out=out, force=force, example_inputs=given, settings=settings)
        task_file, seed, config_file, *_ = project.files
        expert.write_text(seed.read_text(encoding="utf-8"), encoding="utf-8")
        constants = {key: value for key, value in call.arguments.items() if key not in call.tensors}
        spelt = ", ".join(f'"{key}": {constant_text(value)}' for key, value in constants.items())
        origin = _ORIGIN.format(
            file=os.path.relpath(call.module.resolve(), out.resolve()),
            function=call.function,
            arguments="(" + "".join(f'"{key}", ' for key in order).rstrip() + ")",
            constants=f"{{{spelt}}}",
        )
        task_file.write_text(task_file.read_text(encoding="utf-8") + origin, encoding="utf-8")
        text = _EXPERT.format(file=expert.name, function=call.function, configuration=found.had)
        if found.headers:
            folders = [str(Path(each).expanduser().resolve()) for each in found.headers]
            text += f"  cuda_include: {json.dumps(folders, ensure_ascii=False)}\n"
        settled = config_file.read_text(encoding="utf-8").replace("islands:\n", f"{text}islands:\n", 1)
        if found.language == "cuda":
            settled = re.sub(r"^language: auto.*$", "language: cuda", settled, count=1, flags=re.MULTILINE)
        config_file.write_text(settled, encoding="utf-8")
    return replace(project, files=(*project.files, *files))


def _split(place: str, *, what: str = "the kernel") -> tuple[Path, str]:
    """Return file and function of `FILE.py:FUNCTION`."""
    file, _, function = place.rpartition(":")
    path = Path(file or place)
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
