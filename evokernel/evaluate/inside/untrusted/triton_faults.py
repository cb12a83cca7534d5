"""Failures of a Triton source, in the format of `faults`."""

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .faults import TEXT_LIMIT, of_host

_NOISE = re.compile(r"^(Repro command:|`ptxas` stderr:|=+$|please share)")
_ERROR_LINE = re.compile(r"\b(error|fatal)\b", re.IGNORECASE)


@contextlib.contextmanager
def errors_of_the_compiler(file: Path) -> Iterator[Callable[[], str]]:
    """Redirect this process's output to a file while it compiles; yield a function that returns its error lines.

    The compiler's C++ parts print their reasons and raise only that they failed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    target = os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(target, 1)
    os.dup2(target, 2)
    try:
        yield lambda: _errors_in(file)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)
        os.close(target)


def describe(error: BaseException, source: str, printed: str) -> dict[str, Any]:
    """Return the failure for an exception; `printed` is the compiler's output beside it."""
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources, PTXASError

    failure = of_host(error)
    if isinstance(error, OutOfResources):
        numbers = {"required": error.required, "limit": error.limit, "resource": error.name}
        return failure | numbers | {"stage": "resources"}
    if isinstance(error, CompilationError):
        line, message = _innermost(error, source)
        return failure | {"stage": "compile", "line": line or failure["line"], "message": message[:TEXT_LIMIT]}
    if isinstance(error, PTXASError):
        return failure | {"stage": "compile", "message": _without_noise(str(error))}
    if isinstance(error, SyntaxError) or not _in_compiler(error):
        return failure
    message = f"{error}\n{printed}" if printed else str(error)
    return failure | {"stage": "compile", "message": message[:TEXT_LIMIT]}


def _innermost(error: Any, source: str) -> tuple[int | None, str]:
    """Return line and message of the error furthest down a chain of calls between jitted functions."""
    line, messages = None, []
    seen: BaseException | None = error
    while seen is not None:
        node, text = getattr(seen, "node", None), getattr(seen, "src", None)
        if text is None:
            messages.append(str(seen))
            break
        start = source.find(text)
        if start >= 0 and node is not None and hasattr(node, "lineno"):
            line = source.count("\n", 0, start) + node.lineno
        if seen.error_message:  # type: ignore[attr-defined]
            messages.append(str(seen.error_message))  # type: ignore[attr-defined]
        seen = seen.__cause__
    return line, "\n".join(dict.fromkeys(messages)) or "the kernel does not compile"


def _in_compiler(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return any(Path(frame.filename).parts[-2:] == ("compiler", "compiler.py") for frame in frames)


def _without_noise(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    return "\n".join(lines)[:TEXT_LIMIT]


def _errors_in(file: Path) -> str:
    sys.stdout.flush()
    sys.stderr.flush()
    lines = file.read_text(errors="replace")[: 1 << 20].splitlines()
    return "\n".join([line[:300] for line in lines if _ERROR_LINE.search(line)][:10])
