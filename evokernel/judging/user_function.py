"""Project of a function that is a Python object: its file, the kind of its example inputs, a folder of its own."""

import hashlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evokernel.errors import TaskError
from evokernel.scaffold.output_folder import check_folder
from evokernel.tasks import task_path

PROJECTS = "runs"
"""Folder, under the current one, that projects of functions are written to."""
_SHORT = {"float64": "fp64", "float32": "", "float16": "fp16", "bfloat16": "bf16"}


def task_file(
    task: str | Path | Callable[..., Any],
    example_inputs: Sequence[Any],
    *,
    folder: Path,
    device: str = "auto",
    notify: Callable[[str], None] | None = None,
) -> str:
    """Return the argument of `load_task` for a task or a function. Raises `TaskError`."""
    if not isinstance(task, str | Path):
        config = function_project(task, example_inputs, folder=folder, device=device, notify=notify)
        return str(next(config.parent.glob("*_task.py")))
    if example_inputs:
        raise TaskError(f"example inputs belong to a function; the task {task} brings its own")
    return str(task_path(str(task)))


def function_project(
    function: Callable[..., Any],
    example_inputs: Sequence[Any],
    *,
    folder: Path,
    device: str = "auto",
    notify: Callable[[str], None] | None = None,
) -> Path:
    """Return the config of a function's project, which is written unless it is there.

    The folder of the project has a name of its own for each text of the function and each kind of its inputs. For a
    processor alone it has another one: what a GPU needs, which takes seconds, is left out there. Raises `TaskError` if
    the function or its folder cannot be written, or does not make a fit task.

    Args:
        function: a function or a class of modules of PyTorch, or a module that its class makes without arguments.
        example_inputs: tensors and numbers, by position.
        folder: the folder of the project's folder.
        device: "cpu" where only that is wanted; a project for all devices will do, too, where there is one.
        notify: told in words that a project is made, which takes a while.
    """
    # these import torch, which a caller with a task file need not wait for
    from evokernel.scaffold.operation.function_text import own_file, standalone_text
    from evokernel.scaffold.project import ProjectSettings, init_project

    function = _class_of(function)
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise TaskError(
            f"expected a function or a class with a name of its own, got a {type(function).__name__}; define one with "
            "`def`, or run `evokernel init` on the file that makes a module"
        )
    file = own_file(function)
    text = standalone_text(function) if file is None else file.read_text(encoding="utf-8")
    inputs = inputs_text(function, example_inputs)
    kinds = ("\0cpu", "") if device == "cpu" else ("",)
    digests = [hashlib.sha256(f"{name}\0{inputs}\0{text}{kind}".encode()).hexdigest()[:8] for kind in kinds]
    place, *others = (folder / f"{name}-{digest}" for digest in digests)
    for config in (found for each in (place, *others) for found in each.glob("*.yaml")):
        return config
    make_folder(place)
    if notify is not None:
        notify(f"making a task of {name} in {place}, and building kernels for it: half a minute, sometimes two")
    if file is None:
        file = place / f"{name}_source.py"
        file.write_text(text, encoding="utf-8")
    settings = ProjectSettings(devices=("cpu",)) if device == "cpu" else ProjectSettings()
    project = init_project(file, name=name, example_inputs=example_inputs, out=place, force=True, settings=settings)
    config = next(path for path in project.files if path.suffix == ".yaml")
    if project.unfit:
        config.unlink()  # the next call tries again
        raise TaskError(f"{name} makes no task that could judge kernels: {project.unfit}")
    return config


def _class_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the class of a module, which its project makes anew; anything else as it is. Raises `TaskError`.

    Weights are inputs of kernels, so their values need not be equal.
    """
    import torch

    if not isinstance(function, torch.nn.Module):
        return function
    kind = type(function)
    try:
        made = kind()
        alike = _traits(made) == _traits(function)
        problem = "" if alike else f"{kind.__name__}() makes another one: sizes, settings or modes differ"
    except Exception as error:  # noqa: BLE001 - a user's class may raise anything
        problem = f"{kind.__name__}() raises {type(error).__name__}: {error}"
    if not problem:
        return kind
    raise TaskError(
        f"a project makes its module anew, without arguments, and {problem}; pass a class in place of the module:\n"
        f"  class Mine({kind.__name__}):\n"
        f"      def __init__(self):\n"
        f"          super().__init__(...)  # the arguments of yours\n"
        f"          self.train({function.training})"
    )


def _traits(module: Any) -> Any:
    """Return all that kernels of a module depend on, but for its weights."""
    import torch

    def own(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            kept = None if value.is_floating_point() else value.tolist()
            return value.dtype, tuple(value.shape), kept
        return value if isinstance(value, bool | int | float | str | tuple | None) else type(value)

    settings = {
        (name, key): own(value)
        for name, part in module.named_modules()
        for key, value in vars(part).items()
        if not key.startswith("_")
    }
    tensors = {name: own(value) for name, value in (*module.named_parameters(), *module.named_buffers())}
    return settings, tensors, {name: type(part) for name, part in module.named_modules()}


def make_folder(place: Path) -> None:
    """Make the folder of a project. Raises `TaskError` where nothing can be written there."""
    check_folder(place, option="folder=")
    place.mkdir(parents=True, exist_ok=True)


def inputs_text(function: Callable[..., Any], example_inputs: Sequence[Any]) -> str:
    """Return all of example inputs that their project depends on. Raises `TaskError` for too many."""
    called = getattr(function, "forward", function)
    names = [name for name in inspect.signature(called).parameters if name != "self"]
    if len(example_inputs) > len(names):
        raise TaskError(f"{len(example_inputs)} example inputs, but {function.__name__} takes {', '.join(names)}")
    return ", ".join(f"{name}: {_value_text(value)}" for name, value in zip(names, example_inputs, strict=False))


def _value_text(value: Any) -> str:
    import torch

    from evokernel.scaffold.operation.nested_values import parts_of

    if isinstance(value, torch.Tensor):
        shape, dtype = "x".join(map(str, value.shape)), str(value.dtype).removeprefix("torch.")
        short = _SHORT.get(dtype, dtype)
        steps = "" if value.is_contiguous() else f" in steps of {value.stride()}"
        below = (
            "" if value.is_floating_point() or value.is_complex() or not value.numel() else f" < {int(value.max()) + 1}"
        )
        return (f"{short}[{shape}]" if short else shape) + steps + below
    if parts := parts_of(value):
        return f"{type(value).__name__}({', '.join(f'{key}={_value_text(part)}' for key, part in parts)})"
    if isinstance(value, bool | int | float | str | torch.dtype | tuple | list | dict | None):
        return repr(value)
    raise TaskError(
        "an example input is a tensor, a number, a text or None, or holds such in a tuple, list, dict or dataclass; "
        f"got a {type(value).__name__}"
    )
