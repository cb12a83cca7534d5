"""Messages to authors on failures of a Triton build: at most 40 lines, with the source line and the change to make."""

from collections.abc import Mapping
from typing import Any

from evokernel.languages.messages import without_paths
from evokernel.source.tunables import read_tunables

LINE_LIMIT = 40
_WIDTH = 200
_BEFORE = 3
_STAGES = {
    "import": "the source raises when it is imported",
    "run": "run() raises",
    "compile": "the kernel does not compile",
}


def digest_failure(failure: Mapping[str, Any], source: str) -> str:
    """Return the message of a failure as `evaluate/inside/untrusted/triton_faults` describes one.

    Raises `ValueError` if it is another document.
    """
    try:
        if failure["hidden"]:
            return on_hidden_shape(failure)
        if failure["stage"] == "resources":
            return _resources(failure, source)
        head = f"{_STAGES[failure['stage']]}: {failure['type']}"
        lines = [head, *_place(failure["line"], source), *str(failure["message"]).splitlines()]
    except (KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a failure: {error!r}") from None
    return "\n".join(without_paths(line)[:_WIDTH] for line in lines[:LINE_LIMIT])


def on_hidden_shape(failure: Mapping[str, Any]) -> str:
    """Return the message on a failure on a hidden shape.

    The candidate chooses the message, the type of the exception, the line and the amount of a resource. Each of these
    could reveal the shape. Raises `KeyError` for another document.
    """
    if failure["stage"] == "resources":
        return "on a hidden shape, the kernel needs more of something than the device has (shared memory, threads)"
    return f"on a hidden shape, {_STAGES[failure['stage']]}; sizes need not be multiples of anything, and may be 1"


def _place(line: int | None, source: str) -> list[str]:
    """Return the lines of the source before the faulty one, and that one with a mark."""
    text = source.split("\n")
    if not isinstance(line, int) or not 1 <= line <= len(text):
        return []
    first = max(1, line - _BEFORE)
    shown = [f"   {number:4} | {text[number - 1]}" for number in range(first, line)]
    return [*shown, f"-> {line:4} | {text[line - 1]}"]


def _resources(failure: Mapping[str, Any], source: str) -> str:
    required, limit = int(failure["required"]), int(failure["limit"])
    names = ", ".join(tunable.name for tunable in read_tunables(source).tunables)
    here = f" (tunables here: {names})" if names else ""
    match failure["resource"]:
        case "shared memory":
            return (
                f"the kernel needs {required} bytes of shared memory for a program; the device has {limit}: lower "
                f"num_stages or the sizes of the tiles that are loaded{here}"
            )
        case "threads":
            return f"the kernel needs {required} threads for a program; the limit is {limit}: lower num_warps{here}"
    return f"the kernel needs {required} of {str(failure['resource'])[:40]}; the limit is {limit}{here}"
