"""Common parts of the rewrites: sites, fresh names, tunable lines and small loop builders."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.ir.accesses import buffer_of, constants
from operators.rewrites.cpp.ir.paths import paths
from operators.rewrites.library import unused_name


@dataclass(frozen=True, slots=True)
class LoopSite:
    """A place where a rewrite is legal."""

    path: ir.Path
    """The path of its statement."""
    label: str
    """Its name, for people."""
    detail: tuple[str, ...] = ()
    """Further values of the rewrite."""


@dataclass(frozen=True, slots=True)
class NewTunable:
    """A tunable constant to add."""

    name: str
    """Its name."""
    default: int
    """Its first value."""
    values: tuple[int, ...]
    """All its values."""


# ---------------------------------------------------------------------------- file text

LONGEST_TILE = 64
"""Most steps of a loop with a literal bound that counts as one over a tile."""
_NO_DESCRIPTION = re.compile(r"//\s*(?:tune-where:|endregion\b)")


def fresh(program: ir.Program, name: str, *taken: str) -> str:
    """Return the name, with a number behind it if the file uses it already."""
    used = ir.names_in(program.body) | {p.name for p in program.params} | set(taken)
    used |= set(re.findall(r"\w+", program.head + program.tail))
    return unused_name(name, used)


def add_tunables(program: ir.Program, tunables: Sequence[NewTunable], *where: str) -> ir.Program:
    """Declare tunable constants, with constraints, in front of the kernel function."""
    lines = [f"constexpr int {t.name} = {t.default};  // tune: {' '.join(map(str, t.values))}" for t in tunables]
    return add_lines(program, [*lines, *(f"// tune-where: {rule}" for rule in where)])


def add_lines(program: ir.Program, lines: Sequence[str]) -> ir.Program:
    """Put lines at the end of the file head, in front of comments that describe the kernel."""
    head = _lines(program.head)
    end = len(head)
    while end and head[end - 1].lstrip().startswith("//") and not _NO_DESCRIPTION.search(head[end - 1]):
        end -= 1
    text = "\n".join([*head[:end], *lines, *head[end:]]) + "\n"
    return replace(program, head=text)


def _lines(text: str) -> list[str]:
    """Return the lines of a text; those of C++ end at no other character than a compiler's do."""
    return text.removesuffix("\n").split("\n") if text else []


def add_include(program: ir.Program, header: str) -> ir.Program:
    """Include a standard header unless the file has it."""
    line = f"#include <{header}>"
    if line in program.head:
        return program
    head = _lines(program.head)
    last = max((n for n, text in enumerate(head) if text.startswith("#include")), default=-1)
    return replace(program, head="\n".join([*head[: last + 1], line, *head[last + 1 :]]) + "\n")


def element_types(program: ir.Program) -> dict[str, str]:
    """Return the element type of each array: pointer parameters, local arrays and `std::vector`s."""
    types = {p.name: p.type.split("*")[0].removeprefix("const ").strip() for p in program.params if p.pointer}
    for stmt in ir.walk_stmts(program.body):
        if isinstance(stmt, ir.Decl) and (stmt.dims or "*" in stmt.type):
            kind = re.sub(r"\b(const|alignas\(\d+\))\s*", "", stmt.type.split("*")[0]).strip()
            types.setdefault(stmt.name, kind)
        elif (buffer := buffer_of(stmt)) is not None:
            types.setdefault(*buffer)
    return types


# ---------------------------------------------------------------------------- loops


def loops(program: ir.Program) -> list[tuple[ir.Path, ir.For]]:
    """Return all reachable loops in source order."""
    return [(path, stmt) for path, stmt in paths(program.body) if isinstance(stmt, ir.For)]


def constant_trip(program: ir.Program, loop: ir.For) -> bool:
    """Say whether the loop has constant bounds, as those over a tile have; more steps than a tile has do not count."""
    if isinstance(loop.upper, ir.Num) and loop.upper.text.isdecimal() and int(loop.upper.text) > LONGEST_TILE:
        return False
    known = set(constants(program.head))
    return loop.lower == ir.ZERO and ir.expr_names(loop.upper) <= known and ir.expr_names(loop.step) <= known


def innermost(loop: ir.For) -> bool:
    """Say whether the loop contains no other loop."""
    return not any(isinstance(stmt, ir.For) for stmt in ir.walk_stmts(loop.body))


def inside_tile(program: ir.Program, path: ir.Path) -> bool:
    """Say whether a constant-trip loop encloses the statement."""
    return any(
        isinstance(stmt, ir.For) and constant_trip(program, stmt) and len(p) < len(path) and path[: len(p)] == p
        for p, stmt in paths(program.body)
    )


def add(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """Return `left + right`, leaving out zeros."""
    if left == ir.ZERO:
        return right
    return left if right == ir.ZERO else ir.Binary("+", left, right)


def mul(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """Return `left * right`, leaving out ones."""
    if left == ir.ONE:
        return right
    return left if right == ir.ONE else ir.Binary("*", left, right)


def whole(value: ir.Expr, part: ir.Expr) -> ir.Expr:
    """Return `value - value % part`; for a value that is a multiple of a divisor of `part`, of its own whole."""
    match value:
        case ir.Binary("-", left, ir.Binary("%", again, divisor)) if left == again and (
            part == divisor or (isinstance(part, ir.Binary) and divisor in (part.left, part.right))
        ):
            return ir.Binary("-", left, ir.Binary("%", left, part))
        case _:
            return ir.Binary("-", value, ir.Binary("%", value, part))


def whole_steps(loop: ir.For, part: ir.Expr) -> ir.Expr:
    """Return the upper bound of the part of the loop's range that whole steps of `part` cover."""
    if loop.lower == ir.ZERO:
        return whole(loop.upper, part)
    match loop.upper:
        case ir.Binary("+", low, length) if low == loop.lower:
            return ir.Binary("+", low, whole(length, part))
        case _:
            return ir.Binary("+", loop.lower, whole(ir.Binary("-", loop.upper, loop.lower), part))


def tile_loop(var: str, trip: ir.Expr, body: tuple[ir.Stmt, ...], *, unroll: bool = False) -> ir.For:
    """Return a constant-trip loop over a local tile."""
    return ir.For(var, ir.ZERO, trip, ir.ONE, body, "int", ("GCC unroll 16",) if unroll else ())
