"""Runs a user's script in the sandbox, without a GPU, and records the calls of one of its functions or modules."""

import importlib.util
import os
import runpy
import sys
import time
from types import CodeType, FrameType
from typing import Any

import torch

from evokernel.scaffold.capture.call_watch import CallWatch
from evokernel.scaffold.capture.captured_calls import CallRecorder, CapturedCalls
from evokernel.scaffold.extract.call_recorder import OnProcessor, failure_reason, stand_in

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
    calls, remark, end = CapturedCalls(wanted), "", time.monotonic() + RECORDED_S
    record = CallRecorder(calls)

    def seen(frame: FrameType) -> None:
        record(frame)
        if time.monotonic() > end:
            raise _Enough

    ours = os.path.dirname(torch.__file__)

    def named(code: CodeType) -> bool:
        name = code.co_qualname.rpartition("<locals>.")[2]
        return name == f"{wanted}.forward" or (name == wanted and not code.co_filename.startswith(ours))

    watch = CallWatch(named, seen)
    try:
        with watch, OnProcessor():
            runpy.run_path(script, run_name="__main__")
    except _Enough:
        remark = f"the script was ended after {RECORDED_S:g} s"
    except BaseException as error:  # noqa: BLE001  a user's script may raise anything, SystemExit among it
        if not isinstance(error, SystemExit) or error.code not in (None, 0):
            remark = failure_reason(error, script)
    if watch.fault is not None:
        return {"failure": str(watch.fault)}, b""
    if not calls.forms and remark:
        return {"failure": f"the script did not come to a call of {wanted}: {remark}"}, b""
    return {"calls": calls.packed(), "remark": remark}, b""
