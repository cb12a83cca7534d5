"""Cheaper arithmetic of the same value, up to rounding: powers of two, reciprocals, accumulating products."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from operators.rewrites.triton.analysis import calls, spread, value_of
from operators.rewrites.triton.source import TritonKernel, TritonModule, called, dotted, keyword_of
from operators.rewrites.triton.span_edits import SpanEdits, TritonRewrite

LOG2E = "1.4426950408889634"
REDUCTIONS = ("tl.sum", "tl.max", "tl.min", "tl.reduce")


@dataclass(frozen=True, slots=True)
class ReplacedExpression:
    """A node of the tree and its new text."""

    node: ast.expr
    text: str


@dataclass(frozen=True, slots=True)
class CheapMath(TritonRewrite):
    """One kind of replacement, applied to all its places in a kernel at once."""

    name: str
    """The name of the rewrite."""
    find: Callable[[TritonModule, TritonKernel], list[ReplacedExpression]]
    """Returns the replacements in a kernel."""

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, list[ReplacedExpression]]]:
        """Yield one place per kernel, with all that is replaced in it."""
        if found := self.find(module, kernel):
            yield kernel.name, found

    def edit(self, edits: SpanEdits, kernel: TritonKernel, found: list[ReplacedExpression]) -> None:
        """Write the cheaper forms."""
        for replaced in found:
            edits.replace(replaced.node, replaced.text)


def _powers_of_two(module: TritonModule, kernel: TritonKernel) -> list[ReplacedExpression]:
    """Return `exp(a - b)` as `exp2`, whose argument is one fused multiply-add."""
    found = []
    for call in calls(kernel, "tl.exp"):
        match call.args:
            case [ast.BinOp(left=left, op=ast.Sub(), right=right)]:
                inner = " - ".join(f"{_fp32(module, kernel, part)} * {LOG2E}" for part in (left, right))
            case [value]:
                inner = f"{module.grouped(value)} * {LOG2E}"
            case _:
                continue
        found.append(ReplacedExpression(call, f"tl.exp2({inner})"))
    return [one for one in found if not any(_within(one.node, other.node) for other in found)]


def _fp32(module: TritonModule, kernel: TritonKernel, part: ast.expr) -> str:
    """Return an operand in fp32, so that a block of a smaller type is not scaled in that type."""
    text = module.grouped(part)
    number = isinstance(part, ast.Constant) or dotted(part) in kernel.constexprs
    return text if number or text.endswith(".to(tl.float32)") else f"{text}.to(tl.float32)"


def _reciprocals(module: TritonModule, kernel: TritonKernel) -> list[ReplacedExpression]:
    """Return `block / norm` for a reduced `norm` with one division for the whole block."""
    found = []
    for node in ast.walk(kernel.node):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not isinstance(node.left, ast.Constant):
            norm = spread(node.right)
            value = value_of(module, norm, norm.id) if isinstance(norm, ast.Name) else None
            if called(value, *REDUCTIONS):
                text = f"{module.grouped(node.left)} * (1.0 / {module.grouped(node.right)})"
                found.append(ReplacedExpression(node, text))
    return [one for one in found if not any(_within(one.node, other.node) for other in found)]


def _within(inner: ast.expr, outer: ast.expr) -> bool:
    return inner is not outer and any(node is inner for node in ast.walk(outer))


FAST_EXP = CheapMath("fast_exp", _powers_of_two)
RECIPROCAL = CheapMath("reciprocal", _reciprocals)


_Sum = tuple[str, ast.stmt, ast.Call]
"""An accumulator, the statement that adds to it, and the product."""


class DotChain(TritonRewrite):
    """Rewrite of `acc += tl.dot(x, y)` into `acc = tl.dot(x, y, acc)`, which adds inside the matrix unit."""

    name = "dot_chain"

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, _Sum]]:
        """Yield the products whose accumulator starts as fp32."""
        for number, found in enumerate(_sums(kernel)):
            yield f"{kernel.name} {found[0]} {number}", found

    def edit(self, edits: SpanEdits, kernel: TritonKernel, found: _Sum) -> None:
        """Pass the accumulator to the product."""
        name, stmt, product = found
        parts: list[ast.expr | ast.keyword] = [*product.args, *product.keywords]
        arguments = ", ".join(edits.module.segment(part) for part in parts)
        edits.replace_lines(stmt, stmt, [f"{name} = tl.dot({arguments}, acc={name})"])


def _sums(kernel: TritonKernel) -> Iterator[_Sum]:
    for stmt in ast.walk(kernel.node):
        match stmt:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.Call() as product):
                pass
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.BinOp(left=ast.Name(id=again), op=ast.Add(), right=ast.Call() as product),
            ) if name == again:
                pass
            case _:
                continue
        plain = called(product, "tl.dot") and len(product.args) == 2 and keyword_of(product, "acc") is None
        if plain and _starts_fp32(kernel, name):
            yield name, stmt, product


def _starts_fp32(kernel: TritonKernel, name: str) -> bool:
    starts = [n.value for n in ast.walk(kernel.node) if isinstance(n, ast.Assign) and dotted(n.targets[0]) == name]
    return any(called(s, "tl.zeros", "tl.full") and "tl.float32" in ast.unparse(s) for s in starts)
