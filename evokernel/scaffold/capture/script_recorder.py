"""Runs a user's script in the sandbox, without a GPU, and records the calls of one of its functions or modules."""

import importlib.util
import inspect
import os
import runpy
import sys
import time
from functools import partial
from types import CodeType, FrameType
from typing import Any

import torch

from evokernel.scaffold.capture.call_watch import CallWatch
from evokernel.scaffold.capture.captured_calls import CallRecorder, CapturedCalls
from evokernel.scaffold.extract.call_recorder import MainMemory, failure_reason, stand_in

_TORCH = os.path.dirname(torch.__file__)
RECORDED_S = 90.0
"""A call after this many seconds ends the script: what came until then is taken."""


class _Enough(BaseException):
    """Ends the script; no handler of `Exception` catches it."""


def answer(request: dict[str, Any], _: str) -> tuple[dict[str, Any], bytes]:
    """Record the calls.

    Args:
        request: `script`, a path, and `function`, the name of a function or class of modules.

    Returns:
        `calls`, as `CapturedCalls.packed` writes them, and `remark`; or `failure`, in words.
    """
    script, wanted = request["script"], request["function"]
    os.chdir(os.path.dirname(script))
    sys.path.insert(0, os.path.dirname(script))
    sys.argv = [script]
    if not torch.cuda.is_available() and importlib.util.find_spec("triton"):
        stand_in()
    calls, end = CapturedCalls(wanted), time.monotonic() + RECORDED_S
    record = CallRecorder(calls)

    def seen(frame: FrameType) -> None:
        record(frame)
        if time.monotonic() > end:
            raise _Enough

    watch = CallWatch(partial(_named, wanted), seen)
    with watch, MainMemory():
        remark = _run(script)
    if watch.fault is not None:
        return {"failure": str(watch.fault)}, b""
    if not calls.forms and remark:
        return {"failure": f"the script did not come to a call of {wanted}: {remark}"}, b""
    return {"calls": calls.packed(), "remark": remark}, b""


def _named(wanted: str, code: CodeType) -> bool:
    if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a class has its name, too
        return False
    name = code.co_qualname.rpartition("<locals>.")[2]
    return name == f"{wanted}.forward" or (name == wanted and not code.co_filename.startswith(_TORCH))


def _run(script: str) -> str:
    """Run the script; return why it did not come to its end, or nothing."""
    try:
        runpy.run_path(script, run_name="__main__")
    except _Enough:
        return f"the script was ended after {RECORDED_S:g} s"
    except BaseException as error:  # noqa: BLE001  a user's script may raise anything, SystemExit among it
        ended = isinstance(error, SystemExit) and error.code in (None, 0)
        return "" if ended else failure_reason(error, script)
    return ""
