"""Readers of fields in untrusted JSON: each value has exactly the expected type and bounds."""

import re
from typing import Any

_NAME = re.compile(r"[A-Za-z_$.][A-Za-z0-9_$.]{0,1023}", re.ASCII)


class PlanError(ValueError):
    """A plan is malformed or asks for what is not allowed; `shape` is the number of the shape it belongs to, if any."""

    def __init__(self, message: str, shape: int | None = None) -> None:
        """Say what is wrong."""
        super().__init__(message, shape)
        self.message = message
        self.shape = shape

    def __str__(self) -> str:
        return self.message if self.shape is None else f"shape {self.shape}: {self.message}"


def fields(value: Any, what: str, *names: str) -> list[Any]:
    """Return the values of an object's fields, which must have exactly these names."""
    if type(value) is not dict or value.keys() != set(names):
        raise PlanError(f"{what} must have exactly the fields {', '.join(names)}")
    return [value[name] for name in names]


def items(value: Any, what: str, *, least: int = 0, most: int) -> list[Any]:
    """Return a list with a bounded number of entries."""
    if type(value) is not list or not least <= len(value) <= most:
        raise PlanError(f"{what} must be a list of {least} to {most} entries")
    return value


def integer(value: Any, what: str, *, least: int = 0, most: int) -> int:
    """Return a whole number within bounds; truth values are refused."""
    if type(value) is not int or not least <= value <= most:
        raise PlanError(f"{what} must be a whole number from {least} to {most}")
    return value


def integers(value: Any, what: str, *, count: int, least: int = 0, most: int) -> tuple[int, ...]:
    """Return exactly `count` whole numbers within bounds."""
    return tuple(integer(each, what, least=least, most=most) for each in items(value, what, least=count, most=count))


def flag(value: Any, what: str) -> bool:
    """Return a truth value."""
    if type(value) is not bool:
        raise PlanError(f"{what} must be true or false")
    return value


def text(value: Any, what: str, *, most: int) -> str:
    """Return a line of printable text that is not empty."""
    if type(value) is not str or not 0 < len(value) <= most or not value.isprintable():
        raise PlanError(f"{what} must be a line of at most {most} characters")
    return value


def symbol(value: Any, what: str) -> str:
    """Return a name as linkers allow it."""
    if type(value) is not str or not _NAME.fullmatch(value):
        raise PlanError(f"{what} is no name of a function")
    return value
