"""Worker mode on a GPU, for candidates that cannot be recorded; started for the first of them."""

from contextlib import ExitStack
from functools import cached_property

from evokernel.evaluate.bench.baseline_timing import BaselineTimer
from evokernel.evaluate.bench.setup import BenchSetup
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.device.gpu_conditions import NeighbourWatch
from evokernel.evaluate.sandbox.levels import Sandbox
from evokernel.evaluate.worker_mode.baseline_process import BaselineProcess
from evokernel.evaluate.worker_mode.gpu_pool import CudaWorker, CudaWorkerPool
from evokernel.task import Task

_WORKER_BATCH_S, _FIRST_CALL_S = 0.005, 180.0


class GpuWorkers:
    """Workers and a baseline process, which take seconds to start; see `WorkerHost`.

    Args:
        task: for the device class.
        watch: records probes after trusted work.
        bound: the workload on which waking the baseline process is measured.
        stack: ends the processes.
    """

    def __init__(
        self,
        setup: BenchSetup,
        task: Task,
        *,
        sandbox: Sandbox,
        watch: NeighbourWatch,
        bound: BoundWorkload,
        stack: ExitStack,
    ) -> None:
        self._setup = setup
        self._task = task
        self._sandbox = sandbox
        self._watch = watch
        self._bound = bound
        self._stack = stack
        self._expert = ""
        self._own_pids: set[int] = set()

    def load_expert(self, expert: str) -> None:
        """Load a user's kernel from a file into the baseline process when that starts."""
        self._expert = expert

    @cached_property
    def baselines(self) -> BaselineTimer:
        """The baseline process, started for the first candidate in a worker."""
        cores = self._setup.cores
        process = BaselineProcess(
            self._setup.task_spec, device="cuda", threads=1, cpus=cores.runners, spin=cores.may_spin
        )
        self._own_pids.add(process.pid)
        self._stack.enter_context(process)
        if self._expert:
            process.add_expert(self._expert)
        side = BaselineTimer(
            process, batch_s=_WORKER_BATCH_S, first_call_s=_FIRST_CALL_S, after_batch=self._watch.learn
        )
        side.attach(self._bound)
        side.measure_wake(self._bound)
        return side

    def load(self, artifact: bytes, source: str) -> CudaWorker:
        """Give a bundle and the source itself to the standby worker. Raises as `CudaWorkerPool.load`."""
        return self._pool.load(artifact, source, timeout_s=self._setup.settings.timeout_s)

    def wait_ready(self) -> None:
        """Wait until the standby worker, if one was started, is idle."""
        if "_pool" in self.__dict__:
            self._pool.wait_ready()

    def pids(self) -> set[int]:
        """Return the processes that hold a context, or make one."""
        return self._own_pids | (self._pool.pids() if "_pool" in self.__dict__ else set())

    @cached_property
    def _pool(self) -> CudaWorkerPool:
        """Workers for candidates that cannot be recorded: they import torch and Triton, which takes seconds."""
        cores = self._setup.cores
        pool = CudaWorkerPool(self._task.signature, sandbox=self._sandbox, cpus=cores.runners, spin=cores.may_spin)
        return self._stack.enter_context(pool)
