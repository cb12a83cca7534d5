"""Rewritten kernels compute the same: under Triton's interpreter, alone and in random sequences."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.source.tunables import read_tunables
from operators.rewrites.triton import TRITON_REWRITES
from operators.rewrites.triton.source import TritonModule
from tests.operators.rewrites.triton.sources import GEMM, SOFTMAX
from tests.support.interpret import SMALL, Case, gemm, interpret, softmax

SUMMED = GEMM.replace("acc = tl.dot(x, y, acc)", "acc += tl.dot(x, y)")
ODD = {GEMM: gemm(40, 36, 24), SUMMED: gemm(40, 36, 24), SOFTMAX: softmax(3, 40)}
"""For each seed a problem whose sizes fit no block."""
EVEN = {GEMM: gemm(64, 32, 32), SUMMED: gemm(64, 32, 32), SOFTMAX: softmax(3, 48)}
"""For each seed a problem whose sizes are multiples of the blocks."""
_SEQUENCES = 12


def sequence(source: str, rng: random.Random, length: int) -> list[str]:
    """Words of random moves, the source before and after them."""
    trail = [source]
    for _ in range(length):
        offered = TRITON_REWRITES.moves(trail[-1])
        kind = rng.choice(sorted({move.rewrite for move in offered}))
        trail.append(TRITON_REWRITES.apply(trail[-1], rng.choice([move for move in offered if move.rewrite == kind])))
    return trail


def rewritten() -> Iterator[tuple[str, str, str]]:
    """Seed, words and text: each kind of move once per kind of place, then sequences."""
    for seed in ODD:
        kinds = {
            (move.rewrite, move.label.split()[-1]): move
            for move in TRITON_REWRITES.moves(seed)
            if move.rewrite != "eviction_policy"
        }
        for move in kinds.values():
            if seed != SUMMED or move.rewrite == "dot_chain":
                yield seed, f"{move.rewrite}: {move.label}", TRITON_REWRITES.apply(seed, move)
        for number in range(_SEQUENCES):
            yield seed, f"sequence {number}", sequence(seed, random.Random(number), 6)[-1]


def test_rewritten_kernels_compute_the_same() -> None:
    cases, checks = [], []
    for seed, words, text in rewritten():
        for arguments, right in (ODD[seed], EVEN[seed]) if "EVEN" in text else (ODD[seed],):
            cases.append(Case(text, arguments, SMALL))
            checks.append((words, right))
    for (words, right), answer, case in zip(checks, interpret(cases), cases, strict=True):
        assert not isinstance(answer, str), f"{words}\n{answer}\n{case.text}"
        assert right(answer), f"{words}\n{case.text}"


def test_the_check_sees_a_wrong_kernel() -> None:
    arguments, right = ODD[GEMM]
    unmasked = GEMM.replace("mask=(ks[:, None] < K) & (cols", "mask=(ks[:, None] < K - 1) & (cols")
    broken = GEMM.replace("tl.store(", "tl.stir(")
    wrong, failed = interpret([Case(source, arguments, SMALL) for source in (unmasked, broken)])
    assert not isinstance(wrong, str)
    assert not right(wrong)
    assert "stir" in str(failed)


def test_the_check_sees_what_no_result_shows() -> None:
    """Numbers beyond a tensor that no result depends on, and a hint that is not true."""
    beyond = GEMM.replace("mask=(ks[:, None] < K) & (cols[None, :] < N)", "mask=ks[:, None] < K")
    hinted = GEMM.replace("pid_n * BLOCK_N + tl", "tl.multiple_of(pid_n * BLOCK_N + 1, 2) - 1 + tl")
    assert len({GEMM, beyond, hinted}) == 3
    read, told = interpret([Case(source, ODD[GEMM][0], SMALL) for source in (beyond, hinted)])
    assert "beyond the tensors" in str(read)
    assert "no multiples of 2" in str(told)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(ODD)), st.integers(0, 2**32), st.integers(1, 4))
def test_any_sequence_of_moves_stays_readable(seed: str, number: int, length: int) -> None:
    trail = sequence(seed, random.Random(number), length)
    assert len(set(trail)) == len(trail)
    for before, text in pairwise(trail):
        TritonModule.parse(text)
        space = read_tunables(text)
        assert space.allows(space.values)
        assert read_tunables(before).values.items() <= space.values.items()
