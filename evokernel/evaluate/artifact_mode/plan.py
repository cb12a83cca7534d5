"""Launch plans of a candidate, checked field by field.

Plans come from a process that ran the candidate's code (`inside/untrusted/recording` describes the format). Every field
is checked here, and only these records go on to the runner. The steps of an accepted plan touch known buffers within
their bounds; a kernel's own accesses are the device's to check.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evokernel.evaluate.artifact_mode.fields import PlanError as PlanError
from evokernel.evaluate.artifact_mode.fields import fields, flag, integer, integers, items, symbol, text
from evokernel.evaluate.artifact_mode.parameters import Place, read_parameter, read_place, write_parameter
from evokernel.evaluate.inside.driver.kernel_parameters import Parameter

STEP_LIMIT = 1000
_DOCUMENT_LIMIT_BYTES = 8 << 20
_PARAMETER_LIMIT = 512
_REASON_LIMIT = 200
_CLUSTER_LIMIT = 16
_THREAD_LIMIT = 1024
_BLOCK_LIMIT = (1024, 1024, 64)
_GRID_LIMIT = (2**31 - 1, 65535, 65535)
_WIDTHS = (1, 2, 4)
_SCRATCH = re.compile(r"(?:scratch|launch)(?:0|[1-9][0-9]{0,5})", re.ASCII)

Extents = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class BufferFacts:
    """A tensor of the task's signature: its size, and whether a candidate may write to it."""

    size_bytes: int
    writable: bool


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """Bounds of the device: dynamic shared memory of one block, scratch of one call."""

    shared_bytes: int
    scratch_bytes: int


@dataclass(frozen=True, slots=True)
class RecordedLaunch:
    """One launch of a kernel."""

    kernel: str
    """Name of the function in the cubin."""
    cubin: str
    """SHA-256 of the cubin in hex."""
    grid: Extents
    """Clusters along x, y and z."""
    block: Extents
    """Threads along x, y and z."""
    cluster: int
    """Blocks of a cluster, along x."""
    shared_bytes: int
    """Dynamic shared memory of one block."""
    cooperative: bool
    """All blocks are resident at once."""
    programmatic: bool
    """The kernel may begin before the one before it ends."""
    parameters: tuple[Parameter, ...]
    """Parameters in the order of the kernel."""

    def as_message(self) -> dict[str, Any]:
        """Return the step in the format it was read in."""
        return {
            "launch": {
                "kernel": self.kernel,
                "cubin": self.cubin,
                "grid": list(self.grid),
                "block": list(self.block),
                "cluster": self.cluster,
                "shared_bytes": self.shared_bytes,
                "cooperative": self.cooperative,
                "programmatic": self.programmatic,
                "parameters": [write_parameter(parameter) for parameter in self.parameters],
            }
        }


@dataclass(frozen=True, slots=True)
class Fill:
    """A run of bytes overwritten with a repeated pattern."""

    place: Place
    """Its first byte."""
    size_bytes: int
    """Length of the run, a multiple of `width`."""
    pattern: int
    """The pattern as an unsigned number."""
    width: int
    """Bytes of the pattern: 1, 2 or 4."""

    def as_message(self) -> dict[str, Any]:
        """Return the step in the format it was read in."""
        place = {"buffer": self.place.buffer, "offset": self.place.offset, "bytes": self.size_bytes}
        return {"fill": {**place, "pattern": self.pattern, "width": self.width}}


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy between two runs of bytes that do not overlap."""

    place: Place
    """First byte of the target."""
    source: Place
    """First byte of the source."""
    size_bytes: int
    """Length of both."""

    def as_message(self) -> dict[str, Any]:
        """Return the step in the format it was read in."""
        target = {"buffer": self.place.buffer, "offset": self.place.offset}
        source = {"source": self.source.buffer, "source_offset": self.source.offset}
        return {"copy": {**target, **source, "bytes": self.size_bytes}}


Step = RecordedLaunch | Fill | Copy


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """The work of one call on one shape."""

    scratch: Mapping[str, int]
    """Bytes of each scratch buffer by name."""
    steps: tuple[Step, ...]
    """Steps in the order they run."""

    @property
    def launches(self) -> tuple[RecordedLaunch, ...]:
        """The steps that launch a kernel."""
        return tuple(step for step in self.steps if isinstance(step, RecordedLaunch))

    def as_message(self) -> dict[str, Any]:
        """Return the plan as JSON in the format it was read in; it holds checked values only."""
        return {"scratch": dict(self.scratch), "steps": [step.as_message() for step in self.steps]}


@dataclass(frozen=True, slots=True)
class LaunchPlans:
    """The plans of one candidate."""

    unrecordable: str
    """Why there are no plans; empty where there are."""
    shapes: tuple[LaunchPlan, ...]
    """One plan for each shape; empty where `unrecordable` is not."""


@dataclass(frozen=True, slots=True)
class _Scope:
    """Names and bounds that the steps of one plan may use."""

    sizes: Mapping[str, int]
    writable: Collection[str]
    cubins: Collection[str]
    limits: PlanLimits


def read_plans(
    document: bytes, *, buffers: Sequence[Mapping[str, BufferFacts]], cubins: Collection[str], limits: PlanLimits
) -> LaunchPlans:
    """Check a bundle's `plans.json`; `refuse_misfits` then checks the kernels it launches.

    Args:
        document: the text in the bundle.
        buffers: the tensors of each shape by name, in the order in which the shapes were asked for.
        cubins: SHA-256 in hex of each cubin in the bundle.

    Raises:
        PlanError: the document is malformed, or asks for what is not allowed.
    """
    if len(document) > _DOCUMENT_LIMIT_BYTES:
        raise PlanError(f"plans of {len(document)} bytes; the limit is {_DOCUMENT_LIMIT_BYTES}")
    try:
        content = json.loads(document)
    except (ValueError, RecursionError):
        raise PlanError("plans that are not JSON") from None
    reason, shapes = fields(content, "the plans", "unrecordable", "shapes")
    if reason is not None:
        items(shapes, "the plans of what cannot be recorded", most=0)
        return LaunchPlans(text(reason, "the reason", most=_REASON_LIMIT), ())
    items(shapes, "the plans", least=len(buffers), most=len(buffers))
    pairs = enumerate(zip(shapes, buffers, strict=True))
    return LaunchPlans(
        "", tuple(_read(shape, number, each, cubins=cubins, limits=limits) for number, (shape, each) in pairs)
    )


def _read(
    value: Any, number: int, buffers: Mapping[str, BufferFacts], *, cubins: Collection[str], limits: PlanLimits
) -> LaunchPlan:
    try:
        scratch, steps = fields(value, "a plan", "scratch", "steps")
        regions = _scratch(scratch, buffers, limits)
        sizes = {name: facts.size_bytes for name, facts in buffers.items()} | regions
        writable = {name for name, facts in buffers.items() if facts.writable} | regions.keys()
        scope = _Scope(sizes, writable, cubins, limits)
        plan = LaunchPlan(
            regions, tuple(_step(step, scope) for step in items(steps, "the steps", least=1, most=STEP_LIMIT))
        )
        if not plan.launches:
            raise PlanError("a plan that launches nothing")
    except PlanError as error:
        raise PlanError(error.message, number) from None
    return plan


def _scratch(value: Any, buffers: Mapping[str, BufferFacts], limits: PlanLimits) -> dict[str, int]:
    if type(value) is not dict or len(value) > STEP_LIMIT:
        raise PlanError(f"scratch must be sizes of at most {STEP_LIMIT} buffers by name")
    for name in value:
        if not _SCRATCH.fullmatch(name) or name in buffers:
            raise PlanError("scratch whose name is not one of scratch's")
    sizes = {name: integer(size, "scratch", least=1, most=limits.scratch_bytes) for name, size in value.items()}
    if sum(sizes.values()) > limits.scratch_bytes:
        raise PlanError(f"{sum(sizes.values())} bytes of scratch; the limit is {limits.scratch_bytes}")
    return sizes


def _step(value: Any, scope: _Scope) -> Step:
    match value:
        case {"launch": launch} if len(value) == 1:
            return _launch(launch, scope)
        case {"fill": fill} if len(value) == 1:
            return _fill(fill, scope)
        case {"copy": copy} if len(value) == 1:
            return _copy(copy, scope)
    raise PlanError("a step must be a launch, a fill or a copy")


def _launch(value: Any, scope: _Scope) -> RecordedLaunch:
    kernel, cubin, grid, block, cluster, shared_bytes, cooperative, programmatic, parameters = fields(
        value,
        "a launch",
        *("kernel", "cubin", "grid", "block", "cluster", "shared_bytes", "cooperative", "programmatic", "parameters"),
    )
    if type(cubin) is not str or cubin not in scope.cubins:
        raise PlanError("a launch of a cubin that is not in the bundle")
    blocks = integer(cluster, "a cluster", least=1, most=_CLUSTER_LIMIT)
    return RecordedLaunch(
        kernel=symbol(kernel, "a kernel"),
        cubin=cubin,
        grid=_extents(grid, "a grid", (_GRID_LIMIT[0] // blocks, *_GRID_LIMIT[1:])),
        block=_block(block),
        cluster=blocks,
        shared_bytes=integer(shared_bytes, "shared memory in bytes", most=scope.limits.shared_bytes),
        cooperative=flag(cooperative, "whether a launch is cooperative"),
        programmatic=flag(programmatic, "whether a launch may begin early"),
        parameters=tuple(
            read_parameter(each, scope.sizes) for each in items(parameters, "the parameters", most=_PARAMETER_LIMIT)
        ),
    )


def _block(value: Any) -> Extents:
    x, y, z = _extents(value, "a block", _BLOCK_LIMIT)
    if x * y * z > _THREAD_LIMIT:
        raise PlanError(f"a block of {x * y * z} threads; the limit is {_THREAD_LIMIT}")
    return x, y, z


def _extents(value: Any, what: str, limits: Sequence[int]) -> Extents:
    x, y, z = integers(value, what, count=3, least=1, most=limits[0])
    if y > limits[1] or z > limits[2]:
        raise PlanError(f"{what} of {(x, y, z)}; the limits are {tuple(limits)}")
    return x, y, z


def _fill(value: Any, scope: _Scope) -> Fill:
    buffer, offset, size, pattern, width = fields(value, "a fill", "buffer", "offset", "bytes", "pattern", "width")
    if type(width) is not int or width not in _WIDTHS:
        raise PlanError("a fill's pattern must have 1, 2 or 4 bytes")
    size_bytes, place = _target(buffer, offset, size, scope)
    if size_bytes % width or place.offset % width:
        raise PlanError("a fill of no whole number of patterns")
    return Fill(place, size_bytes, integer(pattern, "a fill's pattern", most=256**width - 1), width)


def _copy(value: Any, scope: _Scope) -> Copy:
    names = ("buffer", "offset", "source", "source_offset", "bytes")
    buffer, offset, source, source_offset, size = fields(value, "a copy", *names)
    size_bytes, place = _target(buffer, offset, size, scope)
    origin = read_place(source, source_offset, size_bytes=size_bytes, sizes=scope.sizes)
    if place.buffer == origin.buffer and abs(place.offset - origin.offset) < size_bytes:
        raise PlanError("a copy onto itself")
    return Copy(place, origin, size_bytes)


def _target(buffer: Any, offset: Any, size: Any, scope: _Scope) -> tuple[int, Place]:
    """Return how many bytes are written, and where."""
    size_bytes = integer(size, "a number of bytes", least=1, most=max(scope.sizes.values(), default=0))
    place = read_place(buffer, offset, size_bytes=size_bytes, sizes=scope.sizes)
    if place.buffer not in scope.writable:
        raise PlanError(f"buffer {place.buffer} may not be written")
    return size_bytes, place
