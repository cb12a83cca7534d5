"""A user's own kernel as a baseline, in the process of the other baselines; trusted like the task."""

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evokernel.evaluate.worker_mode.trampoline import word_of
from evokernel.source.python_file import load_file
from evokernel.task import Baseline, Scalar, Signature

EXPERT = "expert"
"""Its name among the baselines."""

Set = tuple[Mapping[str, Any], Sequence[Any]]
"""Arguments of a baseline: inputs and scalars by name, and its outputs."""


def arguments_of(signature: Signature, one_set: Set) -> list[Any]:
    """Return the arguments of a kernel in calling order, from those of a baseline."""
    inputs, written = one_set
    outputs = zip(signature.outputs, written[len(written) - len(signature.outputs) :], strict=True)
    named = {**inputs, **{tensor.name: output for tensor, output in outputs}}
    return [named[argument.name] for argument in signature.arguments]


def python_baseline(file: str, signature: Signature) -> Baseline:
    """Return a baseline that calls `run` of a Python file, which the first call loads."""

    @functools.cache
    def loaded() -> Callable[..., object]:
        run: Callable[..., object] = load_file(file, "evokernel_expert").run
        return run

    def call(inputs: Mapping[str, Any], outputs: Sequence[Any]) -> None:
        loaded()(*arguments_of(signature, (inputs, outputs)))

    return call


class CompiledLoop:
    """Calls a compiled C++ kernel over sets by the trampoline of candidates, so that a call costs the same.

    `kernel` and `trampoline` are files of shared objects.
    """

    def __init__(self, kernel: str, trampoline: str, signature: Signature) -> None:
        self._signature = signature
        self._calls = ctypes.CDLL(trampoline).evk_calls
        self._calls.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_long]
        self._calls.restype = None
        self._library = ctypes.CDLL(kernel)
        self._run = ctypes.cast(self._library.run, ctypes.c_void_p)
        self._words: dict[str, ctypes.Array[ctypes.c_uint64]] = {}

    def warm(self, one_set: Set) -> None:
        """Run one call."""
        self._calls(self._run, self._packed([one_set]), 1, 0, 1)

    def prepare(self, name: str, sets: Sequence[Set], *, first: int, calls: int) -> Callable[[], None]:
        """Return a function that runs `calls` calls on consecutive sets of an arena."""
        if name not in self._words:
            self._words[name] = self._packed(sets)
        return functools.partial(self._calls, self._run, self._words[name], len(sets), first, calls)

    def finish(self) -> None:
        """Do nothing: calls are synchronous."""

    def forget(self, name: str) -> None:
        """Drop the addresses of a removed arena."""
        self._words.pop(name, None)

    def _packed(self, sets: Sequence[Set]) -> "ctypes.Array[ctypes.c_uint64]":
        words = [
            word_of(argument, one_set[0]) if isinstance(argument, Scalar) else value.data_ptr()
            for one_set in sets
            for argument, value in zip(self._signature.arguments, arguments_of(self._signature, one_set), strict=True)
        ]
        return (ctypes.c_uint64 * len(words))(*words)
