"""Records the launch plans of `run` where there is no GPU.

A plan is the work of one call, as JSON: `{"scratch": {name: bytes}, "steps": [step, ...]}`, and a step is one of

{"launch": {"kernel", "cubin", "grid", "block", "cluster", "shared_bytes", "cooperative", "programmatic",
            "parameters": [[kind, value], ...]}}
{"fill": {"buffer", "offset", "bytes", "pattern", "width"}}
{"copy": {"buffer", "offset", "source", "source_offset", "bytes"}}

Buffers are the tensors of the task's signature, by name, and scratch; `cubin` is the SHA-256 of the machine code. A
parameter's kind is that of `kernel_parameters`; a pointer's value is `[buffer, offset in bytes]` or None, a tensor
map's `[buffer, offset, element type, swizzle, extents, strides in bytes, box, NaN padding]`.

A build such as `triton_build` makes a `Recorder`, routes this process's kernel launches to its `launch`, loads the
source, and calls `record`.
"""

import gc
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..driver.kernel_parameters import POINTER, TENSOR_MAP, Parameter, number
from ..driver.loaded_kernel import Shape
from .buffers import WIDTH_BYTES, Buffers, is_dense, layout, pattern_of
from .stand_in_tensors import StandIn, hosted, stand_in

FILE = "plans.json"
STEP_LIMIT = 1000

Plan = dict[str, Any]


class RepetitionError(RuntimeError):
    """A second call with the same arguments differs from the first."""


@dataclass(frozen=True, slots=True)
class LaunchScratch:
    """Scratch that a kernel's launcher asks for, as the value of a pointer parameter."""

    name: str


@dataclass(frozen=True, slots=True)
class LaunchRecording:
    """Recorded calls of `run`."""

    plans: tuple[Plan, ...]
    """One for each shape, in order. With `unrecordable`, a step may be `{"torch": {...}}`, which cannot be replayed."""
    unrecordable: str | None
    """Why they cannot be launch plans, or None."""

    def document(self) -> bytes:
        """Return the contents of the bundle's `plans.json`; without shapes where there is a reason."""
        shapes = () if self.unrecordable else self.plans
        return json.dumps({"unrecordable": self.unrecordable, "shapes": shapes}, separators=(",", ":")).encode()

    def cubins(self, shapes: int) -> list[str]:
        """Return the digests of cubins launched on the first `shapes` shapes, sorted."""
        steps = [step for plan in self.plans[:shapes] for step in plan["steps"]]
        return sorted({step["launch"]["cubin"] for step in steps if "launch" in step})


class Recorder:
    """Records the device work of successive calls.

    Attributes:
        capability: of the device that is stood in for, 90 for 9.0.
        properties: its properties by name, as Triton calls them.
        index: the number of the shape that is being recorded; after an exception, of the one that failed.
        cubins: kept machine code, by SHA-256.
        unrecordable: why the calls so far cannot be plans, or None.
    """

    def __init__(self, capability: int, properties: Mapping[str, int]) -> None:
        """Record for a device."""
        self.capability = capability
        self.properties = properties
        self.index = 0
        self.cubins: dict[str, bytes] = {}
        self.unrecordable: str | None = None
        self._buffers = Buffers()
        self._past: list[Buffers] = []
        self._launch_scratch: dict[str, int] = {}
        self._steps: list[dict[str, Any]] = []

    def keep(self, cubin: bytes) -> str:
        """Keep machine code that may be launched; return its SHA-256, which `launch` takes."""
        digest = hashlib.sha256(cubin).hexdigest()
        self.cubins[digest] = cubin
        return digest

    def launch(self, kernel: str, cubin: str, *, shape: Shape, parameters: Sequence[Parameter]) -> None:
        """Record a launch; an empty grid launches nothing.

        Args:
            kernel: the name of the function in the cubin.
            cubin: the result of `keep`.
            shape: the shape of the launch; its grid counts clusters.
            parameters: all of them; a pointer's value is a tensor, a result of `scratch`, or None.

        Raises:
            ValueError: a parameter is a tensor on the CPU, or of an unsupported kind.
            RuntimeError: the call does too much.
        """
        values = [[parameter.kind, self._value(parameter)] for parameter in parameters]
        if 0 in shape.grid:
            return
        launch = {
            "kernel": kernel,
            "cubin": cubin,
            "grid": list(shape.grid),
            "block": list(shape.block),
            "cluster": shape.cluster,
            "shared_bytes": shape.shared_bytes,
            "cooperative": shape.cooperative,
            "programmatic": shape.programmatic,
            "parameters": values,
        }
        self._add({"launch": launch})

    def scratch(self, size_bytes: int) -> LaunchScratch | None:
        """Return memory for the next launch, as the value of a pointer; None for no bytes."""
        if not size_bytes:
            return None
        region = LaunchScratch(f"launch{len(self._launch_scratch)}")
        self._launch_scratch[region.name] = size_bytes
        return region

    def fill(self, tensor: Any, value: Any) -> None:
        """Record a fill of a tensor with a number."""
        if not tensor.numel():
            return
        buffer, offset = self._buffers.place(tensor)
        pattern = pattern_of(value, tensor.dtype)
        if isinstance(value, StandIn):
            self._give_up("run() fills a tensor with a number that is on the device", "fill_", tensor, value)
        elif not is_dense(tensor):
            self._give_up("run() fills a part of a tensor that is not contiguous", "fill_", tensor, value)
        elif len(pattern) > WIDTH_BYTES:
            self._give_up(f"run() fills {tensor.dtype} with more than a pattern of 4 bytes", "fill_", tensor, value)
        else:
            place = {"buffer": buffer, "offset": offset, "bytes": tensor.numel() * tensor.element_size()}
            self._add({"fill": {**place, "pattern": int.from_bytes(pattern, "little"), "width": len(pattern)}})

    def copy(self, target: Any, source: Any) -> None:
        """Record a copy of a tensor into another."""
        if not target.numel():
            return
        buffer, offset = self._buffers.place(target)
        origin, origin_offset = self._buffers.place(source)
        size_bytes = target.numel() * target.element_size()
        if target.dtype != source.dtype:
            self._give_up(f"run() copies {source.dtype} to {target.dtype}", "copy_", target, source)
        elif not is_dense(target) or layout(target) != layout(source):
            self._give_up("run() copies between tensors that are not laid out alike", "copy_", target, source)
        elif buffer == origin and abs(offset - origin_offset) < size_bytes:
            self._give_up("run() copies a tensor onto itself", "copy_", target, source)
        else:
            place = {"buffer": buffer, "offset": offset, "source": origin, "source_offset": origin_offset}
            self._add({"copy": {**place, "bytes": size_bytes}})

    def call(self, run: Callable[..., object], arguments: Sequence[Mapping[str, Any]]) -> Plan:
        """Call `run` on stand-ins; return its plan. Raises `RuntimeError` if it launched nothing.

        Args:
            arguments: `{"kind": "tensor", "name", "shape", "dtype"}` or `{"kind": "scalar", "value"}` each; a tensor
                that is not row-major has `strides`, in elements.
        """
        self._past.append(self._buffers)  # kept alive, so that no two tensors of a recording share an address
        self._buffers, self._launch_scratch, self._steps = Buffers(), {}, []
        values = [self._argument(argument) for argument in arguments]
        collects = gc.isenabled()
        gc.disable()  # when a tensor in a cycle is let go, and its memory free, must not depend on earlier calls
        try:
            with hosted(self, capability=self.capability, properties=self.properties):
                run(*values)
        finally:
            if collects:
                gc.enable()
        if not any("launch" in step for step in self._steps):
            raise RuntimeError("run() launched no kernel")
        return {"scratch": {**self._buffers.scratch, **self._launch_scratch}, "steps": self._steps}

    def _argument(self, argument: Mapping[str, Any]) -> Any:
        if argument["kind"] == "scalar":
            return argument["value"]
        strides = tuple(argument["strides"]) if "strides" in argument else None
        tensor = stand_in(tuple(argument["shape"]), argument["dtype"], strides)
        self._buffers.name(tensor, argument["name"])
        return tensor

    def _add(self, step: dict[str, Any]) -> None:
        if len(self._steps) >= STEP_LIMIT:
            raise RuntimeError(f"run() does more than {STEP_LIMIT} things on the device")
        self._steps.append(step)

    def _give_up(self, reason: str, name: str, *tensors: Any) -> None:
        self.unrecordable = self.unrecordable or reason
        self._add({"torch": {"name": name, "arguments": [self._shown(each) for each in tensors]}})

    def _shown(self, value: Any) -> Any:
        if not isinstance(value, StandIn):
            return repr(value)
        return [*self._buffers.place(value), list(value.shape), list(value.stride()), str(value.dtype)]

    def _value(self, parameter: Parameter) -> Any:
        value = parameter.value
        if parameter.kind == POINTER:
            return self._pointer(value)
        if parameter.kind == TENSOR_MAP:
            place = self._buffers.place(value.base)
            shape = [list(each) for each in (value.shape, value.strides_bytes, value.box)]
            return [*place, value.element_type, value.swizzle, *shape, value.nan_padding]
        return number(parameter.kind, value)

    def _pointer(self, value: Any) -> list[Any] | None:
        if value is None:
            return None
        if isinstance(value, LaunchScratch):
            return [value.name, 0]
        if isinstance(value, StandIn) and not value.numel():
            return None  # as in torch, an empty tensor has no address
        return list(self._buffers.place(value))


def record(
    run: Callable[..., object], shapes: Sequence[Sequence[Mapping[str, Any]]], *, measured: int, recorder: Recorder
) -> LaunchRecording:
    """Record `run` on the first `measured` shapes, on these once more in reverse order, and then the others likewise.

    Feedback must not reveal the others, so they run only once the measured ones cannot fail any more.

    Raises:
        RepetitionError: the second call on a shape differs.
        Exception: any exception of `run`; `recorder.index` is the shape.
    """
    plans = _twice(range(measured), run, shapes, recorder) + _twice(range(measured, len(shapes)), run, shapes, recorder)
    return LaunchRecording(tuple(plans), recorder.unrecordable)


def _twice(
    which: range, run: Callable[..., object], shapes: Sequence[Sequence[Mapping[str, Any]]], recorder: Recorder
) -> list[Plan]:
    plans = {index: _on(index, run, shapes[index], recorder) for index in which}
    for index in reversed(which):
        again = _on(index, run, shapes[index], recorder)
        if json.dumps(again) != json.dumps(plans[index]):  # as text, since a NaN does not equal itself
            raise RepetitionError(
                "run() did something else when it was called again with the same arguments: it may keep nothing "
                "between calls, draw nothing at random and use no addresses"
            )
    return list(plans.values())


def _on(index: int, run: Callable[..., object], shape: Sequence[Mapping[str, Any]], recorder: Recorder) -> Plan:
    recorder.index = index
    return recorder.call(run, shape)
