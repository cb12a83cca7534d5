"""One pass over all outputs finds what torch finds in fifteen."""

import pytest
import torch

from evokernel.evaluate.artifact_mode.row_comparison import KINDS, RowComparison


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("length", [1, 1000, 1_000_003])
def test_it_agrees_with_torch(dtype: torch.dtype, length: int) -> None:
    theirs = torch.randn(5, length + 7, device="cuda").to(dtype)[:, :length]
    mine = (theirs + 0.01 * torch.randn(5, length, device="cuda").to(dtype)).contiguous()
    mine[3, length // 2] = float("nan")
    found = RowComparison(dtype).rows(mine, theirs, peak=0.5)
    wide, error = theirs.double(), (mine.double() - theirs.double()).abs()
    worst = (error - 0.5 * wide.abs()).amax(dim=1).clamp(min=0)
    good = [0, 1, 2, 4]
    assert torch.allclose(found.error.double()[good], error.square().mean(dim=1).sqrt()[good], rtol=1e-3)
    assert torch.allclose(found.due.double(), wide.square().mean(dim=1).sqrt(), rtol=1e-3)
    assert torch.allclose(found.worst.double()[good], worst[good], rtol=1e-3, atol=1e-6)
    assert not found.error[3] <= 1e9
    assert found.worst[3].isinf()
