"""Runs a user's script on its own device and times the operations that it calls; `program_profile` starts it.

An operation is a function at the top of a file beside the script, or the forward of a module, that is given tensors.
"""

import inspect
import json
import os
import runpy
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from evokernel.evaluate.device import cpu_roofline, gpu_roofline
from evokernel.records.timing import Floor
from evokernel.scaffold.extract.call_recorder import failure_reason

_LABEL = "evokernel operation "
_FIRST = " first"
_TOLD = ("name", "place", "module", "sizes", "form", "calls", "inner")


class _Enough(BaseException):
    """Ends the script; no handler of `Exception` catches it."""


class _Flops(TorchDispatchMode):  # type: ignore[misc]
    """Counts the operations of products, convolutions and attention."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if rule := flop_registry.get(func._overloadpacket):
            self.total += rule(*args, **(kwargs or {}), out_val=made)
        return made


@dataclass
class _Operation:
    """An operation at one set of sizes."""

    number: int
    name: str
    place: str
    """File and line."""
    module: bool
    """A module's forward; else a function."""
    sizes: str
    """Types and shapes of its tensors."""
    form: str
    """Types and numbers of axes of its tensors, and shapes of a module's parameters: one task has one form."""
    dtype: str
    """Of its first floating-point tensor."""
    bytes: int
    """Read and written, each tensor once."""
    flops: int = 0
    calls: int = 0
    inner: bool = False
    """It calls other operations."""


@dataclass
class _Call:
    frame: FrameType
    operation: _Operation
    range: Any
    flops: _Flops | None = None


@dataclass
class _OperationWatch:
    """Sees calls begin and end, in every thread; the first call of an operation at its sizes is looked at."""

    folder: str
    end: float
    operations: dict[tuple[str, str, str], _Operation] = field(default_factory=dict)
    fault: str = ""
    """The error that ended the watch, not the program."""
    _threads: dict[int, list[_Call]] = field(default_factory=dict)
    _wanted: dict[CodeType, bool] = field(default_factory=dict)

    def look(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take a call or a return, as `sys.setprofile` tells them."""
        try:
            if event == "call" and not self.fault and self._is_wanted(frame.f_code):
                self._begin(frame)
            elif event == "return":
                running = self._threads.get(threading.get_ident())
                if running and running[-1].frame is frame:
                    _finish(running.pop(), argument)
        except Exception as error:  # noqa: BLE001 - the program that is watched goes on
            self.fault = f"a call of {frame.f_code.co_name} could not be read, and later ones were left out: {error}"

    def _is_wanted(self, code: CodeType) -> bool:
        if code not in self._wanted:
            plain = code.co_flags & inspect.CO_OPTIMIZED and not code.co_flags & inspect.CO_GENERATOR
            own = os.path.realpath(code.co_filename).startswith(self.folder + os.sep)
            function = own and code.co_qualname == code.co_name and not code.co_name.startswith("<")
            self._wanted[code] = bool(plain) and (function or code.co_name == "forward")
        return self._wanted[code]

    def _begin(self, frame: FrameType) -> None:
        owner = frame.f_locals.get("self")
        module = owner if isinstance(owner, torch.nn.Module) else None
        if frame.f_code.co_name == "forward" and module is None:
            return
        tensors = [each for each in frame.f_locals.values() if isinstance(each, torch.Tensor)]
        if not tensors:
            return
        if time.monotonic() > self.end:
            raise _Enough
        running = self._threads.setdefault(threading.get_ident(), [])
        if running:
            running[-1].operation.inner = True
        operation = self._operation(frame.f_code, module, tensors)
        operation.calls += 1
        first = operation.calls == 1
        call = _Call(
            frame,
            operation,
            torch.autograd.profiler.record_function(f"{_LABEL}{operation.number}{_FIRST * first}"),
            _Flops() if first else None,
        )
        call.range.__enter__()
        if call.flops is not None:
            call.flops.__enter__()
        running.append(call)

    def _operation(self, code: CodeType, module: torch.nn.Module | None, tensors: list[torch.Tensor]) -> _Operation:
        name = code.co_name if module is None else type(module).__name__
        sizes = ", ".join(f"{str(each.dtype).removeprefix('torch.')}{list(each.shape)}" for each in tensors)
        place = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
        held = [*tensors, *((*module.parameters(), *module.buffers()) if module is not None else ())]
        key = (name, place, f"{sizes} {[each.shape for each in held]}")
        if key not in self.operations:
            floats = (str(each.dtype).removeprefix("torch.") for each in held if each.is_floating_point())
            weights = [list(each.shape) for each in held[len(tensors) :]]
            self.operations[key] = _Operation(
                *(len(self.operations), name, place, module is not None, sizes),
                form=", ".join([*(f"{each.dtype} {each.ndim}" for each in tensors), str(weights)]),
                dtype=next(floats, ""),
                bytes=_bytes(held),
            )
        return self.operations[key]


def _finish(call: _Call, made: Any) -> None:
    if call.flops is not None:
        call.flops.__exit__(None, None, None)
        call.operation.flops = call.flops.total
        results = made if isinstance(made, (tuple, list)) else (made,)
        call.operation.bytes += _bytes(each for each in results if isinstance(each, torch.Tensor))
    call.range.__exit__(None, None, None)


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def profile(script: str, arguments: list[str], *, limit_s: float) -> dict[str, Any]:
    """Run a script; return its operations with times and floors, in us, and how it ended."""
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(script))
    watch = _OperationWatch(os.path.realpath(os.path.dirname(script)), time.monotonic() + limit_s)
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    remark = ""
    with torch.profiler.profile(activities=activities) as found:
        threading.setprofile(watch.look)
        sys.setprofile(watch.look)
        try:
            runpy.run_path(script, run_name="__main__")
        except _Enough:
            remark = f"the script was ended after {limit_s:g} s"
        except BaseException as error:  # noqa: BLE001  a user's script may raise anything, SystemExit among it
            ended = isinstance(error, SystemExit) and error.code in (None, 0)
            remark = "" if ended else failure_reason(error, script)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    events = [event for event in found.events() if event.device_type == DeviceType.CPU]
    on_gpu = sum(event.self_device_time_total for event in events) > 0
    return {"remark": remark or watch.fault, **_measured(events, watch.operations.values(), on_gpu=on_gpu)}


def _measured(events: list[Any], operations: Iterable[_Operation], *, on_gpu: bool) -> dict[str, Any]:
    times: dict[str, list[float]] = {}
    for event in events:
        if event.name.startswith(_LABEL):
            total = event.device_time_total if on_gpu else event.cpu_time_total
            times.setdefault(event.name.removeprefix(_LABEL), []).append(total)
    whole = sum(event.self_device_time_total if on_gpu else event.self_cpu_time_total for event in events)
    sheet = gpu_roofline.measure_device() if on_gpu else _processor_sheet()
    made = []
    for each in operations:
        # the first call warms up, and was looked at
        seen = times.get(str(each.number)) or times.get(f"{each.number}{_FIRST}", [])
        if seen:
            floor = _floor(each, sheet, on_gpu=on_gpu)
            made.append({
                **{name: getattr(each, name) for name in _TOLD},
                **{"us": sum(seen) / len(seen), "floor_us": floor.us, "limit": floor.limit.value},
            })  # fmt: skip
    device = gpu_roofline.device_name() if on_gpu else cpu_roofline.device_name()
    return {"device": device, "whole_us": whole, "operations": made}


def _processor_sheet() -> Mapping[str, float]:
    cores = sorted(os.sched_getaffinity(0))[: torch.get_num_threads()]
    return cpu_roofline.measure_device(cores, cpu_roofline.cache_folder())


def _floor(operation: _Operation, sheet: Mapping[str, float], *, on_gpu: bool) -> Floor:
    flops, moved = float(operation.flops), float(operation.bytes)
    if not on_gpu:
        return cpu_roofline.floor_of(flops, moved, sheet)
    tf32 = torch.backends.cuda.matmul.allow_tf32
    return gpu_roofline.floor_of(flops, moved, operation.dtype, sheet, allow_tf32=tf32)


if __name__ == "__main__":
    answer, seconds, target, *rest = sys.argv[1:]
    told = profile(target, rest, limit_s=float(seconds))
    Path(answer).write_text(json.dumps(told), encoding="utf-8")
