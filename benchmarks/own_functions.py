"""Thirty functions as users write them, for `init_table.py`; the text of the example inputs is the docstring."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def conv1d_dilated(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """x: bf16[8x64x500], w: bf16[96x64x5], b: bf16[96]"""
    return functional.conv1d(x, w, b, padding=4, dilation=2)


def conv2d_relu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """x: bf16[16x64x56x56], w: bf16[128x64x3x3], b: bf16[128]"""
    return functional.relu(functional.conv2d(x, w, b, padding=1))


def conv2d_strided(x: Tensor, w: Tensor) -> Tensor:
    """x: bf16[16x3x112x112], w: bf16[64x3x7x7]"""
    return functional.conv2d(x, w, stride=2, padding=3)


def conv2d_grouped(x: Tensor, w: Tensor) -> Tensor:
    """x: bf16[16x64x28x28], w: bf16[64x16x3x3]"""
    return functional.silu(functional.conv2d(x, w, padding=1, groups=4))


def conv2d_depthwise(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """x: bf16[16x96x28x28], w: bf16[96x1x5x5], b: bf16[96]"""
    return functional.hardswish(functional.conv2d(x, w, b, padding=2, groups=96))


def conv_transpose2d(x: Tensor, w: Tensor) -> Tensor:
    """x: bf16[16x64x14x14], w: bf16[64x32x4x4]"""
    return functional.conv_transpose2d(x, w, stride=2, padding=1)


def conv_transpose1d_sigmoid(x: Tensor, w: Tensor) -> Tensor:
    """x: bf16[16x64x100], w: bf16[64x32x3]"""
    return torch.sigmoid(functional.conv_transpose1d(x, w, stride=1, padding=1))


def conv3d_bias_softmax(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """x: bf16[4x8x16x16x16], w: bf16[32x8x3x3x3], b: bf16[32]"""
    return torch.softmax(functional.conv3d(x, w, b), dim=1)


def conv_norm_pool(x: Tensor, w: Tensor, g: Tensor, b: Tensor) -> Tensor:
    """x: bf16[8x32x32x32], w: bf16[64x32x3x3], g: bf16[64], b: bf16[64]"""
    return functional.max_pool2d(functional.group_norm(functional.conv2d(x, w), 8, g, b), 2)


def batch_norm(x: Tensor, mean: Tensor, var: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """x: bf16[32x64x28x28], mean: bf16[64], var: bf16[64], w: bf16[64], b: bf16[64]"""
    return functional.batch_norm(x, mean, var.abs(), w, b)


def group_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """x: bf16[16x64x28x28], w: bf16[64], b: bf16[64]"""
    return functional.group_norm(x, 8, w, b)


def layer_norm_residual(x: Tensor, r: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """x: bf16[4096x1024], r: bf16[4096x1024], w: bf16[1024], b: bf16[1024]"""
    s = x + r
    return functional.layer_norm(s, s.shape[-1:], w, b), s


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q: bf16[2x8x512x64], k: bf16[2x8x512x64], v: bf16[2x8x512x64]"""
    return functional.scaled_dot_product_attention(q, k, v)


def causal_attention_heads(x: Tensor, w: Tensor) -> Tensor:
    """x: bf16[4x256x512], w: bf16[1536x512]"""
    q, k, v = functional.linear(x, w).view(x.shape[0], x.shape[1], 3, 8, 64).permute(2, 0, 3, 1, 4)
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)


def argmax_rows(x: Tensor) -> Tensor:
    """x: bf16[1024x4000]"""
    return x.argmax(dim=-1)


def top8(x: Tensor) -> tuple[Tensor, Tensor]:
    """x: bf16[1024x1000]"""
    found = torch.topk(torch.softmax(x, -1), 8, dim=-1)
    return found.values, found.indices


def sort_rows(x: Tensor) -> Tensor:
    """x: f32[512x1000]"""
    return torch.sort(x, dim=-1, descending=True).values


def median_filter(x: Tensor) -> Tensor:
    """x: f32[1024x2048]"""
    return functional.pad(x, (2, 2)).unfold(1, 5, 1).median(dim=-1).values


def cumulative(x: Tensor) -> Tensor:
    """x: f32[1024x4000]"""
    return torch.cumsum(x, dim=1)


def concat_linear(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """x: bf16[1024x512], y: bf16[1024x256], w: bf16[768x1024]"""
    return torch.cat([x, y], dim=1) @ w


def gather_rows(x: Tensor, i: Tensor) -> Tensor:
    """x: bf16[4096x1024], i: int64[2048x1024] < 4096"""
    return torch.gather(x, 0, i) * 2


def scatter_sum(x: Tensor, i: Tensor) -> Tensor:
    """x: f32[2048x256], i: int64[2048] < 512"""
    return torch.zeros(512, x.shape[1], dtype=x.dtype, device=x.device).index_add(0, i, x)


def average_pool(x: Tensor) -> Tensor:
    """x: bf16[16x64x56x56]"""
    return functional.avg_pool2d(x, 3, stride=2, padding=1)


def adaptive_pool(x: Tensor) -> Tensor:
    """x: bf16[16x64x50x50]"""
    return functional.adaptive_avg_pool2d(x, 7)


def bilinear(x: Tensor) -> Tensor:
    """x: bf16[8x16x64x64]"""
    return functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


def embedding_sum(table: Tensor, i: Tensor) -> Tensor:
    """table: bf16[30000x512], i: int64[1024x16] < 30000"""
    return functional.embedding(i, table).sum(1)


def label_loss(x: Tensor, y: Tensor) -> Tensor:
    """x: bf16[4096x1000], y: int64[4096] < 1000"""
    return functional.cross_entropy(x, y, label_smoothing=0.1, reduction="none")


def triplet(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
    """a: f32[4096x256], p: f32[4096x256], n: f32[4096x256]"""
    return functional.triplet_margin_loss(a, p, n)


def lstm_cell(x: Tensor, h: Tensor, c: Tensor, w: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """x: bf16[256x512], h: bf16[256x512], c: bf16[256x512], w: bf16[2048x512], u: bf16[2048x512]"""
    i, f, g, o = (functional.linear(x, w) + functional.linear(h, u)).chunk(4, dim=1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def add_in_place(x: Tensor, y: Tensor, *, scale: float = 0.5) -> Any:
    """x: bf16[2048x1024], y: bf16[2048x1024]"""
    x.mul_(scale).add_(y)
