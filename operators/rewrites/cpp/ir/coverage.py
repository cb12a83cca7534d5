"""Coverage of reads: what one iteration of a loop reads of an array, it has written before.

Elements written for certain are intervals of subscripts.  Writes under a condition, and in loops whose range is not
known exactly, do not count.
"""

from operators.rewrites.cpp.ir.accesses import ArrayAccess, Scan
from operators.rewrites.cpp.ir.affine import ONE, ZERO, Poly, floor_parts, min_parts
from operators.rewrites.cpp.ir.dependence import Known
from operators.rewrites.cpp.ir.syntax import ONE as STEP
from operators.rewrites.cpp.ir.syntax import Assign, Block, For, If, Stmt, own_exprs


def covered(scan: Scan, loop: For, array: str, size: Poly) -> bool:
    """Say whether an iteration stays in the first `size` elements of an array, and reads only what it has written.

    The scan stands in front of the loop.
    """
    scan.enter(loop)
    iteration = _Iteration(scan, array, size)
    iteration.body(loop.body)
    return iteration.fine and not scan.blocked


class _Iteration:
    """One walk over the body of a loop, in the order in which it runs."""

    def __init__(self, scan: Scan, array: str, size: Poly) -> None:
        self.fine = True
        self._scan, self._array, self._size = scan, array, size
        self._outer = len(scan.loops)
        self._written: list[tuple[Poly, Poly]] = []

    def body(self, stmts: tuple[Stmt, ...]) -> None:
        """Follow statements in a scope of their own."""
        env, views = dict(self._scan.env), dict(self._scan.views)
        for stmt in stmts:
            self._stmt(stmt)
        self._scan.env, self._scan.views = env, views

    def _stmt(self, stmt: Stmt) -> None:
        scan = self._scan
        match stmt:
            case For():
                self._loop(stmt)
            case If():
                scan.read(stmt.cond)
                self._look()
                certain = list(self._written)
                for branch in (stmt.then, stmt.orelse):
                    self.body(branch)
                    self._written = list(certain)
            case Block():
                self.body(stmt.body)
            case Assign():
                scan.read(stmt.value)
                if stmt.op != "=":
                    scan.read(stmt.target)
                scan.write(stmt.target, None)
                self._look()
            case _:
                scan.stmt(stmt)
                self._look()

    def _loop(self, loop: For) -> None:
        for expr in own_exprs(loop):
            self._scan.read(expr)
        self._look()
        certain = list(self._written)
        self._scan.enter(loop)
        exact = loop.step == STEP and floor_parts(loop.upper) is None and min_parts(loop.upper) is None
        exact = exact and self._scan.env.get(loop.var) is not None
        self.body(loop.body)
        symbol = self._scan.loops[-1]
        self._scan.loops = self._scan.loops[:-1]
        new = self._written[len(certain) :] if exact else []
        self._written = certain + [whole for part in new if (whole := self._over(symbol, *part)) is not None]

    def _over(self, symbol: str, low: Poly, high: Poly) -> tuple[Poly, Poly] | None:
        """Return what all iterations of a loop write together, where each of them writes low to high."""
        span, stride = self._scan.spans[symbol], low.stride(symbol)
        if stride is None or stride != high.stride(symbol):
            return None
        if stride == ZERO:
            return (low, high) if (span.high - span.low).nonnegative() and not span.high.symbols else None
        first, last = span.low, span.high
        if -stride == high - low + ONE:
            first, last = last, first
        elif stride != high - low + ONE:
            return None
        return low.without(symbol) + stride * first, high.without(symbol) + stride * last

    def _look(self) -> None:
        """Judge the accesses since the last look: of one statement, reads before its write."""
        for access in self._scan.accesses:
            if access.array == self._array:
                self._judge(access)
        self._scan.accesses.clear()

    def _judge(self, access: ArrayAccess) -> None:
        low = access.index
        if low is None:
            self.fine = False
            return
        high = low + access.lanes - ONE
        self.fine &= self._natural(low, access) and self._natural(self._size - ONE - high, access)
        if access.write:
            self._written.append((low, high))
            return
        self.fine &= any(
            self._natural(low - first, access) and self._natural(last - high, access) for first, last in self._written
        )

    def _natural(self, value: Poly, access: ArrayAccess) -> bool:
        """Say whether a value is provably >= 0 in all iterations of the loops inside."""
        known, spans = Known(self._scan, access.loops), self._scan.spans
        for symbol in reversed(access.loops[self._outer :]):
            factor = value.stride(symbol)
            if factor is None or factor.symbols & spans.keys():
                return False
            if known.natural(factor):
                value = value.without(symbol) + factor * spans[symbol].low
            elif known.natural(-factor):
                value = value.without(symbol) + factor * spans[symbol].high
            else:
                return False
        return not value.symbols & spans.keys() and known.natural(value)
