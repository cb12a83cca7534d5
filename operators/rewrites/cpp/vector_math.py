"""Vector variants of math calls, declared so that the compiler can use them.

The functions are redeclared with the `simd` attribute, so that loops over `expf` and the like call libmvec;
`const` says that errno is not needed.  Legal always; the variants are accurate to 4 units in the last place.
"""

from dataclasses import replace

from operators.rewrites.cpp.base import LoopSite, element_types
from operators.rewrites.cpp.ir.reductions import math_function
from operators.rewrites.cpp.ir.syntax import Call, Expr, Program, all_exprs, map_body
from operators.rewrites.cpp.vector_types import LIBMVEC, declare_simd, function_name


class VectorMath:
    """Declarations of vector variants for the math functions in use."""

    name = "vector_math"

    def sites(self, program: Program) -> list[LoopSite]:
        """Return the file, while it calls a function that has no vector declaration."""
        kinds = set(element_types(program).values()) & {"float", "double"}
        used = {math_function(e.name) for e in all_exprs(program.body) if isinstance(e, Call)} & LIBMVEC
        if len(kinds) != 1:
            return []
        (kind,) = kinds
        new = sorted(f for f in used if f and declare_simd(program, f, kind) != program)
        return [LoopSite((), ", ".join(new), (kind, *new))] if new else []

    def apply(self, program: Program, site: LoopSite) -> Program:
        """Redeclare the functions and call them by their C names."""
        kind, *functions = site.detail

        def renamed(expr: Expr) -> Expr:
            match expr:
                case Call(name, args) if math_function(name) in functions:
                    return Call(function_name(math_function(name) or name, kind), args)
                case _:
                    return expr

        program = replace(program, body=map_body(program.body, renamed))
        for function in functions:
            program = declare_simd(program, function, kind)
        return program
