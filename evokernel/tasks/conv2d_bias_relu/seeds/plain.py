"""3x3 convolution, bias and ReLU, plainly: one program per tile of pixels and channels, a product for each of 9 places.

Pixels of all images are counted through. Of each place of the 3x3 window, the pixels that lie there are multiplied with
the weights of that place, some input channels at a time.
"""

import triton
import triton.language as tl

BLOCK_P = 64  # tune: 32 64 128 256
BLOCK_K = 64  # tune: 16 32 64 128
BLOCK_C = 32  # tune: 16 32 64
NUM_WARPS = 4  # tune: 2 4 8
NUM_STAGES = 2  # tune: 1 2 3 4
# tune-where: (BLOCK_P + BLOCK_K) * BLOCK_C * NUM_STAGES <= 80000
# tune-where: BLOCK_P * BLOCK_K <= NUM_WARPS * 32 * 128


@triton.jit
def conv_kernel(x, w, bias, y, N, C, H, W, K, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_C: tl.constexpr):
    pixels = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    results = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    image = pixels // (H * W)
    row = pixels // W % H
    col = pixels % W
    acc = tl.zeros((BLOCK_P, BLOCK_K), dtype=tl.float32)
    for place in range(0, 9):
        down = row + place // 3 - 1
        right = col + place % 3 - 1
        inside = (image < N) & (down >= 0) & (down < H) & (right >= 0) & (right < W)
        at = image * C * H * W + down * W + right
        for start in range(0, C, BLOCK_C):
            channels = start + tl.arange(0, BLOCK_C)
            seen = inside[:, None] & (channels[None, :] < C)
            values = tl.load(x + at[:, None] + channels[None, :] * H * W, mask=seen, other=0.0)
            known = (channels[:, None] < C) & (results[None, :] < K)
            weights = tl.load(w + (results[None, :] * C + channels[:, None]) * 9 + place, mask=known, other=0.0)
            acc = tl.dot(values, weights, acc, input_precision="ieee")
    shift = tl.load(bias + results, mask=results < K, other=0.0).to(tl.float32)
    acc = tl.maximum(acc + shift[None, :], 0.0)
    to = image[:, None] * K * H * W + results[None, :] * H * W + (row * W + col)[:, None]
    mask = (image[:, None] < N) & (results[None, :] < K)
    tl.store(y + to, acc.to(y.dtype.element_ty), mask=mask)


def run(x, w, bias, N, C, H, W, K, y):
    grid = (triton.cdiv(N * H * W, BLOCK_P), triton.cdiv(K, BLOCK_K))
    conv_kernel[grid](
        x, w, bias, y, N, C, H, W, K, BLOCK_P, BLOCK_K, BLOCK_C, num_warps=NUM_WARPS, num_stages=NUM_STAGES
    )
