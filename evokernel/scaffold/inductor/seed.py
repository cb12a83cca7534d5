"""Seeds for `triton` from Inductor: its program for a task, checked before anybody gets it."""

import importlib.util
import json
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evokernel.config.run import EvaluationConfig
from evokernel.errors import EvokernelError, LanguageError, TaskError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.toolchain import CompilerRunner, run_plain
from evokernel.protocols import Language
from evokernel.records.build import BuildFailure, Built
from evokernel.scaffold.inductor.gpu_trial import NO_GPU, NotJudged, judged_here
from evokernel.task import Task
from evokernel.tasks import load_task, task_path
from operators.rewrites.library import RewriteLibrary
from operators.rewrites.triton.row_alignment import RowAlignment
from operators.rewrites.triton.source import TritonModule, UnreadableTriton

_START = """
import gc, importlib, json, os, sys
gc.set_threshold(50_000)  # a fifth of the time of the imports would be collections
call = json.loads(sys.argv[1])
os.environ.update(call["environment"])
sys.path[:] = call["path"]
importlib.import_module("evokernel.scaffold.inductor." + call["module"]).main(*call["arguments"])
os._exit(0)  # the answer is a file; an interpreter tidies torch's compiler up for a second
"""
_HEAD = '''"""Inductor's program for {name}, written by torch {version} for all sizes.

{checked}
"""

'''


class NoInductorSeed(EvokernelError):
    """There is no right program of Inductor for a task; the message is one line that says why."""


NOT_COMPARED = "Its results were not compared"
"""Begins the remark, in the first lines of a program, that the interpreter could not tell."""


COMPILE_S = 300.0
"""The longest that compiling a program may take, in s: `init` runs beside anything, and asks once."""


@dataclass(frozen=True, slots=True)
class InductorSeed:
    """A Triton program that was compiled for sm_90, and compared where that could be done."""

    text: str
    compile_s: float
    """Time that compiling it took, in s."""


def inductor_seed(
    task_spec: str, *, timeout_s: float = 300.0, compare_s: float = 120.0, run: CompilerRunner = run_plain
) -> InductorSeed:
    """Return a Triton program for a task, as Inductor writes it, with its values to try as tunables.

    It is made in a process of its own, with or without a GPU, and holds for all sizes of the task. It compiles for
    sm_90 and gives the reference's results in Triton's interpreter, or says in its first lines why that cannot tell.

    Args:
        task_spec: a built-in task or the path of a task file.
        timeout_s: the longest that making and checking it may take, in s.
        compare_s: the longest that the comparison in the interpreter may take of that, in s.
        run: runs the commands of that process, `python -c`.

    Raises:
        NoInductorSeed: there is no such program.
        TaskError: the task cannot be loaded.
    """
    missing = [package for package in ("torch", "triton") if importlib.util.find_spec(package) is None]
    if missing:
        raise NoInductorSeed(f"{missing[0]} is not installed for this Python: pip install {missing[0]}")
    task = load_task(task_spec)
    device_class = "cuda" if "cuda" in task.workloads else next(iter(task.workloads))
    with tempfile.TemporaryDirectory(prefix="evokernel-", ignore_cleanup_errors=True) as name:
        maker = _Maker(str(task_path(task_spec)), device_class, Path(name), timeout_s, compare_s, run=run)
        return maker.make(task.on(device_class))


def check_program(task_spec: str, program: str, *, whose: str, compare_s: float = 120.0) -> str:
    """Compile a Triton program for sm_90 and compare it with a task's reference, as `inductor_seed` does.

    Args:
        task_spec: a built-in task or the path of a task file.
        program: the text.
        whose: begins a message on it.
        compare_s: the longest that the comparison in the interpreter may take, in s.

    Returns:
        What the comparison came to; begins with `NOT_COMPARED` where the interpreter could not tell.

    Raises:
        NoInductorSeed: it is no kernel, or wrong.
    """
    with tempfile.TemporaryDirectory(prefix="evokernel-", ignore_cleanup_errors=True) as name:
        maker = _Maker(str(task_path(task_spec)), "cuda", Path(name), compare_s, compare_s, whose=whose)
        return maker.check(load_task(task_spec).on("cuda"), program)[0]


def build_for_sm90(
    task: Task, program: str, *, language: str, whose: str, settings: EvaluationConfig | None = None
) -> Built:
    """Return a build of a GPU program for the search workloads and small odd sizes.

    Args:
        task: for GPUs.
        program: the text.
        language: `triton` or `cuda`.
        whose: begins a message on it.
        settings: of the compilers.

    Raises:
        NoInductorSeed: it is no kernel, or a tool is missing.
    """
    from evokernel.scaffold.inductor.trace_sizes import check_workloads

    try:
        compiler = _sm90_compiler(language, (settings or EvaluationConfig(compile_timeout_s=COMPILE_S)).on("cuda"))
    except LanguageError as error:
        raise NoInductorSeed(str(error)) from None
    complaint = compiler.static_check(program)
    if complaint is None:
        built = compiler.build(program, task, hidden=[workload.dims for workload in check_workloads(task)])
        if not isinstance(built, BuildFailure):
            return built
        complaint = built.message
    raise NoInductorSeed(f"{whose} is no kernel for sm_90: {_first_line(complaint)}")


def _sm90_compiler(language: str, settings: EvaluationConfig) -> Language:
    """Return a compiler, the last one where it is asked for again: it keeps a process that has imported torch."""
    wanted = f"{language} {settings.model_dump_json()}"
    if wanted not in _compilers:
        _compilers.clear()
        _compilers[wanted] = local_language(language, settings, device=DeviceLimits())
    return _compilers[wanted]


_compilers: dict[str, Language] = {}


_ALIGNMENT = RewriteLibrary((RowAlignment(),), read=TritonModule.parse, write=str, unreadable=(UnreadableTriton,))


def _aligned(program: str) -> str:
    """Return a program whose kernels know what their sizes are multiples of."""
    while moves := _ALIGNMENT.moves(program):
        program = _ALIGNMENT.apply(program, moves[0])
    return program


class _Maker:
    """Makes and checks the program for one task."""

    def __init__(
        self,
        path: str,
        device_class: str,
        folder: Path,
        timeout_s: float,
        compare_s: float,
        *,
        whose: str = "Inductor's program",
        run: CompilerRunner = run_plain,
    ) -> None:
        self._task_arguments = (path, device_class)
        self._folder, self._whose, self._run = folder, whose, run
        self._timeout_s, self._deadline, self._compare_s = timeout_s, time.monotonic() + timeout_s, compare_s

    def make(self, task: Task) -> InductorSeed:
        """Return the program with a docstring on how it was checked."""
        told = self._ask("program_process", self._task_arguments)
        if "program" not in told:
            raise NoInductorSeed(str(told["reason"]))
        program = _aligned(str(told["program"]))
        result, compile_s = self.check(task, program)
        head = _HEAD.format(name=task.name, version=told["version"], checked=f"It compiles for sm_90. {result}")
        return InductorSeed(head + program, compile_s)

    def check(self, task: Task, program: str) -> tuple[str, float]:
        """Return the result of the comparison of a program that compiles, and the time that this took, in s."""
        built = build_for_sm90(task, program, language="triton", whose=self._whose)
        compile_s = built.metrics["compile_ms"] / 1e3
        try:
            return self._judged(program), compile_s
        except NotJudged as error:
            failed = "" if str(error) == NO_GPU else f" The judge here failed: {error}."
        return self._compare(program) + failed, compile_s

    def _judged(self, program: str) -> str:
        """Return what the judge of this machine's GPU says. Raises `NoInductorSeed` where the program is wrong."""
        try:
            settings = EvaluationConfig(compile_timeout_s=COMPILE_S)
            return judged_here(
                Path(self._task_arguments[0]), program, language="triton", whose=self._whose, settings=settings
            )
        except TaskError as error:
            raise NoInductorSeed(_first_line(str(error))) from None

    def _compare(self, program: str) -> str:
        """Return the result of the comparison with the reference. Raises `NoInductorSeed` where results differ."""
        path = self._folder / "program.py"
        path.write_text(program)
        self._deadline = min(self._deadline, time.monotonic() + self._compare_s)
        try:
            told = self._ask(
                "interpreter_process", (*self._task_arguments, str(path)), environment={"TRITON_INTERPRET": "1"}
            )
        except _TookTooLong:
            told = _answered(self._folder / "interpreter_process.json")
            if told.get("sizes") and not told["wrong"]:
                sizes = f"at {told['sizes']} of 3 sizes Triton's interpreter finds them right"
                return f"{NOT_COMPARED} at every size: {sizes}, and it took too long for the rest."
            if not told.get("wrong"):
                return f"{NOT_COMPARED}: Triton's interpreter took too long."
        if "failed" in told:
            return f"{NOT_COMPARED}: Triton's interpreter fails ({told['failed']})."
        if told["wrong"]:
            raise NoInductorSeed(f"{self._whose} is wrong in Triton's interpreter: {_first_line(told['wrong'])}")
        return "Triton's interpreter gives the reference's results, in fp32 for 16-bit numbers."

    def _ask(self, module: str, arguments: Sequence[str], environment: dict[str, str] | None = None) -> dict[str, Any]:
        """Return what a process of its own answers."""
        answer = self._folder / f"{module}.json"
        call = {
            "environment": {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1", **(environment or {})},
            "path": sys.path,
            "module": module,
            "arguments": [*arguments, str(answer)],
        }
        done = self._run(
            [sys.executable, "-c", _START, json.dumps(call)],
            workdir=self._folder,
            timeout_s=max(self._deadline - time.monotonic(), 0.0),
            memory_bytes=resource.getrlimit(resource.RLIMIT_AS)[1],  # CUDA reserves any number of addresses
        )
        if done.timed_out:
            raise _TookTooLong(f"making it took more than {self._timeout_s:g} s")
        if not answer.is_file():
            last = done.stderr.strip().rpartition("\n")[2] or f"signal {done.signal}"
            raise NoInductorSeed(f"Inductor's process failed: {last[:300]}")
        told: dict[str, Any] = json.loads(answer.read_text())
        return told


class _TookTooLong(NoInductorSeed):
    pass


def _answered(answer: Path) -> dict[str, Any]:
    """Return what a process had answered when it was stopped."""
    try:
        return dict(json.loads(answer.read_text()))
    except (OSError, ValueError):  # nothing, or half of it
        return {}


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300]
