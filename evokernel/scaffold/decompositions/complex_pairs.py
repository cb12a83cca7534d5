"""Complex numbers as pairs of real ones while an operation is traced: neither plain loops nor Triton know others.

Torch's own tensor of pairs has rules for arithmetic; those here make such tensors, and transform them. A Fourier
transform is a product with a matrix of sines and cosines: right for all sizes, and slow on long rows, which leaves a
search something to do.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_any, tree_map

try:
    from torch._subclasses.complex_tensor import ComplexTensor
except ImportError:  # torch before 2.10
    ComplexTensor = None

_aten = torch.ops.aten
_REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}


class _Pairs(TorchDispatchMode):  # type: ignore[misc]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if (rule := _RULES.get(func)) is not None:
            return rule(*args, **kwargs)
        if kwargs.get("dtype") in _REAL and func is _aten._to_copy.default and not _is_pair(args[0]):
            return _beside_zeros(args[0].to(_REAL[kwargs["dtype"]]))
        if tree_any(_is_complex, (args, kwargs)):
            args, kwargs = tree_map(_as_pair, (args, kwargs))
            if not tree_any(_is_pair, (args, kwargs)):  # a number such as 1j, beside real ones
                args = tree_map(lambda each: _beside_zeros(each) if isinstance(each, torch.Tensor) else each, args)
        return func(*args, **kwargs)


@contextmanager
def complex_as_pairs() -> Iterator[None]:
    """Compute with pairs of real numbers in place of complex ones, where this torch can."""
    if ComplexTensor is None:
        yield
        return
    with _Pairs():
        yield


def without_complex(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a traced operation with pairs in place of complex numbers; one without such numbers as it is."""
    made = {node: node.meta.get("example_value") for node in module.graph.nodes}
    if ComplexTensor is None or not tree_any(
        lambda each: isinstance(each, torch.Tensor) and each.is_complex(), [*made.values()]
    ):
        return module

    def paired(*given: Any) -> Any:
        with complex_as_pairs():
            return module(*given)

    given = [made[node] for node in module.graph.find_nodes(op="placeholder")]
    shapes_alone = next(each.fake_mode for each in given if isinstance(each, FakeTensor))
    with enable_python_dispatcher(), shapes_alone:  # sizes stay symbols, and nothing is computed
        return make_fx(paired)(*given)


def _is_complex(value: Any) -> bool:
    return isinstance(value, complex) or (isinstance(value, torch.Tensor) and value.is_complex())


def _is_pair(value: Any) -> bool:
    return isinstance(value, ComplexTensor)


def _as_pair(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_complex() and not _is_pair(value):
        return _viewed(torch.view_as_real(value.resolve_conj()))
    return value


def _beside_zeros(real: torch.Tensor) -> Any:
    return ComplexTensor(real, torch.zeros_like(real))


def _viewed(x: torch.Tensor) -> Any:
    return ComplexTensor(x.select(-1, 0), x.select(-1, 1))


def _polar(length: torch.Tensor, angle: torch.Tensor) -> Any:
    return ComplexTensor(length * angle.cos(), length * angle.sin())


def _waves(rows: int, columns: int, length: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines and sines of the products of row and column, in parts of a full turn."""
    row, column = (torch.arange(count, device=like.device) for count in (rows, columns))
    turns = (row.unsqueeze(1) * column.unsqueeze(0)) % length
    angle = turns.to(like.dtype) / length * (2 * math.pi)
    return angle.cos(), angle.sin()


def _scaled(made: torch.Tensor, normalization: int, length: int) -> torch.Tensor:
    return made / length ** (normalization / 2) if normalization else made


def _transformed(x: Any, dims: Sequence[int], normalization: int, forward: bool, *, onesided: bool = False) -> Any:
    """Return the discrete Fourier transform along dimensions; the last has only the first half, if asked for."""
    re, im = (x.re, x.im) if isinstance(x, ComplexTensor) else (x, None)
    for place, dim in enumerate(reversed(list(dims))):
        length = re.shape[dim]
        kept = length // 2 + 1 if onesided and place == 0 else length
        cosines, sines = _waves(length, kept, length, re)
        sines, one = sines if forward else -sines, re.movedim(dim, -1)
        if im is None:
            re, im = one @ cosines, -(one @ sines)
        else:
            other = im.movedim(dim, -1)
            re, im = one @ cosines + other @ sines, other @ cosines - one @ sines
        re, im = (_scaled(each, normalization, length).movedim(-1, dim) for each in (re, im))
    return ComplexTensor(re, im)


def _forward_of_real(x: torch.Tensor, dims: Sequence[int], normalization: int, onesided: bool) -> Any:
    return _transformed(x, dims, normalization, True, onesided=onesided)


def _back_to_real(x: Any, dims: Sequence[int], normalization: int, length: int) -> torch.Tensor:
    *before, dim = dims
    x = _transformed(x, before, normalization, False) if before else x
    one, other = x.re.movedim(dim, -1), x.im.movedim(dim, -1)
    place = torch.arange(one.shape[-1], device=one.device)
    alone = (place == 0) | (2 * place == length)  # all others stand for two
    one, other = (torch.where(alone, each, 2 * each) for each in (one, other))
    cosines, sines = _waves(one.shape[-1], length, length, one)
    return _scaled(one @ cosines - other @ sines, normalization, length).movedim(-1, dim)


_RULES: dict[Any, Callable[..., Any]] = {
    _aten.complex.default: lambda re, im: ComplexTensor(re, im),
    _aten.polar.default: _polar,
    _aten.view_as_complex.default: _viewed,
    _aten._fft_r2c.default: _forward_of_real,
    _aten._fft_c2c.default: _transformed,
    _aten._fft_c2r.default: _back_to_real,
}
