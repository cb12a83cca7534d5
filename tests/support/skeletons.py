"""Kernels of different structure for one matrix product whose regions can be exchanged, in C++, Triton and CUDA C++."""

ROWS = """\
#include <cstdint>

constexpr int64_t ROWS = 4;  // tune: 2 4 8

// region: dot
static float dot(const float* a, const float* b, int64_t N, int64_t K) {
    float sum = 0.0f;
    for (int64_t k = 0; k < K; ++k) sum += a[k] * b[k * N];
    return sum;
}
// endregion

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    for (int64_t i0 = 0; i0 < M; i0 += ROWS) {
        const int64_t last = i0 + ROWS < M ? i0 + ROWS : M;
        for (int64_t j = 0; j < N; ++j) {
            for (int64_t i = i0; i < last; ++i) {
                // region: store
                c[i * N + j] = dot(a + i * K, b + j, N, K);
                // endregion
            }
        }
    }
}
"""
"""Goes through rows in groups; its sums are plain."""

SPLIT = """\
#include <cstdint>

// region: dot
constexpr int64_t SUMS = 4;  // tune: 2 4 8

static float dot(const float* left, const float* right, int64_t stride, int64_t K) {
    float sums[SUMS] = {};
    int64_t k = 0;
    for (; k + SUMS <= K; k += SUMS) {
        for (int64_t s = 0; s < SUMS; ++s) sums[s] += left[k + s] * right[(k + s) * stride];
    }
    for (; k < K; ++k) sums[0] += left[k] * right[k * stride];
    float sum = 0.0f;
    for (int64_t s = 0; s < SUMS; ++s) sum += sums[s];
    return sum;
}
// endregion

extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    for (int64_t i = 0; i < M; ++i) {
        const float* row = a + i * K;
        for (int64_t j = 0; j < N; ++j) {
            // region: store
            c[i * N + j] = dot(row, b + j, N, K);
            // endregion
        }
    }
}
"""
"""One row after the other; its sums are split, which a tunable says how often. What it stores needs `row`."""

TILES = """\
import triton
import triton.language as tl

BLOCK = 64  # tune: 32 64
# region: order
GROUP = 4  # tune: 1 2 4 8


@triton.jit
def place(pid, columns):
    return pid // columns // GROUP * GROUP, pid % columns


# endregion


@triton.jit
def kernel(x, y, n, columns, BLOCK: tl.constexpr):
    row, column = place(tl.program_id(0), columns)
    offsets = (row + column) * BLOCK + tl.arange(0, BLOCK)
    # region: work
    value = tl.load(x + offsets, mask=offsets < n)
    value = value * 2
    # endregion
    tl.store(y + offsets, value, mask=offsets < n)


def run(x, n, y):
    kernel[(n,)](x, y, n, 1, BLOCK)
"""

PLAIN_TILES = """\
import triton
import triton.language as tl

BLOCK = 64  # tune: 32 64 128
# region: order


@triton.jit
def place(pid, width):
    return pid // width, pid % width


# endregion


@triton.jit
def kernel(x, y, n, columns, BLOCK: tl.constexpr):
    row, column = place(tl.program_id(0), columns)
    if row < n:
        offsets = (row + column) * BLOCK + tl.arange(0, BLOCK)
        # region: work
        inside = offsets < n
        value = tl.load(x + offsets, mask=inside) + tl.load(x + offsets, mask=inside)
        # endregion
        tl.store(y + offsets, value, mask=offsets < n)


def run(x, n, y):
    kernel[(n,)](x, y, n, 1, BLOCK)
"""

CUDA = '''\
from evokernel.cuda import Module

THREADS = 256  # tune: 128 256
kernels = Module(
    r"""
// region: body
__device__ float body(const float* x, int i) { return 2 * x[i]; }
// endregion
extern "C" __global__ void __launch_bounds__(THREADS) scale(const float* x, float* y, int n) {
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] = body(x, i);
}
""",
    THREADS=THREADS,
)


def run(x, n, y):
    kernels.scale[-(-n // THREADS), THREADS](x, y, n)
'''
