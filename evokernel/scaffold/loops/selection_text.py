"""Sums, the best of several elements, and their order, in C++."""

from collections.abc import Sequence

from evokernel.scaffold.loops.expression_text import ExpressionText, wrapped
from evokernel.scaffold.loops.operation_graph import SCANS, Node

_KEEPING = """static inline {kind} {name}_or_nan({kind} best, {kind} value) {{
    return best {sign} value || best != best ? best : value;
}}

"""


def keeping_nan(source: str) -> str:
    """Return a kernel whose extrema of several numbers are NaN where one of them is: two comparisons for each number.

    It is as it was where it has no such extrema.
    """
    used = dict[str, None]()
    lines = [_keeping(line, used) for line in source.splitlines(keepends=True)]
    place = next((place for place, line in enumerate(lines) if not line.startswith("#include ") and line.strip()), 0)
    return "".join([*lines[:place], *sorted(used), *lines[place:]])


def _keeping(line: str, used: dict[str, None]) -> str:
    """Return a line with its extremum, if it takes one more number into one, as a call of a function in `used`."""
    total, _, rest = line.partition(" = std::")
    for name, sign in (("max", ">="), ("min", "<=")):
        for kind in ("float", "double"):
            begin = f"{name}<{kind}>({total.strip()}, "
            if rest.startswith(begin) and rest.endswith(");\n"):
                used[_KEEPING.format(kind=kind, name=name, sign=sign)] = None
                return f"{total} = {name}_or_nan({total.strip()}, {rest.removeprefix(begin)}"
    return line


def accumulate(op: str, total: str, texts: list[ExpressionText], *, whole: bool) -> str:
    """Return the statement that takes one more element, the factors of one, or another total into a total."""
    if op in ("amax", "amin"):
        kind = "int64_t" if whole else "float"  # a total is never NaN: std::fmax would cost instructions for that
        return f"{total} = std::{op[1:]}<{kind}>({total}, {texts[0].text});"
    if op in ("prod", "cumprod"):
        return f"{total} *= {texts[0].text};"
    if op == "matmul" and len(texts) > 1:
        return f"{total} += {wrapped(texts[0], 6)} * {wrapped(texts[1], 7)};"
    return f"{total} += {texts[0].text};"


def before(node: Node, value: str, best: str) -> str:
    """Return the condition that a value takes the place of the best one.

    Of equal ones the first is the best of all, the last the best so far; no number is better than NaN.
    """
    so_far = node.op in SCANS
    beats = f"{value} {'>' if node.op.endswith('max') else '<'}{'=' * so_far} {best}"
    if node.args[0].kind != "float":
        return beats
    return f"{beats} || {value} != {value}" if so_far else f"{beats} || ({value} != {value} && {best} == {best})"


def order_lines(node: Node, names: Sequence[str], *, length: str, count: str) -> tuple[list[str], str]:
    """Return the declarations in front of the loops over rows, and the statement that puts one in order.

    `names` are those of a row, of its places, and of their comparison, for which NaN is the largest number.
    """
    (row, order, comparison), source = names, node.args[0]
    one, other = (f"{row}[a]", f"{row}[b]") if node.attrs[0] else (f"{row}[b]", f"{row}[a]")
    first = f"{one} > {other}"
    if source.kind == "float":
        first += f" || ({one} != {one} && {other} == {other})"
    sort = f"std::stable_sort({order}.begin(), {order}.end(), {comparison});"
    if node.shape[-1] != source.shape[-1]:
        stable = f"[&](int64_t a, int64_t b) {{ return {comparison}(a, b) || (!{comparison}(b, a) && a < b); }}"
        sort = f"std::partial_sort({order}.begin(), {order}.begin() + {count}, {order}.end(), {stable});"
    declared = [
        f"std::vector<{'char' if source.kind == 'bool' else source.kind}> {row}({length});",
        f"std::vector<int64_t> {order}({length});",
        f"const auto {comparison} = [&](int64_t a, int64_t b) {{ return {first}; }};",
    ]
    return declared, sort
