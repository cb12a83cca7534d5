"""Natural loops of a disassembled function, with their depths."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evokernel.languages.cpp.disassembly import Instruction
from evokernel.languages.cpp.isa import Isa

_LOOP_LIMIT = 500
_UNLIMITED = itertools.repeat(None)


@dataclass(frozen=True, slots=True)
class InstructionLoop:
    """The instructions of a function that share their innermost loop."""

    depth: int
    """Loops around them; 0 outside every loop."""
    instructions: tuple[Instruction, ...]
    """In the order of their blocks."""


def regions(code: Sequence[Instruction], isa: Isa, steps: Iterator[None] = _UNLIMITED) -> list[InstructionLoop]:
    """Return the regions of a function, one for each loop and one for the rest.

    A loop is a natural loop: a jump back to a block that dominates it, and all blocks from which that jump is reached
    without passing the head. At most 500 loops of a function are distinguished, and none where `steps`
    end before it has found them.
    """
    blocks, successors = _blocks(code, isa)
    try:
        bodies = _bodies(successors, _immediate_dominators(successors, steps), steps)
    except StopIteration:
        bodies = {}
    depth = [0] * len(blocks)
    owner = [-1] * len(blocks)
    for head, body in sorted(bodies.items(), key=lambda item: -len(item[1])):
        for number in body:
            depth[number] += 1
            owner[number] = head  # smaller loops come later, so the innermost one stays
    grouped: dict[int, list[Instruction]] = {}
    for number, block in enumerate(blocks):
        grouped.setdefault(owner[number], []).extend(block)
    return [InstructionLoop(depth[head] if head >= 0 else 0, tuple(found)) for head, found in grouped.items()]


def _blocks(code: Sequence[Instruction], isa: Isa) -> tuple[list[Sequence[Instruction]], list[list[int]]]:
    """Cut a function into basic blocks; return them and the numbers of the successors of each."""
    index = {instruction.address: place for place, instruction in enumerate(code)}
    starts = {0}
    for place, instruction in enumerate(code):
        if isa.is_jump(instruction) or isa.ends_block(instruction):
            starts.add(place + 1)
            target = instruction.target
            if target in index:
                starts.add(index[target])
    order = sorted(start for start in starts if start < len(code))
    number = {start: block for block, start in enumerate(order)}
    blocks = [code[start:end] for start, end in zip(order, [*order[1:], len(code)], strict=True)]
    successors: list[list[int]] = []
    for block, instructions in enumerate(blocks):
        last = instructions[-1]
        following = [] if isa.ends_block(last) or block + 1 == len(blocks) else [block + 1]
        if isa.is_jump(last) and last.target in index:
            following.append(number[index[last.target]])
        successors.append(following)
    return blocks, successors


def _predecessors(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in successors]
    for block, following in enumerate(successors):
        for other in following:
            found[other].append(block)
    return found


def _postorder(successors: Sequence[Sequence[int]]) -> list[int]:
    order: list[int] = []
    seen = {0}
    stack = [(0, iter(successors[0]))] if successors else []
    while stack:
        block, rest = stack[-1]
        following = next((other for other in rest if other not in seen), None)
        if following is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(successors[following])))
    return order


def _immediate_dominators(successors: Sequence[Sequence[int]], steps: Iterator[None]) -> dict[int, int]:
    """Return the immediate dominator of each reachable block (Cooper, Harvey, Kennedy 2001)."""
    order = _postorder(successors)
    rank = {block: place for place, block in enumerate(order)}
    before = _predecessors(successors)
    nearest = {0: 0}
    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            known = [other for other in before[block] if other in nearest]
            best = known[0]
            for other in known[1:]:
                best = _meet(best, other, nearest, rank, steps)
            if nearest.get(block) != best:
                nearest[block], changed = best, True
    return nearest


def _meet(left: int, right: int, nearest: dict[int, int], rank: dict[int, int], steps: Iterator[None]) -> int:
    while left != right:
        while rank[left] < rank[right]:
            next(steps)
            left = nearest[left]
        while rank[right] < rank[left]:
            next(steps)
            right = nearest[right]
    return left


def _dominates(head: int, block: int, nearest: dict[int, int], steps: Iterator[None]) -> bool:
    while block != head and nearest[block] != block:
        next(steps)
        block = nearest[block]
    return block == head


def _bodies(successors: Sequence[Sequence[int]], nearest: dict[int, int], steps: Iterator[None]) -> dict[int, set[int]]:
    """Return the blocks of each loop by the block at its head."""
    before = _predecessors(successors)
    bodies: dict[int, set[int]] = {}
    for block in nearest:
        for head in successors[block]:
            if head > block or (head not in bodies and len(bodies) >= _LOOP_LIMIT):
                continue
            if not _dominates(head, block, nearest, steps):
                continue
            body = bodies.setdefault(head, {head})
            waiting = [block]
            while waiting:
                inside = waiting.pop()
                if inside not in body:
                    next(steps)
                    body.add(inside)
                    waiting.extend(other for other in before[inside] if other in nearest)
    return bodies
