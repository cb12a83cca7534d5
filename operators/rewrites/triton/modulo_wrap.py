"""`modulo_wrap`: rows beyond the edge read other rows without a mask; their results are never stored."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from operators.rewrites.triton.analysis import (
    Bound,
    bounds_of,
    calls,
    conjuncts,
    loop_around,
    pointer,
    reaching,
    value_of,
)
from operators.rewrites.triton.source import (
    TritonKernel,
    TritonModule,
    called,
    dotted,
    fresh,
    keyword_of,
    names_in,
    same,
)
from operators.rewrites.triton.span_edits import SpanEdits, TritonRewrite

KEEPS_ROWS = re.compile(
    r"range|min|max|tl\.(range|static_range|program_id|num_programs|swizzle2d|cdiv|arange|zeros|full|load|store|dot"
    r"|where|maximum|minimum|multiple_of|max_contiguous|assume|exp|exp2|log|log2|sqrt|rsqrt|abs|sigmoid|fma)"
)
"""Functions other than products that never mix rows or columns of a block."""


@dataclass(frozen=True, slots=True)
class WrappedLoad:
    """A load whose rows can wrap around."""

    load: ast.Call
    """The load."""
    mask: ast.expr
    """Its mask."""
    bound: Bound
    """The part of the mask to drop."""
    definition: ast.Assign
    """The statement that defines the offset."""


class ModuloWrap(TritonRewrite):
    """Rewrite of a mask `rows < M` on an operand of a product into an offset `rows % M`.

    Row i of a product depends on row i of its left operand alone (column j on that of the right one). So results of
    wrapped rows are wrong only where the store's own mask drops them.
    """

    name = "modulo_wrap"

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, WrappedLoad]]:
        """Yield the operands of products in a loop whose offset and bound the stores repeat."""
        for wrap in wraps(module, kernel):
            yield f"{kernel.name} {wrap.bound.offset} % {ast.unparse(wrap.bound.limit)}", wrap

    def edit(self, edits: SpanEdits, kernel: TritonKernel, wrap: WrappedLoad) -> None:
        """Give the load the wrapped offset, and drop that part of its mask."""
        module = edits.module
        offset = wrap.bound.offset
        wrapped = fresh(module, f"{offset}_wrapped")
        edits.insert_after(wrap.definition, [f"{wrapped} = {offset} % {module.grouped(wrap.bound.limit)}"])
        for node in _uses(pointer(wrap.load), offset):
            edits.replace(node, wrapped)
        mask, other = wrap.mask, keyword_of(wrap.load, "other")
        rest = [part for part in conjuncts(module, wrap.load, mask) if wrap.bound.compare not in ast.walk(part)]
        if rest:
            texts = [module.segment(part) for part in rest]
            edits.replace(mask, texts[0] if len(texts) == 1 else " & ".join(f"({text})" for text in texts))
        else:
            for value in (mask, other):
                if value is not None:
                    edits.replace(value, "None")


def wraps(module: TritonModule, kernel: TritonKernel) -> Iterator[WrappedLoad]:
    """Yield the loads of a kernel that may wrap, in source order."""
    if not _rows_stay_apart(module, kernel):
        return
    loads, stores = calls(kernel, "tl.load"), calls(kernel, "tl.store")
    for load in loads:
        side = _operand(module, kernel, load)
        mask = keyword_of(load, "mask")
        for bound in bounds_of(module, load):
            definition = reaching(module, load, bound.offset)
            if (
                isinstance(definition, ast.Assign)
                and mask is not None
                and _uses(pointer(load), bound.offset)  # not hidden in pointers that are advanced
                and bound.compare in ast.walk(mask)
                and all(_axis(module, use) == side for use in _uses(load, bound.offset))
                and not any(_uses(other, bound.offset) for other in loads if other is not load)
                and loop_around(module, load) not in (None, loop_around(module, definition))
                and all(_repeats(module, store, bound) for store in stores)
            ):
                yield WrappedLoad(load, mask, bound, definition)


def _rows_stay_apart(module: TritonModule, kernel: TritonKernel) -> bool:
    """Say whether only products mix rows or columns, and all their operands come straight from memory."""
    for call in (node for stmt in kernel.node.body for node in ast.walk(stmt) if isinstance(node, ast.Call)):
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if not KEEPS_ROWS.fullmatch(dotted(call.func)) and method != "to":
            return False
    operands = [arg for product in calls(kernel, "tl.dot") for arg in product.args[:2]]
    return all(isinstance(arg, ast.Name) and called(value_of(module, arg, arg.id), "tl.load") for arg in operands)


def _operand(module: TritonModule, kernel: TritonKernel, load: ast.Call) -> int | None:
    """Return the index, 0 or 1, of a load among the operands of a product; None where its value has another use."""
    stmt = module.parents[load]
    if not isinstance(stmt, ast.Assign) or not isinstance(stmt.targets[0], ast.Name):
        return None
    uses = [n for n in _uses(kernel.node, stmt.targets[0].id) if reaching(module, n, n.id) is stmt]
    others = [n for n in _uses(kernel.node, stmt.targets[0].id) if n not in uses and n is not stmt.targets[0]]
    if len(uses) != 1 or others:
        return None
    product = module.parents[uses[0]]
    if not isinstance(product, ast.Call) or not called(product, "tl.dot"):
        return None
    return product.args.index(uses[0]) if uses[0] in product.args[:2] else None


def _axis(module: TritonModule, use: ast.Name) -> int | None:
    """Return 0 for `rows[:, None]`, 1 for `cols[None, :]`."""
    around = module.parents[use]
    if isinstance(around, ast.Subscript) and isinstance(around.slice, ast.Tuple) and len(around.slice.elts) == 2:
        kinds = [isinstance(part, ast.Slice) for part in around.slice.elts]
        return {(True, False): 0, (False, True): 1}.get((kinds[0], kinds[1]))
    return None


def _repeats(module: TritonModule, store: ast.Call, bound: Bound) -> bool:
    return any(b.offset == bound.offset and same(b.limit, bound.limit) for b in bounds_of(module, store))


def _uses(node: ast.AST | None, name: str) -> list[ast.Name]:
    if node is None or name not in names_in(node):
        return []
    return [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == name]
