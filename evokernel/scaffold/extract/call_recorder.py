"""Runs a user's script until it calls a host function of GPU kernels, and hands the arguments over.

In the sandbox, without a GPU: tensors that the script puts on one lie in main memory, and kernels that it launches
before that call run in Triton's interpreter. The call itself does not begin.
"""

import os
import runpy
import sys
import traceback
from types import FrameType, SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from evokernel.evaluate.inside.driver.cuda_module import Kernel, Module

_KEPT_BYTES = 32 << 20
"""Contents of integers and truth values that are handed over; other tensors are described."""
_MENU = ("num_warps", "num_stages")
_UNUSUAL = ("num_ctas", "maxnreg", "pre_hook")


class _Called(BaseException):
    """Ends the script at the call; no handler of `Exception` catches it."""

    def __init__(self, frame: FrameType) -> None:
        super().__init__()
        self.frame = frame


class MainMemory(TorchFunctionMode):  # type: ignore[misc]
    """Puts in main memory what a script wants on a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        if func == torch.Tensor.is_cuda.__get__:
            return True
        given = {name: _here(value) for name, value in (kwargs or {}).items()}
        return func(*map(_here, args), **given)


def answer(request: dict[str, Any], folder: str) -> tuple[dict[str, Any], bytes]:
    """Record the first call.

    Args:
        request: `script`, `module` and `function`: two paths and the name of a function in `module`.
        folder: where the script may write.

    Returns:
        `arguments`, a list of names with `{"tensor": {dtype, shape, strides, bytes}}`, `{"value": ...}` or
        `{"other": type}`; `tuned`, by name of each autotuned kernel its `configs` and `unusual`, what they have beside
        numbers; `cuda_texts`, by name the CUDA C++ of each `Module`; and as bytes the contents of tensors of integers.
        Or `failure`, in words.
    """
    os.chdir(folder)
    os.environ["TRITON_INTERPRET"] = "1"
    sys.path[:0] = list(dict.fromkeys(os.path.dirname(request[key]) for key in ("script", "module")))
    sys.argv = [request["script"]]
    if not torch.cuda.is_available():
        stand_in()
    Kernel.launcher = _NoLaunches()
    try:
        frame = _frame_of_call(request)
    except BaseException as error:  # noqa: BLE001  a user's script may raise anything, SystemExit among it
        return {"failure": failure_reason(error, request["script"])}, b""
    if frame is None:
        return {"failure": f"it ended without a call of {request['function']}"}, b""
    blob = bytearray()
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    arguments = [(name, _described(frame.f_locals[name], blob)) for name in names]
    found = {"tuned": _tuned(frame.f_globals), "cuda_texts": _cuda_texts(frame.f_globals)}
    return {"arguments": arguments, **found}, bytes(blob)


class _NoLaunches:
    """Refuses kernels in CUDA C++: their results would be missing in what the script goes on with."""

    def load(self, *_: Any) -> Any:
        raise RuntimeError("a CUDA kernel is launched before the call; let the script make the call alone")

    launch = load


def _frame_of_call(request: dict[str, Any]) -> FrameType | None:
    wanted = os.path.realpath(request["module"])

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name == request["function"] and os.path.realpath(code.co_filename) == wanted:
            sys.setprofile(None)
            raise _Called(frame)

    sys.setprofile(look)
    try:
        with MainMemory():
            runpy.run_path(request["script"], run_name="__main__")
    except _Called as call:
        return call.frame
    finally:
        sys.setprofile(None)
    return None


def _here(value: Any) -> Any:
    return "cpu" if isinstance(value, (str, torch.device)) and str(value).partition(":")[0] == "cuda" else value


def stand_in() -> None:
    """Let torch and Triton answer as with an H100: scripts ask before they begin."""
    import triton
    from triton.backends.compiler import GPUTarget

    from evokernel.scaffold.inductor.stand_in_gpu import H100

    answers = {
        "is_available": True, "device_count": 1, "current_device": 0, "synchronize": None, "set_device": None,
        "get_device_capability": (H100.major, H100.minor), "get_device_name": H100.name, "get_device_properties": H100,
    }  # fmt: skip
    for name, value in answers.items():
        setattr(torch.cuda, name, lambda *_, value=value, **__: value)
    driver = SimpleNamespace(
        get_active_torch_device=lambda: torch.device("cpu"),
        get_current_target=lambda: GPUTarget("cuda", 10 * H100.major + H100.minor, H100.warp_size),
        get_current_device=lambda: 0,
        get_benchmarker=lambda: _timed,
        utils=SimpleNamespace(get_device_properties=lambda _: vars(H100)),
    )
    triton.runtime.driver.set_active(driver)


def _timed(call: Any, *_: Any, **__: Any) -> list[float]:
    """Stand in for a measurement of a kernel that Triton tunes: all configurations are as fast."""
    call()
    return [1.0, 1.0, 1.0]


def _described(value: Any, blob: bytearray) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        raw = b""
        if not value.is_floating_point() and value.numel() * value.element_size() <= _KEPT_BYTES - len(blob):
            raw = bytes(value.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
            blob += raw
        shape, strides = list(value.shape), list(value.stride())
        return {"tensor": {"dtype": dtype, "shape": shape, "strides": strides, "bytes": len(raw)}}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    return {"other": type(value).__name__}


def _tuned(names: dict[str, Any]) -> dict[str, Any]:
    """Return the configurations of the kernels that Triton tunes, by name."""
    from triton.runtime.autotuner import Autotuner

    found = {}
    for name, value in names.items():
        inner = value
        while inner is not None and not isinstance(inner, Autotuner):
            inner = getattr(inner, "fn", None)
        if inner is None:
            continue
        configs = [{**each.kwargs, **{key: getattr(each, key) for key in _MENU}} for each in inner.configs]
        unusual = [
            key
            for key, usual in zip(_UNUSUAL, (1, None, None), strict=True)
            if any(getattr(each, key, usual) != usual for each in inner.configs)
        ]
        found[name] = {"configs": [_plain(each) for each in configs], "unusual": unusual}
    return found


def _cuda_texts(names: dict[str, Any]) -> dict[str, str]:
    """Return the text of each module of CUDA C++ at the top of a file, by name."""
    return {name: value._source for name, value in names.items() if isinstance(value, Module)}


def _plain(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value if isinstance(value, (bool, int)) else str(value) for key, value in config.items()}


def failure_reason(error: BaseException, script: str) -> str:
    """Return the line of a script that raised an error, and the error in one line."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == script]
    first = str(error).strip().partition("\n")[0][:300]
    return f"line {lines[-1] if lines else '?'} raised {type(error).__name__}: {first}"
