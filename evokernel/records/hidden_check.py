"""Hidden checks that a run adds to those of its judge: sizes, and the contents of its inputs in a closed vocabulary."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from evokernel.records.candidate import Usage
from evokernel.task import Task, Tensor, Workload, WorkloadSet

MOST_CHECKS = 16
"""Checks that a run may add: each of them takes time with every candidate."""
ADDED = "added-"
"""The beginning of the names of their workloads."""
MOST_PARTS = 4
"""Parts of one tensor with contents of their own."""
NUMBERS = ("equal", "ties", "outlier", "run")
"""Structures of floating-point rows: all values equal, three values, one that is far off, a run of equal values."""
INDICES = ("equal", "extremes", "ordered", "crowded", "run", "beats")
"""Structures of rows of integers with a bound: all equal, the least and the largest, in order, a few, a run of one, one
integer and at regular places another.
"""


@dataclass(frozen=True, slots=True)
class HiddenCheck:
    """Inputs on which every later candidate of a run is checked."""

    sizes: Mapping[str, int]
    """Every dimension that the task draws for hidden shapes, by name."""
    contents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Words by the name of an input; its rows are cut into as many parts, one word each. Without any the inputs are
    drawn from each distribution of the task; other inputs are ordinary."""
    reason: str = ""
    """The fault that it is meant to find, in one line; no part of its identity."""

    @property
    def digest(self) -> str:
        """16 hex digits over sizes and contents."""
        return _digest(json.dumps([dict(self.sizes), _lists(self.contents)], sort_keys=True))

    def workload(self, offered: WorkloadSet) -> Workload:
        """Return its workload, with the other numbers of the first search workload."""
        return Workload(f"{ADDED}{self.digest}", {**offered.search[0].dims, **self.sizes})

    def as_message(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"sizes": dict(self.sizes), "contents": _lists(self.contents), "reason": self.reason}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Self:
        """Return the check in JSON values. Raises `ValueError` for other values than those of `as_message`."""
        try:
            sizes = {str(name): size for name, size in message["sizes"].items()}
            contents = {str(name): tuple(map(str, words)) for name, words in message.get("contents", {}).items()}
        except (KeyError, AttributeError, TypeError) as error:
            raise ValueError(f"it is no hidden check: {type(error).__name__}: {error}") from None
        if not all(type(size) is int for size in sizes.values()):
            raise ValueError(f"the sizes of a hidden check are whole numbers, not {sizes}")
        return cls(sizes, contents, str(message.get("reason", "")))


@dataclass(frozen=True, slots=True)
class CheckReply:
    """An answer of hidden checks that are meant to break kernels, without a kernel."""

    checks: tuple[HiddenCheck, ...]
    """The proposed checks; none of them is admitted yet."""
    usage: Usage = field(default_factory=Usage)
    """Their cost."""


def digest_of(checks: Sequence[HiddenCheck]) -> str:
    """Return 16 hex digits over some checks, in any order; nothing for none."""
    return _digest(" ".join(sorted(check.digest for check in checks))) if checks else ""


def words_for(task: Task, tensor: Tensor) -> tuple[str, ...]:
    """Return the words for the contents of an input; none where a generator makes it."""
    if tensor.generator is not None:
        return ()
    if _is_float(tensor):
        return (*task.declared, *NUMBERS)
    index = tensor.dtype in ("int32", "int64") and any(map(_is_float, task.signature.inputs))
    return (*task.declared, *(INDICES if index or tensor.below is not None else ()))


def _is_float(tensor: Tensor) -> bool:
    return tensor.dtype.startswith(("float", "bfloat"))


def _lists(contents: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: list(words) for name, words in contents.items()}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
