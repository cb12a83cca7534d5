"""Flags of `tl.range` for loops with loads: pipeline stages, unrolling, flattening."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from evokernel.source.tunables import read_tunables
from operators.rewrites.triton.analysis import calls, loop_around, loops
from operators.rewrites.triton.source import TritonKernel, TritonModule, called, dotted, keyword_of
from operators.rewrites.triton.span_edits import SpanEdits, TritonRewrite


@dataclass(frozen=True, slots=True)
class LoopFlag(TritonRewrite):
    """One flag of `tl.range`."""

    name: str
    """The name of the rewrite."""
    flag: str
    """The keyword."""
    tunable: str = ""
    """The tunable of its value; empty for a flag that is switched on."""
    choices: tuple[int, ...] = ()
    """All values of the tunable."""
    outer: bool = False
    """True for loops around loops only, else for innermost ones only."""

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, ast.For]]:
        """Yield the loops that load and have no such flag."""
        for loop, label in loops(kernel):
            if self._fits(module, kernel, loop):
                yield label, loop

    def edit(self, edits: SpanEdits, kernel: TritonKernel, loop: ast.For) -> None:
        """Give the loop the flag."""
        module = edits.module
        assert isinstance(loop.iter, ast.Call)
        if called(loop.iter, "range"):
            edits.replace(loop.iter.func, "tl.range")
        value = "True"
        if self.tunable:
            now = module.constants.get(_launch_name(module, kernel, self.flag))
            default = now if now in self.choices else self.choices[0]
            value = edits.add_tunable(kernel, self.tunable, default, self.choices)
            for rule in _rules_on(module, kernel, self.flag, value):
                edits.add_where(rule)
        edits.add_keyword(loop.iter, self.flag, value)

    def _fits(self, module: TritonModule, kernel: TritonKernel, loop: ast.For) -> bool:
        assert isinstance(loop.iter, ast.Call)
        around = [loop_around(module, call) for call in calls(kernel, "tl.load")]
        inside = [n for stmt in loop.body for n in ast.walk(stmt) if isinstance(n, ast.For)]
        if keyword_of(loop.iter, self.flag) is not None or bool(inside) != self.outer:
            return False
        return any(at is loop or at in inside for at in around)


STAGE_LOOP = LoopFlag("stage_loop", "num_stages", "STAGES", (1, 2, 3, 4, 5, 6))
UNROLL_LOOP = LoopFlag("unroll_loop", "loop_unroll_factor", "UNROLL", (1, 2, 4))
FLATTEN_LOOP = LoopFlag("flatten_loop", "flatten", outer=True)


def _launch_name(module: TritonModule, kernel: TritonKernel, option: str) -> str:
    """Return the constant that the first launch of a kernel passes for an option; empty where there is none."""
    value = keyword_of(module.launches_of(kernel)[0].call, option)
    return dotted(value) if value is not None else ""


def _rules_on(module: TritonModule, kernel: TritonKernel, option: str, name: str) -> list[str]:
    """Return the launch's constraints on its value, for the loop's value: shared memory bounds both."""
    old = _launch_name(module, kernel, option)
    rules = read_tunables(module.text).constraints if old else ()
    return [re.sub(rf"\b{old}\b", name, rule) for rule in rules if re.search(rf"\b{old}\b", rule)]
