from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from operators.rewrites.cpp import CPP_REWRITES
from operators.rewrites.library import RewriteMove
from tests.operators.rewrites.cpp.loop_nests import BY_NAME, check, compiled

# Each rewrite on at least two nests, alone or behind the moves that make it possible.
CASES = (
    ("gemm", ("register_tile",)),
    ("conv1d", ("register_tile",)),
    ("gemm", ("interchange", "register_tile")),
    ("double_gemm_tn", ("register_tile", "pack", "vectorize")),
    ("int_stats", ("vectorize", "split_accumulator")),
    ("batched", ("register_tile", "vectorize", "pack")),
    ("gemm_nt_bias", ("register_tile", "pack", "vectorize")),
    ("gemm_nt_bias", ("vectorize", "register_tile")),
    ("conv1d", ("register_tile", "vectorize")),
    ("gemm", ("register_tile", "interchange", "pack")),
    ("softmax", ("vectorize",)),
    ("layernorm", ("vectorize", "hoist")),
    ("row_stats", ("vectorize", "split_accumulator")),
    ("layernorm", ("split_accumulator",)),
    ("elementwise", ("vectorize",)),
    ("row_shares", ("vectorize", "split_accumulator")),
    ("sums_in_double", ("vectorize", "split_accumulator")),
    ("sums_in_double", ("split_accumulator", "parallel")),
    ("outer_products", ("interchange", "tile")),
    ("gemm", ("interchange", "vectorize")),
    ("batched", ("promote",)),
    ("gemm", ("interchange", "tile")),
    ("softmax_rows", ("vector_math", "restrict")),
    ("elementwise", ("vector_math", "restrict")),
    ("softmax_rows", ("hoist",)),
    ("gemm_nt_bias", ("register_tile", "unroll")),
    ("row_stats", ("vectorize", "unroll")),
    ("gemm", ("register_tile", "prefetch")),
    ("batched", ("register_tile", "prefetch")),
    ("gemm", ("parallel", "register_tile")),
    ("layernorm", ("parallel",)),
    ("outer_products", ("interchange", "interchange", "promote")),
    ("outer_products", ("interchange", "interchange", "register_tile")),
    ("stages", ("vectorize",)),
    ("stages", ("split_accumulator", "restrict")),
    ("stages", ("register_tile", "vectorize")),
    ("stages", ("interchange",)),
    ("stages", ("fuse", "vectorize")),
    ("stages", ("fuse:1", "fuse", "split_accumulator")),
    ("two_maps", ("fuse", "vectorize")),
    ("stages", ("fuse", "shrink")),
    ("stages", ("fuse", "shrink:1", "parallel", "shrink", "vectorize")),
    ("row_shares", ("fuse", "shrink", "vectorize", "split_accumulator")),
    ("row_shares", ("fuse", "parallel", "shrink")),
    ("row_shares", ("fuse", "shrink", "parallel")),
    ("two_rows", ("shrink", "fuse", "parallel")),
    ("heads", ("shrink", "parallel")),
    ("heads", ("shrink:2", "parallel")),
)


def first(source: str, step: str) -> RewriteMove:
    rewrite, _, index = step.partition(":")
    found = [move for move in CPP_REWRITES.moves(source, threads=2) if move.rewrite == rewrite]
    assert len(found) > int(index or 0), f"no {step} on\n{source}"
    return found[int(index or 0)]


@pytest.mark.parametrize(("name", "chain"), CASES, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_rewrites_keep_results(name: str, chain: tuple[str, ...], tmp_path: Path) -> None:
    nest = BY_NAME[name]
    source = nest.source
    for rewrite in chain:
        source = CPP_REWRITES.apply(source, first(source, rewrite))
    assert check(nest, compiled(source, tmp_path)) == ""


def test_every_rewrite_is_tested_on_two_nests() -> None:
    for rewrite in CPP_REWRITES.by_name:
        assert len({name for name, chain in CASES if any(step.startswith(rewrite) for step in chain)}) >= 2, rewrite


def test_moves_are_deterministic_and_picklable() -> None:
    source = BY_NAME["gemm"].source
    found = CPP_REWRITES.moves(source)
    assert found == CPP_REWRITES.moves(source)
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301
    assert all(move.rewrite != "parallel" for move in found)
    assert any(move.rewrite == "parallel" for move in CPP_REWRITES.moves(source, threads=4))


def test_a_foreign_move_is_refused() -> None:
    with pytest.raises(ValueError, match="no move"):
        CPP_REWRITES.apply(BY_NAME["gemm"].source, RewriteMove("register_tile", "loop q", 0))
    with pytest.raises(ValueError, match="no move"):
        CPP_REWRITES.apply("not C++ at all", RewriteMove("restrict", "a", 0))


@pytest.mark.parametrize("text", ["", "@#!", 'extern "C" void run() {}', "def f(): pass", "void run(" * 50])
def test_any_text_has_moves_or_none(text: str) -> None:
    assert CPP_REWRITES.moves(text) == ()


def test_a_move_is_offered_once_for_a_place() -> None:
    source = BY_NAME["gemm"].source
    for rewrite in ("restrict", "interchange", "register_tile"):
        move = first(source, rewrite)
        changed = CPP_REWRITES.apply(source, move)
        assert changed != source
        assert move not in CPP_REWRITES.moves(changed)


def test_tunables_have_fresh_names() -> None:
    source = BY_NAME["gemm"].source.replace("extern", "constexpr int MR = 3;\nextern", 1)
    changed = CPP_REWRITES.apply(source, first(source, "register_tile"))
    assert "constexpr int MR2 = " in changed
    assert "constexpr int MR = 3;" in changed


def test_comments_and_head_stay() -> None:
    nest = BY_NAME["elementwise"]
    changed = CPP_REWRITES.apply(nest.source, first(nest.source, "vectorize"))
    assert "// tanh of a mix" in changed
    assert changed.startswith(nest.head)


def test_an_order_dependent_loop_has_no_reordering_moves() -> None:
    source = """extern "C" void run(const float* x, float* out, int64_t N) {
  float t = 0.0f;
  for (int64_t i = 0; i < N; ++i) { t = 0.5f * t + x[i]; out[i] = t; }
}"""
    assert {move.rewrite for move in CPP_REWRITES.moves(source, threads=2)} <= {"restrict", "unroll"}


def test_loops_whose_buffers_would_be_mistaken_are_not_fused() -> None:
    shrunk = CPP_REWRITES.apply(BY_NAME["two_rows"].source, first(BY_NAME["two_rows"].source, "shrink"))
    for before, after in (("t2", "t"), ("t(N)", "t(K)"), ("t(N)", "t(i)"), ("t[j] = x", "t2[j] = x")):
        assert before in shrunk
        offered = CPP_REWRITES.moves(shrunk.replace(before, after))
        assert not any(move.rewrite == "fuse" and move.label.startswith("i") for move in offered), after


@pytest.mark.parametrize(
    ("between", "second"),
    [
        ("", "for (int64_t j = 0; j < N; ++j) b[j] = a[N - 1 - j];"),  # an element of another iteration
        ("", "for (int64_t j = 0; j < N - 1; ++j) b[j] = a[j];"),  # another range
        ("", "for (int64_t j = 0; j < N; ++j) a[0] += x[j];"),  # a reduction into what the first loop writes
        ("const float v = x[0];", "for (int64_t j = 0; j < N; ++j) b[j] = a[j] + v;"),  # code between them
        ("std::vector<float> t(int64_t(a[0]));", "for (int64_t j = 0; j < N; ++j) b[j] = a[j];"),  # a size that changes
        ("", "for (int64_t j = 0; j < N; ++j) b[j] = a[j] + w;"),  # a name that the first loop declares anew
        ("", "for (int64_t j = 0; j < N; ++j) if (x[j] > 0) return;"),  # code that is not understood
    ],
)
def test_loops_that_must_stay_apart_are_not_fused(between: str, second: str) -> None:
    source = f"""#include <vector>
extern "C" void run(const float* x, float* a, float* b, float w, int64_t N) {{
  for (int64_t i = 0; i < N; ++i) {{ const float w = x[i]; a[i] = w + 1.0f; }}
  {between}
  {second}
}}"""
    assert "fuse" not in {move.rewrite for move in CPP_REWRITES.moves(source)}
    apart = source.replace(between, "").replace(second, "for (int64_t j = 0; j < N; ++j) b[j] = a[j];")
    assert "fuse" in {move.rewrite for move in CPP_REWRITES.moves(apart)}


LANES = """  for (int64_t i = 0; i < M; ++i) {
    float s = 0.0f;
    float lanes[16] = {};
    for (int64_t j = 0; j < N / 16 * 16; j += 16) {
      for (int64_t lane = 0; lane < 16; ++lane) {
        lanes[lane] += x[i * N + (j + lane)];
      }
    }
    for (int64_t j = N / 16 * 16; j < N; ++j) {
      s += x[i * N + j];
    }
    for (int64_t lane = 0; lane < 16; ++lane) {
      s += lanes[lane];
    }
    sums[i] = s;
  }"""


def test_the_lanes_of_a_seed_are_tiled_and_zeroed_for_each_tile(tmp_path: Path) -> None:
    """`init` writes sums like this."""
    nest = replace(
        BY_NAME["row_stats"],
        args="const float* x, float* sums, int64_t M, int64_t N",
        body=LANES,
        shapes={"x": "M,N", "sums": "M"},
        outputs=("sums",),
        reference=lambda a, s: {"sums": a["x"].sum(axis=1)},
    )
    changed = CPP_REWRITES.apply(nest.source, first(nest.source, "register_tile"))
    assert "float lanes[MR][16] = {};" in changed
    assert check(nest, compiled(changed, tmp_path)) == ""
    table = nest.source.replace("[16] = {}", "[16] = {1.0f}")
    assert not any(move.rewrite == "register_tile" for move in CPP_REWRITES.moves(table))
