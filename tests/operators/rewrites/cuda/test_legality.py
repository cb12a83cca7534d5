"""Places where rewrites of CUDA C++ are refused: each breaks one condition of a rule and no other."""

import re

import pytest

from evokernel.source.tunables import read_tunables
from operators.rewrites.cuda import CUDA_REWRITES
from operators.rewrites.cuda.source import CudaModule
from tests.operators.rewrites.cuda.sources import GEMM, HISTOGRAM, SOFTMAX, after, changed, offered

MAX = "for (int i = threadIdx.x; i < C; i += THREADS) peak = fmaxf(peak, x[i]);"
SUM = "for (int i = threadIdx.x; i < C; i += THREADS) total += expf(x[i] - peak);"
LAST = "for (int i = threadIdx.x; i < C; i += THREADS) y[i] = expf(x[i] - peak) / total;"
COUNT = "atomicAdd(&bins[x[i]], 1);"
LAUNCH = "kernels.softmax[R, THREADS](x, y, C)"
TOTAL = "    total = over_block(total, [](float a, float b) { return a + b; });\n"
PEAK = "    peak = over_block(peak, [](float a, float b) { return fmaxf(a, b); });\n"
ALONE = changed(SOFTMAX, (MAX, ""), (SUM, ""), ("#define WARPS", "#define SELF threadIdx.x\n#define WARPS"))
"""Softmax with its last loop only: what it computes does not matter here."""


def test_seeds_have_their_rewrites() -> None:
    assert offered(SOFTMAX) == {"vector_load", "register_row", "restrict"}
    assert offered(HISTOGRAM) == {"vector_load", "restrict"}
    assert offered(GEMM) == {"vector_tile", "prefetch_tile", "restrict"}
    assert "vector_load" in offered(ALONE)


@pytest.mark.parametrize("written", ["8", "8  // elements", "8 /* elements */", "\\\n    8"])
def test_comments_behind_a_macro_are_no_part_of_it(written: str) -> None:
    module = CudaModule.parse(changed(SOFTMAX, ("#define WARPS", f"#define LANE {written}\n#define WARPS")))
    assert module.macros["LANE"] == "8"


def test_a_macro_that_goes_on_behind_a_comment_is_not_read() -> None:
    assert not offered(changed(SOFTMAX, ("#define WARPS", "#define LANE 8 /* and */ + 1\n#define WARPS")))


@pytest.mark.parametrize("text", ["", "def run(:", "def run(x):\n    pass\n", SOFTMAX.replace("Module(", "Other(")])
def test_other_texts_have_no_moves(text: str) -> None:
    assert CUDA_REWRITES.moves(text) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("THREADS](x, y, C)", "2 * THREADS](x, y, C)"),  # threads do not share the elements: some are done twice
        ("THREADS](x, y, C)", "(THREADS, 2)](x, y, C)"),  # a block of two dimensions
        ("THREADS](x, y, C)", "THREADS](x, x, C)"),  # one tensor twice
        ("THREADS](x, y, C)", "THREADS](x, y.view(-1), C)"),  # a view, of who knows what
        (LAST, LAST.replace("= threadIdx.x", "= threadIdx.x + 1")),
        (LAST, LAST.replace("expf(x[i]", "expf(x[2 * i]").replace("y[i]", "y[2 * i]")),  # nothing lies side by side
        (LAST, LAST.replace("/ total", "/ (total + threadIdx.x)")),  # a value of the thread
        (LAST, "const float mine = threadIdx.x;\n    " + LAST.replace("/ total", "/ mine")),
        (LAST, "float mine = 0;\n    if (threadIdx.x > 3) mine = 1;\n    " + LAST.replace("/ total", "/ mine")),
        (LAST, LAST.replace("y[i] = ", "y[i] += ")),  # an output is read
        (LAST, LAST.replace("expf(x[i] - peak)", "y[i + 1]")),
        (LAST, LAST.replace("y[i] = ", "if (x[i] > 0) y[i] = ")),  # a vector would be written whole
        (LAST, LAST + "\n    if (C > 5) y[5] = 0;"),  # another thread's element by now
        (LAST, LAST.replace("y[i] = expf(x[i] - peak) / total;", "{ if (x[i] > 9) break; y[i] = x[i]; }")),
        (LAST, LAST.replace("y[i] = expf(x[i] - peak) / total;", "{ __syncthreads(); y[i] = x[i]; }")),
        (LAST, LAST.replace("y[i] = expf(x[i] - peak)", "y[i] = strange(x[i] - peak)")),  # a function not known
        (LAST, LAST.replace("y[i] = expf(x[i] - peak) / total;", "{ y[i] = x[i]; i += 0; }")),
        (LAST, LAST.replace("i < C", "i < C + (int)threadIdx.x % 2")),
        (LAST, "float mine = lane();\n    " + LAST.replace("/ total", "/ mine")),  # a function of the thread
        (LAST, "float mine = 1;\n    find(&mine);\n    " + LAST.replace("/ total", "/ mine")),
        (LAST, LAST.replace("x[i] - peak", "i > 5 ? x[i] : 0").replace("y[i]", "y[2 * i]")),  # perhaps outside
        (LAST, "const float mine = SELF;\n    " + LAST.replace("/ total", "/ mine")),
        (LAST, LAST.replace("for (int", "for (short")),
        ("def run(x, R, C, y):\n", "def run(x, R, C, y):\n    THREADS = 128\n"),  # another number than the kernel's
        ("THREADS=THREADS", "THREADS=2 * THREADS"),
        ("    kernels.softmax", "    again(kernels.softmax)\n    kernels.softmax"),  # a launch that is not seen
        ("#define WARPS", "struct Vector {};\n#define WARPS"),
        ("const float* x, float* y", "float* x, float* y"),  # what is read could be written
        ("#define WARPS", "#define expf(v) (y[0] = v)\n#define total y[1] = 3\n#define WARPS"),
    ],
)
def test_vectors_are_refused(old: str, new: str) -> None:
    assert "vector_load" not in offered(changed(ALONE, (old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (TOTAL, "    if (threadIdx.x > 0) y[threadIdx.x] = total;\n"),  # each thread's own share is used
        ("float total = 0.0f;", "float total = 0.0f, last = 0.0f;"),
        (SUM, SUM.replace("total += expf(x[i] - peak)", "total = total * 2 + x[i]")),  # the order matters
        (SUM, SUM.replace("total += expf(x[i] - peak)", "total += total + x[i]")),
        (SUM, SUM.replace("total += expf(x[i] - peak)", "total += x[i], peak = total")),
        (TOTAL, TOTAL + TOTAL.replace("over_block(total", "over_block(peak")),
        ("__shfl_xor_sync(~0u", "__shfl_up_sync(~0u"),  # a running sum, not a whole one
        ("    return whole;", "    return value;"),
        ("__shared__ float whole;", "float whole;"),
    ],
)
def test_sums_that_are_not_combined_are_refused(old: str, new: str) -> None:
    one = changed(SOFTMAX, (MAX, ""), (LAST, ""), (PEAK, ""))
    assert "vector_load" in offered(one)
    source = changed(one, (old, new))
    if "last = 0.0f" in new:
        source = changed(source, (SUM, SUM.replace("total += expf(x[i] - peak)", "{ total += x[i]; last = x[i]; }")))
    if new.startswith(TOTAL):
        assert "vector_load" in offered(source)  # what follows the sum does not matter
    else:
        assert "vector_load" not in offered(source)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BLOCKS, THREADS](x", "2 * BLOCKS, THREADS](x"),
        ("const int stride = BLOCKS * THREADS;", "int stride = BLOCKS * THREADS;"),
        ("own[bin] != 0) atomicAdd(&counts[bin], own[bin])", "own[bin] != 0) counts[blockIdx.x * B + bin] = own[bin]"),
        ("fits ? own : counts", "fits ? own : counts + blockIdx.x"),  # counts of each block, not of all
        (COUNT, "{ " + COUNT + " atomicExch(&bins[0], 1); }"),
        (COUNT, "counts[x[i]] = atomicAdd(&bins[x[i]], 1);"),  # the order of the additions is used
        (COUNT, "if (bins[0] < 9) " + COUNT),
    ],
)
def test_loops_of_a_grid_are_refused(old: str, new: str) -> None:
    assert "vector_load" not in offered(changed(HISTOGRAM, (old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (SUM, SUM.replace("threadIdx.x;", "threadIdx.x + 1;")),  # loops over other elements
        (PEAK, PEAK + "    x += 1;\n"),  # the row moves in between
        (PEAK, PEAK + "    C -= 1;\n"),
        ("const float* x, float* y", "float* x, float* y"),
        ("THREADS](x, y, C)", "THREADS](x, x, C)"),
        (MAX, MAX.replace("peak = ", "if (i > 4) peak = ").replace("x[i]", "x[i - 4]")),
        (MAX, MAX.replace("peak = fmaxf(peak, x[i]);", "{ peak = fmaxf(peak, x[i]); if (peak > 9) break; }")),
    ],
)
def test_rows_are_not_kept(old: str, new: str) -> None:
    two = changed(SOFTMAX, (LAST, ""))
    assert "register_row" in offered(two)
    assert "register_row" not in offered(changed(two, (old, new)))


def test_a_load_that_the_first_loop_may_leave_out_is_not_kept() -> None:
    source = changed(SOFTMAX, (LAST, ""), (MAX, MAX.replace("fmaxf(peak, x[i])", "i > 3 ? x[i] : peak")))
    assert "register_row" not in offered(source)


LEFT = "as[m * STRIDE + k] = inside ? a[(long long)(row0 + m) * K + k0 + k] : 0;"
RIGHT = "bs[n * STRIDE + k] = inside ? b[(long long)(k0 + k) * N + col0 + n] : 0;"
WAIT = "        }\n        __syncthreads();\n        #pragma unroll\n"
END = "        __syncthreads();\n    }\n"
LEFT_ONLY = changed(GEMM, (RIGHT, RIGHT.replace("col0 + n]", "col0 + 2 * n]")))


def by_vectors(source: str) -> str:
    """The operands that `vector_tile` would bring by vectors."""
    found = [move.label for move in CUDA_REWRITES.moves(source) if move.rewrite == "vector_tile"]
    return found[0].partition(": ")[2] if found else ""


def test_each_operand_is_looked_at() -> None:
    assert by_vectors(GEMM) == "a, b"
    assert by_vectors(LEFT_ONLY) == "a"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LEFT, LEFT.replace("k0 + k]", "k0 + k + 1]")),  # a vector would begin between two boundaries
        (LEFT, LEFT.replace("k0 + k]", "k0 + 2 * k]")),
        (LEFT, LEFT.replace("k0 + k]", "(k0 + k) % 24]")),
        (LEFT, LEFT.replace(": 0;", ": 1;")),
        (LEFT, LEFT.replace("inside ?", "inside && k % 3 ?")),  # a part of a vector
        ("row0 + m < M && k0 + k < K", "row0 + m < M && k0 + k <= K"),
        ("BLOCK_K = 32  # tune: 16 32 64", "BLOCK_K = 32  # tune: 4 16 32 64"),  # a row that ends in a vector
        ("const int m = i / BLOCK_K, k = i % BLOCK_K;", "const int m = (i - 64) / BLOCK_K, k = i % BLOCK_K;"),
        ("const int m = i / BLOCK_K, k = i % BLOCK_K;", "int m = i / BLOCK_K, k = i % BLOCK_K; m = k;"),
        (WAIT, WAIT.replace("        __syncthreads();\n", "")),  # others read while it is written
        (END, "    }\n"),
        (LEFT, LEFT.replace("? a[", "? c[")),  # not an input
        (LEFT, LEFT.replace("k0 + k]", "k0 + k + quad]")),  # a value of the thread
        ("K);\n", "K)\n    kernels.gemm[grid, 64](a, b, c, M, N, K)\n"),
    ],
)
def test_tiles_do_not_go_by_vectors(old: str, new: str) -> None:
    if old == "K);\n":
        old, new = "(a, b, c, M, N, K)\n", "(a, b, c, M, N, K)\n    kernels.gemm[grid, 64](a, b, c, M, N, K)\n"
    assert by_vectors(changed(LEFT_ONLY, (old, new))) == ""


def test_a_place_between_boundaries_is_stored_by_elements() -> None:
    whole = re.compile(r"\*reinterpret_cast<Vector<bf16, 8>\*>\(as \+")
    assert whole.search(after(GEMM, "vector_tile"))
    for old, new in (("(BLOCK_K + 8)", "(BLOCK_K + 1)"), ("__shared__ __align__(16) bf16 as", "__shared__ bf16 as")):
        rewritten = after(changed(GEMM, (old, new)), "vector_tile")
        assert "as[m * STRIDE + k] = part" in rewritten
        assert not whole.search(rewritten)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (WAIT, WAIT.replace("        __syncthreads();\n", "")),
        (END, "    }\n"),
        (LEFT, LEFT.replace("? a[", "? c[")),  # what this kernel writes
        (LEFT, LEFT.replace("row0 + m)", "row0 + m + moved)")),  # changed in the loop, behind the load
        (LEFT, LEFT.replace("inside ?", "as[0] < 9 ?")),
        ("i < BLOCK_M * BLOCK_K; i += THREADS", "i < BLOCK_M * K; i += THREADS"),  # registers have a fixed number
        (END, "        as[0] = 0;\n" + END),  # the tile is also written elsewhere
        (END, "        if (k0 > 64) break;\n" + END),
        ("THREADS * 0", ""),
    ],
)
def test_tiles_are_not_fetched_ahead(old: str, new: str) -> None:
    if old == "THREADS * 0":
        old, new = "WARPS_N](a, b, c,", "WARPS_N](a, a, c,"
    source = changed(GEMM, (old, new))
    if "moved" in new:
        source = changed(
            source, ("    float sums[", "    int moved = 0;\n    float sums["), (END, "        moved += 1;\n" + END)
        )
    assert "prefetch_tile" not in offered(source)


@pytest.mark.parametrize("passed", ["x, x, C", "x, x[1:], C", "x, other, C"])
def test_tensors_that_may_overlap_have_no_promise(passed: str) -> None:
    source = changed(SOFTMAX, ("](x, y, C)", f"]({passed})"), ("y):\n", "y):\n    other = x.view(-1)\n"))
    assert "restrict" not in offered(source)


def test_new_tensors_have_the_promise() -> None:
    source = changed(SOFTMAX, ("](x, y, C)", "](x, other, C)"), ("y):\n", "y):\n    other = torch.empty(4)\n"))
    assert "restrict" in offered(source)
    assert "const float* __restrict__ x, float* __restrict__ y" in after(source, "restrict")


@pytest.mark.parametrize("source", [SOFTMAX, HISTOGRAM, GEMM])
def test_what_a_rewrite_did_it_does_not_offer_again(source: str) -> None:
    for move in CUDA_REWRITES.moves(source):
        rewritten = CUDA_REWRITES.apply(source, move)
        assert move.rewrite not in offered(rewritten)
        assert read_tunables(source).values.items() <= read_tunables(rewritten).values.items()
