"""A task: the computation, its workloads, and what counts as right."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import product
from math import inf, prod
from pathlib import Path
from typing import Any

from evokernel.errors import TaskError
from evokernel.source.expressions import evaluate
from evokernel.source.strides import declaration_fault, misfit, sizes_in, storage_size

DTYPES = {
    "float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int32": 4, "int64": 8, "int8": 1, "uint8": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip
"""Bytes of an element by the name of its type."""
DISTRIBUTIONS = ("normal", "offset", "wide", "integers01", "needles")
PATCHWORKS = ("patchwork", "patchwork/kept", "patchwork/few", "patchwork/beats")
PATCHWORK, PATCHWORK_KEPT, PATCHWORK_FEW, PATCHWORK_BEATS = PATCHWORKS
"""Mixtures: of all kinds; with one true in each row of a mask; with few odd elements; of integers at regular places."""
ENDS, TINY, EXTREME = ("ends/0", "ends/1"), "tiny", "extreme"  # of 0, or 1, at both ends; about 1e-12; of all bits
SCALED = {f"normal/1e{n}": 10.0**-n for n in (2, 4, 6, 8, 12, 16, 20)} | {f"normal*1e{n}": 10.0**n for n in (5, 10, 20)}
SHIFTED = {"normal-10": -10.0, "normal+10": 10.0, "normal+4": 4.0}
COARSE, MODEST, APART, ZEROS = "normal/coarse", "normal/sums", "normal/apart", "normal/zeros"  # see `inputs.draw`
LARGE = {"normal/roots": 46_341, "normal/factors": 1 << 22, "normal/large": 1 << 31}  # what int32 stays below
NAN, INFINITE, ABOVE, BELOW = "normal/nan", "normal/inf", "normal/+inf", "normal/-inf"
TELLING = (*SCALED, *SHIFTED, COARSE, *LARGE, NAN, INFINITE, ABOVE, BELOW, MODEST, APART, ZEROS)
"""Distributions that a judge adds to those of a task where only they notice what a kernel leaves out."""

InputGenerator = Callable[[Mapping[str, int], int], Any]
"""Function of a workload's sizes and a seed. It returns tensors by name, or the only one, and runs in the sandbox."""


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
    """A 64-byte aligned buffer that overlaps no other: contiguous and row-major, or an input with strides."""

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
    strides: tuple[str | int, ...] | None = None
    """Steps of an input along its dimensions, in elements, integers or expressions; None for row-major."""
    generator: InputGenerator | None = None
    """Makes the contents of an input, perhaps of several that must fit each other; None for random numbers."""
    scale: float = 1.0
    """Factor above 0 on the numbers drawn for an input of floats: with 1, weights of many layers drown all biases."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise TaskError(f"tensor {self.name!r}: dtype must be one of {', '.join(DTYPES)}, not {self.dtype!r}")
        if self.below is not None and ("int" not in self.dtype or self.role is Role.OUTPUT):
            raise TaskError(f"tensor {self.name!r}: `below` is for inputs of integers")
        if self.strides is not None:
            self._check_strides(self.strides)
        if self.generator is not None and (self.role is Role.OUTPUT or not callable(self.generator)):
            said = "`generator` is for inputs, a function of sizes and a seed that returns tensors by name"
            raise TaskError(f"tensor {self.name!r}: {said}")
        if self.scale != 1.0 and ("float" not in self.dtype or self.role is Role.OUTPUT or not 0 < self.scale < inf):
            raise TaskError(f"tensor {self.name!r}: `scale` is a number above 0 for inputs of floats, not {self.scale}")

    def _check_strides(self, strides: object) -> None:
        if self.role is not Role.INPUT:
            raise TaskError(
                f"tensor {self.name!r}: `strides` are for inputs that are only read, and its role is {self.role}; "
                "a kernel writes contiguous, row-major tensors"
            )
        fault = declaration_fault(strides, self.shape)
        if fault:
            raise TaskError(f"tensor {self.name!r}: {fault}")

    def shape_at(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        """Return the concrete shape for given dimensions."""
        return tuple(evaluate(extent, dims) for extent in self.shape)

    def strides_at(self, dims: Mapping[str, int]) -> tuple[int, ...] | None:
        """Return the declared strides for given dimensions, in elements; None for a row-major tensor.

        Raises `ValueError` if elements would overlap, or an expression fails.
        """
        if self.strides is None:
            return None
        strides = tuple(evaluate(stride, dims) for stride in self.strides)
        fault = misfit(self.shape_at(dims), strides)
        if fault:
            raise ValueError(
                f"strides {strides} of {self.name!r} do not fit its shape {self.shape_at(dims)} with {dict(dims)}: "
                f"{fault}"
            )
        return strides

    def bytes_at(self, dims: Mapping[str, int]) -> int:
        """Return the size of its elements in bytes for given dimensions."""
        return prod(self.shape_at(dims)) * DTYPES[self.dtype]

    def storage_bytes_at(self, dims: Mapping[str, int]) -> int:
        """Return the bytes from its first to its last element, gaps between them included. Raises as `strides_at`."""
        strides = self.strides_at(dims)
        if strides is None:
            return self.bytes_at(dims)
        return storage_size(self.shape_at(dims), strides) * DTYPES[self.dtype]


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
        strided = [stride for tensor in self.inputs for stride in tensor.strides or ()]
        if strided:
            object.__setattr__(self, "scalars", (*self.scalars, *self._sizes_of(strided)))

    def _sizes_of(self, strides: Iterable[str | int]) -> Iterator[Scalar]:
        """Yield the sizes that only strides name and that are no scalars yet: nothing else tells a kernel."""
        try:
            known = sizes_in(extent for tensor in self.tensors for extent in tensor.shape)
        except ValueError as error:
            raise TaskError(f"a shape in the signature: {error}") from None
        for name in sizes_in(strides):
            if name not in known and all(name != scalar.name for scalar in self.scalars):
                yield Scalar(name)

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
    def generators(self) -> dict[InputGenerator, tuple[Tensor, ...]]:
        """The input generators and the tensors that each makes, in calling order."""
        found: dict[InputGenerator, tuple[Tensor, ...]] = {}
        for tensor in self.inputs:
            if tensor.generator is not None:
                found[tensor.generator] = (*found.get(tensor.generator, ()), tensor)
        return found

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
    probe: Mapping[str, tuple[int | str, int | str]]
    """Inclusive range of each dimension for hidden workloads, which a secret seed draws; an end may be an expression
    over dimensions before it."""
    probes: int = 4
    """Number of hidden workloads."""
    dtype: str | None = None
    """Replaces that of the signature's floating-point tensors; None to keep it."""
    baselines: Mapping[str, "Baseline"] | None = None
    """Replace the task's; None to keep them."""
    bytes_moved: str | None = None
    """Replaces the task's; None to keep it."""
    further_dtypes: tuple[str, ...] = ()
    """Dtypes that winners are tried at, too, in place of that of floating-point tensors. Reported; they bar nobody."""

    def range_of(self, dimension: str, sizes: Mapping[str, int]) -> tuple[int, int]:
        """Return the range of a dimension beside sizes that are drawn already. Raises `ValueError`."""
        low, high = (evaluate(end, sizes) for end in self.probe[dimension])
        if low > high:
            raise ValueError(f"the range of {dimension!r} is from {low} to {high} with {dict(sizes)}")
        return low, high

    @property
    def fixed_sizes(self) -> dict[str, int]:
        """The sizes of hidden workloads that are not drawn: those of the first search workload."""
        return {name: size for name, size in self.search[0].sizes.items() if name not in self.probe}

    def corners(self, dimensions: Collection[str]) -> Iterator[dict[str, int]]:
        """Yield sizes at all combinations of ends of some dimensions, the others at their lower ends."""
        for ends in product((0, 1), repeat=len(dimensions)):
            chosen = dict(zip(dimensions, ends, strict=True))
            sizes = self.fixed_sizes
            for dimension in self.probe:
                sizes[dimension] = self.range_of(dimension, sizes)[chosen.get(dimension, 0)]
            yield sizes


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
    """The input distributions that correctness is checked on; a judge adds mixtures of them, within their ranges."""
    seeds: Mapping[str, Path] = field(default_factory=dict)
    """By language, the file of a plain correct kernel that the search starts from."""
    description: str = ""
    """One line for people and prompts."""

    def __post_init__(self) -> None:
        unknown = set(self.distributions) - {*DISTRIBUTIONS, *PATCHWORKS, *ENDS, TINY, EXTREME, *TELLING}
        if unknown or not self.declared:
            found = f"unknown distributions {sorted(unknown)}" if unknown else "it needs a distribution"
            raise TaskError(f"task {self.name!r}: {found}; known: {DISTRIBUTIONS}")
        for device, workloads in self.workloads.items():
            if not workloads.search or not workloads.holdout:
                raise TaskError(f"task {self.name!r}: device class {device!r} needs search and holdout workloads")
            for workload in (*workloads.search, *workloads.holdout):
                self._check_workload(workload)
            self._check_hidden(device, workloads)
            self._check_further(device, workloads.further_dtypes)

    def _check_further(self, device: str, dtypes: tuple[str, ...]) -> None:
        if dtypes and device != "cuda":
            said = f"are for device class 'cuda', not {device!r}: a C++ kernel names its types"
            raise TaskError(f"task {self.name!r}: `further_dtypes` {said}")
        unknown = [dtype for dtype in dtypes if dtype not in DTYPES or "float" not in dtype]
        if unknown:
            floats = ", ".join(dtype for dtype in DTYPES if "float" in dtype)
            raise TaskError(f"task {self.name!r}: `further_dtypes` must be among {floats}, not {unknown[0]!r}")

    def _check_hidden(self, device: str, workloads: WorkloadSet) -> None:
        """Refuse ranges of hidden sizes that are empty, or at whose ends strides do not fit."""
        strided = [tensor for tensor in self.signature.inputs if tensor.strides is not None]
        used = {name for tensor in strided for name in sizes_in((*tensor.shape, *(tensor.strides or ())))}
        try:
            for sizes in workloads.corners([name for name in workloads.probe if name in used]):
                for tensor in strided:
                    tensor.strides_at(sizes)
        except ValueError as error:
            raise TaskError(
                f"task {self.name!r}: hidden sizes of {device!r}: {error}; change the ranges in WorkloadSet.probe, "
                'whose ends may be expressions over dimensions before them ("LDA": ("K", "K + 64"))'
            ) from None

    def _check_workload(self, workload: Workload) -> None:
        missing = {scalar.name for scalar in self.signature.scalars} - workload.dims.keys()
        if missing:
            raise TaskError(f"task {self.name!r}: workload {workload.name!r} lacks {sorted(missing)} in its dims")
        if workload.weight <= 0:
            raise TaskError(f"task {self.name!r}: workload {workload.name!r} needs a weight above 0")
        try:
            self.flops_at(workload)
            self.bytes_at(workload)
            for tensor in self.signature.inputs:
                tensor.strides_at(workload.sizes)
        except ValueError as error:
            raise TaskError(f"task {self.name!r}: workload {workload.name!r}: {error}") from None

    def on(self, device_class: str) -> "Task":
        """Return the task as it is on one class of devices: its workloads alone, its dtype, its baselines.

        Raises `TaskError` if the task has no workloads for that class.
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

    def with_floats(self, dtype: str) -> "Task":
        """Return the task with another dtype for its floating-point tensors."""
        return replace(self, signature=self.signature.with_floats(dtype))

    @property
    def declared(self) -> tuple[str, ...]:
        """The distributions that its author named; none of the judge's own has values of other ranges."""
        return tuple(name for name in self.distributions if name in DISTRIBUTIONS)

    @property
    def fixed(self) -> Mapping[str, Any]:
        """Arguments that are no tensors, with the values that the reference passes, as `fixed` in its file says."""
        found = getattr(self.reference, "__globals__", {}).get("fixed")
        return found if isinstance(found, Mapping) else {}

    def flops_at(self, workload: Workload) -> int:
        """Return the floating-point operations of one call on a workload."""
        return evaluate(self.flops, workload.sizes)

    def bytes_at(self, workload: Workload) -> int:
        """Return the least memory traffic of one call on a workload, in bytes."""
        if self.bytes_moved is not None:
            return evaluate(self.bytes_moved, workload.sizes)
        return sum(tensor.bytes_at(workload.sizes) for tensor in self.signature.tensors)
