"""Failures of a candidate's host code, for its author: the line and the reason, nothing about this machine.

A failure is JSON: `stage` (`import`, `run`, `compile` or `resources`), `type`, `message`, `line` (of the source, or
None), and for `resources` the numbers `required` and `limit` with the `resource`.
"""

import traceback
from typing import Any

from .load_module import FILE

TEXT_LIMIT = 4000


def of_host(error: BaseException) -> dict[str, Any]:
    """Return the failure for an exception; its stage is `run` where `run` was active, and `import` otherwise."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    line = frames[-1].lineno if frames else None
    failure = {"stage": "run", "type": type(error).__name__, "line": line, "message": str(error)[:TEXT_LIMIT]}
    if isinstance(error, SyntaxError):
        return failure | {"stage": "import", "line": error.lineno, "message": error.msg[:TEXT_LIMIT]}
    if frames and not any(frame.name == "run" for frame in frames):
        return failure | {"stage": "import"}
    return failure
