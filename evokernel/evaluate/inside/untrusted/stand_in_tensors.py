"""Stand-in tensors: the arguments of `run` where there is no GPU.

A stand-in has the shape, strides, dtype and device of a tensor on the GPU and no memory. Inside `hosted` torch treats
it as one: views work, and the usual functions make scratch. Operations that would compute or wait on the host are
refused by name. That loses nothing: such an operation would be torch's kernel, not the candidate's.
"""

import contextlib
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Protocol

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

DEVICE = torch.device("cuda", 0)
_ALIGNMENT_BITS = 12  # alignment of a buffer's made-up address, more than any real one has
_MAKE = "empty empty_strided empty_like new_empty new_empty_strided zeros zeros_like new_zeros full full_like new_full "
_MAKE += "ones ones_like new_ones scalar_tensor"
_VIEW = "view _unsafe_view view_as as_strided slice select t transpose permute expand unsqueeze squeeze detach alias "
_VIEW += "reshape _reshape_alias unbind split split_with_sizes chunk unflatten diagonal unfold view_as_real"
_FILL = frozenset({"zero_", "fill_", "copy_"})
_MAKE_NAMES = frozenset(_MAKE.split())
_ALLOWED = _MAKE_NAMES | frozenset(_VIEW.split())


class StandIn(torch.Tensor):  # type: ignore[misc]
    """A tensor without memory that claims to be on the GPU."""

    device = property(lambda self: DEVICE)
    is_cuda = property(lambda self: True)
    is_meta = property(lambda self: False)

    def data_ptr(self) -> int:
        """Return a made-up address with the alignment of the real one; no two buffers share it."""
        if not self.numel():
            return 0  # as torch does for an empty tensor
        base = self.untyped_storage()._cdata << _ALIGNMENT_BITS
        return int(base + self.storage_offset() * self.element_size())

    def get_device(self) -> int:
        """Return the number of the device."""
        return 0

    def cuda(self, *_: Any, **__: Any) -> "StandIn":
        """Return itself: it is on the GPU already."""
        return self


def stand_in(shape: tuple[int, ...], dtype: str, strides: tuple[int, ...] | None = None) -> StandIn:
    """Return a tensor without memory; it is contiguous unless it has strides."""
    kind = getattr(torch, dtype)
    if strides is None:
        made = torch.empty(shape, dtype=kind, device="meta")
    else:
        made = torch.empty_strided(shape, strides, dtype=kind, device="meta")
    stand: StandIn = made.as_subclass(StandIn)
    return stand


class CallNotes(Protocol):
    """Receiver of the host code's fills and copies of stand-ins."""

    def fill(self, tensor: Any, value: Any) -> None:
        """Record a fill of a tensor with a number."""

    def copy(self, target: Any, source: Any) -> None:
        """Record a copy of a tensor into another."""


class _OnDevice(TorchFunctionMode):  # type: ignore[misc]
    """Makes stand-ins where host code asks for tensors on the GPU."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.__setitem__:
            return _set(*args)
        if function is torch.Tensor.to:
            args = tuple("meta" if _is_device(each) else each for each in args)
        if _is_device(kwargs.get("device")):
            kwargs["device"] = "meta"
        made = function(*args, **kwargs)
        return made.as_subclass(StandIn) if isinstance(made, torch.Tensor) and made.is_meta else made


def _set(tensor: Any, index: Any, value: Any) -> None:
    """Record an assignment to a part of a GPU tensor, which torch would handle otherwise without memory."""
    part = tensor[index]
    if isinstance(value, torch.Tensor):
        part.copy_(value)
    else:
        part.fill_(value)


def _is_device(value: Any) -> bool:
    return (isinstance(value, torch.device) and value.type == "cuda") or (
        isinstance(value, str) and value.split(":")[0] == "cuda"
    )


class _Mode(TorchDispatchMode):  # type: ignore[misc]
    """A dispatch mode without torch's compiler, whose import takes up to a second and writes files, in every fork."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class _Guard(_Mode):
    """Allows operations that make views and scratch, records fills and copies, refuses others."""

    def __init__(self, notes: CallNotes) -> None:
        super().__init__()
        self._notes = notes

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = function._schema.name.partition("::")[2]
        if name in _FILL:
            self._note(name, args)
            return args[0]
        _refuse_unless(name in _ALLOWED, name)
        with torch._C.DisableTorchFunction():
            plain = tree_map_only(torch.Tensor, lambda tensor: tensor.as_subclass(torch.Tensor), (args, kwargs or {}))
            made = function(*plain[0], **plain[1])
            if name in _MAKE_NAMES and made.is_meta and "empty" not in name:
                self._notes.fill(made.as_subclass(StandIn), _filler(name, function, *plain))
        return made

    def _note(self, name: str, args: tuple[Any, ...]) -> None:
        target, value = args[0], 0 if name == "zero_" else args[1]
        with torch._C.DisableTorchFunction():
            if isinstance(value, torch.Tensor) and not isinstance(value, StandIn) and not value.dim():
                name, value = "fill_", value.item()  # x[0] = 1 arrives as a copy of a host number
            tensors = (target, value) if name == "copy_" else (target,)
            if not all(isinstance(each, StandIn) for each in tensors):
                raise RuntimeError(f"run() calls {name} with a tensor on the CPU: make scratch with device=x.device")
            if name == "copy_":
                self._notes.copy(target, value)
            else:
                self._notes.fill(target, value)


def _filler(name: str, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return the number that a function of torch fills a tensor with."""
    if "zeros" in name or "ones" in name:
        return int("ones" in name)
    given = dict(zip((each.name for each in function._schema.arguments), args, strict=False)) | dict(kwargs)
    return given["s" if name == "scalar_tensor" else "fill_value"]


class LaunchesOnly(_Mode):
    """Refuses on real tensors the operations that `hosted` refuses: `run` may tell them apart, or catch the refusal."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = function._schema.name.partition("::")[2]
        _refuse_unless(name in _FILL or name in _ALLOWED, name)
        return function(*args, **(kwargs or {}))


def _refuse_unless(fine: bool, name: str) -> None:
    if not fine:
        raise RuntimeError(
            f"run() calls torch for {name!r}: it may launch kernels, make views, allocate scratch with "
            "torch.empty, and use zero_, fill_ and copy_; nothing else, and it must not wait for results"
        )


@contextlib.contextmanager
def hosted(notes: CallNotes, *, capability: int, properties: Mapping[str, int]) -> Iterator[None]:
    """Make torch act as if a GPU were there, for stand-ins; `notes` receives fills and copies."""
    facts = {
        "name": "GPU",
        "major": capability // 10,
        "minor": capability % 10,
        "multi_processor_count": properties["multiprocessor_count"],
        "shared_memory_per_block_optin": properties["max_shared_mem"],
        "regs_per_multiprocessor": properties["max_num_regs"],
        "max_threads_per_multi_processor": properties["max_threads"],
        "warp_size": 32,
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(_patched(facts))
        stack.enter_context(torch.no_grad())
        stack.enter_context(_Guard(notes))
        stack.enter_context(_OnDevice())
        yield


@contextlib.contextmanager
def _patched(facts: Mapping[str, Any]) -> Iterator[None]:
    """Let `torch.cuda` answer as if there were a device, inside this context."""
    replaced = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_properties": lambda device=None: SimpleNamespace(**facts),
        "get_device_capability": lambda device=None: (facts["major"], facts["minor"]),
        "get_device_name": lambda device=None: facts["name"],
        "set_device": lambda device: None,
        "device": contextlib.nullcontext,
        "synchronize": _no_waiting,
        "current_stream": _no_streams,
        "Stream": _no_streams,
    }
    kept = {name: getattr(torch.cuda, name) for name in replaced}
    try:
        for name, function in replaced.items():
            setattr(torch.cuda, name, function)
        yield
    finally:
        for name, function in kept.items():
            setattr(torch.cuda, name, function)


def _no_waiting(*_: Any, **__: Any) -> None:
    raise RuntimeError("run() must not wait for the device: launch and return")


def _no_streams(*_: Any, **__: Any) -> None:
    raise RuntimeError("run() must not use streams: everything runs on the current one")
