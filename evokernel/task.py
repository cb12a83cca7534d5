"""A task: the computation, its workloads, and what counts as right."""

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
    """Use that a kernel may make of a tensor."""

    INPUT = "input"
    """Read only."""
    INOUT = "inout"
    """Read, and changed in place."""
    OUTPUT = "output"
    """Written in full; holds garbage before the call."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A contiguous, row-major, 64-byte aligned buffer that overlaps no other."""

    name: str
    """Its name in `run` and in the reference."""
    shape: tuple[str | int, ...]
    """Its dimensions, each an integer or an expression over the workload's dimensions."""
    dtype: str = "float32"
    """One of `DTYPES`."""
    role: Role = Role.INPUT
    """Use that a kernel may make of it."""
    below: str | int | None = None
    """All values of an input of integers are from 0 to this - 1 (indices, labels, bins); None for no such limit."""

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
    """Its name in `run` and among the workload's dimensions."""
    dtype: str = "int64"
    """`int64`, `float32` or `float64`."""

    def __post_init__(self) -> None:
        if self.dtype not in ("int64", "float32", "float64"):
            raise TaskError(f"scalar {self.name!r}: dtype must be int64, float32 or float64, not {self.dtype!r}")


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments of `run`, in order: inputs, in/out tensors, scalars, outputs."""

    inputs: tuple[Tensor, ...]
    """Inputs and in/out tensors."""
    scalars: tuple[Scalar, ...]
    """Numbers passed by value."""
    outputs: tuple[Tensor, ...]
    """Tensors that the kernel writes."""

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
    """One concrete input set."""

    name: str
    """Its name in verdicts and reports."""
    dims: Mapping[str, int | float]
    """Every dimension and scalar, by name."""
    weight: float = 1.0
    """Weight in the mean over workloads, > 0."""
    distribution: str = "normal"
    """Distribution of the inputs, one of `DISTRIBUTIONS`."""

    @property
    def sizes(self) -> dict[str, int]:
        """The integer dimensions."""
        return {name: value for name, value in self.dims.items() if isinstance(value, int)}


@dataclass(frozen=True, slots=True)
class WorkloadSet:
    """The workloads of one device class."""

    search: tuple[Workload, ...]
    """Drive fitness; one at least."""
    holdout: tuple[Workload, ...]
    """Judge winners and nothing else; one at least."""
    probe: Mapping[str, tuple[int, int]]
    """Inclusive range of each dimension for hidden workloads, which a secret seed draws."""
    probes: int = 4
    """Number of hidden workloads."""
    dtype: str | None = None
    """Replaces that of the signature's floating-point tensors; None to keep it."""
    baselines: Mapping[str, "Baseline"] | None = None
    """Replace the task's; None to keep them."""
    bytes_moved: str | None = None
    """Replaces the task's; None to keep it."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Numerical freedom of reference, baselines and candidates alike."""

    reduction: str | int = 1
    """Length of the longest sum behind one output element, as an expression over the dimensions."""
    exact_on_integers: bool = False
    """Demand equality on 0/1 inputs: right for sums and products, not for exponentials."""
    allow_tf32: bool = False
    """Inputs in fp32 may be rounded to TF32."""
    slack: float = 4.0
    """Factor on the measured error of the native precision."""


Reference = Callable[..., Any]
"""PyTorch function of the inputs and scalars by name; returns one tensor or a tuple: in/out tensors, then outputs."""
Baseline = Callable[..., Any]
"""Function `(inputs: dict, outputs: tuple) -> None` that writes the outputs in place, in the native precision."""


@dataclass(frozen=True, slots=True)
class Task:
    """A computation with its workloads and its rules of correctness."""

    name: str
    """Short identifier, used in file names."""
    reference: Reference
    """Called with fp64 tensors for the expected values; see `Reference`."""
    signature: Signature
    """The arguments of a kernel."""
    workloads: Mapping[str, WorkloadSet]
    """By device class, `cpu` or `cuda`."""
    flops: str
    """Floating-point operations of one call, as an expression over the dimensions."""
    bytes_moved: str | None = None
    """The least traffic in bytes, as an expression; None for each tensor touched once."""
    precision: Precision = Precision()
    """Numerical freedom."""
    baselines: Mapping[str, Baseline] | None = None
    """By name; None for the reference itself, copied into the outputs."""
    distributions: tuple[str, ...] = DISTRIBUTIONS
    """The input distributions that correctness is checked on."""
    seeds: Mapping[str, Path] = field(default_factory=dict)
    """By language, the file of a plain correct kernel that the search starts from."""
    description: str = ""
    """One line for people and prompts."""

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
