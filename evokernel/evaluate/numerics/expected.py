"""What a judge expects of a call: answers, and the largest errors that are right."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from evokernel.evaluate.numerics.arrays import Array, store
from evokernel.evaluate.numerics.edges import EdgeDecisions
from evokernel.evaluate.numerics.rankings import Ranking
from evokernel.task import Tensor, Workload


@dataclass(frozen=True, slots=True)
class ErrorBounds:
    """The tolerance of one output: rms(error) <= rms, and |error_i| <= peak * |r_i| + floor."""

    rms: float
    """Bound of the root mean square error, in the output's units."""
    peak: float
    """Relative bound of one element's error."""
    floor: float
    """Absolute part of that bound, in the output's units."""
    scale: float
    """rms(r), in the output's units."""
    native_rms: float
    """The native answer's own rms error, in the output's units."""
    native_peak: float
    """The native answer's largest relative error."""

    def for_timed(self, scale: float) -> "ErrorBounds":
        """Return the tolerance against a native answer of other content, wider by twice its measured error."""
        growth = max(1.0, scale / self.scale) if self.scale > 0 else 1.0
        return replace(
            self,
            rms=(self.rms + 2 * self.native_rms) * growth,
            peak=self.peak + 2 * self.native_peak,
            floor=(self.floor + 2 * self.native_peak * self.scale) * growth,
            scale=scale,
        )


_NOTHING = ErrorBounds(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ExpectedOutput:
    """The expected value of one output."""

    tensor: Tensor
    high: Array
    """The fp64 answer; integers as they are."""
    native: Array
    """The answer in the task's dtype."""
    limits: ErrorBounds = _NOTHING
    exact: bool = False
    """Outputs must be equal."""
    finite: bool = True
    """Both answers are finite everywhere."""
    others: tuple[Array, ...] = ()
    """Answers that differ where intermediate results move by some roundings; for `EDGED` types only."""
    edge_share: float = 0.0
    """Share of elements in which one of these differs, 0 to 1; of floats, that jump as the native answer decides."""
    tied_share: float = 0.0
    """Share of elements that differ where the first, or the last, of equal numbers is ranked first, 0 to 1."""
    ranking: Ranking | None = None
    """Numbers of which it holds positions, where that is known and they move."""
    ends: Callable[[], Iterable[tuple[Array, Array]]] = tuple
    """The least and the largest number of each element where decisions at edges fall otherwise, ever wider."""
    far_ends: Callable[[], Sequence[Array]] = tuple
    """These where all moves several times as far; empty where that is not known."""
    steep_ends: Callable[[], Sequence[Array]] = tuple
    """The least and the largest number of each element within honest rounding; empty where that is not known."""

    @property
    def may_differ(self) -> float:
        """Share of elements in which honest answers may differ, 0 to 1."""
        return max(self.edge_share, self.tied_share)

    @property
    def allowed(self) -> Array:
        """The largest error of each element."""
        return self.limits.peak * self.high.abs() + self.limits.floor

    def of_other_inputs(self, high: Array, native: Array) -> "ExpectedOutput":
        """Return it with other answers, of whose edges nothing is known."""
        unknown = replace(self, others=(), ranking=None, ends=tuple, far_ends=tuple, steep_ends=tuple)
        return replace(unknown, high=high, native=native)

    def where_finite(self, uncast: Array) -> "ExpectedOutput":
        """Return it with anything right where an answer without casts is finite, and a cast to 16 bits made it not."""
        beyond = ~self.high.isfinite() & uncast.isfinite()
        return replace(self, native=torch.where(beyond, store(uncast, self.tensor.dtype), self.native))

    def forgiving(self, values: Array) -> "ExpectedOutput":
        """Return it with those values for due that honest rounding explains, though no bound of all elements tells.

        Two equal columns of a product, normalised as a pair, come out as +-1: which is which, their last bits decide.
        """
        ends = self.steep_ends()
        if not ends:
            return self
        explained = ((values - self.high).abs() > self.allowed) & (values >= ends[0]) & (values <= ends[1])
        native = torch.where(explained, store(values, self.tensor.dtype), self.native)
        return replace(self, high=torch.where(explained, values, self.high), native=native)


@dataclass(frozen=True, slots=True)
class Expected:
    """All expected outputs on one set of inputs."""

    workload: Workload
    distribution: str
    outputs: tuple[ExpectedOutput, ...]
    """In/out tensors, then outputs, in the order of the signature."""
    decided: EdgeDecisions | None = None
    """What gives the outputs' `ends`."""
    casts: bool = False
    """The reference casts to 16 bits on the way."""

    def tolerance(self) -> "Expected":
        """Return what timed calls on other inputs are compared by: shapes and limits, without the numbers."""
        bare = [
            output.of_other_inputs(_without_numbers(output.high), _without_numbers(output.native))
            for output in self.outputs
        ]
        return replace(self, outputs=tuple(bare), decided=None)


def rms(values: Array) -> float:
    """Return the root of the mean square."""
    flat = values.reshape(-1)
    return math.sqrt(float(torch.dot(flat, flat)) / flat.numel()) if flat.numel() else 0.0


def _without_numbers(array: Array) -> Array:
    return array.new_zeros(()).expand(array.shape)
