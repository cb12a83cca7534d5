"""Input generators of a task, run in the sandbox: a request for contents is a forked process that imports the task."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import torch

from evokernel.errors import TaskError
from evokernel.evaluate.build.compile_pool import CompileLimits, CompilePool, CompilerPrograms
from evokernel.evaluate.numerics.arrays import Array, torch_dtype
from evokernel.evaluate.sandbox.levels import Sandbox, detect_sandbox
from evokernel.languages.toolchain import CompileAnswer
from evokernel.task import DTYPES, Signature, Task, Tensor
from evokernel.tasks import task_path

_PROGRAM = "input_generator"
_LIMIT_S = 120.0
"""Limit of one request, beside its time for contents."""
_ROOM_BYTES = 256 << 20
"""Contents of one request, but for the first."""
_CONTENT_BYTES = 4 << 30
"""Largest content."""


class ConfinedGenerator:
    """One generator of a task; see `ConfinedSource`."""

    def __init__(self, pool: CompilePool, spec: str, number: int) -> None:
        self._pool = pool
        self._spec = spec
        self._number = number
        self.earlier: dict[str, list[dict[str, Array]]] = {}

    def __call__(self, sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
        """Refuse: nothing calls a generator in this process."""
        raise TaskError("an input generator is called in the sandbox alone")

    def contents(
        self, sizes: Mapping[str, int], seeds: Sequence[int], *, tensors: Sequence[Tensor], budget_s: float
    ) -> list[dict[str, Array]]:
        """Return the contents for the first seeds, one at least, as many as are made in time.

        Raises:
            TaskError: the generator failed, or returned other tensors than declared.
            HarnessError: the sandbox failed.
        """
        shapes = {tensor.name: tensor.shape_at(sizes) for tensor in tensors}
        request = {
            "task": self._spec,
            "generator": self._number,
            "sizes": dict(sizes),
            "seeds": list(seeds),
            "tensors": [(tensor.name, tensor.dtype, shapes[tensor.name]) for tensor in tensors],
            "budget_s": budget_s,
            "room_bytes": _ROOM_BYTES,
        }
        size_bytes = sum(tensor.bytes_at(sizes) for tensor in tensors)
        answered = self._pool(_PROGRAM, request, timeout_s=_LIMIT_S + budget_s)
        failure = _failure(answered, size_bytes=size_bytes, most=len(seeds))
        if failure:
            names = ", ".join(tensor.name for tensor in tensors)
            raise TaskError(f"the generator of {names} failed with {dict(sizes)}: {failure}")
        blob = memoryview(bytearray(answered.blob))
        starts = range(0, len(blob), size_bytes)
        return [_split(blob[start : start + size_bytes], tensors, shapes) for start in starts]


def confine_generators(task: Task, spec: str, *, sandbox: Sandbox | None = None) -> Task:
    """Return a task whose input generators run in the sandbox; `spec` is what it was loaded by."""
    signature = task.signature
    if not signature.generators:
        return task
    path, source = task_path(spec), getattr(task.reference, "__globals__", {}).get("source")
    folders = [path.parent]  # that of the task file, and that of the file which `init` made it of
    if isinstance(source, ModuleType) and source.__file__:
        folders.append(Path(source.__file__).parent)
    toolbox = CompilerPrograms(
        programs={_PROGRAM: f"inside.untrusted.{_PROGRAM}"},
        preload=("torch", "numpy"),
        folders=(str(Path(__file__).parents[3]), *map(str, folders)),
    )
    sandbox = (sandbox or detect_sandbox()).reading(folders)
    pool = CompilePool(sandbox, toolbox, limits=CompileLimits(blob_bytes=_CONTENT_BYTES))
    confined = {
        generator: ConfinedGenerator(pool, str(path), number) for number, generator in enumerate(signature.generators)
    }
    inputs = tuple(
        tensor if tensor.generator is None else replace(tensor, generator=confined[tensor.generator])
        for tensor in signature.inputs
    )
    return replace(task, signature=Signature(inputs, signature.scalars, signature.outputs))


def _failure(answered: CompileAnswer, *, size_bytes: int, most: int) -> str:
    """Return what is wrong with an answer, or nothing. It comes from a process that ran a user's code."""
    answer = answered.answer or {"failure": answered.error}
    if "failure" in answer:
        return str(answer["failure"])
    whole = size_bytes and answer.get("made") == len(answered.blob) / size_bytes
    return "" if whole and size_bytes <= len(answered.blob) <= most * size_bytes else "it made no whole contents"


def _split(content: memoryview, tensors: Sequence[Tensor], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    found, begin = {}, 0
    for tensor in tensors:
        shape = shapes[tensor.name]
        end = begin + math.prod(shape) * DTYPES[tensor.dtype]
        # a copy, for the bytes may begin anywhere
        raw = torch.frombuffer(bytearray(content[begin:end]), dtype=torch_dtype(tensor.dtype))
        found[tensor.name], begin = raw.view(shape), end
    return found
