"""cuBLASLt by its C interface: products of row-major matrices, by any algorithm that its heuristics propose.

The library is the one that torch brings and has loaded; nothing else is needed. Numbers and layouts are those of
cublasLt.h, the same in CUDA 12 and 13.
"""

import ctypes
import functools
from collections.abc import Mapping
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

import torch

from evokernel.errors import HarnessError

WORKSPACE_BYTES = 32 << 20
MOST_ALGORITHMS = 16
ALIGNMENT_BYTES = 64
"""What tensors of a task are aligned to, and algorithms may count on."""
_SUCCESS = 0
_TYPES: Mapping[torch.dtype, int] = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 14}  # CUDA_R_32F, _16F, _16BF
_COMPUTE_32F, _COMPUTE_32F_FAST_TF32, _SCALE_32F = 68, 77, 0
_DESC_EPILOGUE, _DESC_BIAS_POINTER = 7, 8  # CUBLASLT_MATMUL_DESC_*
_EPILOGUE_BIAS = 4
_SOMEWHERE = 1 << 20  # an aligned address for proposals, which nobody follows
_PREF_WORKSPACE, _PREF_REDUCTIONS, _PREF_ALIGNMENTS = 1, 3, (5, 6, 7, 8)  # CUBLASLT_MATMUL_PREF_*
_REDUCE_IN_COMPUTE_TYPE = 2  # parts of a split sum are added in fp32, not in the output's dtype
_ONE, _ZERO = c_float(1.0), c_float(0.0)


class Algorithm(ctypes.Structure):
    """cublasLtMatmulAlgo_t, which says nothing to us."""

    _fields_ = (("words", c_uint64 * 8),)


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t: a proposal; usable where `state` is 0."""

    _fields_ = (
        ("algorithm", Algorithm),
        ("workspace_bytes", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


_SIGNATURES: Mapping[str, tuple[Any, ...]] = {
    "cublasLtCreate": (POINTER(c_void_p),),
    "cublasLtMatmulDescCreate": (POINTER(c_void_p), c_int, c_int),
    "cublasLtMatmulDescSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatrixLayoutCreate": (POINTER(c_void_p), c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatmulPreferenceCreate": (POINTER(c_void_p),),
    "cublasLtMatmulPreferenceSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulAlgoGetHeuristic": (*[c_void_p] * 7, c_int, POINTER(Heuristic), POINTER(c_int)),
    "cublasLtMatmul": (*[c_void_p] * 12, POINTER(Algorithm), c_void_p, c_size_t, c_void_p),
}


class Library:
    """The library, loaded, with one handle of its own. Raises `HarnessError` where it cannot be used."""

    def __init__(self, name: str) -> None:
        try:
            self._library = ctypes.CDLL(name)
            for function, types in _SIGNATURES.items():
                getattr(self._library, function).argtypes = types
            self._library.cublasLtGetStatusString.restype = c_char_p
        except (OSError, AttributeError) as error:
            raise HarnessError(
                f"cuBLASLt cannot be used ({error}): expected {name}, which a torch built with CUDA brings. Reinstall "
                "torch, or write a task whose baselines do without it"
            ) from None
        self._handle = c_void_p()

    def make(self, function: str, *arguments: Any) -> c_void_p:
        """Return what one of the `...Create` functions makes; it is kept as long as the process. Raises as `call`."""
        made = c_void_p()
        self.call(function, byref(made), *arguments)
        return made

    def put(self, function: str, target: c_void_p, attribute: int, value: Any) -> None:
        """Set an attribute to a number of ctypes. Raises as `call`."""
        self.call(function, target, attribute, byref(value), ctypes.sizeof(value))

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function. Raises `HarnessError` with the library's words where it does not succeed."""
        status = getattr(self._library, function)(*arguments)
        if status != _SUCCESS:
            said = (self._library.cublasLtGetStatusString(status) or b"").decode(errors="replace")
            raise HarnessError(f"{function} failed with status {status}{said and f' ({said})'}")

    @property
    def handle(self) -> c_void_p:
        """The handle, made when it is first needed: by then there is a CUDA context."""
        if not self._handle:
            self._handle = self.make("cublasLtCreate")
        return self._handle


@functools.cache
def library() -> Library:
    """Return torch's own cuBLASLt. Raises `HarnessError`."""
    if torch.version.cuda is None:
        raise HarnessError(f"cuBLASLt comes with a torch built with CUDA, and torch {torch.__version__} here is not")
    return Library(f"libcublasLt.so.{torch.version.cuda.partition('.')[0]}")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Which product: c[M, N] = a[M, K] @ b[K, N], with `bias` plus bias[N] in each row; all of one dtype."""

    m: int
    n: int
    k: int
    dtype: torch.dtype
    bias: bool
    allow_tf32: bool


class Product:
    """A product that can be run by several algorithms, the most promising one first. Sums are in fp32.

    Matrices are contiguous and row-major, and start at multiples of `ALIGNMENT_BYTES`. To the library, which counts by
    columns, a row-major matrix is its transpose: it computes the transposed c as the transposed b times the transposed
    a, and the bias goes along a column.

    Raises:
        HarnessError: the library knows no way to do it.
    """

    def __init__(self, sizes: Sizes, library: Library) -> None:
        self._library = library
        self.sizes = sizes
        if sizes.dtype not in _TYPES:
            known = ", ".join(map(str, _TYPES))
            raise HarnessError(f"products by cuBLASLt are of {known}, not of {sizes.dtype}")
        m, n, k, kind = sizes.m, sizes.n, sizes.k, _TYPES[sizes.dtype]
        compute = _COMPUTE_32F_FAST_TF32 if sizes.allow_tf32 and sizes.dtype is torch.float32 else _COMPUTE_32F
        self._what = library.make("cublasLtMatmulDescCreate", compute, _SCALE_32F)
        if sizes.bias:
            library.put("cublasLtMatmulDescSetAttribute", self._what, _DESC_EPILOGUE, c_uint32(_EPILOGUE_BIAS))
            self._point_at(_SOMEWHERE)
        self._b, self._a, self._c = (
            library.make("cublasLtMatrixLayoutCreate", kind, rows, columns, rows)
            for rows, columns in ((n, k), (k, m), (n, m))
        )
        self.algorithms = self._propose()

    def run(
        self,
        algorithm: Algorithm,
        a: torch.Tensor,
        b: torch.Tensor,
        c: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
        workspace: torch.Tensor,
        stream: int,
    ) -> None:
        """Queue the product on a stream. `workspace` has `WORKSPACE_BYTES`. Raises `HarnessError`."""
        if bias is not None:
            self._point_at(_address(bias))
        b_at, a_at, c_at = (_address(tensor) for tensor in (b, a, c))
        product = (self._what, byref(_ONE), b_at, self._b, a_at, self._a, byref(_ZERO), c_at, self._c, c_at, self._c)
        where = (byref(algorithm), workspace.data_ptr(), WORKSPACE_BYTES, stream)
        self._library.call("cublasLtMatmul", self._library.handle, *product, *where)

    def _point_at(self, bias: int) -> None:
        self._library.put("cublasLtMatmulDescSetAttribute", self._what, _DESC_BIAS_POINTER, c_uint64(bias))

    def _propose(self) -> tuple[Algorithm, ...]:
        preference = self._library.make("cublasLtMatmulPreferenceCreate")
        wanted = {_PREF_WORKSPACE: c_uint64(WORKSPACE_BYTES), _PREF_REDUCTIONS: c_uint32(_REDUCE_IN_COMPUTE_TYPE)}
        wanted |= {attribute: c_uint32(ALIGNMENT_BYTES) for attribute in _PREF_ALIGNMENTS}
        for attribute, value in wanted.items():
            self._library.put("cublasLtMatmulPreferenceSetAttribute", preference, attribute, value)
        found, count = (Heuristic * MOST_ALGORITHMS)(), c_int()
        known = (self._what, self._b, self._a, self._c, self._c, preference)
        self._library.call(
            "cublasLtMatmulAlgoGetHeuristic", self._library.handle, *known, MOST_ALGORITHMS, found, byref(count)
        )
        usable = tuple(each.algorithm for each in found[: count.value] if each.state == _SUCCESS)
        if not usable:
            raise HarnessError(f"cuBLASLt knows no way to compute {self.sizes}")
        return usable


def _address(tensor: torch.Tensor) -> int:
    address: int = tensor.data_ptr()
    if address % ALIGNMENT_BYTES or not tensor.is_contiguous():
        raise HarnessError(
            f"cuBLASLt needs contiguous tensors that start at a multiple of {ALIGNMENT_BYTES} bytes; this one of shape "
            f"{tuple(tensor.shape)} has strides {tensor.stride()} and starts {address % ALIGNMENT_BYTES} bytes later"
        )
    return address
