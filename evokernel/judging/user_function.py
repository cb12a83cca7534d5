"""Project of a function that is a Python object: its file, the kind of its example inputs, a folder of its own."""

import ast
import hashlib
import inspect
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from evokernel.errors import TaskError
from evokernel.tasks import task_path

PROJECTS = "runs"
"""Folder, under the current one, that projects of functions are written to."""
_SHORT = {"float64": "fp64", "float32": "", "float16": "fp16", "bfloat16": "bf16"}
_OWN_FILE = "put it into a .py file, and pass the function that is imported from there"
_PLAIN = (bool, int, float, str, bytes, type(None), tuple, list, dict)


def task_file(task: str | Path | Callable[..., Any], example_inputs: Sequence[Any], *, folder: Path) -> str:
    """Return the argument of `load_task` for a task or a function. Raises `TaskError`."""
    if not isinstance(task, str | Path):
        return str(next(function_project(task, example_inputs, folder=folder).parent.glob("*_task.py")))
    if example_inputs:
        raise TaskError(f"example inputs belong to a function; the task {task} brings its own")
    return str(task_path(str(task)))


def function_project(function: Callable[..., Any], example_inputs: Sequence[Any], *, folder: Path) -> Path:
    """Return the config of a function's project, which is written unless it is there.

    The folder of the project has a name of its own for each text of the function and each kind of its inputs.

    Args:
        function: a function or a module of PyTorch.
        example_inputs: tensors and numbers, by position.
        folder: the folder of the project's folder.

    Raises:
        TaskError: the function cannot be written down, or does not make a fit task.
    """
    from evokernel.scaffold.project import init_project  # imports torch, which a caller with a task file waits for

    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise TaskError(
            f"expected a function or a class with a name of its own, got a {type(function).__name__}; define one with "
            "`def`, or run `evokernel init` on the file that makes a module"
        )
    file = _own_file(function)
    text = standalone_text(function) if file is None else file.read_text(encoding="utf-8")
    inputs = inputs_text(function, example_inputs)
    digest = hashlib.sha256(f"{name}\0{inputs}\0{text}".encode()).hexdigest()[:8]
    place = folder / f"{name}-{digest}"
    for config in place.glob("*.yaml"):
        return config
    place.mkdir(parents=True, exist_ok=True)
    if file is None:
        file = place / f"{name}_source.py"
        file.write_text(text, encoding="utf-8")
    project = init_project(file, name=name, example_inputs=example_inputs, out=place, force=True)
    config = next(path for path in project.files if path.suffix == ".yaml")
    if project.unfit:
        config.unlink()  # the next call tries again
        raise TaskError(f"{name} makes no task that could judge kernels: {project.unfit}")
    return config


def inputs_text(function: Callable[..., Any], example_inputs: Sequence[Any]) -> str:
    """Return all of example inputs that their project depends on. Raises `TaskError` for too many."""
    called = getattr(function, "forward", function)
    names = [name for name in inspect.signature(called).parameters if name != "self"]
    if len(example_inputs) > len(names):
        raise TaskError(f"{len(example_inputs)} example inputs, but {function.__name__} takes {', '.join(names)}")
    return ", ".join(f"{name}: {_value_text(value)}" for name, value in zip(names, example_inputs, strict=False))


def _value_text(value: Any) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        shape, dtype = "x".join(map(str, value.shape)), str(value.dtype).removeprefix("torch.")
        short = _SHORT.get(dtype, dtype)
        steps = "" if value.is_contiguous() else f" in steps of {value.stride()}"
        below = "" if value.is_floating_point() or not value.numel() else f" < {int(value.max()) + 1}"
        return (f"{short}[{shape}]" if short else shape) + steps + below
    if isinstance(value, bool | int | float | str | None):
        return repr(value)
    raise TaskError(f"an example input is a tensor, a number, a text or None, not a {type(value).__name__}")


# ---------------------------------------------------------------------------------------------------- its text


def _own_file(function: Callable[..., Any]) -> Path | None:
    """Return the file that the function can be imported from without a package; None for a notebook or a script.

    A script is not imported: it would run again.
    """
    module = sys.modules.get(function.__module__)
    if module is None or module.__name__ == "__main__" or module.__package__:
        return None
    file = getattr(module, "__file__", None) or ""
    return Path(file) if file.endswith(".py") and vars(module).get(function.__name__) is function else None


def standalone_text(function: Callable[..., Any]) -> str:
    """Return the text of a file that defines a function, with what it needs of its module.

    Raises:
        TaskError: its text is not known, or it needs something that cannot be written down.
    """
    texts: dict[str, str] = {}
    _write(function.__name__, function, function.__module__, texts)
    return f'"""`{function.__name__}`, as it was given to evokernel."""\n\n' + "\n\n\n".join(texts.values()) + "\n"


def _write(name: str, value: Any, module: str, texts: dict[str, str]) -> None:
    """Add the text that defines a name to `texts`, after the texts of what it needs."""
    import torch

    if name in texts:
        return
    if isinstance(value, ModuleType):
        texts[name] = f"import {value.__name__} as {name}"
    elif isinstance(value, torch.dtype | torch.device):
        texts[name] = f"import torch\n{name} = {value!r}"
    elif isinstance(value, _PLAIN) and _reads_back(value):
        texts[name] = f"{name} = {value!r}"
    elif getattr(value, "__module__", None) not in (module, None) and hasattr(value, "__qualname__"):
        texts[name] = f"from {value.__module__} import {value.__qualname__} as {name}"
    elif isinstance(value, FunctionType | type):
        text = _source(value)
        texts[name] = ""  # it may call itself
        for needed, found in _needs(value, text):
            _write(needed, found, module, texts)
        del texts[name]
        texts[name] = text.rstrip() + ("" if name == value.__name__ else f"\n\n\n{name} = {value.__name__}")
    else:
        raise TaskError(f"{name} is a {type(value).__name__}, which cannot be written down: pass it as an argument, "
                        f"or {_OWN_FILE}")  # fmt: skip


def _source(value: Any) -> str:
    try:
        text = textwrap.dedent(inspect.getsource(value))
        ast.parse(text)
    except (OSError, TypeError, SyntaxError):
        raise TaskError(f"the source text of {value.__qualname__} is not known here; {_OWN_FILE}") from None
    return text


def _needs(value: FunctionType | type, text: str) -> Iterator[tuple[str, Any]]:
    """Yield the names of its module, and of functions around it, that a text uses."""
    known = dict(value.__globals__ if isinstance(value, FunctionType) else vars(sys.modules[value.__module__]))
    if isinstance(value, FunctionType):
        known |= inspect.getclosurevars(value).nonlocals
    for name in dict.fromkeys(_free_names(symtable.symtable(text, "<function>", "exec"))):
        if name in known:
            yield name, known[name]


def _free_names(scope: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names that a scope and those in it take from outside; arguments and variables of theirs are none."""
    outermost = scope.get_type() == "module"
    for symbol in scope.get_symbols():
        if symbol.is_referenced() and (outermost or symbol.is_global()):
            yield symbol.get_name()
    for inner in scope.get_children():
        yield from _free_names(inner)


def _reads_back(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False
