"""`drop_masks`: bounds checks are compiled out where the size is a multiple of its block."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from operators.rewrites.triton.analysis import Bound, binds, block_offset, bounds_of, calls, in_range
from operators.rewrites.triton.source import LaunchSite, TritonKernel, TritonModule
from operators.rewrites.triton.span_edits import Argument, SpanEdits, TritonRewrite


@dataclass(frozen=True, slots=True)
class BoundsCheck:
    """A mask's comparison of a block of indices with a kernel parameter."""

    bound: Bound
    """The comparison `offset < limit`."""
    limit: str
    """The parameter."""
    block: str
    """The constexpr of the block."""


class DropMasks(TritonRewrite):
    """Rewrite of each `offset < limit` into `(offset < limit) | EVEN`, with EVEN known at compile time.

    Where `limit % BLOCK == 0` the whole mask folds to true and the compiler drops it; elsewhere nothing changes. Legal
    only where the block of indices provably starts below the limit, so that a whole block is inside.
    """

    name = "drop_masks"

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, list[BoundsCheck]]]:
        """Yield the comparisons of masks, those of one limit and block together."""
        together: dict[str, list[BoundsCheck]] = {}
        for check in checks(module, kernel):
            together.setdefault(f"{kernel.name} {check.limit} by {check.block}", []).append(check)
        yield from together.items()

    def edit(self, edits: SpanEdits, kernel: TritonKernel, found: list[BoundsCheck]) -> None:
        """Write one flag beside all comparisons with that limit."""
        module = edits.module
        limit, block = found[0].limit, found[0].block
        flag = edits.add_parameter(
            kernel, f"EVEN_{limit.upper()}", constexpr=True, argument=_even(module, limit, block)
        )
        for compare in dict.fromkeys(check.bound.compare for check in found):
            edits.replace(compare, f"({module.segment(compare)}) | {flag}")


def checks(module: TritonModule, kernel: TritonKernel) -> Iterator[BoundsCheck]:
    """Yield the comparisons in masks of loads and stores that a flag may replace, in source order."""
    for access in calls(kernel, "tl.load", "tl.store"):
        for bound in bounds_of(module, access):
            limit, offset = bound.limit, block_offset(module, bound.compare, ast.Name(bound.offset))
            if offset is None or not isinstance(limit, ast.Name) or limit.id not in kernel.params:
                continue
            start, block = offset
            if start is None or binds(kernel.node, limit.id):
                continue
            known = all(
                module.argument_of(launch, name) for launch in module.launches_of(kernel) for name in (limit.id, block)
            )
            if known and in_range(module, kernel, start, limit=limit, block=block):
                yield BoundsCheck(bound, limit.id, block)


def _even(module: TritonModule, limit: str, block: str) -> Argument:
    def text(launch: LaunchSite) -> str:
        size, step = module.passed(launch, limit), module.passed(launch, block)
        return f"{module.grouped(size)} % {module.grouped(step)} == 0"

    return text
