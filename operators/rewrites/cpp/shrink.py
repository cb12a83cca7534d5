"""Array contraction: a buffer whose elements live in one iteration of a loop gets the room of one iteration.

It is declared in the body of that loop, as a scalar, a local array or a shorter `std::vector`; threads that share the
loop then have one each.  Legal when the buffer is used in that loop alone, when one iteration touches one row of it,
and when every read is of an element that the same iteration has written for certain.
From: Sarkar and Gao, "Optimization of array accesses by collective loop transformations", 1991.
"""

import re
from dataclasses import dataclass, replace

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.base import LoopSite, add, mul
from operators.rewrites.cpp.ir.accesses import buffer_of, buffer_size, constants
from operators.rewrites.cpp.ir.affine import Poly
from operators.rewrites.cpp.ir.coverage import covered
from operators.rewrites.cpp.ir.dependence import scan_before
from operators.rewrites.cpp.ir.paths import at, loop_at, paths, splice
from operators.rewrites.cpp.ir.writer import write_expr

LONGEST_ARRAY = 4096
"""Most elements of a local array; longer rows, and those of a size that varies, are a `std::vector`."""
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class _Room:
    """What one iteration of a loop needs of a buffer."""

    name: str
    kind: str
    path: ir.Path
    loop: ir.For  # with the new subscripts
    size: Poly


class Shrink:
    """Room for one iteration of a loop in place of a whole buffer."""

    name = "shrink"

    def sites(self, program: ir.Program) -> list[LoopSite]:
        """Return all buffers at once, if there are several, and then each buffer."""
        rooms = [(path, room) for path, stmt in paths(program.body) if (room := _room(program, path, stmt)) is not None]
        found = [LoopSite(path, f"{room.name} in loop {room.loop.var}") for path, room in rooms]
        every = [LoopSite((), f"all {len(found)} buffers", ("all",))] if len(found) > 1 else []
        return every + found

    def apply(self, program: ir.Program, site: LoopSite) -> ir.Program:
        """Move the buffer of a site, or one after the other until none is left."""
        if site.detail != ("all",):
            return _shrunk(program, site.path)
        while left := self.sites(program):
            program = _shrunk(program, left[-1].path)
        return program


def _room(program: ir.Program, path: ir.Path, stmt: ir.Stmt) -> _Room | None:
    """Return the room of a declared buffer in the innermost loop that it can move into; None if unsure."""
    buffer = buffer_of(stmt)
    if buffer is None or buffer_size(stmt) is None or not _only_subscripted(program, buffer[0]):
        return None
    name, kind = buffer
    uses = _uses(program.body, name)
    around = [p for p, s in paths(program.body) if isinstance(s, ir.For) and _uses(s.body, name) == uses > 0]
    for where in reversed(around):  # a loop comes before those inside it
        if where == path[: len(where)]:  # what it holds is fresh in each iteration already
            return None
        if (found := _in_loop(program, where, name)) is not None:
            return _Room(name, kind, where, *found)
    return None


def _uses(body: tuple[ir.Stmt, ...], name: str) -> int:
    return sum(isinstance(expr, ir.Index) and expr.base == name for expr in ir.all_exprs(body))


def _only_subscripted(program: ir.Program, name: str) -> bool:
    """Say whether the name stands for one buffer, and wherever it is used has one subscript behind it."""
    taken = [param.name for param in program.params]
    texts = [program.head] if "define" in program.head else []
    declared = []
    for stmt in ir.walk_stmts(program.body):
        match stmt:
            case ir.For():
                taken.append(stmt.var)
                texts += stmt.pragmas
            case ir.Decl():
                taken.append(stmt.name)
            case ir.Raw():
                declared += _WORD.findall(stmt.text)
            case _:
                pass
    for expr in ir.all_exprs(program.body):
        match expr:
            case ir.Var(found) | ir.Call(found, _):
                taken.append(found)
            case ir.Index(found, subs) if len(subs) != 1:
                taken.append(found)
            case ir.RawExpr(text) | ir.Num(text):
                texts.append(text)
            case _:
                pass
    return declared.count(name) == 1 and name not in {*taken, *_WORD.findall(" ".join(texts))}


def _in_loop(program: ir.Program, path: ir.Path, name: str) -> tuple[ir.For, Poly] | None:
    """Return a loop with subscripts in the row of one iteration, and the length of that row; None if it has none."""
    loop = loop_at(program.body, path)
    nest = (at(program.body, path[:end]) for end in range(1, len(path) + 1))
    open_loops = [stmt for stmt in nest if isinstance(stmt, ir.For)]
    if any("collapse" in pragma for stmt in open_loops for pragma in stmt.pragmas):
        return None
    outer, inner = {stmt.var for stmt in open_loops}, {s.var for s in ir.walk_stmts(loop.body) if isinstance(s, ir.For)}
    declared = {s.name for s in ir.walk_stmts(program.body) if isinstance(s, ir.Decl)}
    fixed = _sizes(program) - declared
    named = {e for e in ir.all_exprs(loop.body) if isinstance(e, ir.Index) and e.base == name}
    used = set().union(*(ir.expr_names(e.subs[0]) for e in named))
    if outer & inner or used & declared or not used <= fixed | outer | inner:
        return None

    def in_row(expr: ir.Expr) -> ir.Expr:
        if not (isinstance(expr, ir.Index) and expr.base == name):
            return expr
        return ir.Index(name, (ir.map_expr(expr.subs[0], lambda e: _without(e, outer)),))

    changed = replace(loop, body=ir.map_body(loop.body, in_row))
    size = _row_length(program, path, (loop, changed), name)
    if size is None or not size.terms or not size.symbols <= fixed:
        return None
    return (changed, size) if covered(scan_before(program, path), changed, name, size) else None


def _sizes(program: ir.Program) -> set[str]:
    """Return the parameters and constants that keep their values."""
    assigned = {s.target for s in ir.walk_stmts(program.body) if isinstance(s, ir.Assign)}
    given = {param.name for param in program.params if not param.pointer} | set(constants(program.head))
    return {each for each in given if ir.Var(each) not in assigned}


def _row_length(program: ir.Program, path: ir.Path, forms: tuple[ir.For, ir.For], name: str) -> Poly | None:
    """Return how far one iteration is from the next in a buffer; None where its accesses differ in that.

    `forms` are the loop with whole subscripts and with those in a row: the difference is where the row begins.
    """
    whole, in_row = scan_before(program, path), scan_before(program, path)
    symbol = f"{forms[0].var}@{len(whole.spans)}"
    whole.stmt(forms[0])
    in_row.stmt(forms[1])
    before, after = ([a.index for a in scan.accesses if a.array == name] for scan in (whole, in_row))
    rows = {b - a if b is not None and a is not None else None for b, a in zip(before, after, strict=True)}
    row = rows.pop() if len(rows) == 1 else None
    return None if row is None else row.stride(symbol)


def _without(expr: ir.Expr, gone: set[str]) -> ir.Expr:
    """Return a part of a subscript, its own parts done, where some variables are 0."""
    match expr:
        case ir.Var(name) if name in gone:
            return ir.ZERO
        case ir.Cast(_, value) if value == ir.ZERO:
            return ir.ZERO
        case ir.Binary("*", left, right) if ir.ZERO in (left, right):
            return ir.ZERO
        case ir.Binary("+", left, right):
            return add(left, right)
        case ir.Binary("-", left, right) if right == ir.ZERO:
            return left
        case _:
            return expr


def _shrunk(program: ir.Program, path: ir.Path) -> ir.Program:
    stmt = at(program.body, path)
    room = _room(program, path, stmt)
    if room is None:
        raise ValueError("no buffer at the site")
    body = splice(program.body, room.path, (replace(room.loop, body=_with_room(room, stmt.notes)),))
    return replace(program, body=splice(body, path, ()))


def _with_room(room: _Room, notes: tuple[str, ...]) -> tuple[ir.Stmt, ...]:
    """Return the body of the loop with the declaration: where a scalar is first set, else in front."""
    length, body = _expr_of(room.size), room.loop.body
    if length == ir.ONE:
        body = ir.map_body(body, lambda e: ir.Var(room.name) if isinstance(e, ir.Index) and e.base == room.name else e)
        first = next(n for n, stmt in enumerate(body) if room.name in ir.names_in((stmt,)))
        match body[first]:
            case ir.Assign(ir.Var(name), "=", value) if name == room.name:
                start = ir.Decl(room.kind, name, (), value, notes=(*notes, *body[first].notes), after=body[first].after)
                return (*body[:first], start, *body[first + 1 :])
            case _:
                return (ir.Decl(room.kind, room.name, notes=notes), *body)
    if isinstance(length, ir.Num) and int(length.text) <= LONGEST_ARRAY:
        return (ir.Decl(room.kind, room.name, (length,), notes=notes), *body)
    return (ir.Raw(f"std::vector<{room.kind}> {room.name}({write_expr(length)});", notes=notes), *body)


def _expr_of(size: Poly) -> ir.Expr:
    """Return a polynomial in sizes as an expression."""
    total: ir.Expr = ir.ZERO
    for names, factor in sorted(size.terms, key=lambda term: term[1] < 0):
        product: ir.Expr = ir.Num(str(abs(factor)))
        for name in names:
            product = mul(product, ir.Var(name))
        total = add(total, product) if factor > 0 else ir.Binary("-", total, product)
    return total
