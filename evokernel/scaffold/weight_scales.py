"""Scales of the weights of a deep operation: with numbers around 1, each layer multiplies what it gets many times."""

from collections.abc import Mapping, Sequence
from math import prod, sqrt
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from evokernel.scaffold.operation.dimensions import Layout
from evokernel.scaffold.operation.trial import counted_flops, in_one_thread, without_data
from evokernel.scaffold.operation.user_operation import UserOperation
from evokernel.scaffold.parameter_gradients import small_shapes

_LAYERS = 3
"""Products by weights, one behind the other, up to which results keep to sizes that let everything count."""
_LARGEST = 1e6
"""Results on inputs around 1 above which the weights get scales."""
_MOST_FLOPS = 2_000_000_000
"""Operations of the example above which small inputs are tried in its place."""
_BIAS = 0.125
"""Scale of a bias: large enough to count, and small enough that the first layers still count behind the last."""

_aten = torch.ops.aten
_PRODUCTS = {_aten.convolution: (1, 2), _aten.addmm: (2, 0), _aten.mm: (1, None), _aten.bmm: (1, None)}
"""Places of weight and bias among the arguments."""
_COPIES = (_aten.clone, _aten._to_copy)


@in_one_thread()
def weight_scales(subject: UserOperation, layout: Layout) -> dict[str, float]:
    """Return the factor on the numbers of each weight and bias of an operation, by name; nothing where none is needed.

    The factor of a weight with n terms in a sum is sqrt(2 / n), so that numbers keep their size from layer to layer (He
    et al., Delving Deep into Rectifiers, 2015). It is given where there are many layers and results grow beyond all
    measure without: there a bias changes no bit of the result, and a kernel that leaves it out would be right.
    """
    if not all(each.is_floating_point() for each in subject.inputs.values()):
        return {}
    inputs, calls = _called(subject)
    found = _Products(inputs)
    for call in calls:
        found.take(*call)
    if found.layers <= _LAYERS or _largest(subject, layout) <= _LARGEST:
        return {}
    scales = {name: float(f"{sqrt(2 / terms):.3g}") for name, terms in found.terms.items()}
    return {**dict.fromkeys(found.biases - scales.keys(), _BIAS), **scales}


def _largest(subject: UserOperation, layout: Layout) -> float:
    """Return the largest result on inputs around 1; infinity where one is no number, 0 where the operation fails."""
    example = {name: tuple(each.shape) for name, each in subject.inputs.items()}
    quick = counted_flops(subject) <= _MOST_FLOPS  # small inputs may have narrow layers, in which less grows
    inputs = subject.empty(example if quick else small_shapes(subject, layout))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for each in inputs.values():
            each.copy_(torch.randn(each.shape, generator=generator))
        try:
            made = subject.call(inputs)
        except Exception:  # noqa: BLE001 - a user's function may raise anything; then nothing is known here
            return 0.0
    results = [each.double() for each in tree_leaves(made) if isinstance(each, torch.Tensor)]
    return max(float(each.abs().max().nan_to_num(torch.inf)) for each in results)


_Call = tuple[Any, Sequence[Any], Mapping[str, Any], Any]
"""Operation of torch, its arguments by position and by name, and what it returned."""


class _Calls(TorchDispatchMode):  # type: ignore[misc]
    """Keeps all calls, so that what they say is found out behind the user's function, whose errors are its own."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[_Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.made.append((func, args, kwargs or {}, made))
        return made


def _called(subject: UserOperation) -> tuple[dict[str, torch.Tensor], list[_Call]]:
    """Return inputs without data, and the calls of the operation on them; none where it raises an error."""
    with without_data():
        inputs = subject.empty({name: tuple(each.shape) for name, each in subject.inputs.items()})
        try:
            with _Calls() as calls:
                subject.call(inputs)
        except Exception:  # noqa: BLE001 - a user's function may raise anything; then nothing is known here
            return inputs, []
    return inputs, calls.made


class _Products:
    """Finds out which inputs are weights and biases, and how many products by weights follow each other."""

    def __init__(self, inputs: Mapping[str, torch.Tensor]) -> None:
        self.terms: dict[str, int] = {}
        """Terms of the sum behind a result of each weight's product, by name."""
        self.biases: set[str] = set()
        self.layers = 0
        self._names = {_key(each): name for name, each in inputs.items()}
        self._depths: dict[int, int] = {}

    def take(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: Any) -> None:
        """Take in the next call."""
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        layers = max((self._depths.get(_key(each), 0) for each in given), default=0)
        named = [name for each in given if (name := self._names.get(_key(each)))]
        if places := _PRODUCTS.get(func.overloadpacket):
            weight, bias = (None if place is None else args[place] for place in places)
            if name := self._names.get(_key(weight)):
                layers += 1
                self.terms[name] = _terms(func.overloadpacket, args, weight)
                if bias is not None and (of := self._names.get(_key(bias))):
                    self.biases.add(of)
        elif func.overloadpacket is _aten.add and layers:
            self.biases.update(name for each in given if each.ndim == 1 and (name := self._names.get(_key(each))))
        self.layers = max(self.layers, layers)
        for each in tree_leaves(made):
            if isinstance(each, torch.Tensor):
                self._depths[_key(each)] = max(layers, self._depths.get(_key(each), 0))
                if func.overloadpacket in _COPIES and named:
                    self._names[_key(each)] = named[0]


def _key(tensor: torch.Tensor) -> int:
    """Return what a tensor and its views have in common."""
    return int(tensor.untyped_storage()._cdata)


def _terms(operation: Any, args: Any, weight: torch.Tensor) -> int:
    if operation is not _aten.convolution:
        return int(weight.shape[-2])
    stride, transposed, groups = args[3], args[6], args[8]
    if not transposed:
        return int(prod(weight.shape[1:]))
    return max(int(weight.shape[0] // groups * prod(weight.shape[2:]) // prod(stride)), 1)
