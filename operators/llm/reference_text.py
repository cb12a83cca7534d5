"""Source of a task's PyTorch reference for prompts, with the functions of the same author that it calls."""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from evokernel.task import Task
from operators.quoting import middle_cut, one_line

CHARACTERS = 12000
"""Characters of another file that are shown."""


def reference_source(task: Task) -> str:
    """Return the source of a task's reference, of functions beside it that it calls, and of files that it uses.

    A task may only pass its arguments on, as one made by `evokernel init` does: then the function is in another file.
    """
    try:
        return "\n\n\n".join(_parts(task.reference))
    except (OSError, TypeError):
        return f"# its source cannot be read: {one_line(task.description or task.name)}"


def _parts(reference: Callable[..., Any]) -> Iterator[str]:
    own, todo, seen = _file(reference), [reference], set[object]()
    files: dict[Path, None] = {}
    while todo:
        function = todo.pop(0)
        seen.add(function)
        yield textwrap.dedent(inspect.getsource(function)).rstrip()
        for value in _used(function):
            file = _file(value)
            if isinstance(value, FunctionType) and file == own:
                todo += [value] if value not in seen and value not in todo else []
            elif file is not None and own is not None and file != own and file.parent == own.parent:
                files[file] = None
    for file in files:
        yield f"# {file.name}\n{middle_cut(file.read_text(encoding='utf-8', errors='replace'), CHARACTERS).rstrip()}"


def _used(function: Callable[..., Any]) -> list[object]:
    try:
        found = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return []
    return [*found.globals.values(), *found.nonlocals.values()]


def _file(value: object) -> Path | None:
    """Return the file that a function, a module, or the class of an object was written in; None for built-in ones."""
    what = value if isinstance(value, FunctionType | ModuleType | type) else type(value)
    try:
        name = inspect.getsourcefile(what)
    except TypeError:
        return None
    return None if name is None else Path(name).resolve()
