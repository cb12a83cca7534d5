"""Order of loops: the innermost one goes through memory element by element where it can."""

import re
from collections.abc import Iterator, Sequence

from evokernel.scaffold.loops.expression_text import ExpressionText
from evokernel.scaffold.loops.operation_graph import VIEWS, Node, OperationGraph
from evokernel.scaffold.loops.vector_functions import ANY

LANES = 16
"""Totals of one reduction that goes through memory: floats of the widest vector registers."""
_FEWEST = 4 * LANES
"""Elements of a reduction of known length that gets so many totals."""
_WORD = re.compile(r"\w+")
_SUBSCRIPT = re.compile(r"\[([^][]*)\]")
_TERM = re.compile(r"(?:^|\+ )\(?@(?: [+-] [^][()*/%@]+)?\)?(?= \+|$)")


def in_rows(graph: OperationGraph, matrix: Node) -> Node:
    """Return a matrix whose rows lie in memory as rows: a copy where it was transposed."""
    if matrix.op == "collapse" and matrix.attrs[1] != len(matrix.args[0].shape) - 1:
        inner = in_rows(graph, matrix.args[0])
        return graph.node("collapse", (inner,), attrs=matrix.attrs, shape=matrix.shape, kind=matrix.kind)
    seen = matrix
    while seen.op in VIEWS:
        order = seen.attrs[0] if seen.op == "transpose" else (len(seen.shape) - 1,)
        if isinstance(order, tuple) and order[-1] != len(seen.shape) - 1:
            return graph.node("copy", (matrix,), shape=matrix.shape, kind=matrix.kind)
        seen = seen.args[0]
    return matrix


def runs_along(texts: list[str], variable: str) -> bool:
    """Say whether the next value of a loop variable means the next, or the same, element of each buffer that is read.

    `texts` are expressions in C++. False where all elements stay the same.
    """
    moves = [_moves(subscript) for text in texts for subscript in _subscripts(text, variable)]
    return any(moves) and None not in moves


def takes_lanes(node: Node, texts: list[ExpressionText], variable: str, extent: int) -> bool:
    """Say whether a sum or an extremum goes through memory along a variable, with nothing but what vectors can do."""
    written = [each.text for each in texts]
    plain = not any("std::" in ANY.sub("", text) or "?" in text for text in written)
    lanes = node.op in ("sum", "matmul", "amax", "amin") and node.kind == "float"
    return lanes and extent >= _FEWEST and plain and runs_along(written, variable)


def lane_loops(variable: str, size: str, *, lane: str, step: str, rest: Sequence[str]) -> list[str]:
    """Return the loops of a reduction whose elements go to several totals by turns, and those over what is left."""
    size = size if size.isalnum() else f"({size})"
    whole = f"{size} / {LANES} * {LANES}"
    return [
        f"for (int64_t {variable} = 0; {variable} < {whole}; {variable} += {LANES}) {{",
        *("    " + line for line in over_lanes(lane, step)),
        "}",
        f"for (int64_t {variable} = {whole}; {variable} < {size}; ++{variable}) {{",
        *("    " + line for line in rest),
        "}",
    ]


def over_lanes(lane: str, step: str) -> list[str]:
    """Return a loop over several totals."""
    return [f"for (int64_t {lane} = 0; {lane} < {LANES}; ++{lane}) {{", f"    {step}", "}"]


def _subscripts(text: str, variable: str) -> Iterator[str]:
    """Yield the subscript of each buffer, with @ for the variable and behind a name that is looked up by it."""
    text = _WORD.sub(lambda found: "@" if found[0] == variable else found[0], text)
    while found := _SUBSCRIPT.search(text):
        yield found[1]
        text = text[: found.start()] + "@" * ("@" in found[1]) + text[found.end() :]


def _moves(subscript: str) -> bool | None:
    """Return whether a subscript changes with @; None where it does so by other than one."""
    rest, count = _TERM.subn("", subscript)
    return None if count > 1 or "@" in rest else count == 1
