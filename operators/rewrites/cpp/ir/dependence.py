"""Dependence analysis: parallel loops, reductions, and the accesses behind the result.

The analysis is conservative: an access that is not understood makes its loop serial.  Sizes are assumed to be at
least 1 (a loop over an empty range orders nothing), and distinct array arguments never overlap.
"""

from dataclasses import dataclass

from operators.rewrites.cpp.ir.accesses import ArrayAccess, Scan
from operators.rewrites.cpp.ir.affine import ONE, ZERO, Poly
from operators.rewrites.cpp.ir.paths import at, main_body
from operators.rewrites.cpp.ir.syntax import For, Path, Program, Raw, RawExpr, Stmt, all_exprs, walk_stmts


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """Dependence facts of one loop."""

    parallel: bool
    """True where the iterations are independent."""
    reorderable: bool
    """True where they are independent up to reassociated reductions."""
    reductions: tuple[tuple[str, str], ...]
    """Targets of reductions with their operators, by name."""
    symbol: str
    """The symbol of the loop variable."""
    scan: Scan
    """The scan of the loop."""


def facts(program: Program, path: Path) -> LoopFacts:
    """Return the dependence facts of the loop at `path`."""
    loop = at(program.body, path)
    if not isinstance(loop, For):
        raise TypeError("not a loop")
    scan = scan_before(program, path)
    outer = len(scan.loops)
    scan.stmt(loop)
    symbol = next(name for name in scan.spans if name.startswith(f"{loop.var}@") and name not in scan.loops)
    symbol = next((access.loops[outer] for access in scan.accesses if len(access.loops) > outer), symbol)
    return _classify(scan, symbol)


def scan_before(program: Program, path: Path) -> Scan:
    """Return a scan in front of a statement: it knows the open loops, and has no accesses yet."""
    scan = Scan.start(program)
    body: tuple[Stmt, ...] = program.body
    for depth, position in enumerate(path):
        for stmt in body[:position]:
            scan.stmt(stmt)
        here = body[position]
        if depth + 1 < len(path):
            if isinstance(here, For):
                scan.enter(here)
            body = main_body(here)
    scan.accesses, scan.writes, scan.reads = [], [], []
    scan.local, scan.blocked = set(), False
    return scan


def _classify(scan: Scan, symbol: str) -> LoopFacts:
    reductions: dict[str, str] = {}
    fine, ordered = not scan.blocked, True
    shared = {name for name, _ in scan.writes} - scan.local
    for name in sorted(shared):
        ops = {op for target, op in scan.writes if target == name}
        if len(ops) == 1 and None not in ops and name not in scan.reads:
            reductions[name] = next(iter(ops)) or ""
        else:
            fine = False
    arrays = {access.array for access in scan.accesses if access.write} - scan.local
    for array in sorted(arrays):
        group = [access for access in scan.accesses if access.array == array]
        if independent(scan, group, symbol):
            continue
        ordered = False
        ops = {access.op for access in group}
        if len(ops) == 1 and None not in ops:
            reductions[array] = next(iter(ops)) or ""
        else:
            fine = False
    parallel = fine and ordered and not reductions
    return LoopFacts(parallel, fine, tuple(sorted(reductions.items())), symbol, scan)


@dataclass(frozen=True, slots=True)
class _Shape:
    stride: Poly
    low: Poly
    high: Poly
    large: tuple[Poly, ...]


def independent(scan: Scan, group: list[ArrayAccess], symbol: str) -> bool:
    """Say whether no two iterations of a loop touch the same element through these accesses of one array."""
    span = scan.spans[symbol]
    known = Known(scan, tuple(dict.fromkeys(loop for access in group for loop in access.loops)))
    shapes = [_shape(known, access, symbol) for access in group]
    for a, access_a in zip(shapes, group, strict=True):
        for b, access_b in zip(shapes, group, strict=True):
            if not (access_a.write or access_b.write):
                continue
            if a is None or b is None or a.stride != b.stride:
                return False
            reach = a.high - b.low
            if not known.positive(a.stride * span.step - reach):
                return False
            extent = a.stride * (span.high - span.low)
            strides = set(a.large) | set(b.large)
            if strides and not any(
                known.positive(g - extent - reach) and all(s.divisible_by(g) for s in strides) for g in strides
            ):
                return False
    return True


@dataclass(frozen=True, slots=True)
class Known:
    """Facts about the symbols: inside a loop its range is not empty, so `high - low >= 0`."""

    scan: Scan
    """The scan with their ranges."""
    loops: tuple[str, ...]
    """Symbols of the loops around."""

    def natural(self, value: Poly) -> bool:
        """Say whether the value is provably >= 0."""
        free = frozenset(self.scan.spans)
        if value.nonnegative(free):
            return True
        ranges = {self.scan.spans[name].high - self.scan.spans[name].low for name in self.loops}
        return any((value - extent).nonnegative(free) for extent in ranges)

    def positive(self, value: Poly) -> bool:
        """Say whether the value is provably >= 1."""
        return self.natural(value - ONE)


def _shape(known: Known, access: ArrayAccess, symbol: str) -> _Shape | None:
    """Return the access as `stride * v + [low, high] + multiples of large strides`."""
    if access.index is None or symbol not in access.loops:
        return None
    spans = known.scan.spans
    stride = access.index.stride(symbol)
    if stride is None or stride == ZERO or not known.natural(stride):
        return None
    extent = stride * (spans[symbol].high - spans[symbol].low)
    rest = access.index.without(symbol)
    low, high = ZERO, access.lanes - ONE
    large: list[Poly] = []
    for inner in access.loops[access.loops.index(symbol) + 1 :]:
        factor = rest.stride(inner)
        if factor is None or not known.natural(factor):
            return None
        rest = rest.without(inner)
        if factor == ZERO:
            continue
        if known.positive(factor - extent):
            large.append(factor)
        else:
            low, high = low + factor * spans[inner].low, high + factor * spans[inner].high
    return _Shape(stride, rest + low, rest + high, tuple(large))


def parallel(program: Program, path: Path) -> bool:
    """Say whether the iterations of the loop are independent."""
    return facts(program, path).parallel


def reorderable(program: Program, path: Path) -> bool:
    """Say whether the iterations are independent up to reassociated sums, products and extrema."""
    return facts(program, path).reorderable


def has_raw(body: tuple[Stmt, ...]) -> bool:
    """Say whether any statement or expression was not understood."""
    return any(isinstance(s, Raw) for s in walk_stmts(body)) or any(isinstance(e, RawExpr) for e in all_exprs(body))
