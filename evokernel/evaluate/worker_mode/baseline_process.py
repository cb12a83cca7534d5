"""A trusted process that runs a task's baselines over the judge's arenas, timed exactly as a candidate is."""

import mmap
import os
import select
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from evokernel.errors import HarnessError, WorkerDied
from evokernel.evaluate.inside.driver.batches import Batches
from evokernel.evaluate.inside.driver.device_sets import DeviceSets, elements
from evokernel.evaluate.inside.driver.virtual_memory import synchronize
from evokernel.evaluate.inside.process.descriptors import keep_only, requests
from evokernel.evaluate.inside.process.seal import PR_SET_PDEATHSIG, prctl
from evokernel.evaluate.memory import heap
from evokernel.evaluate.memory.arena import Arena
from evokernel.evaluate.sandbox.timed_process import RunnerProcess
from evokernel.evaluate.worker_mode.expert_loop import EXPERT, CompiledLoop, python_baseline
from evokernel.task import Baseline, Role, Task
from evokernel.tasks.at_sizes import REFERENCE

BOOT = """\
import gc, sys
gc.disable()  # as in the judge host: collections would take a fifth of the time of the imports
from evokernel.evaluate.worker_mode.baseline_process import main
gc.freeze()
gc.enable()
main(int(sys.argv[1]))
"""
START_TIMEOUT_S = 300.0
ATTACH_TIMEOUT_S = 60.0
EXIT_TIMEOUT_MS = 5000
_CHANNEL = 3


class _Started(NamedTuple):
    """A process that waits to be told what to run."""

    channel: socket.socket
    """Our end."""
    handle: int
    """Descriptor of the process."""


_spares: list[_Started] = []
"""At most one, forked before this process did anything that a fork would suffer from."""


def fork_spare() -> None:
    """Fork the process that becomes the first `BaselineProcess` here: torch, imported by now, takes over a second.

    For a process that has started no thread and opened no GPU.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            keep_only((theirs.detach(),), (_CHANNEL,))
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            main(_CHANNEL)
        except BaseException:  # noqa: BLE001 - the edge of a process, which must not go on as the one that forked it
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    theirs.close()
    _spares.append(_Started(ours, os.pidfd_open(pid)))


def _start(device: str) -> _Started:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    packages = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with theirs:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", BOOT, str(_CHANNEL)],
            {**os.environ, **packages, **(heap.NO_SMALL_CACHE if device == "cpu" else {})},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), _CHANNEL),
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,
        )
    return _Started(ours, os.pidfd_open(pid))


class BaselineProcess(RunnerProcess):
    """One Python process with torch that runs baselines; the same interface and clock as a worker.

    Args:
        task: argument of `evokernel.tasks.load_task`.
        device: the device class it runs on, "cpu" or "cuda".
        threads: torch's threads.
        cpus: the cores it may run on; empty leaves it free.
        spin: read the clock in a loop that never sleeps, see `RunnerProcess`.

    Raises:
        HarnessError: if the task cannot be loaded there.
    """

    def __init__(
        self, task: str, *, device: str = "cpu", threads: int = 1, cpus: Sequence[int] = (), spin: bool = False
    ) -> None:
        channel, handle = _spares.pop() if _spares else _start(device)
        self._on_gpu = device == "cuda"
        self._code: int | None = None
        super().__init__(channel, handle, spin=spin)
        self.one_thread = device == "cpu" and threads == 1
        spec = {"task": task, "device": device, "threads": threads, "cpus": list(cpus)}
        try:
            self._ask(spec, (), b"loaded", START_TIMEOUT_S)
        except BaseException as error:
            self.close()
            if isinstance(error, WorkerDied):
                raise HarnessError(f"the baseline process could not load task {task!r}: {error}") from None
            raise

    def select(self, baseline: str) -> None:
        """Choose the function of later calls: a name from `task.baselines`, or "reference". Raises `HarnessError`."""
        try:
            self._ask({"select": baseline}, (), b"selected", ATTACH_TIMEOUT_S)
        except WorkerDied as error:
            raise HarnessError(f"no baseline {baseline!r}: {error}") from None

    def add_expert(self, expert: str, *, trampoline: str = "") -> None:
        """Add a user's kernel to the baselines: a Python file on a GPU, else a shared object, called by a trampoline.

        Raises `HarnessError` if it cannot be loaded.
        """
        try:
            self._ask({"hire": expert, "trampoline": trampoline}, (), b"hired", ATTACH_TIMEOUT_S)
        except WorkerDied as error:
            raise HarnessError(f"the baseline process cannot load {expert}: {error}") from None

    def attach(self, name: str, arena: Arena, scalars: Mapping[str, int | float]) -> None:
        """Map an arena into the process, its inputs read-only. Raises `WorkerDied` and `WorkerTimeout`."""
        request = {"attach": name, "scalars": dict(scalars), **arena.layout()}
        self._ask(request, arena.descriptors(), b"attached", ATTACH_TIMEOUT_S)

    def _await_writes(self) -> None:
        if self._on_gpu:
            synchronize()

    def close(self) -> None:
        """End the process. Allowed twice."""
        if not self._closed:
            self._kill()
            self._exit_code()
        super().close()

    def _died(self) -> WorkerDied:
        ending = select.poll()
        ending.register(self._handle, select.POLLIN)
        if not ending.poll(EXIT_TIMEOUT_MS):
            self._kill()
        code = self._exit_code()
        return WorkerDied(
            f"the baseline process ended with {code}; its own output says why",
            signal=-code if code < 0 else None,
            exit_code=code if code >= 0 else None,
        )

    def _exit_code(self) -> int:
        """Wait for the end; after a signal, return its negative number."""
        if self._code is None:
            ended = os.waitid(os.P_PIDFD, self._handle, os.WEXITED)
            assert ended is not None  # it waits
            self._code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        return self._code


def panel_functions(task: Task, *, max_autotune: bool = False) -> Mapping[str, Baseline]:
    """Return the baselines of a task by name, or its reference where it has none.

    Each takes the inputs and scalars by name, and its outputs in their order. With `max_autotune` those of torch's
    compiler appear twice: with its default settings, and with trials of many kernels.
    """
    panel = dict(task.baselines or {REFERENCE: _reference(task)})
    if max_autotune:
        from evokernel.tasks.compiled import Compiled  # imports torch, which a caller that only needs names avoids

        compiled = {name: baseline for name, baseline in panel.items() if isinstance(baseline, Compiled)}
        panel |= {f"{name} max-autotune": baseline.thorough() for name, baseline in compiled.items()}
    return panel


def _reference(task: Task) -> Baseline:
    def call(inputs: Mapping[str, Any], outputs: Sequence[Any]) -> None:
        results = task.reference(**inputs)
        for output, result in zip(outputs, results if isinstance(results, tuple) else (results,), strict=True):
            output.copy_(result)

    return call


Set = tuple[dict[str, Any], tuple[Any, ...]]


class _Baselines:
    """The server in the process: maps arenas as torch tensors and calls a baseline in a plain loop."""

    def __init__(self, channel: socket.socket, task: Task, device: str) -> None:
        self.channel = channel
        self.task = task
        self.functions = {REFERENCE: _reference(task), **panel_functions(task, max_autotune=True)}
        self.device = device
        self.arenas: dict[str, list[Set]] = {}
        self.mappings: dict[str, DeviceSets] = {}
        self.loops: dict[str, _PlainLoop | CompiledLoop | Batches] = {}
        self.loop = self._loop(next(iter(panel_functions(task))))

    def serve(self) -> None:
        self.channel.send(b"loaded")
        for request, descriptors in requests(self.channel):
            if "prepare" in request:
                self._prepare(request)
            elif "select" in request:
                self.loop = self._loop(request["select"])
                self.channel.send(b"selected")
            elif "hire" in request:
                self._add_expert(request["hire"], request["trampoline"])
                self.channel.send(b"hired")
            else:
                self._attach(request, descriptors)

    def _add_expert(self, expert: str, trampoline: str) -> None:
        if self.device == "cuda":
            self.functions[EXPERT] = python_baseline(expert, self.task.signature)
        else:
            self.loops[EXPERT] = CompiledLoop(expert, trampoline, self.task.signature)

    def _loop(self, name: str) -> "_PlainLoop | CompiledLoop | Batches":
        if name not in self.loops:
            if name not in self.functions:
                raise HarnessError(f"task {self.task.name!r} has no baseline {name!r}")
            baseline = self.functions[name]
            kind = Batches if self.device == "cuda" else _PlainLoop
            self.loops[name] = kind(lambda one_set: baseline(*one_set))
        return self.loops[name]

    def _attach(self, request: dict[str, Any], descriptors: list[int]) -> None:
        name = request["attach"]
        self._detach(name)
        if self.device == "cuda":
            self.mappings[name] = mapped = DeviceSets(request, descriptors)
            tensors = mapped.tensors
        else:
            tensors = _map_sets(request, descriptors)
        self.arenas[name] = [_one_set(request, one) for one in tensors]
        self.channel.send(b"attached")

    def _detach(self, name: str) -> None:
        """Unmap the arena that this one replaces: the same name but for its generation."""
        stem = name.rpartition(":")[0]
        for old in [old for old in self.arenas if old.rpartition(":")[0] == stem]:
            del self.arenas[old]
            for loop in self.loops.values():
                loop.forget(old)
            if old in self.mappings:
                self.mappings.pop(old).close()

    def _prepare(self, request: dict[str, Any]) -> None:
        name = request["prepare"]
        sets = self.arenas[name]
        if request["warm_set"] is not None:
            self.loop.warm(sets[request["warm_set"]])
        batch = self.loop.prepare(name, sets, first=request["first_set"], calls=request["calls"])
        self.channel.send(b"ready")
        if self.channel.recv(16) == b"go":
            batch()
            self.loop.finish()
            self.channel.send(b"done")


class _PlainLoop:
    """Calls on a processor, which are synchronous and are not captured."""

    def __init__(self, call: Callable[[Set], object]) -> None:
        self.warm = call

    def prepare(self, _: str, sets: Sequence[Set], *, first: int, calls: int) -> Callable[[], None]:
        batch = [sets[(first + index) % len(sets)] for index in range(calls)]

        def run() -> None:
            for one_set in batch:
                self.warm(one_set)

        return run

    def finish(self) -> None:
        """Do nothing: calls are synchronous."""

    def forget(self, _: str) -> None:
        """Do nothing: batches are made anew each time."""


def _one_set(request: dict[str, Any], tensors: Mapping[str, Any]) -> Set:
    """Return the arguments of a baseline: inputs and scalars by name, and its outputs."""
    roles = {name: role for name, _, _, role, *_ in request["buffers"]}
    inputs = {name: tensor for name, tensor in tensors.items() if roles[name] != Role.OUTPUT}
    written = tuple(tensor for name, tensor in tensors.items() if roles[name] != Role.INPUT)
    return {**inputs, **request["scalars"]}, written


def _map_sets(request: dict[str, Any], descriptors: list[int]) -> list[dict[str, Any]]:
    memories = [_map(descriptor, write=bool(index)) for index, descriptor in enumerate(descriptors)]
    steps, layouts = request["strides"], request["layouts"]
    return [
        {
            name: _tensor(memories[segment], offset + index * steps[segment], shape, dtype, layouts.get(name))
            for name, shape, dtype, _, segment, offset in request["buffers"]
        }
        for index in range(request["sets"])
    ]


def _map(descriptor: int, *, write: bool) -> mmap.mmap:
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if write else 0)
    size = os.fstat(descriptor).st_size
    memory = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=protection)
    os.close(descriptor)
    return memory


def _tensor(memory: mmap.mmap, start: int, shape: list[int], dtype: str, strides: list[int] | None) -> Any:
    import torch

    count = elements(shape, strides)
    kind = getattr(torch, dtype)
    if count == 0:
        return torch.empty(shape, dtype=kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that the inputs' memory is read-only, as it should be
        flat = torch.frombuffer(memory, dtype=kind, count=count, offset=start)
    return flat.view(shape) if strides is None else flat.as_strided(shape, strides)


def main(descriptor: int) -> None:
    """Serve on a channel, whose first message says what; in the process that `BaselineProcess` starts."""
    # A stopped process would outlive a killed judge for ever. SIGCONT makes it read the end of its channel and exit.
    # SIGKILL would hit a healthy process when only the thread that started it ends.
    prctl(PR_SET_PDEATHSIG, signal.SIGCONT)
    channel = socket.socket(fileno=descriptor)
    spec, _ = next(requests(channel), ({}, []))
    if not spec:  # nothing was to be run
        return
    if spec["cpus"]:
        os.sched_setaffinity(0, spec["cpus"])
    if spec["device"] == "cpu":
        heap.keep_all()
    import torch

    from evokernel.tasks import load_task

    torch.set_num_threads(spec["threads"])
    torch.set_grad_enabled(False)
    task = load_task(spec["task"]).on(spec["device"])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = task.precision.allow_tf32
    _Baselines(channel, task, spec["device"]).serve()
