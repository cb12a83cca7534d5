"""Buffers of a module: those that are inputs of a kernel, and masks by distance from the diagonal among the others."""

from dataclasses import dataclass

import torch


def is_input(value: torch.Tensor) -> bool:
    """Say whether kernels are given a parameter or buffer: floats, indices, or quantised numbers of any model."""
    if value.is_floating_point():
        return True
    if value.numel() == 1:
        return False
    if value.dtype in (torch.int32, torch.int64) and int(value.min()) >= 0:
        return True
    return value.dtype in (torch.int8, torch.uint8) or is_packed(value)


def is_packed(values: torch.Tensor) -> bool:
    """Say whether integers take all bits of their type, as bytes and packed numbers do."""
    if values.dtype not in (torch.int8, torch.uint8, torch.int32):
        return False
    ends = torch.iinfo(values.dtype)
    return int(values.min()) < ends.min // 2 or (not ends.min and int(values.max()) > ends.max // 2)


@dataclass(frozen=True, slots=True)
class BandMask:
    """A mask of matrices that depends on the distance from their diagonal alone, as a causal one does."""

    shape: tuple[int, ...]
    low: int
    """The least column minus row of a marked element."""
    high: int
    """The largest one."""
    marks: bool
    """True where the mask is true at these distances, and false elsewhere."""

    def made(self, device: torch.device) -> torch.Tensor:
        """Return the mask, computed from places: no compiler writes a table for it."""
        row, column = (torch.arange(extent, device=device) for extent in self.shape[-2:])
        off = column - row.unsqueeze(-1)
        inside = (off >= self.low) & (off <= self.high)
        return (inside if self.marks else ~inside).expand(self.shape)

    def text(self, device: str) -> str:
        """Return Python that makes the mask."""
        rows, columns = self.shape[-2:]
        text = f"torch.ones({self.shape}, dtype=torch.bool, device={device})"
        text += f".triu({self.low})" if self.low > 1 - rows else ""
        text += f".tril({self.high})" if self.high < columns - 1 else ""
        return text if self.marks else f"~{text}"


def band_masks(module: object) -> dict[str, BandMask]:
    """Return the buffers of a module that are such masks, by name; nothing for a function."""
    found = module.named_buffers() if isinstance(module, torch.nn.Module) else ()
    masks = {name: _band_mask(value) for name, value in found}
    return {name: mask for name, mask in masks.items() if mask is not None}


def _band_mask(value: torch.Tensor) -> BandMask | None:
    if value.dtype != torch.bool or value.ndim < 2 or value.is_meta:
        return None
    for marks in (True, False):
        places = (value if marks else ~value).nonzero()
        if len(places):
            off = places[:, -1] - places[:, -2]
            found = BandMask(tuple(value.shape), int(off.min()), int(off.max()), marks)
            if torch.equal(found.made(value.device), value):
                return found
    return None
