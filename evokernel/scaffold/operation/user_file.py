"""Loading of a user's file, with a check that it is the file that a task was made from, and of what is used of it."""

import ast
import dis
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from evokernel.errors import TaskError
from evokernel.source.python_file import without_bytecode

_PREFIX = "_evokernel_source_"
_LOADS = ("LOAD_GLOBAL", "LOAD_DEREF")


def is_source(value: object) -> bool:
    """Say whether this is a module from `load_source`."""
    return isinstance(value, ModuleType) and value.__name__.startswith(_PREFIX)


def digest(path: Path) -> str:
    """Return 16 hex digits over the text of a file. Raises `TaskError` where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise TaskError(f"cannot read {path}: {error.strerror}") from None


def load_source(path: Path, *, sha256: str = "") -> ModuleType:
    """Import a Python file.

    Args:
        path: the file; its folder, and that of its package, can be imported from while it loads. Imports with dots
            begin at its folder.
        sha256: `digest` of the file that the task was made from; results do not hold for another text.

    Raises:
        TaskError: it cannot be read, it raises an error, or its text has changed.
    """
    path = path.resolve()
    found = digest(path)
    if sha256 and found != sha256:
        raise TaskError(
            f"{path} has changed since the task was written from it; run `evokernel init` again, "
            f'or check that shapes and arguments are the same and set sha256="{found}" in the task file'
        )
    folders = _folders(path.parent)
    name = f"{_package(folders)}.{path.stem}_{found}"
    loader = importlib.util.spec_from_file_location(name, path)
    if loader is None or loader.loader is None:
        raise TaskError(f"{path} cannot be imported as Python: expected a .py file")
    module = importlib.util.module_from_spec(loader)
    sys.modules[name] = module
    packaged = (path.parent / "__init__.py").exists()
    # it may import its neighbours, as a script would
    added = [str(path.parent), *[str(folders[0].parent)] * packaged]
    sys.path[:0] = added
    try:
        with without_bytecode():
            loader.loader.exec_module(module)
    except Exception as error:
        raise TaskError(f"{path}{_line(error, path)} raised {type(error).__name__}: {error}") from error
    finally:
        for folder in added:  # what the file itself has added stays
            if folder in sys.path:
                sys.path.remove(folder)
    return module


def helpers(path: Path, names: Collection[str]) -> set[str]:
    """Return which of these functions, classes and values of a file serve others: they compute with them.

    A function without arguments is one, too. What returns nothing tries others, and computes nothing with them.
    """
    found = set[str]()
    for statement in ast.parse(path.read_bytes()).body:
        nodes = [*ast.walk(statement)]
        own = {getattr(statement, "name", "")}
        if isinstance(statement, ast.Assign):
            own = {each.id for each in statement.targets if isinstance(each, ast.Name)}
        returns = any(each.value for each in nodes if isinstance(each, ast.Return))
        if isinstance(statement, ast.FunctionDef) and not any(isinstance(each, ast.arg) for each in nodes):
            found |= own
        elif own & {*names} and (returns or not isinstance(statement, ast.FunctionDef)):
            found |= {each.id for each in nodes if isinstance(each, ast.Name)} & {*names} - own
    return found


def _folders(folder: Path) -> list[Path]:
    """Return the folders of the packages that a folder lies in, the outermost first, and the folder."""
    found = [folder]
    while (found[0] / "__init__.py").exists():
        found.insert(0, found[0].parent)
    return found[1:] or found


def _package(folders: Sequence[Path]) -> str:
    """Return the name of a package for these folders, each in the one before, which imports with dots begin at."""
    name = f"{_PREFIX}{hashlib.sha256(str(folders[0]).encode()).hexdigest()[:16]}"
    for folder in folders:
        name = name if folder is folders[0] else f"{name}.{folder.name}"
        if name not in sys.modules:
            sys.modules[name] = package = ModuleType(name)
            package.__path__ = [str(folder)]
    return name


def _line(error: BaseException, path: Path) -> str:
    """Return `:line` of the innermost frame that lies in the file, or of a syntax error in it, or nothing."""
    line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.filename == str(path) else ""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = f":{trace.tb_lineno}"
        trace = trace.tb_next
    return line


def refuse_held_module(name: str, target: Any) -> None:
    """Raise `TaskError` for a function that computes with weights which it is not given."""
    if held := _held_module(target):
        raise TaskError(
            f"{name} computes with the weights of {held}, a module that it is not given, and a kernel gets its "
            f"arguments alone. Give init a module that holds {held} and does this in forward, or take the weights as "
            f"arguments of {name}"
        )


def _held_module(target: Any) -> str:
    """Return the name of a module with floating-point numbers that a function, or one that it calls, finds outside."""
    waiting: list[Any] = [target]
    seen = set[int]()
    while waiting:
        function = waiting.pop()
        if not inspect.isfunction(function) or id(function) in seen:
            continue
        seen.add(id(function))
        read = {each.argval for each in dis.get_instructions(function) if each.opname in _LOADS}  # no attributes
        found = inspect.getclosurevars(function)
        for name, value in (*found.globals.items(), *found.nonlocals.items()):
            if name not in read:
                continue
            if isinstance(value, torch.nn.Module):
                if any(each.is_floating_point() for each in (*value.parameters(), *value.buffers())):
                    return name
            elif getattr(value, "__module__", None) == function.__module__:
                waiting.append(value)
    return ""
