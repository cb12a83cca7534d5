"""Growth of results with a size: a triangular system of random numbers has solutions that double with each row."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from math import log

import torch
from torch.utils._pytree import tree_leaves

from evokernel.scaffold.operation.dimensions import Layout, shapes_at
from evokernel.scaffold.operation.index_bounds import one_signed
from evokernel.scaffold.operation.trial import in_one_thread
from evokernel.scaffold.operation.user_operation import UserOperation

_LARGEST = 1e18
"""Results on inputs around 1 from which fp32 has no room for squares; beyond its range right and wrong look alike."""
_STEPS = 2
"""Doublings of a size by which a logarithm of the results doubles, at least, where they grow with each step."""
_FEWEST = 4
"""Doublings of the least size: the largest of one or two random numbers is luck, and so is how it grows."""
_SMALLEST = 10.0
"""Results before these doublings: a mask of large numbers is not as large on the way."""

Dims = Mapping[str, int]


@in_one_thread()
def highest_sizes(
    subject: UserOperation,
    layout: Layout,
    scales: Mapping[str, float],
    *,
    least: dict[str, int],
    most: Dims,
    is_cheap: Callable[[dict[str, int]], bool],
) -> dict[str, int]:
    """Return, by dimension, the highest size whose results fit into fp32, where these grow with it beyond all measure.

    Each dimension is tried beside the least sizes of the others, up to `most` and as far as it is cheap. Numbers of the
    signs of the example must grow so, too: a decay below 0 gives a recurrence that does not. `scales` are factors on
    the numbers of inputs, by name.
    """
    found = dict[str, int]()
    wide, signs = subject.with_floats("float64"), one_signed(subject)
    for name, low in least.items():
        sizes = [low]
        while sizes[-1] * 2 <= most[name] and is_cheap({**least, name: sizes[-1] * 2}):
            sizes.append(sizes[-1] * 2)
        bounds = list[int]()
        for ends in [{}, signs][: 1 + bool(signs)]:

            def largest(size: int, name: str = name, ends: Mapping[str, tuple[float, float]] = ends) -> float:
                return _largest(wide, layout, scales, ends, {**least, name: size})

            if not (bound := _highest(sizes, largest)):
                break
            bounds.append(bound)
        else:
            found[name] = max(bounds)
    return found


def _highest(sizes: Sequence[int], largest: Callable[[int], float]) -> int:
    """Return the highest size with results that fit, where these grow with each step; 0 where they do not."""
    if largest(sizes[-1]) <= _LARGEST:
        return 0
    place = bisect_left(sizes, True, key=lambda size: largest(size) > _LARGEST)
    before = largest(sizes[place - _STEPS]) if place >= _FEWEST else 0.0
    if before < _SMALLEST or log(before) * 2 > log(largest(sizes[place])):
        return 0
    between = range(sizes[place - 1], sizes[place])
    return between[bisect_left(between, True, key=lambda size: largest(size) > _LARGEST) - 1]


def _largest(
    subject: UserOperation,
    layout: Layout,
    scales: Mapping[str, float],
    ends: Mapping[str, tuple[float, float]],
    dims: Dims,
) -> float:
    """Return the largest result that is a number on inputs around 1; 0 where the operation fails."""
    generator = torch.Generator().manual_seed(0)
    try:
        with torch.no_grad():
            inputs = subject.empty(shapes_at(layout, dims))
            for name, each in inputs.items():
                numbers = torch.randn(each.shape, generator=generator) if each.is_floating_point() else torch.zeros(())
                if name in ends:
                    near, far = sorted(ends[name])
                    numbers = torch.rand(each.shape, generator=generator) * (far - near) + near
                each.copy_(numbers * scales.get(name, 1.0))
            made = subject.call(inputs)
    except Exception:  # noqa: BLE001 - a user's function may raise anything; then nothing is known here
        return 0.0
    floats = [each.double() for each in tree_leaves(made) if isinstance(each, torch.Tensor) and each.numel()]
    return max((float(each.abs().nan_to_num(0.0, torch.inf).max()) for each in floats), default=0.0)
