"""The judge's side of worker mode on a GPU: a sandboxed zygote with torch and triton, and a standby worker.

A worker serves one candidate and is then ended, so damage to its context ends with it. Making a context takes 0.2 to
0.3 s. The next worker makes its own while the current candidate is checked, never while a clock runs: two contexts with
work share the GPU by time slices.
"""

import contextlib
import json
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn, Self

from evokernel.errors import KernelFault, WorkerError
from evokernel.evaluate.device.nvml import visible_gpu
from evokernel.evaluate.inside.driver.virtual_memory import synchronize
from evokernel.evaluate.inside.process.bundle import unpack
from evokernel.evaluate.memory.arena import Arena
from evokernel.evaluate.sandbox.fork_server import ForkServer, ForkServerSpec, package_folders
from evokernel.evaluate.sandbox.forked import ForkedRunner
from evokernel.evaluate.sandbox.gpu_access import cuda_plan
from evokernel.evaluate.sandbox.levels import Sandbox
from evokernel.evaluate.sandbox.run_once import let_read
from evokernel.evaluate.sandbox.standby import StandbyProcess
from evokernel.evaluate.sandbox.timed_process import MESSAGE_BYTES
from evokernel.evaluate.worker_mode.cpu_pool import LoadFailed
from evokernel.task import Scalar, Signature

PRELOAD = (
    "torch",
    "triton",
    "triton.language",
    "inside.untrusted.triton_build",
    "inside.untrusted.cuda_cache",
    "inside.driver.batches",
    "inside.driver.device_sets",
)
BUNDLES = "evokernel-bundles-"
SOURCE_FILE = "kernel.py"
ORPHANED_S = 24 * 3600.0
UP_TIMEOUT_S = 60.0
TEXT_LIMIT, REMARK_LIMIT = 4000, 300
ATTACH_TIMEOUT_S = 60.0
REMARK_TIMEOUT_S = 2.0


class CudaWorker(ForkedRunner):
    """A sandboxed process with a context, and then one candidate. Leaving it ends the process and all it started."""

    def __init__(self, host: ForkServer, signature: Signature, *, spin: bool) -> None:
        super().__init__(host, spin=spin)
        self._signature = signature
        self._up = False
        self.folder: Path | None = None

    def wait_ready(self) -> None:
        """Wait until its context is made. Raises `WorkerError`."""
        if not self._up:
            self._await(b"up", UP_TIMEOUT_S)
            self._up = True

    def attach(self, name: str, arena: Arena, scalars: Mapping[str, int | float]) -> None:
        """Map an arena into the worker, its inputs read-only. `scalars` are passed by value in each call.

        Raises:
            WorkerDied, WorkerTimeout, KernelFault: the worker is gone then.
        """
        order = [
            ("scalar", scalars[argument.name]) if isinstance(argument, Scalar) else ("tensor", argument.name)
            for argument in self._signature.arguments
        ]
        request = {"attach": name, "arguments": order, **arena.layout()}
        self._ask(request, arena.descriptors(), b"attached", ATTACH_TIMEOUT_S)

    def load(self, folder: Path, *, timeout_s: float) -> None:
        """Import the candidate from an unpacked bundle. Raises `KernelFault`, `WorkerDied`, `WorkerTimeout`."""
        self.folder = folder
        self._ask({"load": str(folder)}, (), b"loaded", timeout_s)

    def remark(self) -> str:
        """Return why batches of this candidate could not be captured as a graph, or nothing."""
        try:
            self._ask({"remark": True}, (), b"remark", REMARK_TIMEOUT_S)
            self._poller.poll(int(REMARK_TIMEOUT_S * 1000))
            said = self._channel.recv(MESSAGE_BYTES, socket.MSG_DONTWAIT).decode(errors="replace").removeprefix("=")
        except (WorkerError, OSError):
            return ""
        reason = " ".join(said.split())[:REMARK_LIMIT]  # untrusted words, limited to one line
        return f"timed with its Python, for run() cannot be captured as a graph: {reason}" if reason else ""

    def close(self) -> None:
        """End the process and remove its files. Allowed twice."""
        super().close()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _await_writes(self) -> None:
        synchronize()

    def _refuse(self, message: bytes) -> NoReturn:
        with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
            said = json.loads(message)
            text = f"{said['type']}: {said['text']}"[:TEXT_LIMIT]
            line = said["line"] if isinstance(said["line"], int) else None
            kind = said["fault"] if said["fault"] in ("host", "device", "memory") else "host"
            self._kill()
            raise KernelFault(text, kind, line)
        super()._refuse(message)


class CudaWorkerPool:
    """Owns the zygote, the standby worker and the unpacked bundles. A context manager, for one thread."""

    def __init__(
        self, signature: Signature, *, sandbox: Sandbox, cpus: tuple[int, ...] = (), spin: bool = False
    ) -> None:
        _remove_orphans()
        self._bundles = Path(tempfile.mkdtemp(prefix=BUNDLES))
        self._bundles.chmod(0o755)
        host = self._host = ForkServer(sandbox, _plan(sandbox, cpus, self._bundles))
        self._spare = StandbyProcess(lambda: CudaWorker(host, signature, spin=spin), "worker")
        self._latest: CudaWorker | None = None

    def __enter__(self) -> Self:
        self._host.start()
        self._spare.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(self, artifact: bytes, source: str, *, timeout_s: float) -> CudaWorker:
        """Give a candidate to the standby worker and start the next one.

        The source in the bundle is not believed: it was packed where the candidate's code ran.

        Raises:
            KernelFault, WorkerDied, WorkerTimeout: while importing the candidate; the worker is gone then.
            LoadFailed: the artifact is malformed.
            HarnessError: no worker can be started.
        """
        worker = self._latest = self._spare.take()
        try:
            worker.load(self._unpack(artifact, source), timeout_s=timeout_s)
        except BaseException:
            worker.close()
            raise
        finally:
            self._spare.begin()
        return worker

    def wait_ready(self) -> None:
        """Wait until a standby worker has made its context, so that it cannot disturb a clock."""
        self._spare.wait_ready()

    def pids(self) -> set[int]:
        """Return the processes that hold a context, or make one."""
        return self._spare.pids() | ({self._latest.pid} if self._latest is not None else set())

    def close(self) -> None:
        """End everything and remove the bundles. Allowed twice."""
        self._spare.close()
        self._host.close()
        shutil.rmtree(self._bundles, ignore_errors=True)

    def _unpack(self, artifact: bytes, source: str) -> Path:
        folder = Path(tempfile.mkdtemp(dir=self._bundles))
        try:
            files = unpack(artifact)
        except ValueError as error:
            raise LoadFailed(f"what the build made is no bundle: {error}") from None
        for name, content in {**files, SOURCE_FILE: source.encode()}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        let_read(folder)
        return folder


def _remove_orphans() -> None:
    """Remove the bundles of killed judges; a folder of today may belong to a judge we cannot see."""
    for folder in Path(tempfile.gettempdir()).glob(f"{BUNDLES}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > ORPHANED_S:
                shutil.rmtree(folder, ignore_errors=True)


def _plan(sandbox: Sandbox, cpus: Sequence[int], bundles: Path) -> ForkServerSpec:
    gpu = visible_gpu()
    return cuda_plan(
        "untrusted.gpu_worker",
        sandbox,
        packages=package_folders(("torch", "triton", "numpy")),
        preload=PRELOAD,
        prepare="learn_tools",
        options={"cpus": list(cpus), "capability": gpu.capability if gpu is not None else 0},
        read=[str(bundles)],
        environment={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )
