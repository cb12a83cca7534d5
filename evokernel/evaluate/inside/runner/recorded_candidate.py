"""A recorded candidate, ready to be launched: its kernels loaded, its scratch, the steps of its calls."""

from collections.abc import Mapping
from typing import Any

from ..driver import loaded_kernel, streams
from .plan_parameters import parameters_at


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
        self._scratch: dict[str, tuple[int, int]] = {}  # scratch of the current shape: addresses and sizes
        self._calls: dict[tuple[str, int], list[Any]] = {}
        self._load()

    def select_shape(self, shape: int) -> None:
        """Allocate the scratch of one shape, in place of another's."""
        if shape != self._shape:
            self._free()
            for name, size in self._shapes[shape]["scratch"].items():
                self._scratch[name] = (streams.allocate(max(size, 1)), size)
            self._shape = shape

    def call(self, arena: str, number: int, buffers: Mapping[str, int]) -> list[Any]:
        """Return the steps of one call on one set, ready to be queued."""
        key = (arena, number)
        if key not in self._calls:
            places = {**buffers, **{name: address for name, (address, _) in self._scratch.items()}}
            steps = self._shapes[self._shape]["steps"]
            self._calls[key] = [self._step(step, places, first=not at) for at, step in enumerate(steps)]
        return self._calls[key]

    def reload(self) -> None:
        """Reset the variables of modules, so that earlier batches leave no trace."""
        if self._stateful:
            self._unload()
            self._load()

    def poison(self, word: int) -> None:
        """Queue a fill of the scratch, so that earlier batches leave no trace."""
        for address, size in self._scratch.values():
            self._stream.fill(address, pattern=word, width=4, count=-(-size // 4))

    def close(self) -> None:
        """Unload the kernels and free the scratch."""
        self._unload()
        self._free()

    def _free(self) -> None:
        self._calls.clear()
        for address, _ in self._scratch.values():
            streams.free(address)
        self._scratch.clear()
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

    def _unload(self) -> None:
        self._calls.clear()
        self._kernels.clear()
        for module in self._modules.values():
            module.unload()
        self._modules.clear()

    def _step(self, step: Mapping[str, Any], places: Mapping[str, int], *, first: bool) -> Any:
        """Return a function that queues one step. The first step of a call always waits for the call before it."""
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
                    launch["programmatic"] and not first,
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
