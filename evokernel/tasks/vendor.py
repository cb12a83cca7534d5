"""The vendor's library called directly, by the fastest of the algorithms that it proposes for the sizes at hand."""

import functools
from collections.abc import Sequence
from statistics import median

import torch

from evokernel.errors import HarnessError
from evokernel.tasks.cublaslt import WORKSPACE_BYTES, Algorithm, Product, Sizes, library

_ROUNDS = 7
_LEAST_CALLS = 4
_OVER_CACHE, _MOST_COPIES = 2, 16
"""Copies of the tensors: so many that no call finds its own in the second-level cache, as in a timed batch."""

Operands = tuple[torch.Tensor, ...]
"""The tensors a, b, c, and a bias where there is one."""


def multiply(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, *, bias: torch.Tensor | None = None) -> None:
    """Queue out[M, N] = a[M, K] @ b[K, N] (+ bias[N]) on torch's current stream, by cuBLASLt; sums in fp32.

    Where the library does not add the bias in the same kernel (odd sizes), the product is rounded to the dtype before.
    fp32, fp16 or bf16; TF32 where torch may use it. The first call for some sizes times all algorithms on copies of the
    given tensors and keeps the fastest for this process, so it cannot be captured in a graph; later ones can.

    Raises:
        HarnessError: the library is not there, or refuses.
    """
    (m, k), n = a.shape, b.shape[1]
    sizes = Sizes(m, n, k, a.dtype, bias is not None, torch.backends.cuda.matmul.allow_tf32)
    operands = (a, b, out) if bias is None else (a, b, out, bias)
    _fastest(sizes).run(operands)


@functools.cache
def _fastest(sizes: Sizes) -> "_Fastest":
    return _Fastest(sizes)


@functools.cache
def _workspace() -> torch.Tensor:
    return torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")


class _Fastest:
    """A product with the algorithm that was fastest on the tensors of its first call."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._chosen: Algorithm | None = None

    @functools.cached_property
    def _product(self) -> Product:
        return Product(self._sizes, library())

    def run(self, operands: Operands) -> None:
        if self._chosen is None:
            if torch.cuda.is_current_stream_capturing():
                raise HarnessError("the first product of some sizes chooses an algorithm, and cannot be captured")
            self._chosen = self._choose(operands)
        self._queue(self._chosen, operands)

    def _queue(self, algorithm: Algorithm, operands: Operands) -> None:
        a, b, c, *bias = operands
        self._product.run(
            algorithm,
            a,
            b,
            c,
            bias=bias[0] if bias else None,
            workspace=_workspace(),
            stream=torch.cuda.current_stream().cuda_stream,
        )

    def _choose(self, operands: Operands) -> Algorithm:
        """Time the algorithms in turns, so that all of them see the same clocks; the least median counts."""
        copies = _copies(operands)
        batches = [(each, batch) for each in self._product.algorithms if (batch := self._batch(each, copies))]
        if not batches:
            raise HarnessError(f"cuBLASLt ran none of the algorithms that it proposed for {self._sizes}")
        rounds = [[_time_ms(batch) for _, batch in batches] for _ in range(_ROUNDS)]
        times = [median(each) for each in zip(*rounds, strict=True)]
        return batches[times.index(min(times))][0]

    def _batch(self, algorithm: Algorithm, copies: Sequence[Operands]) -> torch.cuda.CUDAGraph | None:
        """Return a graph of some calls; None where the library refuses the algorithm after all."""
        try:
            self._queue(algorithm, copies[0])  # the first call loads modules, which cannot be captured
        except HarnessError:
            return None
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for number in range(max(_LEAST_CALLS, len(copies))):
                self._queue(algorithm, copies[number % len(copies)])
        graph.replay()  # the first time uploads it
        return graph


def _copies(operands: Operands) -> list[Operands]:
    cache = torch.cuda.get_device_properties(operands[0].device).L2_cache_size
    count = 1 + _OVER_CACHE * cache // sum(each.nbytes for each in operands)
    return [tuple(each.clone() for each in operands) for _ in range(min(count, _MOST_COPIES))]


def _time_ms(batch: torch.cuda.CUDAGraph) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    batch.replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))
