"""Naive kernels of different shapes with numpy references, and the means to compile and run them."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FLAGS = ("-std=c++20", "-march=native", "-shared", "-fPIC")
Array = NDArray[np.float32]
Reference = Callable[[dict[str, Array], dict[str, int]], dict[str, Array]]


@dataclass(frozen=True)
class Nest:
    """A kernel: argument list in C, body, array shapes by expression over the sizes, reference."""

    name: str
    args: str
    body: str
    shapes: dict[str, str]
    outputs: tuple[str, ...]
    reference: Reference
    sizes: tuple[str, ...]
    head: str = "#include <cstdint>\n"
    dtype: str = "float32"

    @property
    def source(self) -> str:
        return f'{self.head}extern "C" void run({self.args}) {{\n{self.body}\n}}\n'


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True), dtype=np.float32)


def _layernorm(a: dict[str, Array], s: dict[str, int]) -> dict[str, Array]:
    x = a["x"]
    mean = x.mean(axis=1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=1, keepdims=True)
    return {"out": (x - mean) / np.sqrt(var + 1e-5) * a["g"] + a["b"]}


def _heads(a: dict[str, Array], s: dict[str, int]) -> dict[str, Array]:
    rows = a["x"][:, None, :] + np.arange(3, dtype=np.float32)[None, :, None]
    squares = rows**2
    return {"out": squares[..., -1] + rows[..., 0] + (np.arange(3) < 1) - squares[..., 0]}


def _conv(a: dict[str, Array], s: dict[str, int]) -> dict[str, Array]:
    n, t = s["L"] - s["T"] + 1, s["T"]
    windows = np.lib.stride_tricks.sliding_window_view(a["x"], t, axis=1)
    return {"out": np.einsum("clt,ct->cl", windows, a["w"]).reshape(-1, n)}


NESTS = (
    Nest(
        "running_and_place",
        "const float* x, float* out, float* at, int64_t M, int64_t N",
        """  for (int64_t i = 0; i < M; ++i) {
    float sum = 0.0f;
    for (int64_t j = 0; j < N; ++j) {
      sum += x[i * N + j];
      out[i * N + j] = sum;
    }
  }
  for (int64_t i = 0; i < M; ++i) {
    float top = -INFINITY;
    int64_t place = 0;
    for (int64_t j = 0; j < N; ++j) {
      const float value = x[i * N + j];
      if (value > top || (value != value && top == top)) {
        top = value;
        place = j;
      }
    }
    at[i] = static_cast<float>(place);
  }""",
        {"x": "M,N", "out": "M,N", "at": "M"},
        ("out", "at"),
        lambda a, s: {"out": a["x"].cumsum(1), "at": a["x"].argmax(1).astype(np.float32)},
        ("M", "N"),
        head="#include <cmath>\n#include <cstdint>\n",
    ),
    Nest(
        "gemm",
        "const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K",
        """  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j) {
      float acc = 0.0f;
      for (int64_t k = 0; k < K; ++k) acc += a[i * K + k] * b[k * N + j];
      c[i * N + j] = acc;
    }""",
        {"a": "M,K", "b": "K,N", "c": "M,N"},
        ("c",),
        lambda a, s: {"c": a["a"] @ a["b"]},
        ("M", "N", "K"),
    ),
    Nest(
        "gemm_nt_bias",
        "float* c, const float* a, const float* b, const float* bias, int64_t M, int64_t N, int64_t K",
        """  for (int64_t i = 0; i < M; i++) {
    for (int64_t j = 0; j < N; j++) {
      float acc = bias[j];
      for (int64_t k = 0; k < K; k++) {
        acc = acc + a[i * K + k] * b[j * K + k];
      }
      c[i * N + j] = acc > 0.0f ? acc : 0.0f;
    }
  }""",
        {"c": "M,N", "a": "M,K", "b": "N,K", "bias": "N"},
        ("c",),
        lambda a, s: {"c": np.maximum(a["a"] @ a["b"].T + a["bias"], 0)},
        ("M", "N", "K"),
    ),
    Nest(
        "batched",
        "const float* a, const float* b, float* c, int64_t B, int64_t M, int64_t N, int64_t K",
        """  for (int64_t n = 0; n < B; ++n) {
    const float* ab = a + n * M * K;
    const float* bb = b + n * K * N;
    float* cb = c + n * M * N;
    for (int64_t i = 0; i < M; ++i)
      for (int64_t j = 0; j < N; ++j) {
        cb[i * N + j] = 0.0f;
        for (int64_t k = 0; k < K; ++k) cb[i * N + j] += ab[i * K + k] * bb[k * N + j];
      }
  }""",
        {"a": "B,M,K", "b": "B,K,N", "c": "B,M,N"},
        ("c",),
        lambda a, s: {"c": a["a"] @ a["b"]},
        ("B", "M", "N", "K"),
    ),
    Nest(
        "outer_products",
        "const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K",
        """  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j) c[i * N + j] = 0.0f;
  for (int64_t k = 0; k < K; ++k)
    for (int64_t i = 0; i < M; ++i)
      for (int64_t j = 0; j < N; ++j) c[i * N + j] += a[k * M + i] * b[k * N + j];""",
        {"a": "K,M", "b": "K,N", "c": "M,N"},
        ("c",),
        lambda a, s: {"c": a["a"].T @ a["b"]},
        ("M", "N", "K"),
    ),
    Nest(
        "softmax",
        "const float* x, float* out, int64_t M, int64_t N",
        """  for (int64_t i = 0; i < M; ++i) {
    float m = x[i * N];
    for (int64_t j = 1; j < N; ++j) m = std::max(m, x[i * N + j]);
    float s = 0.0f;
    for (int64_t j = 0; j < N; ++j) {
      out[i * N + j] = std::exp(x[i * N + j] - m);
      s += out[i * N + j];
    }
    for (int64_t j = 0; j < N; ++j) out[i * N + j] /= s;
  }""",
        {"x": "M,N", "out": "M,N"},
        ("out",),
        lambda a, s: {"out": _softmax(a["x"])},
        ("M", "N"),
        "#include <algorithm>\n#include <cmath>\n#include <cstdint>\n",
    ),
    Nest(
        "softmax_rows",
        "const float* x, float* out, int64_t M, int64_t N",
        """  for (int64_t i = 0; i < M; ++i) {
    const float* row = x + i * N;
    float* o = out + i * N;
    float m = -INFINITY;
    for (int64_t j = 0; j < N; ++j)
      if (row[j] > m) m = row[j];
    float s = 0.0f;
    for (int64_t j = 0; j < N; ++j) {
      const float e = expf(row[j] - m);
      o[j] = e;
      s += e;
    }
    for (int64_t j = 0; j < N; ++j) o[j] = o[j] / s;
  }""",
        {"x": "M,N", "out": "M,N"},
        ("out",),
        lambda a, s: {"out": _softmax(a["x"])},
        ("M", "N"),
        "#include <cmath>\n#include <cstdint>\n",
    ),
    Nest(
        "layernorm",
        "const float* x, const float* g, const float* b, float* out, int64_t M, int64_t N",
        """  for (int64_t i = 0; i < M; ++i) {
    float mean = 0.0f;
    for (int64_t j = 0; j < N; ++j) mean += x[i * N + j];
    mean /= N;
    float var = 0.0f;
    for (int64_t j = 0; j < N; ++j) {
      float d = x[i * N + j] - mean;
      var += d * d;
    }
    var /= N;
    for (int64_t j = 0; j < N; ++j)
      out[i * N + j] = (x[i * N + j] - mean) / std::sqrt(var + 1e-5f) * g[j] + b[j];
  }""",
        {"x": "M,N", "g": "N", "b": "N", "out": "M,N"},
        ("out",),
        _layernorm,
        ("M", "N"),
        "#include <cmath>\n#include <cstdint>\n",
    ),
    Nest(
        "conv1d",
        "const float* x, const float* w, float* out, int64_t C, int64_t L, int64_t T",
        """  for (int64_t c = 0; c < C; ++c)
    for (int64_t i = 0; i < L - T + 1; ++i) {
      float acc = 0.0f;
      for (int64_t t = 0; t < T; ++t) acc += x[c * L + i + t] * w[c * T + t];
      out[c * (L - T + 1) + i] = acc;
    }""",
        {"x": "C,L", "w": "C,T", "out": "C,L-T+1"},
        ("out",),
        _conv,
        ("C", "L", "T"),
    ),
    Nest(
        "row_stats",
        "const float* x, float* sums, float* tops, int64_t M, int64_t N",
        """  for (int64_t i = 0; i < M; ++i) {
    float s = 0.0f;
    float t = x[i * N];
    for (int64_t j = 0; j < N; ++j) {
      s += x[i * N + j];
      t = fmaxf(t, x[i * N + j]);
    }
    sums[i] = s;
    tops[i] = t;
  }""",
        {"x": "M,N", "sums": "M", "tops": "M"},
        ("sums", "tops"),
        lambda a, s: {"sums": a["x"].sum(axis=1), "tops": a["x"].max(axis=1)},
        ("M", "N"),
        "#include <cmath>\n#include <cstdint>\n",
    ),
    Nest(
        "sums_in_double",
        "const float* x, const float* y, float* out, int64_t M, int64_t N",
        """  for (int64_t i = 0; i < M; ++i) {
    double sum = 0.0;
    for (int64_t j = 0; j < N; ++j) {
      sum += x[i * N + j] * y[i * N + j] + x[i * N + j];
    }
    out[i] = sum;
  }""",
        {"x": "M,N", "y": "M,N", "out": "M"},
        ("out",),
        lambda a, s: {"out": (a["x"] * a["y"] + a["x"]).sum(axis=1)},
        ("M", "N"),
    ),
    Nest(
        "row_shares",
        "const float* x, float* y, int64_t M, int64_t N",
        """  std::vector<float> t(M * N);
  std::vector<float> sums(M);
  for (int64_t i = 0; i < M; ++i) {
    float sum = 0.0f;
    for (int64_t j = 0; j < N; ++j) {
      t[i * N + j] = std::exp(x[i * N + j]);
      sum += t[i * N + j];
    }
    sums[i] = sum;
  }
  for (int64_t i = 0; i < M; ++i) {
    for (int64_t j = 0; j < N; ++j) {
      y[i * N + j] = t[i * N + j] / sums[i];
    }
  }""",
        {"x": "M,N", "y": "M,N"},
        ("y",),
        lambda a, s: {"y": np.exp(a["x"]) / np.exp(a["x"]).sum(axis=1, keepdims=True)},
        ("M", "N"),
        "#include <cmath>\n#include <cstdint>\n#include <vector>\n",
    ),
    Nest(
        "elementwise",
        "const float* x, const float* y, float* out, int64_t N",
        """  // tanh of a mix
  for (int64_t i = 0; i < N; ++i) {
    float v = 0.5f * x[i] - y[i];
    out[i] = tanhf(v) * std::min(v, 1.0f);
  }""",
        {"x": "N", "y": "N", "out": "N"},
        ("out",),
        lambda a, s: {"out": np.tanh(0.5 * a["x"] - a["y"]) * np.minimum(0.5 * a["x"] - a["y"], 1)},
        ("N",),
        "#include <algorithm>\n#include <cmath>\n#include <cstdint>\n",
    ),
    Nest(
        "double_gemm_tn",
        "const double* a, const double* b, double* c, int64_t M, int64_t N, int64_t K",
        """  for (int64_t j = 0; j < N; ++j)
    for (int64_t i = 0; i < M; ++i) {
      double acc = 0.0;
      for (int64_t k = 0; k < K; ++k) acc += a[k * M + i] * b[k * N + j];
      c[i * N + j] = 2.0 * acc;
    }""",
        {"a": "K,M", "b": "K,N", "c": "M,N"},
        ("c",),
        lambda a, s: {"c": 2 * a["a"].T @ a["b"]},
        ("M", "N", "K"),
        dtype="float64",
    ),
    Nest(
        "int_stats",
        "const int32_t* x, int32_t* sums, int32_t* lows, int64_t M, int64_t N",
        """  for (int64_t i = 0; i < M; ++i) {
    int32_t s = 0;
    int32_t t = x[i * N];
    for (int64_t j = 1; j < N; ++j)
      if (x[i * N + j] < t) t = x[i * N + j];
    for (int64_t j = 0; j < N; ++j) s += x[i * N + j] * 3;
    sums[i] = s;
    lows[i] = t;
  }""",
        {"x": "M,N", "sums": "M", "lows": "M"},
        ("sums", "lows"),
        lambda a, s: {"sums": 3 * a["x"].sum(axis=1), "lows": a["x"].min(axis=1)},
        ("M", "N"),
        dtype="int32",
    ),
    Nest(
        "stages",
        "const float* x, const float* gain, float* out, int64_t M",
        """  std::vector<float> t(M);
  for (int64_t i = 0; i < M; ++i) {
    float sum = 0.0f;
    for (int64_t j = 0; j < 99; ++j) sum += x[i * 99 + j] * x[i * 99 + j];
    t[i] = sum;
  }
  std::vector<float> t2(99 * M);
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < 99; ++j) t2[i * 99 + j] = x[i * 99 + j] / (t[i] + 1.0f);
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < 99; ++j) out[i * 99 + j] = t2[i * 99 + j] * gain[j];""",
        {"x": "M,99", "gain": "99", "out": "M,99"},
        ("out",),
        lambda a, s: {"out": a["x"] / ((a["x"] ** 2).sum(axis=1, keepdims=True) + 1) * a["gain"]},
        ("M",),
        head="#include <cstdint>\n#include <vector>\n",
    ),
    Nest(
        "two_maps",
        "const float* x, float* twice, float* thrice, int64_t N",
        """  for (int64_t i = 0; i < N; ++i) {
    const float v = x[i] * 2.0f;
    twice[i] = v;
  }
  for (int64_t k = 0; k < N; ++k) {
    const float v = twice[k] + x[k];
    thrice[k] = v;
  }""",
        {"x": "N", "twice": "N", "thrice": "N"},
        ("twice", "thrice"),
        lambda a, s: {"twice": 2 * a["x"], "thrice": 3 * a["x"]},
        ("N",),
    ),
    Nest(
        "heads",
        "const float* x, float* out, int64_t M, int64_t N",
        """  std::vector<float> pairs(M * 3 * 2);
  std::vector<float> rows(M * N * 3);
  // squares of one row
  std::vector<float> squares(M * N * 3);
  for (int64_t i = 0; i < M; ++i) {
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t j = 0; j < N; ++j) {
        rows[(i * 3 + h) * N + j] = x[i * N + j] + h;
        squares[(i * 3 + h) * N + j] = rows[(i * 3 + h) * N + j] * rows[(i * 3 + h) * N + j];
      }
    for (int64_t h = 0; h < 3; ++h) {
      pairs[(i * 3 + h) * 2] = squares[(i * 3 + h) * N + N - 1];
      pairs[(i * 3 + h) * 2 + 1] = rows[(i * 3 + h) * N];
      pairs[(i * 3 + h) * 2] += pairs[(i * 3 + h) * 2 + 1];
      if (h < 1) pairs[(i * 3 + h) * 2] += 1.0f;
      out[i * 3 + h] = pairs[(i * 3 + h) * 2] - squares[(i * 3 + h) * N];
    }
  }""",
        {"x": "M,N", "out": "M,3"},
        ("out",),
        _heads,
        ("M", "N"),
        head="#include <cstdint>\n#include <vector>\n",
    ),
    Nest(
        "two_rows",
        "const float* x, float* out, int64_t M, int64_t N",
        """  std::vector<float> t(M * N);
  for (int64_t i = 0; i < M; ++i) {
    for (int64_t j = 0; j < N; ++j) t[i * N + j] = x[i * N + j] * 2.0f;
    for (int64_t j = 0; j < N; ++j) out[i * N + j] = t[i * N + N - 1 - j];
  }
  std::vector<float> t2(M * N);
  for (int64_t i = 0; i < M; ++i) {
    for (int64_t j = 0; j < N; ++j) t2[i * N + N - 1 - j] = out[i * N + j] + 1.0f;
    for (int64_t j = 0; j < N; ++j) out[i * N + j] = t2[i * N + j];
  }""",
        {"x": "M,N", "out": "M,N"},
        ("out",),
        lambda a, s: {"out": 2 * a["x"] + 1},
        ("M", "N"),
        head="#include <cstdint>\n#include <vector>\n",
    ),
)
BY_NAME = {nest.name: nest for nest in NESTS}
SHAPES: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {
    ("M", "N", "K"): ((1, 1, 1), (5, 7, 3), (37, 67, 29), (8, 32, 16), (65, 33, 1), (16, 130, 40)),
    ("B", "M", "N", "K"): ((1, 1, 1, 1), (2, 9, 33, 5), (3, 17, 70, 31)),
    ("M", "N"): ((1, 1), (3, 7), (5, 64), (13, 101), (2, 300)),
    ("C", "L", "T"): ((1, 1, 1), (2, 9, 3), (3, 101, 5), (10, 70, 7)),
    ("M",): ((1,), (2,), (17,)),
    ("N",): ((1,), (17,), (64,), (333,)),
}


def compiled(source: str, folder: Path, *flags: str) -> ctypes.CDLL:
    """Build a source into a shared library and load it."""
    stem = folder / hashlib.sha256((source + " ".join(flags)).encode()).hexdigest()[:16]
    path, library = stem.with_suffix(".cpp"), stem.with_suffix(".so")
    path.write_text(source)
    done = subprocess.run(
        ["g++", *FLAGS, *(flags or ("-O2",)), str(path), "-o", str(library)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stderr}\n{source}"
    return ctypes.CDLL(str(library))


def _aligned(shape: tuple[int, ...], dtype: str) -> Array:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def check(nest: Nest, library: ctypes.CDLL, make: Callable[[tuple[int, ...], str], Array] = _aligned) -> str:
    """Compare the library with the reference on all shapes; the empty text if all agree."""
    for shape in SHAPES[nest.sizes]:
        sizes = dict(zip(nest.sizes, shape, strict=True))
        rng = np.random.default_rng(sum(shape))
        arrays = {}
        for name, text in nest.shapes.items():
            dims = tuple(int(eval(d, {}, dict(sizes))) for d in text.split(","))
            arrays[name] = make(dims, nest.dtype)
            poison = np.nan if nest.dtype.startswith("float") else -77
            arrays[name][...] = poison if name in nest.outputs else (rng.standard_normal(dims) * 4).astype(nest.dtype)
        before = {name: array.copy() for name, array in arrays.items()}
        args: list[object] = []
        for part in nest.args.split(","):
            name = part.split()[-1]
            args.append(ctypes.c_void_p(arrays[name].ctypes.data) if name in arrays else ctypes.c_int64(sizes[name]))
        library.run(*args)
        for name, want in nest.reference(before, sizes).items():
            if not np.allclose(arrays[name], want, rtol=5e-4, atol=5e-4):
                return f"{nest.name} {shape}: {name} is wrong"
    return ""
