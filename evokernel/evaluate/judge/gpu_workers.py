"""Worker mode on a GPU, for candidates that cannot be recorded: started for the first of them."""

from contextlib import ExitStack
from functools import cached_property

from evokernel.evaluate.bench.baseline_timing import BaselineTimer
from evokernel.evaluate.bench.setup import BenchSetup
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.device.neighbours import NeighbourWatch
from evokernel.evaluate.sandbox.levels import Sandbox
from evokernel.evaluate.worker_mode.baseline_process import BaselineProcess
from evokernel.evaluate.worker_mode.gpu_pool import CudaWorker, CudaWorkerPool
from evokernel.task import Task

_WORKER_BATCH_S, _FIRST_CALL_S = 0.005, 180.0


class GpuWorkers:
    """Workers and a baseline process, which take seconds to start; see `WorkerHost`.

    Args:
        setup: what the engine asked for.
        task: for the device class.
        sandbox: what workers are confined in.
        watch: learns from trusted work.
        ground: the workload on which waking the baseline process is measured.
        stack: ends what was started.
    """

    def __init__(
        self,
        setup: BenchSetup,
        task: Task,
        *,
        sandbox: Sandbox,
        watch: NeighbourWatch,
        ground: BoundWorkload,
        stack: ExitStack,
    ) -> None:
        self._setup = setup
        self._task = task
        self._sandbox = sandbox
        self._watch = watch
        self._ground = ground
        self._stack = stack
        self._expert = ""
        self._own_pids: set[int] = set()

    def load_expert(self, expert: str) -> None:
        """Let the baseline process load a user's kernel from a file when it starts."""
        self._expert = expert

    @cached_property
    def baselines(self) -> BaselineTimer:
        """The baseline process, started for the first candidate that is run in a worker."""
        cores = self._setup.cores
        process = BaselineProcess(self._setup.task_spec, device="cuda", threads=1, cpus=cores.runners, spin=cores.apart)
        self._own_pids.add(process.pid)
        self._stack.enter_context(process)
        if self._expert:
            process.hire(self._expert)
        side = BaselineTimer(
            process, batch_s=_WORKER_BATCH_S, first_call_s=_FIRST_CALL_S, after_batch=self._watch.learn
        )
        side.attach(self._ground)
        side.measure_wake(self._ground)
        return side

    def load(self, artifact: bytes, source: str) -> CudaWorker:
        """Hand a bundle to the worker in waiting, with the source itself in it. Raises as `CudaWorkerPool.load`."""
        return self._pool.load(artifact, source, timeout_s=self._setup.settings.timeout_s)

    def settle(self) -> None:
        """See to it that the worker in waiting, if any was started, does nothing any more."""
        if "_pool" in self.__dict__:
            self._pool.settle()

    def pids(self) -> set[int]:
        """Return the processes that hold a context, or make one."""
        return self._own_pids | (self._pool.pids() if "_pool" in self.__dict__ else set())

    @cached_property
    def _pool(self) -> CudaWorkerPool:
        """Workers for what cannot be recorded: they import torch and Triton, which takes seconds."""
        cores = self._setup.cores
        pool = CudaWorkerPool(self._task.signature, sandbox=self._sandbox, cpus=cores.runners, spin=cores.apart)
        return self._stack.enter_context(pool)
