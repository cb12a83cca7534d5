"""Guarantees of the kernel's contract as qualifiers: arrays never overlap and start at a cache line.

Legal by that contract: array arguments do not alias and are 64-byte aligned.
"""

from dataclasses import replace

from operators.rewrites.cpp.base import LoopSite
from operators.rewrites.cpp.ir.syntax import Assign, Call, Cast, Num, Param, Program, Var

_ALIGNED = "__builtin_assume_aligned"


def _plain(param: Param) -> bool:
    return (
        param.pointer and "__restrict" not in param.type and param.type.count("*") == 1 and "*const" not in param.type
    )


class Restrict:
    """Qualifier `__restrict__` and alignment for all array arguments."""

    name = "restrict"

    def sites(self, program: Program) -> list[LoopSite]:
        """Return the signature, while an argument lacks the qualifier."""
        names = [p.name for p in program.params if _plain(p)]
        return [LoopSite((), ", ".join(names))] if names else []

    def apply(self, program: Program, site: LoopSite) -> Program:
        """Qualify the arguments and state their alignment."""
        params = tuple(replace(p, type=f"{p.type} __restrict__") if _plain(p) else p for p in program.params)
        stated = tuple(
            Assign(Var(p.name), "=", Cast(p.type, Call(_ALIGNED, (Var(p.name), Num("64")))))
            for p in program.params
            if _plain(p)
        )
        return replace(program, params=params, body=(*stated, *program.body))
