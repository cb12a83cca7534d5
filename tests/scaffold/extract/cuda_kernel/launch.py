"""A kernel of a serving engine behind a function of PyTorch's style, and the same in PyTorch."""

from pathlib import Path

import torch

from evokernel.cuda import Module, read_source

THREADS = 256
kernels = Module(read_source(Path(__file__).with_name("fused_add_rms_norm.cu")), THREADS=THREADS)


def launch(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the norm, and x + residual."""
    assert x.is_cuda
    tokens, hidden = x.shape
    normed = torch.empty_like(x)
    total = torch.empty_like(x)
    kernels.fused_add_rms_norm_kernel[tokens, THREADS, 4 * hidden](x, residual, weight, normed, total, epsilon, hidden)
    return normed, total


def fused_add_rms_norm_torch(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the same."""
    total = x + residual
    wide = total.to(torch.promote_types(total.dtype, torch.float32))
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return (wide * scale * weight).to(x.dtype), total


if __name__ == "__main__":
    x, residual = torch.randn(2, 4096, 4096, device="cuda", dtype=torch.bfloat16)
    launch(x, residual, torch.ones(4096, device="cuda", dtype=torch.bfloat16))
