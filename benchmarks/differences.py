"""Which mutants give other numbers than their kernel: an independent set of inputs, ten times as large as the judge's.

The set has the judge's distributions and one more, whose rows are of different kinds: constant, nearly constant, far
below zero, tiny, rounded to ties, with one outlier. A case on which the kernel itself is wrong counts for none of its
mutants; a kernel that cannot run has none. Beyond the tolerance, a mutant still only rounds where its error is no more
than twice that of one of the task's kernels on the same inputs. All run in child processes, which are replaced when a
mutant ends them.
"""

import contextlib
import ctypes
import importlib.util
import math
import mmap
import multiprocessing
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evokernel.evaluate.numerics.arrays import differ, is_float, synchronize, torch_dtype, widen
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.expected import Expected, ExpectedOutput, rms
from evokernel.evaluate.numerics.hidden_shapes import probe_workloads
from evokernel.evaluate.numerics.inputs import draw, result_tensors
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.task import Scalar, Task, Tensor, Workload
from evokernel.tasks import load_task

TIMES = 10
"""The independent set has so many times the hidden shapes of the judge's."""
MIXED = "mixed rows"
NEVER_ENDS = "never ends"
ROUNDS = "rounds as honest kernels do"
"""In place of a difference: beyond the tolerance, as a kernel is, too, or nearly."""
_ROUNDING, _MOST_HONEST = 2.0, 4.0
"""A mutant may err so many times as much as a kernel, which counts as one up to so many tolerances."""
_PATIENCE_S = 30
_DRAWING = -1
"""In place of a subject: inputs and right answers of a case are made, which takes its time beside other work."""
_CHILDREN = 6
"""Processes that run kernels for a GPU, which compile them first."""
_FLAGS = ("-std=c++20", "-O1", "-march=native", "-shared", "-fPIC", "-w")
_ALIGNED = 64
_FILLS = (0xFF, 0x71)
"""Bytes around a buffer and in an output before a call, in turn: NaN and large numbers in floating-point dtypes."""
_CTYPES: Mapping[str, Any] = {"int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}

Call = Callable[[Mapping[str, torch.Tensor], Workload, int], tuple[list[torch.Tensor], str]]


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel or a mutant."""

    source: str
    original: int
    """Index of the kernel it is made from; its own for a kernel."""


@dataclass(frozen=True, slots=True)
class SetOfInputs:
    """An independent set; each case is drawn from the seed and its own number."""

    task: Task
    device: str
    seed: int

    @property
    def cases(self) -> list[tuple[Workload, str]]:
        """Workload and distribution of each case: hidden shapes, then the smallest search workload."""
        (workloads,) = self.task.workloads.values()
        rng = np.random.default_rng([self.seed, 0])
        shapes = [shape for _ in range(TIMES) for shape in probe_workloads(workloads, rng)]
        shapes.append(min(workloads.search, key=self.task.bytes_at))
        return [(shape, name) for shape in shapes for name in (*self.task.distributions, MIXED)]

    def drawn(self, number: int) -> tuple[dict[str, torch.Tensor], Expected]:
        """Return inputs and expected outputs of a case."""
        workload, distribution = self.cases[number]
        rng = np.random.default_rng([self.seed, 1, number])
        plain = "normal" if distribution == MIXED else distribution
        inputs = draw(self.task, workload, plain, rng, device=self.device)
        if distribution == MIXED:
            inputs = {name: _mixed(self.task, array, rng) for name, array in inputs.items()}
        return inputs, expect(self.task, workload, inputs, distribution=plain)


def _mixed(task: Task, array: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Return rows of different kinds, within the magnitudes of the task's distributions."""
    if not array.is_floating_point() or array.ndim == 0:
        return array
    rows = array.reshape(-1, array.shape[-1]).clone()
    kinds: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda row: row,
        lambda row: torch.full_like(row, float(rng.standard_normal())),
        lambda row: row * 1e-3 + float(rng.standard_normal()),
        lambda row: row.round(),
        torch.zeros_like,
    ]
    if "offset" in task.distributions and array.dtype != torch.float16:
        kinds += [lambda row: row - 100, lambda row: row * 1e-2 - 100, lambda row: row.round() * 8]
    if "wide" in task.distributions:
        kinds += [lambda row: row * 1e-3, lambda row: row * 1e-4]
    for number in range(rows.shape[0]):
        row = kinds[int(rng.integers(len(kinds)))](rows[number])
        if rng.random() < 0.3 and "needles" in task.distributions:
            row[int(rng.integers(row.numel()))] = float(rng.choice([-1, 1]) * rng.uniform(10, 50))
        rows[number] = row
    return rows.reshape(array.shape)


# ---------------------------------------------------------------------------------------------------- the parent


def differences(
    spec: str, subjects: Sequence[Subject], language: str, *, device: str, seed: int, patience_s: float = _PATIENCE_S
) -> list[str | None]:
    """Return how each subject differs from right answers: "" where it does not, `ROUNDS`, or None for no program.

    Args:
        spec: the task.
        subjects: kernels and mutants.
        language: theirs.
        device: "cpu" or "cuda".
        seed: of the set.
        patience_s: after so many seconds a call never ends.
    """
    with tempfile.TemporaryDirectory() as folder:
        programs = _programs(subjects, language, Path(folder))
        found: list[str | None] = ["" if program else None for program in programs]
        made = [number for number, program in enumerate(programs) if program]
        originals = {number for number in made if subjects[number].original == number}
        children = _CHILDREN if device == "cuda" else 1
        shares = [sorted(originals.union(made[first::children])) for first in range(children)]

        def examine(share: list[int]) -> None:
            start = 0
            while True:
                running = {number: programs[number] for number in share if found[number] in ("", ROUNDS)}
                given = (spec, device, seed, running, [subject.original for subject in subjects], start)
                start, ended = _followed(*_child(given), found, patience_s)
                if ended is None:
                    return
                if ended in originals:  # so it is no standard for its mutants
                    print(f"not examined, since the kernel itself fails here: {found[ended]}", file=sys.stderr)
                    for number in (each for each in share if subjects[each].original == ended != each):
                        found[number] = None

        with ThreadPoolExecutor(children) as pool:
            list(pool.map(examine, shares))
        fit = [found[subject.original] == "" for subject in subjects]
        return [text if right else None for text, right in zip(found, fit, strict=True)]


def _child(given: tuple[Any, ...]) -> tuple[Any, Connection]:
    context = multiprocessing.get_context("fork" if given[1] == "cpu" else "spawn")
    mine, its = context.Pipe()
    child = context.Process(target=_examine, args=(its, *given), daemon=True)  # type: ignore[attr-defined]
    child.start()
    its.close()
    return child, mine


def _followed(child: Any, pipe: Connection, found: list[str | None], patience_s: float) -> tuple[int, int | None]:
    """Take in what a child finds; return the case and the subject that ended it, None at its regular end."""
    case, at = 0, _DRAWING
    while True:
        try:
            if not pipe.poll(patience_s * (10 if at == _DRAWING else 1)):
                child.kill()
                if at == _DRAWING:
                    raise SystemExit(f"case {case} was not drawn within {patience_s * 10} s")
                found[at] = NEVER_ENDS
                return case, at
            message = pipe.recv()
        except EOFError:
            child.join()
            if at == _DRAWING:
                raise SystemExit(f"the process that compares numbers died before it had drawn case {case}") from None
            found[at] = f"ends its process ({child.exitcode})"
            return case, at
        if message is None:
            child.join()
            return case, None
        if len(message) == 2:
            case, at = message
        else:
            found[message[0]] = message[2]


def _programs(subjects: Sequence[Subject], language: str, folder: Path) -> list[str]:
    """Return a file for each subject, "" where it does not compile or is its kernel's own machine code."""

    def made(number: int) -> str:
        # equal programs are equal files only under one name; Python's modules need names of their own
        path = folder / str(number) / ("kernel.cpp" if language == "cpp" else f"kernel_{number}.py")
        path.parent.mkdir()
        path.write_text(subjects[number].source, encoding="utf-8")
        if language != "cpp":
            return str(path)
        library = path.with_suffix(".so")
        done = subprocess.run(["g++", *_FLAGS, path, "-o", library], check=False, capture_output=True)
        return "" if done.returncode else str(library)

    with ThreadPoolExecutor(2) as pool:
        files = list(pool.map(made, range(len(subjects))))
    if language == "cpp":
        code = [Path(file).read_bytes() if file else b"" for file in files]
        for number, subject in enumerate(subjects):
            if number != subject.original and code[number] == code[subject.original]:
                files[number] = ""
    return files


# ----------------------------------------------------------------------------------------------------- the child


def _examine(
    pipe: Connection,
    spec: str,
    device: str,
    seed: int,
    programs: Mapping[int, str],
    originals: Sequence[int],
    start: int,
) -> None:
    torch.set_num_threads(1)
    given = SetOfInputs(load_task(spec).on(device), device, seed)
    calls: dict[int, Call] = {}
    for number, file in programs.items():
        pipe.send((start, number))
        try:
            calls[number] = _native(given.task, file) if file.endswith(".so") else _live(given.task, file)
        except Exception as error:  # noqa: BLE001 (it is imported, and may do anything)
            pipe.send((number, "", f"cannot be loaded: {error!r}"))
    for case in range(start, len(given.cases)):
        workload, distribution = given.cases[case]
        pipe.send((case, _DRAWING))
        inputs, expected = given.drawn(case)
        unfit, honest = set(), 0.0
        for number in sorted(calls, key=lambda each: each != originals[each]):
            if originals[number] in unfit or originals[number] not in calls:
                continue
            pipe.send((case, number))
            text, excess = _complaint(calls[number], inputs, expected, fill=_FILLS[case // 2 % 2])
            if number == originals[number]:
                honest = max(honest, excess if excess <= _MOST_HONEST else 0.0)
                unfit |= {number} if text else set()
            elif text and excess <= _ROUNDING * honest:
                pipe.send((number, "", ROUNDS))
            elif text:
                pipe.send((number, "", f"{distribution} on {dict(workload.dims)}: {text}"))
                del calls[number]
    pipe.send(None)


def _complaint(call: Call, inputs: Mapping[str, torch.Tensor], expected: Expected, *, fill: int) -> tuple[str, float]:
    """Return what is wrong with a call, or "", and its error over the tolerance."""
    try:
        outputs, harm = call(inputs, expected.workload, fill)
        if harm:
            return harm, math.inf
        finding = judge_output(expected, outputs)
        error = max(map(_error, expected.outputs, outputs))
    except Exception as fault:  # noqa: BLE001 (a mutant may do anything)
        if "CUDA" in str(fault):
            sys.exit(1)  # this context is lost
        return repr(fault)[:200], math.inf
    return ("" if finding is None else f"{finding.status.value}, {finding.ratio:.3g} times the tolerance"), error


def _error(output: ExpectedOutput, actual: torch.Tensor) -> float:
    """Return the error of an output over its tolerance; infinite where that is no number."""
    if not is_float(output.tensor.dtype) or output.exact:
        return math.inf if differ(actual, output.native).any() else 0.0
    off = (widen(actual) - output.high).abs()
    worst = float((off / output.allowed).nan_to_num(math.inf).max())
    return max(worst, rms(off) / output.limits.rms if output.limits.rms > 0 else worst)


def _live(task: Task, file: str) -> Call:
    """Return calls of a kernel for a GPU."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def call(inputs: Mapping[str, torch.Tensor], workload: Workload, fill: int) -> tuple[list[torch.Tensor], str]:
        named = {name: array.clone() for name, array in inputs.items()}
        device = next(iter(named.values())).device
        for tensor in task.signature.outputs:
            shape, wanted = tensor.shape_at(workload.sizes), torch_dtype(tensor.dtype)
            content = torch.full((math.prod(shape) * wanted.itemsize,), fill, dtype=torch.uint8, device=device)
            named[tensor.name] = content.view(wanted).view(tuple(shape))
        numbers = {scalar.name: workload.dims[scalar.name] for scalar in task.signature.scalars}
        module.run(*(named.get(each.name, numbers.get(each.name)) for each in task.signature.arguments))
        synchronize(device.type)
        return [named[tensor.name] for tensor in result_tensors(task)], ""

    return call


def _native(task: Task, file: str) -> Call:
    """Return calls of a kernel in C++, its buffers between pages without access."""
    function = ctypes.CDLL(file).run

    def call(inputs: Mapping[str, torch.Tensor], workload: Workload, fill: int) -> tuple[list[torch.Tensor], str]:
        with contextlib.ExitStack() as rooms:
            placed, given = {}, list[Any]()
            for each in task.signature.arguments:
                if isinstance(each, Scalar):
                    given.append(_CTYPES[each.dtype](workload.dims[each.name]))
                    continue
                room = rooms.enter_context(_Room(each, each.shape_at(workload.sizes), fill))
                if each.name in inputs:
                    room.tensor.copy_(inputs[each.name])
                placed[each.name] = room
                given.append(ctypes.c_void_p(room.tensor.data_ptr()))
            function(*given)
            harmed = next((name for name, room in placed.items() if room.harmed()), "")
            results = [placed[each.name].tensor.clone() for each in result_tensors(task)]
            return results, f"writes beyond {harmed!r}" if harmed else ""

    return call


class _Room:
    """A tensor in memory of its own, between pages without access; it ends at one."""

    def __init__(self, tensor: Tensor, shape: Sequence[int], fill: int) -> None:
        page, dtype = mmap.PAGESIZE, torch_dtype(tensor.dtype)
        size = math.prod(shape) * dtype.itemsize
        aligned = -(-size // _ALIGNED) * _ALIGNED
        inner = -(-aligned // page) * page
        content = np.frombuffer(mmap.mmap(-1, inner + 2 * page), dtype=np.uint8)
        content[:] = fill
        begin = page + inner - aligned
        self.tensor = torch.from_numpy(content[begin : begin + size]).view(dtype).view(tuple(shape))
        self._around, self._fill = (content[page:begin], content[begin + size : page + inner]), fill
        self._walls = [content.ctypes.data, content.ctypes.data + page + inner]

    def __enter__(self) -> "_Room":
        self._permit(0)
        return self

    def __exit__(self, *_: object) -> None:
        self._permit(mmap.PROT_READ | mmap.PROT_WRITE)

    def _permit(self, access: int) -> None:
        for wall in self._walls:
            ctypes.CDLL(None).mprotect(ctypes.c_void_p(wall), mmap.PAGESIZE, access)

    def harmed(self) -> bool:
        """Say whether a byte around the tensor was written."""
        return any(bool((part != self._fill).any()) for part in self._around)
