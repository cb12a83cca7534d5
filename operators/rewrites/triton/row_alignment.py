"""`row_alignment`: wide loads and stores also where a row is 3000 or 4104 numbers long.

Triton learns of a whole number only whether it is a multiple of 16. Where it is not, the rows of a matrix with so many
columns may begin anywhere for all that the compiler knows, and it moves numbers one at a time, without asynchronous
copies. 3000 and 4104 are multiples of 8.
"""

import ast
from collections.abc import Iterator

from operators.rewrites.triton.analysis import binds, bounds_of, calls
from operators.rewrites.triton.source import ROW_UNIT, TritonKernel, TritonModule, called, dotted, names_in, restated
from operators.rewrites.triton.span_edits import Argument, SpanEdits, TritonRewrite
from operators.rewrites.triton.structure import code_of

WIDEST = 16
"""Numbers of one byte in the widest load; a larger divisor tells the compiler nothing."""


class RowAlignment(TritonRewrite):
    """Statements `N = N // UNIT * UNIT` at the head of a kernel, where UNIT divides N and is known at compile time.

    They change no value, and tell the compiler what N is a multiple of.
    """

    name = "row_alignment"

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, list[str]]]:
        """Yield the sizes from its launches that a kernel makes addresses or masks with, if any."""
        if sizes := _sizes(module, kernel):
            yield f"{kernel.name} {' '.join(sizes)}", sizes

    def edit(self, edits: SpanEdits, kernel: TritonKernel, sizes: list[str]) -> None:
        """Write a divisor of each size, as each launch passes it."""
        module = edits.module
        units = [
            edits.add_parameter(kernel, ROW_UNIT + size.upper(), constexpr=True, argument=_divisor(module, size))
            for size in sizes
        ]
        lines = [f"{size} = {size} // {unit} * {unit}" for size, unit in zip(sizes, units, strict=True)]
        edits.insert_before(code_of(kernel)[0], lines)
        imports = [stmt for stmt in module.tree.body if isinstance(stmt, ast.Import | ast.ImportFrom)]
        imported = [alias for stmt in imports if isinstance(stmt, ast.Import) for alias in stmt.names]
        if not any(alias.name == "math" and alias.asname is None for alias in imported):
            edits.insert_before(imports[0], ["import math"])


def _divisor(module: TritonModule, size: str) -> Argument:
    return lambda launch: f"math.gcd({module.segment(module.passed(launch, size))}, {WIDEST})"


def _sizes(module: TritonModule, kernel: TritonKernel) -> list[str]:
    """Return the parameters by which addresses are multiplied, and those that masks compare with, in their order.

    A mask that may change at any number lets no load be wide, however well its rows are aligned.
    """
    launches, known = module.launches_of(kernel), {restated(stmt) for stmt in kernel.node.body}
    factors = {
        factor.id
        for part in _addresses(kernel)
        for product in ast.walk(part)
        if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult)
        for factor in (product.left, product.right)
        if isinstance(factor, ast.Name)
    }
    factors |= {
        bound.limit.id
        for access in calls(kernel, "tl.load", "tl.store")
        for bound in bounds_of(module, access)
        if isinstance(bound.limit, ast.Name)
    }
    return [
        name
        for name in kernel.params
        if name in factors - kernel.constexprs - known
        and not binds(kernel.node, name)
        and all(module.argument_of(launch, name) is not None for launch in launches)
    ]


def _addresses(kernel: TritonKernel) -> Iterator[ast.expr]:
    """Yield the addresses of loads and stores, and what the names in them were made of, but for what was loaded."""
    made: dict[str, list[ast.expr]] = {}
    for stmt in ast.walk(kernel.node):
        if isinstance(stmt, ast.Assign | ast.AugAssign):
            for target in stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]:
                made.setdefault(dotted(target), []).append(stmt.value)
    waiting = [access.args[0] for access in calls(kernel, "tl.load", "tl.store") if access.args]
    seen: set[str] = set()
    while waiting:
        part = waiting.pop()
        yield part
        for name in names_in(part) - seen:
            seen.add(name)
            waiting += [value for value in made.get(name, []) if not any(called(n, "tl.load") for n in ast.walk(value))]
