from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from operators.rewrites.cpp import CPP_REWRITES
from operators.rewrites.cpp.ir.reader import read
from operators.rewrites.cpp.ir.syntax import (
    Assign,
    Binary,
    Call,
    Cast,
    Expr,
    For,
    If,
    Index,
    Num,
    Param,
    Program,
    Ternary,
    Unary,
    Var,
)
from operators.rewrites.cpp.ir.writer import write
from tests.operators.rewrites.cpp.loop_nests import NESTS, Nest, check, compiled

ATOMS: list[Expr] = [Num("1"), Num("0.5f"), Var("x"), Var("N"), Index("a", (Var("i"),))]


def _compound(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    ops = st.sampled_from(["+", "-", "*", "/", "%", "<", "==", "&&", "||", ">="])
    return st.one_of(
        st.builds(Binary, ops, inner, inner),
        st.builds(Unary, st.sampled_from(["-", "!"]), inner),
        st.builds(Ternary, inner, inner, inner),
        st.builds(lambda v: Call("std::max", v), st.tuples(inner, inner)),
        st.builds(lambda v: Cast("float", v), inner),
        st.builds(lambda v: Index("a", v), st.tuples(inner, inner)),
    )


EXPRS: st.SearchStrategy[Expr] = st.recursive(st.sampled_from(ATOMS), _compound, max_leaves=12)
ASSIGNS = st.builds(Assign, st.just(Var("y")), st.sampled_from(["=", "+=", "/="]), EXPRS)
STMTS = st.recursive(
    ASSIGNS,
    lambda inner: st.one_of(
        st.builds(For, st.sampled_from("ijk"), EXPRS, EXPRS, st.just(Num("1")), st.tuples(inner, inner)),
        st.builds(If, EXPRS, st.tuples(inner), st.one_of(st.just(()), st.tuples(inner))),
    ),
    max_leaves=6,
)


@given(st.tuples(STMTS, STMTS))
@settings(max_examples=150, deadline=None)
def test_what_is_written_reads_back(body: tuple[For | If | Assign, ...]) -> None:
    program = Program("", 'extern "C" void run', (Param("float*", "a"), Param("int64_t", "N")), body, "\n")
    assert read(write(program)) == program


@given(st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_no_text_raises(text: str) -> None:
    assert CPP_REWRITES.moves(text) == ()
    CPP_REWRITES.moves(f'extern "C" void run(const float* a, float* b, int64_t N) {{ {text} }}')


@pytest.mark.parametrize("nest", NESTS, ids=lambda n: n.name)
def test_random_chains_keep_results(nest: Nest, tmp_path: Path) -> None:
    rng = random.Random(nest.name)
    source = nest.source
    for _ in range(rng.randint(3, 5)):
        offered = CPP_REWRITES.moves(source)
        if offered:
            source = CPP_REWRITES.apply(source, rng.choice(offered))
    assert check(nest, compiled(source, tmp_path, "-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")) == ""


BATCHED = next(nest for nest in NESTS if nest.name == "batched")


@given(st.sampled_from(NESTS), st.integers(0, 400), st.integers(0, 400))
@example(BATCHED, 135, 2)  # what a loop updates is declared nowhere
@settings(max_examples=60, deadline=None)
def test_damaged_kernels_have_moves_that_apply(nest: Nest, gone: int, copied: int) -> None:
    words = re.findall(r"\w+|\s+|[^\w\s]", nest.source)
    words[gone % len(words)] = words[copied % len(words)]
    source = "".join(words)
    for move in CPP_REWRITES.moves(source, threads=2):
        assert CPP_REWRITES.apply(source, move) != source
