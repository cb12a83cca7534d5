"""Parameters of a module that do not count in its results, such as a bias that a norm takes out again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from evokernel.scaffold.operation.dimensions import Layout, shapes_at
from evokernel.scaffold.operation.trial import in_one_thread
from evokernel.scaffold.operation.user_operation import UserOperation
from evokernel.scaffold.workloads import least_sizes

_NO_SLOPE = 1e-8
"""Largest gradient of a parameter that may not count, over the largest gradient of all inputs, in fp64."""
_NO_CHANGE = 1e-9
"""Largest change of the results where such a parameter is exchanged, over the largest result, in fp64."""
_ROUNDINGS, _NOISE = (8, 64, 512), 1e-7
"""Roundings by which a parameter is moved, and the change of results above which that tells nothing."""
_ABOVE_NOISE = 64
"""Change of results where a parameter is exchanged, over that by roundings of it, that may come of rounding."""
_SPREADS = (1.0, 0.1, 5.0)
"""Standard deviations of the inputs that are tried."""
_ROOM = 5
_MOST_ELEMENTS = 20_000_000
"""Elements of the inputs above which nothing is tried: each try takes a pass forward and one back."""


class _Refused(Exception):
    """The operation, or the way back through it, raised an error."""


@in_one_thread()
def useless_apart(subject: UserOperation, layout: Layout, scales: Mapping[str, float]) -> UserOperation:
    """Return the operation with parameters that do not count as zeros, so that they are no inputs of a kernel.

    `scales` are factors on the inputs that are tried, by name; others are around 1.

    A judge could not tell a kernel that reads them from one that does not. They are found by trial on small inputs:
    their gradient vanishes, and results stay as they are when zeros or random numbers take their place. Beside integers
    and masks nothing is tried: their values may decide what counts.
    """
    if not subject.parameters or not all(each.is_floating_point() for each in subject.inputs.values()):
        return subject
    wide = subject.with_floats("float64")
    useless = set(subject.parameters.values())
    tried = 0
    for inputs in _drawn(wide, layout, scales):
        try:
            useless &= _without_slope(wide, inputs, useless)
            useless = _without_effect(wide, inputs, sorted(useless), _results(wide, inputs)) if useless else useless
        except _Refused:  # then nothing is known of these inputs
            continue
        if not useless:
            return subject
        tried += 1
    return subject.zeroing(useless) if tried else subject


def small_shapes(subject: UserOperation, layout: Layout) -> dict[str, tuple[int, ...]]:
    """Return the shapes of small inputs that an operation takes, by name."""
    least = least_sizes(subject, layout)
    return shapes_at(layout, {name: min(2 * least[name] + _ROOM, size) for name, size in layout.example.items()})


def _drawn(subject: UserOperation, layout: Layout, scales: Mapping[str, float]) -> Iterator[dict[str, torch.Tensor]]:
    shapes, generator = small_shapes(subject, layout), torch.Generator().manual_seed(0)
    for spread in _SPREADS:
        inputs = subject.empty(shapes)
        if sum(each.numel() for each in inputs.values()) > _MOST_ELEMENTS:
            return
        for name, each in inputs.items():
            each.copy_(spread * scales.get(name, 1.0) * torch.randn(each.shape, generator=generator))
        yield inputs


def _without_slope(subject: UserOperation, inputs: Mapping[str, torch.Tensor], names: set[str]) -> set[str]:
    """Return those of the inputs named that results do not change with, as far as gradients tell."""
    leaves = {name: each.detach().requires_grad_() for name, each in inputs.items()}
    with torch.autograd.graph.allow_mutation_on_saved_tensors():  # modules add to what they have rectified
        flat = [each for each in _called(subject, leaves) if each.requires_grad]
        if not flat:
            return set()
        generator = torch.Generator().manual_seed(1)
        weights = [torch.randn(each.shape, generator=generator, dtype=each.dtype) for each in flat]
        try:
            found = torch.autograd.grad(flat, list(leaves.values()), weights, allow_unused=True)
        except RuntimeError as error:  # as of an operation without a gradient, or of one that changed what it needs
            raise _Refused from error
    slopes = {name: 0.0 if each is None else float(each.abs().max()) for name, each in zip(leaves, found, strict=True)}
    largest = max(slopes.values(), default=0.0)
    return {name for name in names if slopes[name] <= _NO_SLOPE * largest} if largest > 0 else set()


def _without_effect(
    subject: UserOperation, inputs: Mapping[str, torch.Tensor], names: Sequence[str], expected: list[torch.Tensor]
) -> set[str]:
    """Return those of the inputs named that results stay as they are without.

    A deep module has many, and each try is a pass through it: they are exchanged together, and halves of them where
    that changes results.
    """
    if _same(subject, inputs, names, expected):
        return {*names}
    middle = len(names) // 2
    halves = (names[:middle], names[middle:]) if middle else ()
    return {name for half in halves for name in _without_effect(subject, inputs, half, expected)}


def _same(
    subject: UserOperation, inputs: Mapping[str, torch.Tensor], names: Sequence[str], expected: list[torch.Tensor]
) -> bool:
    """Say whether results stay as they are with other numbers in place of some inputs.

    A deep module multiplies roundings, so that results differ then, too: as much as where the inputs move by a few.
    """
    given = {name: inputs[name] for name in names}

    def change(other: Callable[[torch.Tensor], torch.Tensor]) -> float:
        changed = {name: other(each) for name, each in given.items()}
        return max(map(_change, _results(subject, {**inputs, **changed}), expected))

    changed = 0.0
    for other in (torch.zeros_like, _moved):
        if not (made := change(other)) <= _ABOVE_NOISE * _NOISE:  # more than any noise that counts as such, or NaN
            return False
        changed = max(changed, made)
    if changed <= _NO_CHANGE:
        return True
    noise = max(change(partial(_rounded, count)) for count in _ROUNDINGS)
    return noise <= _NOISE and changed <= _ABOVE_NOISE * noise


def _rounded(count: int, values: torch.Tensor) -> torch.Tensor:
    return values * (1 + count * torch.finfo(values.dtype).eps * torch.randn_like(values))


def _moved(values: torch.Tensor) -> torch.Tensor:
    return values + torch.randn_like(values)


def _change(result: torch.Tensor, due: torch.Tensor) -> float:
    largest, change = float(due.abs().max()), float((result - due).abs().max())
    return change / largest if largest else change


def _results(subject: UserOperation, inputs: Mapping[str, torch.Tensor]) -> list[Any]:
    with torch.no_grad():
        return [each.double() for each in _called(subject, inputs)]


def _called(subject: UserOperation, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    try:
        made = subject.call(inputs)
    except Exception as error:  # a user's function may raise anything
        raise _Refused from error
    return list(made) if isinstance(made, (tuple, list)) else [made]
