"""The judge's side of worker mode: a zygote in the sandbox, and a single-use worker for each candidate."""

import contextlib
import json
import os
from collections.abc import Mapping
from typing import NoReturn, Self

from evokernel.errors import WorkerError
from evokernel.evaluate.memory.arena import Arena
from evokernel.evaluate.sandbox import seccomp
from evokernel.evaluate.sandbox.fork_server import ForkServer, ForkServerSpec, sealed_file
from evokernel.evaluate.sandbox.forked import ForkedRunner
from evokernel.evaluate.sandbox.levels import Sandbox
from evokernel.evaluate.sandbox.limits import WorkerLimits
from evokernel.evaluate.worker_mode.trampoline import Trampoline

ATTACH_TIMEOUT_S = 60.0
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class LoadFailed(WorkerError):
    """The artifact could not be loaded, or has no function `run`; the message is the loader's."""


class Worker(ForkedRunner):
    """One loaded candidate. A context manager: leaving it ends the process and all it started."""

    def __init__(self, pool: "WorkerPool", artifact: int) -> None:
        super().__init__(pool.host, (artifact,))
        self.one_thread = pool.limits.threads == 1 and pool.sandbox.seccomp  # otherwise it could start threads
        self._trampoline = pool.trampoline

    def attach(self, name: str, arena: Arena, scalars: Mapping[str, int | float]) -> None:
        """Map an arena into the worker, in place of one of the same name. `scalars` are passed by value in each call.

        Inputs are read-only, and fences cannot be touched.

        Raises:
            WorkerDied, WorkerTimeout: the worker is gone then, perhaps because the arena exceeds its memory limit.
        """
        request = {
            "attach": name,
            "sets": arena.sets,
            "strides": arena.layout()["strides"],
            "fences": arena.fences(),
            "arguments": self._trampoline.arguments(arena, scalars),
        }
        self._ask(request, arena.descriptors(), b"attached", ATTACH_TIMEOUT_S)

    def load(self, timeout_s: float) -> None:
        """Wait until the candidate is loaded and its constructors have run.

        Raises:
            LoadFailed: with the loader's message.
            WorkerDied, WorkerTimeout: the worker is gone then.
        """
        self._await(b"loaded", timeout_s)

    def _refuse(self, message: bytes) -> NoReturn:
        with contextlib.suppress(ValueError, AttributeError, RecursionError):
            reason = json.loads(message).get("error")
            if isinstance(reason, str):
                raise LoadFailed(reason)
        super()._refuse(message)


class WorkerPool:
    """Owns the zygote: starts it on entry, ends it and all workers on exit, restarts it if it dies.

    For one thread at a time. Nothing outlives the process that made it, see `ForkServer`.
    """

    def __init__(self, trampoline: Trampoline, *, sandbox: Sandbox, limits: WorkerLimits | None = None) -> None:
        self.trampoline = trampoline
        self.sandbox = sandbox
        self.limits = limits or WorkerLimits()
        self.host = ForkServer(sandbox, self._plan())

    def __enter__(self) -> Self:
        self.host.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(self, artifact: bytes, *, timeout_s: float) -> Worker:
        """Start a worker and load a shared object into it.

        Raises:
            LoadFailed: with the loader's message.
            WorkerDied, WorkerTimeout: while loading; the worker is gone then.
            HarnessError: if no worker can be started.
        """
        library = sealed_file(artifact)
        try:
            worker = Worker(self, library)
        finally:
            os.close(library)
        try:
            worker.load(timeout_s)
        except BaseException:
            worker.close()
            raise
        return worker

    def close(self) -> None:
        """End all workers and the zygote. Allowed twice."""
        self.host.close()

    def _plan(self) -> ForkServerSpec:
        children = seccomp.Children.NONE if self.limits.threads == 1 else seccomp.Children.THREADS
        code = seccomp.worker_filter(children) if self.sandbox.seccomp else b""
        return ForkServerSpec(
            "untrusted.cpu_worker",
            self.sandbox.restrictions(code, limits=self.limits.rlimits(self.sandbox)),
            prepare="load_trampoline",
            files={"trampoline": self.trampoline.path.read_bytes()},
            options={"cpus": list(self.limits.cpus)},
            environment={**dict.fromkeys(THREAD_VARIABLES, str(self.limits.threads)), "OMP_DYNAMIC": "false"},
        )
