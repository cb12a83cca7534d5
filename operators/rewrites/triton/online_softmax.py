"""Maximum and sum of exponentials in one pass: a higher maximum rescales the sum.

Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018), arXiv:1805.02867.
"""

import ast
import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from operators.rewrites.triton.analysis import range_of
from operators.rewrites.triton.source import TritonKernel, TritonModule, called, dotted, names_in, same
from operators.rewrites.triton.span_edits import SpanEdits, TritonRewrite
from operators.rewrites.triton.structure import (
    blocks_in,
    bound_names,
    calls,
    carried,
    fresh_in,
    has_effect,
    lines_of,
    read_names,
    single,
    updated,
)

_EXPONENTIALS = ("tl.exp", "tl.exp2", "tl.math.exp", "tl.math.exp2")
_SIMPLE = (ast.Assign, ast.AugAssign, ast.Expr)


@dataclass(frozen=True, slots=True)
class _Passes:
    """Two loops over the same values: `top = max(top, value)`, then `total += weight(value - peak)`."""

    first: ast.For
    second: ast.For
    between: Sequence[ast.stmt]
    start: ast.stmt
    """The statement among those between that sets the total to zero."""
    top: str
    raised: ast.expr
    """The value that the first loop gives `top`."""
    peak: str
    """The reduced maximum; `top` itself where the loop keeps it reduced."""
    total: str
    weight: ast.expr
    """The summand of the second loop."""
    exponential: ast.Call
    """The one exponential in the summand."""


class Online(TritonRewrite):
    """Fusion of a pass that finds the maximum with the next, which sums exponentials less that maximum."""

    name = "online"

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, _Passes]]:
        """Yield the pairs of loops."""
        for passes in _passes(kernel):
            yield f"{kernel.name}: {passes.top} and {passes.total} in one pass", passes

    def edit(self, edits: SpanEdits, kernel: TritonKernel, passes: _Passes) -> None:
        """Write one loop in the place of two."""
        module = edits.module
        edits.insert_before(passes.first, lines_of(module, passes.start, passes.start))
        update = passes.first.body[-1]
        edits.replace_lines(update, update, _round(kernel, passes))
        gap = [stmt for stmt in passes.between if stmt is not passes.start]
        lines = [line for stmt in gap for line in lines_of(module, stmt, stmt)]
        if passes.peak != passes.top:  # the lanes' totals, each relative to its own maximum, to the common one
            rescale = _Replaced({ast.dump(_value(passes)): passes.top}).text(passes.exponential)
            lines.append(f"{passes.total} *= {rescale}")
        edits.replace_lines(passes.between[0], passes.second, lines)


def _round(kernel: TritonKernel, passes: _Passes) -> list[str]:
    """Return one round on a block of values. A lane that has seen only -inf keeps a total of 0: exp(-inf - 0)."""
    top, total = passes.top, passes.total
    raised, shift = fresh_in(kernel.node, "raised"), fresh_in(kernel.node, "shift")
    rescale = _Replaced({ast.dump(_value(passes)): top, passes.peak: shift}).text(passes.exponential)
    lanes = passes.peak != top
    weight = _Replaced({passes.peak: shift}, through_index=lanes).text(passes.weight)
    return [
        f"{raised} = {ast.unparse(passes.raised)}",
        f'{shift} = tl.where({raised} == float("-inf"), 0.0, {raised})',
        f"{total} = {total} * {rescale} + {weight}",
        f"{top} = {raised}",
    ]


class _Replaced(ast.NodeTransformer):
    """Replacement of names, or of expressions by their dump, in an expression.

    A reduced value is indexed to spread over the lanes (`peak[:, None]`). Where the new name holds one value per lane,
    the index goes too.
    """

    def __init__(self, names: dict[str, str], *, through_index: bool = True) -> None:
        self._names, self._through = names, through_index

    def text(self, expr: ast.expr) -> str:
        return ast.unparse(self.visit(copy.deepcopy(expr)))

    def visit(self, node: ast.AST) -> ast.AST:
        inner = node.value if self._through and isinstance(node, ast.Subscript) else node
        for key in (ast.dump(node), dotted(inner)):
            if key in self._names:
                return ast.Name(self._names[key])
        result: ast.AST = super().visit(node)
        return result


def _passes(kernel: TritonKernel) -> Iterator[_Passes]:
    for block in blocks_in(kernel.node):
        loops = [stmt for stmt in block if isinstance(stmt, ast.For)]
        for first, second in itertools.pairwise(loops):
            between = block[block.index(first) + 1 : block.index(second)]
            passes = _pair(first, second, between)
            if passes is not None and _legal(passes):
                yield passes


def _pair(first: ast.For, second: ast.For, between: Sequence[ast.stmt]) -> _Passes | None:
    alike = same(first.iter, second.iter) and same(first.target, second.target) and range_of(first) is not None
    same_lines = [ast.dump(stmt) for stmt in first.body[:-1]] == [ast.dump(stmt) for stmt in second.body[:-1]]
    if not alike or not same_lines or first.orelse or second.orelse:
        return None
    maximum, added = single(first.body[-1]), updated(second.body[-1])
    if maximum is None or added is None or not _raises(*maximum):
        return None
    (top, raised), (total, weight) = maximum, added
    values = {plain[0]: stmt for stmt in between if (plain := single(stmt))}
    start, exponential = values.get(total), _exponential(weight)
    if start is None or not _is_zero(start) or exponential is None:
        return None
    peaks = [name for name, stmt in values.items() if _is_maximum(stmt, top)]
    peak = peaks[0] if len(peaks) == 1 else top
    return _Passes(first, second, between, start, top, raised, peak, total, weight, exponential)


def _legal(passes: _Passes) -> bool:
    """Say whether the second loop may run inside the first: the loops differ in their last lines only."""
    first, second, between = passes.first, passes.second, passes.between
    stmts = [*first.body, *second.body, *between]
    if not all(isinstance(stmt, _SIMPLE) for stmt in stmts) or any(has_effect(stmt, loads=False) for stmt in stmts):
        return False
    loop, gap, seen = bound_names(first), bound_names(*between), read_names(first)
    return (
        loop[passes.top] == gap[passes.total] == bound_names(second)[passes.total] == 1
        and gap[passes.peak] == (passes.peak != passes.top)
        and not gap.keys() & (loop.keys() | seen)
        and passes.total not in loop.keys() | seen | names_in(passes.weight)
        and not (names_in(passes.weight) & gap.keys()) - {passes.peak}
        and not read_names(passes.start) & (loop.keys() | gap.keys())
        and not any(passes.total in read_names(stmt) for stmt in between if stmt is not passes.start)
        and not any(passes.top in names_in(stmt) for stmt in first.body[:-1])
        and not carried(first) - {passes.top}
        and _scales(passes)
    )


def _raises(name: str, value: ast.expr) -> bool:
    if not isinstance(value, ast.Call) or not called(value, "tl.maximum") or len(value.args) != 2 or value.keywords:
        return False
    return [dotted(argument) for argument in value.args].count(name) == 1


def _value(passes: _Passes) -> ast.expr:
    """Return the values that both loops see: the maximum's other argument, less a reduction around it."""
    assert isinstance(passes.raised, ast.Call)
    other = next(argument for argument in passes.raised.args if dotted(argument) != passes.top)
    return other.args[0] if isinstance(other, ast.Call) and called(other, "tl.max") and other.args else other


def _is_zero(stmt: ast.stmt) -> bool:
    match stmt:
        case ast.Assign(value=ast.Constant(value=0)):
            return True
        case ast.Assign(value=ast.Call(args=[_, ast.Constant(value=0), *_]) as call) if called(call, "tl.full"):
            return True
        case ast.Assign(value=ast.Call() as call):
            return called(call, "tl.zeros", "tl.zeros_like")
    return False


def _is_maximum(stmt: ast.stmt, top: str) -> bool:
    plain = single(stmt)
    return plain is not None and called(plain[1], "tl.max") and names_in(plain[1]) - {"tl"} == {top}


def _exponential(weight: ast.expr) -> ast.Call | None:
    """Return the one exponential in the second loop's summand: the summand, or the whole argument of a `tl.sum`."""
    if isinstance(weight, ast.Call) and called(weight, "tl.sum") and weight.args:
        weight = weight.args[0]
    return weight if isinstance(weight, ast.Call) and called(weight, *_EXPONENTIALS) else None


def _scales(passes: _Passes) -> bool:
    """Say whether a new maximum multiplies the weight by that exponential of the difference, lane by lane."""
    if len(passes.exponential.args) != 1 or passes.exponential.keywords:
        return False
    assert isinstance(passes.raised, ast.Call)
    value = _value(passes)
    reduced = any(called(argument, "tl.max") for argument in passes.raised.args)
    if reduced != (passes.peak == passes.top) or reduced != called(passes.weight, "tl.sum"):
        return False
    return _is_scaled_difference(passes.exponential.args[0], value, passes.peak)


def _is_scaled_difference(expr: ast.expr, value: ast.expr, peak: str) -> bool:
    """Say whether an expression is `value - peak`, or it or both its sides times one steady factor."""
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Sub):
        left = _Replaced({ast.dump(value): "_"}).visit(copy.deepcopy(expr.left))
        right = _Replaced({peak: "_"}).visit(copy.deepcopy(expr.right))
        return isinstance(left, ast.expr) and same(left, right) and _is_linear(left, names_in(value) | {peak})
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Mult):
        for difference, factor in ((expr.left, expr.right), (expr.right, expr.left)):
            if _is_steady(factor, names_in(value) | {peak}) and _is_scaled_difference(difference, value, peak):
                return True
    return False


def _is_linear(expr: ast.expr, varying: frozenset[str]) -> bool:
    """Say whether an expression is `_`, or `_` times a steady factor, in fp32 or as it is."""
    match expr:
        case ast.Name(id=name):
            return name == "_"
        case ast.Call(func=ast.Attribute(value=inner, attr="to"), args=[dtype], keywords=[]):
            return dotted(dtype) == "tl.float32" and _is_linear(inner, varying)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return (_is_linear(left, varying) and _is_steady(right, varying)) or (
                _is_linear(right, varying) and _is_steady(left, varying)
            )
    return False


def _is_steady(factor: ast.expr, varying: frozenset[str]) -> bool:
    return not names_in(factor) & (varying | {"_"}) and not any(calls(factor))
