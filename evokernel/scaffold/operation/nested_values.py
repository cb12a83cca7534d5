"""Tensors inside tuples, lists, dicts, named tuples and dataclasses, as arguments and as results of an operation."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from types import ModuleType
from typing import Any

import torch

from evokernel.errors import TaskError


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """The place of a tensor in an argument."""

    name: str
    """Name of the tensor as an input of kernels."""


@dataclass(frozen=True, slots=True)
class NestedArgument:
    """An argument that holds tensors, without them."""

    kind: type
    """Type of the argument: tuple, list, dict, or a class of the user's file."""
    parts: Mapping[Any, Any]
    """What it holds, by place, key or field: places of tensors, arguments that hold some, and constants."""

    def value(self, tensors: Mapping[str, Any]) -> Any:
        """Return the argument with these tensors, by name."""
        made = {key: _value(part, tensors) for key, part in self.parts.items()}
        if self.kind in (tuple, list):
            return self.kind(made.values())
        return made if self.kind is dict else self.kind(**made)

    def text(self, tensor: Callable[[str], str], constant: Callable[[Any], str]) -> str:
        """Return it as Python over `source`, given the texts of tensors by name, and of constants."""

        def spelt(part: Any) -> str:
            if isinstance(part, NestedArgument):
                return part.text(tensor, constant)
            return tensor(part.name) if isinstance(part, TensorPlace) else constant(part)

        made = {key: spelt(part) for key, part in self.parts.items()}
        if self.kind is dict:
            return f"{{{', '.join(f'{key!r}: {text}' for key, text in made.items())}}}"
        if self.kind is list:
            return f"[{', '.join(made.values())}]"
        if self.kind is tuple:
            return f"({', '.join(made.values())}{',' if len(made) == 1 else ''})"
        return f"source.{self.kind.__name__}({', '.join(f'{key}={text}' for key, text in made.items())})"


def _value(part: Any, tensors: Mapping[str, Any]) -> Any:
    if isinstance(part, NestedArgument):
        return part.value(tensors)
    return tensors[part.name] if isinstance(part, TensorPlace) else part


def holds_tensors(value: Any) -> bool:
    """Say whether a value is no tensor itself, and holds some."""
    return any(isinstance(part, torch.Tensor) or holds_tensors(part) for _, part in parts_of(value))


def parts_of(value: Any) -> list[tuple[Any, Any]]:
    """Return what a value holds, by place, key or field; nothing for a value without parts."""
    if isinstance(value, Mapping):
        return list(value.items())
    if names := _fields(value):
        return [(name, getattr(value, name)) for name in names]
    return list(enumerate(value)) if isinstance(value, (tuple, list)) else []


def taken_apart(name: str, value: Any, source: ModuleType, put: Callable[[str, torch.Tensor], str]) -> Any:
    """Return an argument that holds tensors without them; `put` takes each with a name, and returns the one it gets.

    Raises `TaskError` for a class that the file `source` does not define or import.
    """
    if isinstance(value, torch.Tensor):
        return TensorPlace(put(name, value))
    if not holds_tensors(value):
        _check_classes(name, value, source)
        return value
    kind = next((kind for kind in (dict, list, tuple) if type(value) is kind), None) or _class_in(source, name, value)
    made = {key: taken_apart(f"{name}_{_word(key)}", part, source, put) for key, part in parts_of(value)}
    return NestedArgument(kind, made)


def _check_classes(name: str, value: Any, source: ModuleType) -> None:
    """Raise `TaskError` where an argument without tensors has parts of classes that the file does not hold."""
    if _fields(value) or isinstance(value, Enum):
        _class_in(source, name, value)
    for _, part in parts_of(value):
        _check_classes(name, part, source)


def _class_in(source: ModuleType, name: str, value: Any) -> type:
    kind = getattr(source, type(value).__name__, None)
    if not isinstance(kind, type):
        raise TaskError(
            f"the argument {name!r} is a {type(value).__name__}, a class that the file does not hold; import it there, "
            "or pass its parts in a tuple, a list or a dict"
        )
    return kind


def _word(key: Any) -> str:
    return "".join(each if each.isalnum() and each.isascii() else "_" for each in str(key))


def constant_text(name: str, value: Any) -> str:
    """Return an argument without tensors as Python over `source`. Raises `TaskError` where that cannot spell it."""
    if isinstance(value, Enum):
        named = isinstance(value.name, str) and value.name.isidentifier()  # flags that are joined have no name
        return f"source.{type(value).__name__}{f'.{value.name}' if named else f'({value.value!r})'}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype)):
        return repr(value)
    if isinstance(value, torch.Size):
        return f"torch.Size({tuple(value)})"
    if type(value) in (tuple, list, dict) or _fields(value):
        parts = {key: constant_text(name, part) for key, part in parts_of(value)}
        return NestedArgument(type(value), parts).text(str, str)
    raise TaskError(
        f"the argument {name!r} is a {type(value).__name__}, which a task file cannot spell; wrap the operation in a "
        "function that takes tensors and numbers"
    )


def holds_classes(value: Any) -> bool:
    """Say whether an argument without tensors, or a part of it, is of a class that the user's file alone has."""
    return bool(_fields(value)) or isinstance(value, Enum) or any(holds_classes(part) for _, part in parts_of(value))


def can_be_spelt(value: Any, source: ModuleType) -> bool:
    """Say whether a task file can pass a value; a default that it cannot, such as a function, it leaves out."""
    if isinstance(value, torch.Tensor) or holds_tensors(value):
        return True
    try:
        _check_classes("", value, source)
        constant_text("", value)
    except TaskError:
        return False
    return True


def results_of(result: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what a result holds, None left out, each with the text behind the result that names it.

    Such a text is `['logits']`, or `[1].state`; empty for a tensor that comes alone.
    """
    parts = parts_of(result)
    for key, part in parts:
        yield from results_of(part, f"{path}.{key}" if _fields(result) else f"{path}[{key!r}]")
    if not parts and result is not None:
        yield path, result


def _fields(value: Any) -> tuple[str, ...]:
    """Return the fields of a named tuple or a dataclass; nothing for others."""
    if isinstance(value, tuple):
        return tuple(getattr(value, "_fields", ()))
    if isinstance(value, Mapping | type) or not is_dataclass(value):
        return ()
    return tuple(field.name for field in fields(value) if field.init)
