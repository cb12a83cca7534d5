"""Gradients of a layer normalisation, plainly: one program per row for dx, then sums down the columns in two steps.

The first kernel leaves the mean and the scale of each row behind. The second sums some of the rows for some of the
columns, the third sums what the second found.
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024  # tune: 256 512 1024 2048 4096 8192
ROWS = 32  # tune: 8 16 32 64
COLS = 64  # tune: 32 64 128 256
SHARES = 64  # tune: 16 32 64 128 256
NUM_WARPS = 4  # tune: 1 2 4 8 16
NUM_STAGES = 2  # tune: 1 2 3 4
# tune-where: ROWS * COLS <= NUM_WARPS * 32 * 64


@triton.jit
def rows_kernel(x, w, dy, dx, means, scales, C, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, C, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * C + cols, mask=cols < C, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / C
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, C, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * C + cols, mask=cols < C, other=0.0).to(tl.float32)
        apart = tl.where(cols < C, values - mean, 0.0)
        squares += apart * apart
    scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / C + eps)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    plain = tl.zeros((BLOCK,), dtype=tl.float32)
    along = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, C, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * C + cols, mask=cols < C, other=0.0).to(tl.float32)
        weights = tl.load(w + cols, mask=cols < C, other=0.0).to(tl.float32)
        scaled = tl.load(dy + row * C + cols, mask=cols < C, other=0.0).to(tl.float32) * weights
        plain += scaled
        along += scaled * (values - mean) * scale
    mean_plain = tl.sum(plain, axis=0) / C
    mean_along = tl.sum(along, axis=0) / C
    for start in range(0, C, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * C + cols, mask=cols < C, other=0.0).to(tl.float32)
        weights = tl.load(w + cols, mask=cols < C, other=0.0).to(tl.float32)
        scaled = tl.load(dy + row * C + cols, mask=cols < C, other=0.0).to(tl.float32) * weights
        result = (scaled - mean_plain - (values - mean) * scale * mean_along) * scale
        tl.store(dx + row * C + cols, result.to(dx.dtype.element_ty), mask=cols < C)


@triton.jit
def shares_kernel(x, dy, means, scales, dw_shares, db_shares, R, C, ROWS: tl.constexpr, COLS: tl.constexpr):
    share = tl.program_id(0)
    shares = tl.num_programs(0)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    dw_sum = tl.zeros((ROWS, COLS), dtype=tl.float32)
    db_sum = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in range(share * ROWS, R, shares * ROWS):
        rows = start + tl.arange(0, ROWS)
        mask = (rows[:, None] < R) & (cols[None, :] < C)
        at = rows[:, None].to(tl.int64) * C + cols[None, :]
        values = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        given = tl.load(dy + at, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(means + rows, mask=rows < R, other=0.0)
        scale = tl.load(scales + rows, mask=rows < R, other=0.0)
        dw_sum += given * (values - mean[:, None]) * scale[:, None]
        db_sum += given
    tl.store(dw_shares + share * C + cols, tl.sum(dw_sum, axis=0), mask=cols < C)
    tl.store(db_shares + share * C + cols, tl.sum(db_sum, axis=0), mask=cols < C)


@triton.jit
def columns_kernel(dw_shares, db_shares, dw, db, C, SHARES: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    dw_sum = tl.zeros((COLS,), dtype=tl.float32)
    db_sum = tl.zeros((COLS,), dtype=tl.float32)
    for share in range(0, SHARES):
        dw_sum += tl.load(dw_shares + share * C + cols, mask=cols < C, other=0.0)
        db_sum += tl.load(db_shares + share * C + cols, mask=cols < C, other=0.0)
    tl.store(dw + cols, dw_sum.to(dw.dtype.element_ty), mask=cols < C)
    tl.store(db + cols, db_sum.to(db.dtype.element_ty), mask=cols < C)


def run(x, w, dy, R, C, eps, dx, dw, db):
    means = torch.empty((R,), dtype=torch.float32, device=x.device)
    scales = torch.empty((R,), dtype=torch.float32, device=x.device)
    dw_shares = torch.empty((SHARES, C), dtype=torch.float32, device=x.device)
    db_shares = torch.empty((SHARES, C), dtype=torch.float32, device=x.device)
    across = triton.cdiv(C, COLS)
    options = {"num_warps": NUM_WARPS, "num_stages": NUM_STAGES}
    rows_kernel[(R,)](x, w, dy, dx, means, scales, C, eps, BLOCK, **options)
    shares_kernel[(SHARES, across)](x, dy, means, scales, dw_shares, db_shares, R, C, ROWS, COLS, **options)
    columns_kernel[(across,)](dw_shares, db_shares, dw, db, C, SHARES, COLS, **options)
