"""What must be computed, on what, and what counts as right."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from evokernel.errors import TaskError
from evokernel.source.expressions import evaluate

DTYPES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8}
DISTRIBUTIONS = ("normal", "offset", "wide", "integers01", "needles")


class Role(StrEnum):
    """What a kernel may do with an argument."""

    INPUT = "input"
    INOUT = "inout"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A contiguous, row-major, 64-byte aligned buffer that overlaps no other; dimensions are integer expressions.

    An input of integers may say that all its values are from 0 to `below` - 1: indices, labels, bins.
    """

    name: str
    shape: tuple[str | int, ...]
    dtype: str = "float32"
    role: Role = Role.INPUT
    below: str | int | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise TaskError(f"tensor {self.name!r}: dtype must be one of {', '.join(DTYPES)}, not {self.dtype!r}")
        if self.below is not None and ("float" in self.dtype or self.role is Role.OUTPUT):
            raise TaskError(f"tensor {self.name!r}: `below` is for inputs of integers")

    def shape_at(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        """Return the concrete shape for given dimensions."""
        return tuple(evaluate(extent, dims) for extent in self.shape)

    def bytes_at(self, dims: Mapping[str, int]) -> int:
        """Return the size in bytes for given dimensions."""
        size = DTYPES[self.dtype]
        for extent in self.shape_at(dims):
            size *= extent
        return size


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number passed by value: a dimension of the workload (int64) or a constant of it (float32, float64)."""

    name: str
    dtype: str = "int64"

    def __post_init__(self) -> None:
        if self.dtype not in ("int64", "float32", "float64"):
            raise TaskError(f"scalar {self.name!r}: dtype must be int64, float32 or float64, not {self.dtype!r}")


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments of `run`, in order: inputs, in/out tensors, scalars, outputs."""

    inputs: tuple[Tensor, ...]
    scalars: tuple[Scalar, ...]
    outputs: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        if not self.outputs and not any(tensor.role is Role.INOUT for tensor in self.inputs):
            raise TaskError("a signature needs at least one output or in/out tensor")
        if any(tensor.role is not Role.OUTPUT for tensor in self.outputs):
            raise TaskError("tensors listed as outputs need role=Role.OUTPUT")
        names = [argument.name for argument in self.arguments]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise TaskError(f"arguments named twice in the signature: {', '.join(sorted(repeated))}")

    def with_floats(self, dtype: str) -> "Signature":
        """Return the signature with another dtype for its floating-point tensors."""

        def changed(tensor: Tensor) -> Tensor:
            return replace(tensor, dtype=dtype) if "float" in tensor.dtype else tensor

        return replace(self, inputs=tuple(map(changed, self.inputs)), outputs=tuple(map(changed, self.outputs)))

    @property
    def arguments(self) -> tuple[Tensor | Scalar, ...]:
        """All arguments in calling order."""
        return (*self.inputs, *self.scalars, *self.outputs)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors in calling order."""
        return (*self.inputs, *self.outputs)


@dataclass(frozen=True, slots=True)
class Workload:
    """One concrete input set. `dims` holds every dimension and scalar by name; `weight` counts in the mean."""

    name: str
    dims: Mapping[str, int | float]
    weight: float = 1.0
    distribution: str = "normal"

    @property
    def sizes(self) -> dict[str, int]:
        """The integer dimensions."""
        return {name: value for name, value in self.dims.items() if isinstance(value, int)}


@dataclass(frozen=True, slots=True)
class WorkloadSet:
    """The workloads of one device class: `search` drives fitness, `holdout` judges winners.

    `probe` gives the inclusive range each dimension is drawn from, by a secret seed, for hidden correctness checks.
    `dtype` replaces that of the signature's floating-point tensors on this class of devices, and `baselines` and
    `bytes_moved` the task's, where they are given.
    """

    search: tuple[Workload, ...]
    holdout: tuple[Workload, ...]
    probe: Mapping[str, tuple[int, int]]
    probes: int = 4
    dtype: str | None = None
    baselines: Mapping[str, "Baseline"] | None = None
    bytes_moved: str | None = None


@dataclass(frozen=True, slots=True)
class Precision:
    """What the reference, the baselines and the candidates may do alike, and how far rounding may go.

    `reduction` is the length of the longest sum behind one output element, as an expression over the dimensions.
    `exact_on_integers` demands exact equality on 0/1 inputs (right for sums and products, not for exponentials).
    """

    reduction: str | int = 1
    exact_on_integers: bool = False
    allow_tf32: bool = False
    slack: float = 4.0


Reference = Callable[..., Any]
Baseline = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Task:
    """What to compute.

    Args:
        name: short identifier, used in file names.
        reference: PyTorch function of the inputs and scalars by name; returns one tensor or a tuple, in the order of
            the in/out tensors and then the outputs. Called with fp64 tensors for the expected values.
        signature: the arguments of a kernel.
        workloads: by device class, "cpu" or "cuda".
        flops: floating-point operations as an expression over the dimensions.
        bytes_moved: the least traffic in bytes, as an expression; None for each tensor touched once.
        baselines: by name, functions `(inputs: dict, outputs: tuple) -> None` that write the outputs in place, in the
            native precision; None for the reference itself, copied into the outputs.
        distributions: the input distributions that correctness is checked on.
        seeds: by language, the file of a plain correct kernel the search starts from.
        description: one line for people and prompts.
    """

    name: str
    reference: Reference
    signature: Signature
    workloads: Mapping[str, WorkloadSet]
    flops: str
    bytes_moved: str | None = None
    precision: Precision = Precision()
    baselines: Mapping[str, Baseline] | None = None
    distributions: tuple[str, ...] = DISTRIBUTIONS
    seeds: Mapping[str, Path] = field(default_factory=dict)
    description: str = ""

    def __post_init__(self) -> None:
        unknown = set(self.distributions) - set(DISTRIBUTIONS)
        if unknown:
            raise TaskError(f"task {self.name!r}: unknown distributions {sorted(unknown)}; known: {DISTRIBUTIONS}")
        for device, workloads in self.workloads.items():
            if not workloads.search or not workloads.holdout:
                raise TaskError(f"task {self.name!r}: device class {device!r} needs search and holdout workloads")
            for workload in (*workloads.search, *workloads.holdout):
                self._check_workload(workload)

    def _check_workload(self, workload: Workload) -> None:
        missing = {scalar.name for scalar in self.signature.scalars} - workload.dims.keys()
        if missing:
            raise TaskError(f"task {self.name!r}: workload {workload.name!r} lacks {sorted(missing)} in its dims")
        if workload.weight <= 0:
            raise TaskError(f"task {self.name!r}: workload {workload.name!r} needs a weight above 0")
        try:
            self.flops_at(workload)
            self.bytes_at(workload)
        except ValueError as error:
            raise TaskError(f"task {self.name!r}: workload {workload.name!r}: {error}") from None

    def on(self, device_class: str) -> "Task":
        """Return the task as it is on one class of devices: its workloads alone, its dtype, its baselines.

        Raises:
            TaskError: the task has no workloads for that class.
        """
        if device_class not in self.workloads:
            known = ", ".join(sorted(self.workloads)) or "none"
            raise TaskError(f"task {self.name!r} has no workloads for device class {device_class!r}; it has: {known}")
        chosen = self.workloads[device_class]
        return replace(
            self,
            signature=self.signature if chosen.dtype is None else self.signature.with_floats(chosen.dtype),
            workloads={device_class: chosen},
            baselines=self.baselines if chosen.baselines is None else chosen.baselines,
            bytes_moved=self.bytes_moved if chosen.bytes_moved is None else chosen.bytes_moved,
        )

    def flops_at(self, workload: Workload) -> int:
        """Return the floating-point operations of one call on a workload."""
        return evaluate(self.flops, workload.sizes)

    def bytes_at(self, workload: Workload) -> int:
        """Return the least memory traffic of one call on a workload, in bytes."""
        if self.bytes_moved is not None:
            return evaluate(self.bytes_moved, workload.sizes)
        return sum(tensor.bytes_at(workload.sizes) for tensor in self.signature.tensors)
