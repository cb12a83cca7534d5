"""`advance_pointers`: blocks of pointers are computed before a loop and advanced by a step in each round."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from operators.rewrites.triton.analysis import (
    base_pointer,
    calls,
    loop_around,
    loops,
    pointer,
    range_of,
    reaching,
    spread,
    terms,
    value_of,
)
from operators.rewrites.triton.source import TritonKernel, TritonModule, fresh, names_in
from operators.rewrites.triton.span_edits import SpanEdits, TritonRewrite


@dataclass(frozen=True, slots=True)
class PointerAdvance:
    """A pointer expression that grows by the same step each round."""

    access: ast.Call
    """The load or store."""
    place: ast.expr
    """Its pointer expression."""
    first: str
    """The text of that in the first round."""
    step: str
    """The text of the step, in elements."""


class AdvancePointers(TritonRewrite):
    """Strength reduction of the addresses in a counted loop; the loop variable keeps its other uses."""

    name = "advance_pointers"

    def places(
        self, module: TritonModule, kernel: TritonKernel
    ) -> Iterator[tuple[str, tuple[ast.For, list[PointerAdvance]]]]:
        """Yield the loops with loads or stores whose address is linear in the loop variable."""
        for loop, label in loops(kernel):
            if found := advances(module, kernel, loop):
                yield label, (loop, found)

    def edit(self, edits: SpanEdits, kernel: TritonKernel, found: tuple[ast.For, list[PointerAdvance]]) -> None:
        """Write all such addresses of the loop in names of their own."""
        module = edits.module
        loop, advanced = found
        before: list[str] = []
        after: list[str] = []
        taken: list[str] = []
        for advance in advanced:
            taken.append(fresh(module, f"{base_pointer(module, advance.access, advance.place) or 'block'}_at", *taken))
            before.append(f"{taken[-1]} = {advance.first}")
            after.append(f"{taken[-1]} += {advance.step}")
            edits.replace(advance.place, taken[-1])
        edits.insert_before(loop, before)
        edits.insert_after(loop.body[-1], after)


def advances(module: TritonModule, kernel: TritonKernel, loop: ast.For) -> list[PointerAdvance]:
    """Return the loads and stores of a loop (not of one inside it) whose addresses can be advanced."""
    varying = frozenset(n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    found = (
        _advance(module, access, loop, varying)
        for access in calls(kernel, "tl.load", "tl.store")
        if loop_around(module, access) is loop
    )
    return [advance for advance in found if advance is not None]


def _advance(module: TritonModule, access: ast.Call, loop: ast.For, varying: frozenset[str]) -> PointerAdvance | None:
    place = pointer(access)
    parts = terms(place) if place is not None else []
    moving = [part for part in parts if names_in(part) & varying]
    bounds = range_of(loop)
    if place is None or len(moving) != 1 or moving[0] is parts[0] or bounds is None:
        return None
    index, factor = _linear(moving[0], varying)
    start = _start(module, index, loop, varying, low=bounds.low) if index is not None else None
    if index is None or start is None:
        return None
    step = module.grouped(bounds.step) if bounds.step is not None else "1"
    begin, end = module.span(index)
    at, until = module.span(moving[0])
    started = f"{module.text[at:begin]}{start}{module.text[end:until]}"
    texts = [started if part is moving[0] else _term(module, part) for part in parts]
    if start == "0":
        texts.remove(started)
    step = step if factor is None else f"{step} * {module.grouped(factor)}"
    return PointerAdvance(access, place, " + ".join(texts), step)


def _linear(term: ast.expr, varying: frozenset[str]) -> tuple[ast.Name | None, ast.expr | None]:
    """Return the index and the factor of `index`, `index * factor` or `factor * index`, axes added or not."""
    index, factor = term, None
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
        left, right = term.left, term.right
        index, factor = (left, right) if names_in(left) & varying else (right, left)
    name = spread(index)
    fixed = factor is None or not names_in(factor) & varying
    return (name, factor) if isinstance(name, ast.Name) and fixed else (None, None)


def _start(
    module: TritonModule, index: ast.Name, loop: ast.For, varying: frozenset[str], *, low: ast.expr | None
) -> str | None:
    """Return the text of an index in the first round; None unless it is the loop variable plus a constant part."""
    first = [] if low is None else [module.grouped(low)]
    if reaching(module, index, index.id) is loop:
        return first[0] if first else "0"
    value = value_of(module, index, index.id)
    parts = terms(value) if value is not None else []
    moving = [part for part in parts if names_in(part) & varying]
    if len(moving) != 1 or not isinstance(moving[0], ast.Name):
        return None
    if reaching(module, moving[0], moving[0].id) is not loop:
        return None
    texts = first + [_term(module, part) for part in parts if part is not moving[0]]
    return texts[0] if len(texts) == 1 else f"({' + '.join(texts)})"


def _term(module: TritonModule, part: ast.expr) -> str:
    product = isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult)
    text = module.segment(part)
    return text if product and "\n" not in text else module.grouped(part)
