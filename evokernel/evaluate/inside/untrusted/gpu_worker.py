"""Holds one GPU candidate: seals itself, makes a context, maps buffers, loads the module, and calls it on request.

The candidate's Python runs in this process and may overwrite everything in it. So the judge believes nothing but "I am
done": it reads the clock and checks the buffers itself.
"""

import json
import socket
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..driver.batches import Batches
from ..driver.device_sets import DeviceSets
from ..process.descriptors import keep_only, requests
from ..process.seal import PR_SET_DUMPABLE, isolate, prctl, seal

STDERR, CHANNEL = 2, 3
TEXT_LIMIT = 4000
_DEVICE_ERRORS = ("CudaError", "AcceleratorError", "OutOfMemoryError")


def learn_tools(spec: dict[str, Any]) -> None:
    """Ask Triton's assembler for its version, which cache keys need; workers cannot start programs."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    from .triton_driver import WARP, fix_options

    fix_options()
    make_backend(GPUTarget("cuda", spec["capability"], WARP)).hash()


def run(spec: dict[str, Any], uid: int | None, descriptors: list[int], _: object) -> None:
    """Become a worker for good. `descriptors`: channel to the judge, file for stderr."""
    keep_only(descriptors, (CHANNEL, STDERR))
    channel = socket.socket(fileno=CHANNEL)
    isolate(spec)
    seal(spec, uid)
    _Worker(channel).serve()


class _Worker:
    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.arenas: dict[str, list[tuple[Any, ...]]] = {}
        self.batches: Batches | None = None
        self.capability = 0

    def serve(self) -> None:
        self._make_context()
        for request, descriptors in requests(self.channel):
            try:
                self._answer(request, descriptors)
            except BaseException as error:  # noqa: BLE001  a candidate may raise anything, which ends this worker with a reason
                self.channel.send(json.dumps(_fault(error)).encode())
                return

    def _make_context(self) -> None:
        import torch

        from .triton_driver import LiveDriver, activate

        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        prctl(PR_SET_DUMPABLE, 1)  # after a change of user id the driver could not open its own /proc otherwise
        torch.empty(1, device="cuda")
        prctl(PR_SET_DUMPABLE, 0)
        driver = LiveDriver()
        activate(driver)
        self.capability = driver.capability
        self.channel.send(b"up")

    def _answer(self, request: dict[str, Any], descriptors: list[int]) -> None:
        if "prepare" in request:
            self._prepare(request)
        elif "load" in request:
            self._load(request["load"])
        elif "remark" in request:
            self.channel.send(b"remark")
            reason = self.batches.reason if self.batches else ""
            self.channel.send(
                f"={reason}".encode(errors="replace")
            )  # an empty message would mean the end of the channel
        else:
            order = request["arguments"]
            self.arenas[request["attach"]] = [
                tuple(tensors[value] if kind == "tensor" else value for kind, value in order)
                for tensors in DeviceSets(request, descriptors).tensors
            ]
            self.channel.send(b"attached")

    def _load(self, folder: str) -> None:
        from . import cuda_cache, load_module, triton_build, triton_driver
        from .stand_in_tensors import LaunchesOnly

        triton_driver.use_cache(str(Path(folder, triton_build.CACHE)))
        cuda_cache.use_cache(Path(folder, cuda_cache.CACHE), capability=self.capability)
        guard = LaunchesOnly()

        def call(arguments: Sequence[Any]) -> None:
            with guard:
                candidate(*arguments)

        batches = Batches(call)  # made before the candidate is loaded, see there
        candidate = load_module.load(Path(folder, load_module.FILE).read_text(encoding="utf-8")).run
        self.batches = batches
        self.channel.send(b"loaded")

    def _prepare(self, request: dict[str, Any]) -> None:
        batches, sets = self.batches, self.arenas[request["prepare"]]
        if batches is None:
            raise RuntimeError("prepare before load")
        if request["warm_set"] is not None:
            batches.warm(sets[request["warm_set"]])
        batch = batches.prepare(request["prepare"], sets, first=request["first_set"], calls=request["calls"])
        self.channel.send(b"ready")
        if self.channel.recv(16) == b"go":
            batch()
            batches.finish()
            self.channel.send(b"done")


def _fault(error: BaseException) -> dict[str, Any]:
    """Return an exception as JSON: its likely cause, its text, and the line of the candidate."""
    text = str(error)
    on_device = type(error).__name__ in _DEVICE_ERRORS or "CUDA error" in text
    kind = "memory" if "out of memory" in text.lower().replace("_", " ") else "device" if on_device else "host"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith("kernel.py")]
    line = frames[-1].lineno if frames else None
    return {"fault": kind, "type": type(error).__name__, "text": text[:TEXT_LIMIT], "line": line}
