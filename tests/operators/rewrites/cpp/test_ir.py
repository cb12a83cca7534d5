from __future__ import annotations

import pytest

from operators.rewrites.cpp.ir.affine import Poly
from operators.rewrites.cpp.ir.dependence import facts
from operators.rewrites.cpp.ir.paths import paths
from operators.rewrites.cpp.ir.reader import UnreadableCpp, read
from operators.rewrites.cpp.ir.reductions import reduction_of
from operators.rewrites.cpp.ir.syntax import For
from operators.rewrites.cpp.ir.writer import write, write_expr
from tests.operators.rewrites.cpp.loop_nests import NESTS, Nest

ODDITIES = """#include <cmath>
constexpr int MR = 8;  // tune: 4 6 8
// tune-where: MR <= 8
static float twice(float x) { return x * 2; }
extern "C" void run(const float* __restrict__ a, float* c, int64_t M) {
  // first
  #pragma GCC unroll 16
  for (int64_t i = 0; i < M; i += 4) {
    alignas(64) float acc[MR][4] = {};
    (f32v_u&)c[i] = (const f32v_u&)a[i] - f32v{};
    float m = -INFINITY, q = 2;
    x = std::max<float>(m, 1.0f) - -q - (m - q);
  }
  if (M > 3) c[0] = M ? 1 : (float)2; else { c[1] -= -1; }  // trailing
  while (true) { if (M) break; }
  int64_t n = 0;
  ++n;
  std::vector<float> t(2 * M);
  // last
}
int after;
"""


def kinds(source: str) -> dict[str, tuple[bool, bool]]:
    program = read(source)
    found = {}
    for path, stmt in paths(program.body):
        if isinstance(stmt, For):
            known = facts(program, path)
            found[stmt.var] = (known.parallel, known.reorderable)
    return found


def kernel(body: str, args: str = "const float* x, float* out, int64_t M, int64_t N") -> str:
    return f'extern "C" void run({args}) {{ {body} }}'


@pytest.mark.parametrize("nest", NESTS, ids=lambda n: n.name)
def test_reading_what_was_written_gives_the_same_program(nest: Nest) -> None:
    program = read(nest.source)
    assert read(write(program)) == program


def test_text_that_is_not_understood_survives() -> None:
    text = write(read(ODDITIES))
    for part in (
        "while (true) { if (M) break; }",
        "std::vector<float> t(2 * M);",
        "// first",
        "// last",
        "// trailing",
        "int after;",
        "twice",
    ):
        assert part in text
    assert read(text) == read(ODDITIES)
    assert write(read(text)) == text


@pytest.mark.parametrize("text", ["", "int main() {}", "void run(int) {", "\x00", 'extern "C" void run(float*) {}'])
def test_unreadable_text_is_refused(text: str) -> None:
    with pytest.raises(UnreadableCpp):
        read(text)


def test_parentheses_follow_evaluation_order() -> None:
    program = read(kernel("out[0] = (x[0] - (x[1] - x[2])) * x[3] / (x[4] * x[5]);"))
    assert "out[0] = (x[0] - (x[1] - x[2])) * x[3] / (x[4] * x[5]);" in write(program)


def test_sizes_are_at_least_one() -> None:
    n, m = Poly.symbol("N"), Poly.symbol("M")
    assert (n * m - n).nonnegative()
    assert not (n - m).nonnegative()


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("for (int i = 0; i < M; ++i) out[i] = x[i];", (True, True)),
        ("for (int i = 0; i < M; ++i) out[0] = x[i];", (False, False)),
        ("for (int i = 0; i < M; ++i) out[0] += x[i];", (False, True)),
        ("for (int i = 1; i < M; ++i) out[i] = out[i - 1] + x[i];", (False, False)),
        ("for (int i = 0; i < M; ++i) out[i * i] = x[i];", (False, False)),
        ("for (int i = 0; i < M; ++i) out[i % 3] = x[i];", (False, False)),
        ("for (int i = 0; i < M; ++i) for (int j = 0; j < N; ++j) out[i * N + j] = x[j];", (True, True)),
        ("for (int i = 0; i < M; ++i) for (int j = 0; j <= N; ++j) out[i * N + j] = x[j];", (False, False)),
        ("for (int i = 0; i < M; ++i) for (int j = 0; j < M; ++j) out[i * N + j] = x[j];", (False, False)),
        ("for (int i = 0; i < M; ++i) for (int j = 0; j < N; ++j) out[j * M + i] = x[j];", (True, True)),
        ("for (int i = 0; i < M; ++i) for (int j = 0; j < N; ++j) out[i + j] = x[j];", (False, False)),
        (
            "for (int i = 0; i < M; ++i) { float t = 0; for (int j = 0; j < N; ++j) t += x[j]; out[i] = t; }",
            (True, True),
        ),
        ("float t = 0; for (int i = 0; i < M; ++i) { t += x[i]; out[i] = t; }", (False, False)),
        ("float t = 0; for (int i = 0; i < M; ++i) t = x[i] > t ? x[i] : t;", (False, True)),
        ("float t = 0; for (int i = 0; i < M; ++i) t = x[i] - t;", (False, False)),
        ("for (int i = 0; i < M; ++i) out[i] = unknown(x[i]);", (False, False)),
        ("for (int i = 0; i < M; ++i) { out[i] = 0; while (M) {} }", (False, False)),
    ],
)
def test_loop_kinds(body: str, want: tuple[bool, bool]) -> None:
    assert kinds(kernel(body))["i"] == want


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("m += x;", "+"),
        ("m = x + m;", "+"),
        ("m *= x;", "*"),
        ("m = std::max(m, x);", "max"),
        ("m = fminf(x, m);", "min"),
        ("m = x < m ? m : x;", "max"),
        ("if (x < m) m = x;", "min"),
        ("m = m - x;", None),
        ("m += m;", None),
        ("m = x > y ? x : m;", None),
    ],
)
def test_reductions_are_recognised(text: str, op: str | None) -> None:
    found = reduction_of(read(kernel(text)).body[0])
    assert (None if found is None else found[1]) == op


def test_loops_with_early_exit_are_left_alone() -> None:
    program = read(kernel("for (int i = 0; i < M; ++i) { if (x[i] > 0) break; out[i] = 1; }"))
    assert not any(isinstance(s, For) for s in program.body)


def test_expressions_print_with_few_parentheses() -> None:
    program = read(kernel("out[(M + 1) * N] = -(x[0] + 1);"))
    assert write_expr(program.body[0].target) == "out[(M + 1) * N]"
