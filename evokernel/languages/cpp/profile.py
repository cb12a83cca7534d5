"""Profile of a compiled kernel: vector width, spills, calls and more in its hot loop.

Measured on machine code. The hot loop is the one with the most estimated work: results computed per pass, times 8 for
each loop around it, loops of callers included. So a vectorised copy outside the loop that matters counts for nothing.
"""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from evokernel.languages.cpp.disassembly import Instruction, numbers_in
from evokernel.languages.cpp.isa import Arithmetic, Isa
from evokernel.languages.cpp.natural_loops import InstructionLoop, regions

_WORK_PER_LEVEL = 8
_DEPTH_LIMIT = 12
_STEP_LIMIT = 5_000_000
"""Far more steps than compilers' code takes; following jumps without order takes the square of their number."""
_MATH_WORK = 20  # arithmetic instructions in a typical expf
_MATH = re.compile(
    r"^(?:_ZGV(?P<isa>[a-z])[MN](?P<lanes>\d+)v+_)?(?:exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|sin|cos|sincos|tan|asin"
    r"|acos|atan|atan2|sinh|cosh|tanh|erf|erfc|cbrt|hypot|fmod|tgamma|lgamma)f?$"
)
_MATH_BITS = {"b": 128, "c": 256, "d": 256, "e": 512, "n": 128}


@dataclass(frozen=True, slots=True)
class HotLoopProfile:
    """Numbers about the hot loop."""

    vector_bits: int
    """Widest vector where at least half of the arithmetic is on vectors, else 0."""
    spills: int
    """Loads and stores at fixed places of the stack."""
    loop_depth: int
    """Loops around it, those of callers included."""
    loop_instructions: int
    """Its instructions."""
    loop_fma: int
    """Its fused multiply-adds."""
    loop_gathers: int
    """Its gathering loads and scattering stores."""
    loop_calls: int
    """Its calls."""
    frame_bytes: int
    """Largest stack frame of the functions that `run` reaches, in bytes."""
    code: tuple[Instruction, ...] = ()
    """The instructions themselves."""
    numbers: tuple[int, ...] = ()
    """Numbers of the whole program that sizes may be compared with."""


@dataclass(frozen=True, slots=True)
class _Place:
    region: InstructionLoop
    depth: int
    frame_pointer: bool


def profile(functions: Mapping[str, list[Instruction]], isa: Isa, *, entry: str = "run") -> HotLoopProfile:
    """Measure the machine code that an entry point reaches. Raises `ValueError` where it has no code."""
    if not functions.get(entry):
        raise ValueError(f"no machine code for {entry!r}")
    steps = itertools.repeat(None, _STEP_LIMIT)
    split = {name: regions(code, isa, steps) for name, code in _reached(functions, isa, entry).items()}
    base = _call_depths(split, entry)
    places = [
        _Place(region, min(base[name] + region.depth, _DEPTH_LIMIT), any(map(isa.sets_frame_pointer, functions[name])))
        for name, found in split.items()
        for region in found
    ]
    hot = max(places, key=lambda place: _score(place, isa, integers=False))
    integers = _score(hot, isa, integers=False) == 0
    if integers:
        hot = max(places, key=lambda place: _score(place, isa, integers=True))
    code = hot.region.instructions
    work = [found for found in (_work(instruction, isa, integers=integers) for instruction in code) if found]
    inside = code if hot.region.depth else ()
    return HotLoopProfile(
        vector_bits=_vector_bits(work),
        spills=sum(isa.touches_stack(one, frame_pointer=hot.frame_pointer) for one in inside),
        loop_depth=hot.depth,
        loop_instructions=len(code),
        loop_fma=sum(map(isa.is_fma, code)),
        loop_gathers=sum(map(isa.is_gather, code)),
        loop_calls=sum(map(isa.is_call, code)),
        frame_bytes=max(sum(map(isa.frame_bytes, functions[name])) for name in split),
        code=tuple(code),
        numbers=numbers_in(functions),
    )


def _reached(functions: Mapping[str, list[Instruction]], isa: Isa, entry: str) -> dict[str, list[Instruction]]:
    """Return the functions an entry point may reach: called, jumped to, or with their address taken."""
    found: dict[str, list[Instruction]] = {}
    waiting = [entry]
    tables = False
    while waiting:
        name = waiting.pop()
        code = functions.get(name)
        if name in found or not code:
            continue
        found[name] = code
        waiting.extend(one.reference for one in code if one.reference is not None)
        if not tables and any(isa.is_call(one) and isa.is_indirect(one) for one in code):
            tables = True
            waiting.extend(functions)  # a table of functions: any of them
    return found


def _call_depths(split: Mapping[str, list[InstructionLoop]], entry: str) -> dict[str, int]:
    """Return for each function the loops around its calls, along the deepest path from the entry."""
    uses = [
        (caller, one.reference, region.depth)
        for caller, found in split.items()
        for region in found
        for one in region.instructions
        if one.reference in split and one.reference != caller
    ]
    depths = dict.fromkeys(split, 0)
    for _ in range(_DEPTH_LIMIT):  # recursion would go on for ever
        changed = False
        for caller, callee, depth in uses:
            deeper = min(depths[caller] + depth, _DEPTH_LIMIT)
            if callee is not None and callee != entry and deeper > depths[callee]:
                depths[callee], changed = deeper, True
        if not changed:
            break
    return depths


def _work(instruction: Instruction, isa: Isa, *, integers: bool) -> Arithmetic | None:
    if integers:
        return isa.integer_work(instruction)
    if isa.is_call(instruction):
        match = _MATH.match(instruction.reference or "")
        if match is None:
            return None
        lanes = int(match["lanes"] or 1)
        return Arithmetic(_MATH_BITS.get(match["isa"] or "", 0), _MATH_WORK * lanes)
    return isa.float_work(instruction)


def _vector_bits(work: list[Arithmetic]) -> int:
    """Return the widest vector where at least half of the arithmetic is on vectors, else 0.

    Compilers put single packed operations into scalar loops (two products at once, then two scalar sums).
    """
    packed = [found.vector_bits for found in work if found.vector_bits]
    return max(packed) if packed and 2 * len(packed) >= len(work) else 0


def _score(place: _Place, isa: Isa, *, integers: bool) -> int:
    work = (_work(instruction, isa, integers=integers) for instruction in place.region.instructions)
    weight: int = _WORK_PER_LEVEL**place.depth
    return weight * sum(found.lanes for found in work if found)
