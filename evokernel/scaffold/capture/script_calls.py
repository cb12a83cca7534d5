"""Calls of a function or module in a script that is run for them."""

from pathlib import Path

from evokernel.errors import TaskError
from evokernel.scaffold.capture.captured_calls import CapturedCalls, unpacked
from evokernel.scaffold.extract.recorded_call import ask_sandbox

_LIMIT_S = 120.0


def script_calls(script: Path, function: str) -> tuple[CapturedCalls, str]:
    """Run a script in the sandbox, without a GPU; return the calls of a function, and a remark on how it ended.

    Args:
        script: the file; it may read its own folder.
        function: name of a function or a class of modules, there or in what it imports.

    Raises:
        TaskError: it never calls the function, or the function cannot be written down.
    """
    script = script.resolve()
    request = {"script": str(script), "function": function}
    answered = ask_sandbox("evokernel.scaffold.capture.script_recorder", request, [script.parent], timeout_s=_LIMIT_S)
    if answered.timed_out:
        raise TaskError(
            f"{script.name} was stopped after {_LIMIT_S:g} s, and did not call {function} again since 90 s: write a "
            "script that runs a few steps, or use evokernel.capture in your program"
        )
    told = answered.answer or {"failure": answered.error}
    if "failure" in told:
        raise TaskError(
            f"{script.name}: {told['failure']}. It is run without a GPU and without network, and reads its own folder; "
            "evokernel.capture records in a program of yours"
        )
    return unpacked(told["calls"]), told["remark"]
