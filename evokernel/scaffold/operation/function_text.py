"""Text of a file that defines a function or a class which exists as a Python object, from its source."""

import ast
import inspect
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch

from evokernel.errors import TaskError

_OWN_FILE = "put it into a .py file, and pass the function that is imported from there"
_PLAIN = (bool, int, float, str, bytes, type(None), tuple, list, dict)


def own_file(function: Callable[..., Any]) -> Path | None:
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

    Raises `TaskError` if its text is not known, or it needs something that cannot be written down.
    """
    return f'"""`{function.__name__}`, as it was given to evokernel."""\n\n{joint_text([function])}\n'


def joint_text(values: Iterable[Callable[..., Any]]) -> str:
    """Return text that defines functions and classes together with what they need. Raises as `standalone_text`."""
    texts: dict[str, str] = {}
    for value in values:
        _write(value.__name__, value, value.__module__, texts)
    return "\n\n\n".join(texts.values())


def _write(name: str, value: Any, module: str, texts: dict[str, str]) -> None:
    """Add the text that defines a name to `texts`, after the texts of what it needs."""
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
