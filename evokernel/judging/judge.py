"""Judge for Python: one warm evaluator in a thread of its own, asked synchronously."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from evokernel.config.load import NO_SEARCH, parse_config
from evokernel.config.run import DEVICE_OF, DeviceClass, RunConfig
from evokernel.errors import ConfigError, EvokernelError, HarnessError, LanguageError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.judge_process import JudgeHostClient
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.device.cores import default_in_flight, too_many_threads
from evokernel.evaluate.device.device_class import Machine, this_machine
from evokernel.judging.user_function import PROJECTS, task_file
from evokernel.protocols import Evaluator
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, EvaluatorIdentity, Fidelity, harness_failure
from evokernel.task import Task
from evokernel.tasks import load_task

_CLOSED = "this judge is closed; make another one"
_Asked = tuple[EvaluationRequest, "Future[Evaluation]"]


class JudgeClosed(EvokernelError):
    """A judge was asked after its end, or ended before it answered."""


class Judge:
    """A judge of kernels for one task: the cascade of a search, warm until `close`; a context manager.

    Any thread may ask it, also one with a running event loop. A wrong kernel is an `Evaluation`, never an exception.

    Args:
        task: a built-in task, the path of a task file, or a function in PyTorch.
        example_inputs: of the function: tensors and numbers, by position.
        language: `cpp`, `triton` or `cuda`; `auto` takes the usual one of the device.
        device: `cpu` or `cuda`; `auto` takes an NVIDIA GPU where there is one that the task can use.
        fidelity: `quick`, `precise` or `final`; a call may name another.
        threads: threads that a kernel may use on a processor.
        evaluation: further settings by name, as docs/config.md has them under `evaluation`.
        folder: where the task of a function is written.
        progress: say on stderr what the start is at, and when it is done.

    Raises:
        TaskError: the task cannot be loaded or made, or is not fit to judge.
        ConfigError: device, language or fidelity cannot be used here.
        LanguageError, HarnessError: the tool chain is missing, or the machinery failed.
    """

    def __init__(
        self,
        task: str | Path | Callable[..., Any],
        *example_inputs: Any,
        language: str = "auto",
        device: str = "auto",
        fidelity: str = "quick",
        threads: int = 1,
        evaluation: Mapping[str, Any] | None = None,
        folder: str | Path = PROJECTS,
        progress: bool = True,
    ) -> None:
        self.fidelity = _fidelity(fidelity)
        machine, say = this_machine(), _say if progress else _keep_quiet
        with ExitStack() as begun:
            # it imports torch while the task's file does here
            host = begun.enter_context(JudgeHostClient("cpu" if machine.gpu is None else "cuda"))
            self.spec = task_file(task, example_inputs, folder=Path(folder), device=device, notify=say)
            say("starting the judge: admission of the task, device, baselines; ten seconds, sometimes more")
            began = time.monotonic()
            loaded = load_task(self.spec)
            given = {"language": language, "device": device, "threads": threads, "evaluation": evaluation or {}}
            config = parse_config({**NO_SEARCH, "task": self.spec, **given}, "the settings of this judge")
            config = config.on(_device(config, loaded, machine))
            self.language, chosen, settings = config.language, DEVICE_OF[config.language], config.evaluation
            self.task: Task = loaded.on(chosen)
            if crowd := too_many_threads(threads, device=chosen):
                say(f"warning: {crowd}")
            made = local_language(self.language, settings, threads=threads, device=machine.limits(chosen))
            opening = open_evaluator(self.spec, made, settings=settings, threads=threads, machine=machine, start=host)
            self._host = begun.pop_all()
        self._program_hash = made.program_hash
        gpus = len(machine.gpus(chosen, wanted=settings.gpus))
        self._lock = threading.Lock()
        self._open: set[Future[Evaluation]] = set()
        self._end = ""
        self._loop = asyncio.new_event_loop()
        self._queue: asyncio.Queue[_Asked] = asyncio.Queue()
        self._ready: Future[EvaluatorIdentity] = Future()
        self._serving = self._loop.create_task(self._serve(opening, default_in_flight(chosen, gpus=gpus)))
        self._thread = threading.Thread(target=self._run, name="evokernel judge", daemon=True)
        self._thread.start()
        try:
            self.identity = self._ready.result()
        except BaseException:
            self.close()
            raise
        taken_s = time.monotonic() - began
        say(f"ready after {taken_s:.0f} s, for kernels of task {self.task.name} in {self.language}")

    def __call__(self, source: str, *, fidelity: str = "") -> Evaluation:
        """Judge one source. Raises `JudgeClosed` after the end; a fault of our own is an evaluation, too."""
        return self.map([source], fidelity=fidelity)[0]

    def map(self, sources: Iterable[str], *, fidelity: str = "") -> list[Evaluation]:
        """Judge sources, as many at once as a search would; return the evaluations in the order of the sources."""
        if isinstance(sources, str):
            raise LanguageError("expected several sources, got one text; judge(source) judges one")
        asked: list[Future[Evaluation]] = []
        try:
            for source in sources:
                asked.append(self.submit(source, fidelity=fidelity))
            return [each.result() for each in asked]
        finally:
            for each in asked:
                each.cancel()  # those that wait, where the caller was interrupted

    def submit(self, source: str, *, fidelity: str = "") -> "Future[Evaluation]":
        """Return at once; what is already judged cannot be cancelled.

        Raises:
            LanguageError: the source is no text.
            JudgeClosed: the judge has ended.
        """
        if not isinstance(source, str):
            raise LanguageError(f"a source is the text of a kernel in {self.language}, not a {type(source).__name__}")
        candidate = Candidate(source, self.language)
        budget = _fidelity(fidelity) if fidelity else self.fidelity
        request = EvaluationRequest(candidate, self._program_hash(candidate.source), budget)
        answer: Future[Evaluation] = Future()
        with self._lock:
            if self._end:
                raise JudgeClosed(self._end)
            self._open.add(answer)
            self._loop.call_soon_threadsafe(self._queue.put_nowait, (request, answer))
        answer.add_done_callback(self._open.discard)
        return answer

    @property
    def waiting(self) -> int:
        """Number of sources without an answer yet."""
        return len(self._open)

    def close(self) -> None:
        """End every process of the judge; what it had not answered raises `JudgeClosed`."""
        with self._lock:
            self._end = self._end or _CLOSED
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._serving.cancel)
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------ its own thread

    def _run(self) -> None:
        with self._host, asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._served())
            except Exception as error:  # noqa: BLE001  the edge of the thread: whoever waits is told
                self._finish(f"this judge has ended: {error}")
                if not self._ready.done():
                    self._ready.set_exception(error)
            else:
                self._finish(_CLOSED)

    def _finish(self, why: str) -> None:
        with self._lock:
            self._end = self._end or why
        for answer in tuple(self._open):
            if not answer.done():
                answer.set_exception(JudgeClosed(self._end))

    async def _served(self) -> None:
        with suppress(asyncio.CancelledError):  # as `close` does
            await self._serving

    async def _serve(self, opening: AbstractAsyncContextManager[Evaluator], in_flight: int) -> None:
        async with opening as evaluator:
            self._ready.set_result(evaluator.identity)
            async with asyncio.TaskGroup() as group:
                for _ in range(in_flight):
                    group.create_task(self._work(evaluator))

    async def _work(self, evaluator: Evaluator) -> None:
        while True:
            request, answer = await self._queue.get()
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(await evaluator.evaluate(request))
            except HarnessError as error:  # one verdict is lost; the judge goes on, as a search does
                key = evaluator.identity.key(request.program_hash, request.budget)
                answer.set_result(harness_failure(key, request.candidate.id, str(error)))


def _say(text: str) -> None:
    sys.stderr.write(f"evokernel: {text}\n")
    sys.stderr.flush()


def _keep_quiet(text: str) -> None:
    """Drop a message."""


def _fidelity(name: str) -> Fidelity:
    try:
        return Fidelity(name)
    except ValueError:
        raise ConfigError(f"fidelity {name!r}: expected one of {', '.join(Fidelity)}") from None


def _device(config: RunConfig, task: Task, machine: Machine) -> DeviceClass:
    """Return the device class to judge on. Raises `ConfigError` where this machine or the task lacks something."""
    able = machine.gpu is not None and machine.triton and "cuda" in task.workloads
    usual: DeviceClass = "cuda" if able else "cpu"
    chosen = usual if config.device == "auto" else config.device
    if chosen not in task.workloads:
        known = ", ".join(task.workloads)
        raise ConfigError(f"task {task.name!r} has no workloads for {chosen}; it has some for {known}")
    if chosen == "cuda" and machine.gpu is None:
        language = config.on(chosen).language
        other = '; --device cpu (in Python device="cpu") judges kernels in C++' if "cpu" in task.workloads else ""
        raise ConfigError(f"kernels in {language} are judged on an NVIDIA GPU, and none is visible here{other}")
    return chosen
