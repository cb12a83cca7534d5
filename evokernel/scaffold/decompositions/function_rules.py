"""Functions of torch in terms of others that hold for all sizes, in place while an operation is traced.

Torch's own would read a value, fix a size, or change memory in a way that no trace can follow.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any
from unittest import mock

import torch
from torch.nn import functional

_NAMES = ("bincount", "corrcoef", "cov", "logdet", "quantile", "stft", "repeat_interleave", "tensor")
_torchs: dict[str, Callable[..., Any]] = {
    "batch_norm": functional.batch_norm,
    "one_hot": functional.one_hot,
    "pad": functional.pad,
    **{name: getattr(torch, name) for name in _NAMES},
    **{name: getattr(torch.linalg, name) for name in ("det", "inv", "slogdet", "solve")},
}
"""Functions as they are, for arguments that no rule knows."""
_MOST_ROWS = 20
"""Rows of a matrix that are eliminated one by one."""
_FEW = 64
"""Numbers that are joined one by one."""


def _one_hot(input: torch.Tensor, num_classes: int = -1) -> Any:
    if num_classes < 0:
        return _torchs["one_hot"](input, num_classes)
    return (input.unsqueeze(-1) == torch.arange(num_classes, device=input.device)).to(torch.int64)


def _batch_norm(
    input: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Note the running statistics by operations that say what they change."""
    if training and running_mean is not None and running_var is not None:
        var, mean = torch.var_mean(input, [0, *range(2, input.ndim)])
        running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
        running_var.mul_(1 - momentum).add_(var, alpha=momentum)
        running_mean = running_var = None
    return _torchs["batch_norm"](input, running_mean, running_var, weight, bias, training, momentum, eps)


def _bincount(input: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0) -> Any:
    """Count numbers below the least length, which task and example keep to."""
    if not minlength:
        return _torchs["bincount"](input, weights, minlength)
    if weights is None:  # GPUs add 32 bits in place, and not 64
        values = torch.ones_like(input, dtype=torch.int32)
    else:
        values = weights if weights.dtype == torch.float32 else weights.double()
    made = values.new_zeros(minlength).index_add(0, input.to(torch.int64), values)
    return made.to(torch.int64) if weights is None else made


def _repeat_interleave(*given: Any, output_size: int | None = None, **named: Any) -> Any:
    """Look up, for each place of a known number of places, the element whose share it is."""
    input, repeats, dim = _three(*given, **named)
    if output_size is None or not isinstance(repeats, torch.Tensor) or repeats.ndim != 1:
        return _torchs["repeat_interleave"](*given, output_size=output_size, **named)
    x, dim = (input.reshape(-1), 0) if dim is None else (input, dim)
    places = torch.arange(output_size, device=x.device)
    return x.index_select(dim, torch.searchsorted(repeats.expand(x.shape[dim]).cumsum(0), places, right=True))


def _three(input: Any = None, repeats: Any = None, dim: int | None = None) -> tuple[Any, Any, int | None]:
    return input, repeats, dim  # repeats alone are torch's other function of that name


def _take_along_dim(input: torch.Tensor, indices: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    """Look places up, which begin again behind the end."""
    if dim is None:
        return input.reshape(-1).gather(0, indices.reshape(-1) % input.numel())
    pairs = list(zip(input.shape, indices.shape, strict=True))
    wide = [other if one == 1 else one for one, other in pairs]
    dim = dim % input.ndim
    x, indices = (each.expand([*wide[:dim], each.shape[dim], *wide[dim + 1 :]]) for each in (input, indices))
    return x.gather(dim, indices % x.shape[dim])


def _cov(input: torch.Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    if fweights is not None or aweights is not None or not input.is_floating_point():
        return _torchs["cov"](input, correction=correction, fweights=fweights, aweights=aweights)
    rows = input if input.ndim == 2 else input.reshape(1, -1)
    off = rows - rows.mean(1, keepdim=True)
    made = off @ off.transpose(0, 1) / (rows.shape[1] - correction)
    return made if input.ndim == 2 else made.reshape(())


def _corrcoef(input: torch.Tensor) -> Any:
    if not input.is_floating_point():
        return _torchs["corrcoef"](input)
    made = _cov(input)
    spread = made.diagonal().sqrt() if input.ndim == 2 else made.sqrt()
    return (made / (spread.unsqueeze(-1) * spread if input.ndim == 2 else spread * spread)).clamp(-1, 1)


def _stft(  # noqa: PLR0913 - torch's own arguments
    input: torch.Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    **more: Any,
) -> Any:
    given, width = (hop_length, win_length, window, center, pad_mode, normalized, onesided), win_length or n_fft
    if input.is_complex() or onesided is False or any(each is not None for each in more.values()):
        return _torchs["stft"](input, n_fft, *given, return_complex=return_complex, **more)
    x = input if input.ndim == 2 else input.unsqueeze(0)
    if center:
        x = functional.pad(x.unsqueeze(0), (n_fft // 2, n_fft // 2), mode=pad_mode).squeeze(0)
    shape = x.new_ones(width) if window is None else window
    before = (n_fft - width) // 2
    shape = functional.pad(shape, (before, n_fft - width - before)) if width < n_fft else shape
    frames = x.unfold(-1, n_fft, hop_length or n_fft // 4) * shape
    made = torch.fft.rfft(frames, norm="ortho" if normalized else None).transpose(1, 2)
    made = made if input.ndim == 2 else made.squeeze(0)
    return made if return_complex else torch.view_as_real(made)


def _quantile(
    input: torch.Tensor,
    q: float | torch.Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    **more: Any,
) -> Any:
    """Look the ordered numbers around a place up; where one is NaN, it is the last of them."""
    if interpolation != "linear" or more or (keepdim and dim is None):
        return _torchs["quantile"](input, q, dim, keepdim, interpolation=interpolation, **more)
    ordered = (input.reshape(-1) if dim is None else input.movedim(dim, -1)).sort(-1)[0]
    several = isinstance(q, torch.Tensor) and q.ndim == 1
    shares = q.reshape(-1) if isinstance(q, torch.Tensor) else ordered.new_full((1,), q)
    at = shares * (ordered.shape[-1] - 1)
    low, high = (ordered[..., place.to(torch.int64)] for place in (at.floor(), at.ceil()))
    made = torch.lerp(low, high, at - at.floor())
    made = torch.where(ordered[..., -1:].isnan(), float("nan"), made)
    made = made.movedim(-1, 0) if several else made[..., 0]
    return made.unsqueeze((dim or 0) % input.ndim + several) if keepdim else made


def _solve(matrix: torch.Tensor, given: torch.Tensor, *, left: bool = True, **more: Any) -> Any:
    """Eliminate column by column, with the largest number of each as its pivot (Gauss and Jordan)."""
    count = matrix.shape[-1]
    if given.ndim == matrix.ndim - 1 and given.shape == matrix.shape[:-1]:
        return _solve(matrix, given.unsqueeze(-1), left=left, **more).squeeze(-1)
    if not left or more or given.ndim != matrix.ndim or matrix.is_complex() or not 0 < count <= _MOST_ROWS:
        return _torchs["solve"](matrix, given, left=left, **more)
    batch = torch.broadcast_shapes(matrix.shape[:-2], given.shape[:-2])
    made = torch.cat([matrix.expand(*batch, count, count), given.expand(*batch, *given.shape[-2:])], -1)
    return _eliminated(made, count)[0][..., count:]


def _eliminated(made: torch.Tensor, count: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Make the first `count` columns those of the unit matrix; return that, and the pivots, with signs of swaps."""
    rows, pivots = torch.arange(count, device=made.device), list[torch.Tensor]()
    for step in range(count):
        column = torch.where(rows >= step, made[..., step].abs(), -1.0)
        best = column.argmax(-1, keepdim=True)
        order = torch.where(rows == step, best, torch.where(rows == best, step, rows))
        made = made.gather(-2, order.unsqueeze(-1).expand(made.shape))
        due = made[..., step, step]
        pivots.append(torch.where(best.squeeze(-1) == step, due, -due))
        pivot = made[..., step : step + 1, :] / made[..., step : step + 1, step : step + 1]
        made = torch.where((rows == step).unsqueeze(-1), pivot, made - made[..., step : step + 1] * pivot)
    return made, pivots


def _pivots(matrix: torch.Tensor) -> torch.Tensor | None:
    """Return the factors of a determinant; None of a matrix too large to be written out."""
    if matrix.is_complex() or not 0 < matrix.shape[-1] <= _MOST_ROWS or matrix.shape[-2] != matrix.shape[-1]:
        return None
    return torch.stack(_eliminated(matrix, matrix.shape[-1])[1], -1)


def _determinant(matrix: torch.Tensor) -> Any:
    return _torchs["det"](matrix) if (found := _pivots(matrix)) is None else found.prod(-1)


def _sign_and_logarithm(matrix: torch.Tensor) -> Any:
    if (found := _pivots(matrix)) is None:
        return _torchs["slogdet"](matrix)
    return torch.return_types.linalg_slogdet((found.sign().prod(-1), found.abs().log().sum(-1)))


def _logarithm_of_determinant(matrix: torch.Tensor) -> Any:
    if _pivots(matrix) is None:
        return _torchs["logdet"](matrix)
    sign, size = _sign_and_logarithm(matrix)
    return torch.where(sign < 0, torch.nan, size)


def _inverse(matrix: torch.Tensor, **more: Any) -> Any:
    if more or matrix.is_complex() or matrix.shape[-1] > _MOST_ROWS:
        return _torchs["inv"](matrix, **more)
    return _solve(matrix, torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand(matrix.shape))


def _pad(input: torch.Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    if mode != "circular" or min(pad) < 0:
        return _torchs["pad"](input, pad, mode, value)
    x = input
    for place in range(0, len(pad), 2):
        dim, (before, after) = x.ndim - 1 - place // 2, pad[place : place + 2]
        ends = [x.narrow(dim, x.shape[dim] - before, before)] * bool(before), [x.narrow(dim, 0, after)] * bool(after)
        x = torch.cat([*ends[0], x, *ends[1]], dim)
    return x


def _tensor(data: Any, *, dtype: torch.dtype | None = None, device: Any = None, **more: Any) -> Any:
    """Return a few numbers joined, where a compiler would put them on the device at once."""
    shape, flat = [], [data]
    while isinstance(flat[0], (list, tuple)) and flat[0]:
        shape.append(len(flat[0]))
        flat = [each for part in flat for each in part]
    known = all(isinstance(each, (int, float)) for each in flat) and len(flat) <= _FEW and not more
    if device is None or not known or not shape or len(flat) != prod(shape):
        return _torchs["tensor"](data, dtype=dtype, device=device, **more)
    if dtype is None:
        kind = next((kind for kind in (float, int) if any(type(each) is kind for each in flat)), bool)
        dtype = {float: torch.get_default_dtype(), int: torch.int64, bool: torch.bool}[kind]
    return torch.cat([torch.full((1,), each, dtype=dtype, device=device) for each in flat]).reshape(shape)


_OF_TORCH: dict[str, Callable[..., Any]] = {
    "bincount": _bincount,
    "corrcoef": _corrcoef,
    "inverse": _inverse,
    "cov": _cov,
    "det": _determinant,
    "logdet": _logarithm_of_determinant,
    "quantile": _quantile,
    "repeat_interleave": _repeat_interleave,
    "slogdet": _sign_and_logarithm,
    "stft": _stft,
    "take_along_dim": _take_along_dim,
}
_OF_NETWORKS: dict[str, Callable[..., Any]] = {"batch_norm": _batch_norm, "one_hot": _one_hot, "pad": _pad}
_OF_ALGEBRA: dict[str, Callable[..., Any]] = {
    "det": _determinant,
    "inv": _inverse,
    "slogdet": _sign_and_logarithm,
    "solve": _solve,
}
FUNCTION_RULES: dict[Any, Callable[..., Any]] = {
    **{getattr(functional, name): rule for name, rule in _OF_NETWORKS.items()},
    **{getattr(torch.linalg, name): rule for name, rule in _OF_ALGEBRA.items()},
    **{getattr(owner, name): rule for name, rule in _OF_TORCH.items() for owner in (torch, torch.Tensor)},
    torch.Tensor.__iand__: torch.Tensor.bitwise_and_,
    torch.Tensor.__ior__: torch.Tensor.bitwise_or_,
    torch.Tensor.__ixor__: torch.Tensor.bitwise_xor_,
}
"""Rules by function and method."""


@contextmanager
def functions_replaced() -> Iterator[None]:
    """Let torch itself have the rules, for a compiler that asks functions only by name."""
    with ExitStack() as stack:
        methods = {name: rule for name, rule in _OF_TORCH.items() if hasattr(torch.Tensor, name)}
        owners = ((torch, {**_OF_TORCH, "tensor": _tensor}), (torch.Tensor, methods), (functional, _OF_NETWORKS))
        for owner, rules in (*owners, (torch.linalg, _OF_ALGEBRA)):
            for name, rule in rules.items():
                stack.enter_context(mock.patch.object(owner, name, rule))
        yield
