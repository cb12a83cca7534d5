"""A recorded candidate, ready to be launched: its kernels loaded, its scratch, the steps of its calls."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..driver import loaded_kernel, streams
from ..driver.kernel_parameters import POINTER, TENSOR_MAP, Parameter, TensorMap
from ..driver.module_state import ModuleState
from .mapped_memory import PrivateMemory

_APART_BYTES = 4096
"""Scratch buffers begin at its multiples, with at least as much between them."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One step of a call."""

    queue: Callable[[], None]
    """Queues it."""
    overtaken: bool
    """The next step may begin, and end, before this one is complete."""


class RecordedCandidate:
    """Loaded kernels and the launches of each shape, with scratch of its own."""

    def __init__(self, document: Mapping[str, Any], cubins: Mapping[str, bytes], stream: streams.Stream) -> None:
        self._shapes: list[dict[str, Any]] = document["shapes"]
        self._stateful: bool = document["stateful"]
        self._cubins = cubins
        self._stream = stream
        self._modules: dict[str, loaded_kernel.LoadedModule] = {}
        self._kernels: dict[tuple[str, str], loaded_kernel.LoadedKernel] = {}
        self._shape = -1
        self._scratch: PrivateMemory | None = None  # of the current shape
        self.places: dict[str, int] = {}
        """Addresses of the scratch of the current shape."""
        self._calls: dict[tuple[str, int], list[RecordedStep]] = {}
        self._state: ModuleState | None = None  # None where modules are loaded anew instead
        self._load()

    @property
    def local_bytes(self) -> int:
        """The largest local memory of a thread of any kernel."""
        return max((kernel.local_bytes for kernel in self._kernels.values()), default=0)

    def select_shape(self, shape: int) -> None:
        """Allocate the scratch of one shape, in place of another's."""
        if shape == self._shape:
            return
        self._free()
        end = 0
        offsets: dict[str, int] = {}
        for name, size in self._shapes[shape]["scratch"].items():
            offsets[name] = end
            end += (-(-size // _APART_BYTES) + 1) * _APART_BYTES
        if offsets:
            self._scratch = PrivateMemory(end)
            self.places = {name: self._scratch.address + offset for name, offset in offsets.items()}
        self._shape = shape

    def call(self, arena: str, number: int, buffers: Mapping[str, int]) -> list[RecordedStep]:
        """Return the steps of one call on one set, ready to be queued. The first one waits for the call before it."""
        key = (arena, number)
        if key not in self._calls:
            steps, places = self._shapes[self._shape]["steps"], {**buffers, **self.places}
            early = [at > 0 and _begins_early(step) for at, step in enumerate(steps)]
            self._calls[key] = [
                RecordedStep(self._queue(step, places, early=early[at]), early[at + 1 : at + 2] == [True])
                for at, step in enumerate(steps)
            ]
        return self._calls[key]

    def reset_state(self) -> None:
        """Reset the variables of modules, so that earlier batches leave no trace. Queues work; none may be running."""
        if self._state is not None:
            self._state.restore(self._stream)
        elif self._stateful:
            self._unload()
            self._load()

    def poison(self, word: int) -> None:
        """Queue a fill of the scratch and of the pages around it, so that earlier batches leave no trace."""
        if self._scratch is not None:
            self._stream.fill(self._scratch.address, pattern=word, width=4, count=self._scratch.size_bytes // 4)

    def close(self) -> None:
        """Unload the kernels and free the scratch."""
        self._unload()
        self._free()

    def _free(self) -> None:
        self._calls.clear()
        self.places = {}
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None
        self._shape = -1

    def _load(self) -> None:
        """Load every module once: the kernels of one share its variables."""
        self._modules.update({digest: loaded_kernel.LoadedModule(image) for digest, image in self._cubins.items()})
        launches = [step["launch"] for shape in self._shapes for step in shape["steps"] if "launch" in step]
        most: dict[tuple[str, str], int] = {}
        for launch in launches:
            key = (launch["cubin"], launch["kernel"])
            most[key] = max(most.get(key, 0), launch["shared_bytes"])
        for (digest, name), shared_bytes in most.items():
            self._kernels[digest, name] = loaded_kernel.LoadedKernel(self._modules[digest], name, shared_bytes)
        if self._stateful:
            loaded = ((module, self._cubins[digest]) for digest, module in self._modules.items())
            self._state = ModuleState.of(loaded)

    def _unload(self) -> None:
        self._calls.clear()
        self._kernels.clear()
        for module in self._modules.values():
            module.unload()
        self._modules.clear()

    def _queue(self, step: Mapping[str, Any], places: Mapping[str, int], *, early: bool) -> Callable[[], None]:
        """Return a function that queues one step; `early` lets it begin before the step before it is complete."""
        stream = self._stream
        match step:
            case {"launch": launch}:
                kernel = self._kernels[launch["cubin"], launch["kernel"]]
                shape = loaded_kernel.Shape(
                    tuple(launch["grid"]),
                    tuple(launch["block"]),
                    launch["cluster"],
                    launch["shared_bytes"],
                    launch["cooperative"],
                    early,
                )
                bound = kernel.bind(shape, parameters_at(launch["parameters"], places))
                return lambda: bound.launch(stream.handle)
            case {"fill": fill}:
                target = places[fill["buffer"]] + fill["offset"]
                count = fill["bytes"] // fill["width"]
                return lambda: stream.fill(target, pattern=fill["pattern"], width=fill["width"], count=count)
            case {"copy": copy}:
                target, source = places[copy["buffer"]] + copy["offset"], places[copy["source"]] + copy["source_offset"]
                return lambda: stream.copy(target, source, size_bytes=copy["bytes"])
        raise ValueError(f"an unknown step: {sorted(step)}")


def _begins_early(step: Mapping[str, Any]) -> bool:
    return bool("launch" in step and step["launch"]["programmatic"])


class _At:
    """Stand-in for a tensor at an address."""

    def __init__(self, address: int) -> None:
        self._address = address

    def data_ptr(self) -> int:
        return self._address


def parameters_at(recorded: Sequence[Sequence[Any]], places: Mapping[str, int]) -> list[Parameter]:
    """Return parameters with addresses for names; `recorded` is from a checked plan, `places` has every buffer."""
    return [Parameter(kind, _value(kind, value, places)) for kind, value in recorded]


def _value(kind: str, value: Any, places: Mapping[str, int]) -> Any:
    if kind == POINTER:
        return None if value is None else places[value[0]] + value[1]
    if kind != TENSOR_MAP:
        return value
    buffer, offset, element_type, swizzle, shape, strides_bytes, box, nan_padding = value
    return TensorMap(
        base=_At(places[buffer] + offset),
        element_type=element_type,
        swizzle=swizzle,
        shape=tuple(shape),
        strides_bytes=tuple(strides_bytes),
        box=tuple(box),
        nan_padding=nan_padding,
    )
