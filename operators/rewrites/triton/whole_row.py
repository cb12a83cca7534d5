"""`whole_row`: loops over blocks of a row become straight code that loads the row once, in one block."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from operators.rewrites.triton.analysis import binds, range_of
from operators.rewrites.triton.source import (
    LaunchSite,
    TritonKernel,
    TritonModule,
    called,
    dotted,
    keyword_of,
    names_in,
)
from operators.rewrites.triton.span_edits import SpanEdits, TritonRewrite
from operators.rewrites.triton.structure import (
    blocks_in,
    bound_names,
    calls,
    fresh_in,
    has_effect,
    indented,
    launched,
    lines_of,
    only_launch,
    single,
)

_VALUES_PER_WARP = 4096  # 128 a thread: more do not fit into registers
_VALUES = 65536  # as many as a multiprocessor has registers


@dataclass(frozen=True, slots=True)
class _Rows:
    """Loops of one block of statements over `range(0, bound, block)`, and all statements between them."""

    region: Sequence[ast.stmt]
    loops: Sequence[ast.For]
    bound: ast.expr
    length: str
    """The bound, as `run` would write it at the launch."""
    block: str


class WholeRow(TritonRewrite):
    """A row in one block where it fits into registers: the loops over it then run once, and become straight code.

    `run` decides per shape and passes the decision as a constexpr; a longer row goes block by block as before.
    """

    name = "whole_row"

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, _Rows]]:
        """Yield the runs of loops over the same row."""
        for rows in _rows(module, kernel):
            yield f"{kernel.name} over {module.segment(rows.bound)}", rows

    def edit(self, edits: SpanEdits, kernel: TritonKernel, rows: _Rows) -> None:
        """Write both ways through the row."""
        module = edits.module
        (launch,) = module.launches_of(kernel)
        bound, tunable = rows.length, module.passed(launch, rows.block)
        name = fresh_in(module.run, "block")
        flag = edits.add_parameter(kernel, "ONE_BLOCK", constexpr=True, argument=f"{bound} <= {name}")
        warps = keyword_of(launch.call, "num_warps")
        fits = f"{module.grouped(warps) if warps is not None else 4} * {_VALUES_PER_WARP}"
        choice = f"triton.next_power_of_2({bound}) if {bound} <= min({_VALUES}, {fits}) else {module.segment(tunable)}"
        edits.insert_before(module.statement_of(launch.call), [f"{name} = {choice}"])
        for use in _uses(launch, module.segment(tunable)):
            edits.replace(use, name)
        first, last = rows.region[0], rows.region[-1]
        straight = _straight(module, rows)
        looped = lines_of(module, first, last)
        edits.replace_lines(first, last, [f"if {flag}:", *indented(straight), "else:", *indented(looped)])


def _rows(module: TritonModule, kernel: TritonKernel) -> Iterator[_Rows]:
    launch = only_launch(module, kernel)
    if launch is None:
        return
    for block in blocks_in(kernel.node):
        found: dict[tuple[str, str], list[ast.For]] = {}
        for stmt in block:
            over = _row_loop(kernel, stmt)
            if over is not None and isinstance(stmt, ast.For):
                found.setdefault((ast.dump(over[0]), over[1]), []).append(stmt)
        for loops in found.values():
            bound, size = _row_loop(kernel, loops[0]) or (None, "")
            length = launched(module, launch, bound) if bound is not None else None
            if bound is None or length is None or _is_fallback(module, loops[0]):
                continue
            if _host_decides(module, launch, bound, size, length=length):
                region = block[block.index(loops[0]) : block.index(loops[-1]) + 1]
                yield _Rows(region, loops, bound, length, size)


def _row_loop(kernel: TritonKernel, stmt: ast.stmt) -> tuple[ast.expr, str] | None:
    """Return the bound and block of a plain `for start in range(0, bound, BLOCK)` that multiplies no matrices."""
    bounds = range_of(stmt) if isinstance(stmt, ast.For) else None
    if bounds is None or bounds.low is not None or bounds.step is None or not isinstance(stmt, ast.For):
        return None
    size, counter = dotted(bounds.step), dotted(stmt.target)
    if size not in kernel.constexprs or stmt.orelse or any(binds(inner, counter) for inner in stmt.body):
        return None
    for node in ast.walk(stmt):
        method = isinstance(node, ast.Attribute) and dotted(node.value) == counter  # in straight code it is a plain 0
        if method or isinstance(node, (ast.Break, ast.Continue)) or called(node, "tl.dot"):
            return None
    return bounds.high, size


def _host_decides(module: TritonModule, launch: LaunchSite, bound: ast.expr, block: str, *, length: str) -> bool:
    """Say whether `run` can choose the block by the bound: the launch passes a constant with no other use."""
    argument = module.argument_of(launch, block)
    if not isinstance(argument, ast.Name) or argument.id not in module.constants:
        return False
    everywhere = sum(isinstance(node, ast.Name) and node.id == argument.id for node in ast.walk(module.run))
    inside = module.kernels[launch.kernel]
    free = not names_in(bound) & bound_names(inside.node).keys() and not any(
        isinstance(n, ast.Call) for n in ast.walk(bound)
    )
    alone = everywhere == len(_uses(launch, argument.id))
    return alone and free and argument.id not in names_in(ast.parse(length))


def _uses(launch: LaunchSite, name: str) -> list[ast.Name]:
    """Return the places where a launch's arguments name a constant."""
    arguments = [*launch.call.args, *(keyword.value for keyword in launch.call.keywords)]
    nodes = [node for argument in arguments for node in ast.walk(argument)]
    return [node for node in nodes if isinstance(node, ast.Name) and node.id == name]


def _is_fallback(module: TritonModule, loop: ast.For) -> bool:
    """Say whether a constexpr flag already chooses between this loop and another way."""
    parent = module.parents[loop]
    return isinstance(parent, ast.If) and loop in parent.orelse and isinstance(parent.test, ast.Name)


def _straight(module: TritonModule, rows: _Rows) -> list[str]:
    """Return the region for a single round: loop bodies in a row, without values that are known already."""
    known = _Known()
    lines: list[str] = []
    for stmt in rows.region:
        if stmt in rows.loops and isinstance(stmt, ast.For):
            lines += known.assign(dotted(stmt.target), ast.Constant(0), ["0"])
            for inner in stmt.body:
                lines += known.line(module, inner)
        else:
            lines += known.line(module, stmt)
    return lines


class _Known:
    """Values of variables at a point of straight code."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[str, ast.expr]] = {}

    def line(self, module: TritonModule, stmt: ast.stmt) -> list[str]:
        """Return the lines for a statement, and note its changes."""
        text = lines_of(module, stmt, stmt)
        plain = single(stmt)
        if plain is not None and not any(_writes(call) for call in calls(stmt)):
            text[0] = text[0][len(plain[0]) :].lstrip()[1:].lstrip()
            return self.assign(*plain, text)
        self._invalidate(set(bound_names(stmt)), memory=has_effect(stmt, loads=False))
        return text

    def assign(self, name: str, value: ast.expr, text: list[str]) -> list[str]:
        """Return the lines for `name = value`: none where the name holds that value, a copy where another one does."""
        key = ast.dump(value)
        holder = self._values.get(key, ("", value))[0]
        if holder == name:
            return []
        self._invalidate({name}, memory=False)
        if holder:
            return [f"{name} = {holder}"]
        if name not in names_in(value):
            self._values[key] = name, value
        return [f"{name} = {text[0]}", *text[1:]]

    def _invalidate(self, names: set[str], *, memory: bool) -> None:
        self._values = {
            key: (holder, value)
            for key, (holder, value) in self._values.items()
            if holder not in names and not names_in(value) & names and not (memory and has_effect(value))
        }


def _writes(call: ast.Call) -> bool:
    return has_effect(ast.Expr(call), loads=False)
