from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from operators.rewrites.cpp.ir.reader import read
from operators.rewrites.cpp.ir.writer import write
from operators.rewrites.cpp.shrink import Shrink

SET = "for (int64_t j = 0; j < N; ++j) t[i * N + j] = x[i * N + j];"
GET = "for (int64_t j = 0; j < N; ++j) y[i * N + j] = t[i * N + j];"


def kernel(*body: str, declared: str = "std::vector<float> t(M * N);", behind: str = "", pragma: str = "") -> str:
    lines = "\n    ".join(body)
    return f"""#include <vector>
constexpr int W = 4;
extern "C" void run(const float* x, float* y, int64_t M, int64_t N, int64_t K) {{
  {declared}{pragma}
  for (int64_t i = 0; i < M; ++i) {{
    {lines}
  }}
  {behind}
}}
"""


def shrunk(source: str) -> str | None:
    program = read(source)
    sites = Shrink().sites(program)
    return write(Shrink().apply(program, sites[0])) if sites else None


@pytest.mark.parametrize(
    ("source", "room"),
    [
        (kernel(SET, GET), "std::vector<float> t(N);"),
        (kernel(SET, GET, pragma="\n#pragma omp parallel for"), "std::vector<float> t(N);"),
        (kernel(SET, GET, declared="std::vector<double> t(M * N);"), "std::vector<double> t(N);"),
        (kernel(SET, GET.replace("j < N", "j < N - 2").replace("t[i * N + j]", "t[i * N + (j + 2)]")), "t(N);"),
        (kernel(SET.replace("N + j]", "N + N - 1 - j]"), GET), "t(N);"),
        (kernel(SET.replace("N", "W"), GET.replace("N", "W")), "std::vector<float> t(W);"),
        (kernel(SET.replace("N", "8"), GET.replace("N", "8")), "float t[8];"),
        (kernel("t[i] = x[i];", "y[i] = t[i] * t[i];"), "float t = x[i];"),
        (kernel("if (x[i] > 0) y[i] = 0;", "t[i] = x[i];", "t[i] += 1;", "y[i] = t[i];"), "float t = x[i];"),
        (kernel(SET, "t[i * N + N - 1] = 0;", GET), "t(N);"),
    ],
)
def test_a_buffer_of_one_iteration_is_declared_in_it(source: str, room: str) -> None:
    changed = shrunk(source)
    assert changed is not None
    head, body = changed.split("for (int64_t i", 1)
    assert "t(" not in head.rsplit("{", 1)[1]
    assert room in body
    assert shrunk(changed) is None


@pytest.mark.parametrize(
    "source",
    [
        kernel(GET, SET),  # read before it is written
        kernel("t[i * N] += x[i];", "y[i] = t[i * N];"),  # an update reads, too
        kernel(SET, GET, behind="y[0] = t[0];"),  # read behind the loop
        kernel(SET, behind=f"for (int64_t i = 0; i < M; ++i) {GET}"),  # read in another loop
        kernel(SET, GET, behind="y[0] = t.size();"),
        kernel(SET, GET, behind="use(t);"),
        kernel("float* p = &t[i * N];", SET, GET),
        kernel("t[i] = x[i];", "y[i] = t[i + 1];"),  # an element of another iteration
        kernel("t[i + 1] = x[i];", "y[i] = t[i];"),
        kernel(SET, GET.replace("t[i * N", "t[i * K")),  # rows of another length
        kernel(SET.replace("j < N", "j < K"), GET.replace("j < N", "j < K")),  # perhaps more than a row
        kernel(SET.replace("j < N", "j < N + 1"), GET),
        kernel(SET, GET.replace("N + j];", "N + j + 1];")),  # the first of the next row
        kernel(SET, GET.replace("N + j];", "N + j - 1];")),
        kernel(SET.replace("j < N", "j < N - 1"), GET),  # the last one is not written
        kernel(SET.replace("j = 0", "j = 1"), GET),
        kernel(SET, "t[i * N + 2] = 0;", GET),  # perhaps longer than a row
        kernel(SET.replace("++j", "j += 2"), GET),
        kernel(SET.replace("j < N", "j < N - N % 4"), GET),
        kernel(SET.replace("j < N", "j < std::min(N, K)"), GET),
        kernel(SET.replace("j < N", "j < i"), GET),
        kernel(SET.replace("t[", "if (x[j] > 0) t["), GET),  # written under a condition
        kernel(f"if (x[i] > 0) {{ {SET} }}", GET),
        kernel(f"if (x[i] > 0) {{ {SET} }} else {{ y[i] = 0; }}", GET),
        kernel("for (int64_t j = 0; j < K; ++j) t[i] = x[j];", "y[i] = t[i];"),  # perhaps never
        kernel(SET, "if (x[i] > 0) return;", GET),  # code that is not understood
        kernel(SET, "if (x[i] > 0) break;", GET),
        kernel(SET, "while (y[i] > 0) y[i] -= t[i * N];", GET),
        kernel(SET, "log_all(x[i]);", GET),
        kernel(SET, "for (int64_t t = 0; t < 4; ++t) y[t] = 0;", GET),  # two things of one name
        kernel(SET, GET, declared="std::vector<float> t(M * N, 1.0f);"),
        kernel(SET, GET, declared="std::vector<float> t(M * N), u(N);"),
        kernel(SET, GET, declared="std::vector<float> t(next(M) * N);"),
        kernel(SET, GET, declared="static std::vector<float> t(M * N);"),
        kernel(SET, GET, "N = N - 1;"),  # a size that changes
        kernel("const int64_t i2 = x[i];", SET.replace("t[i *", "t[i2 *"), GET.replace("t[i *", "t[i2 *")),
        kernel("for (int64_t i = 0; i < N; ++i) t[i * N] = x[i];", "y[i] = t[i * N];"),  # two variables of one name
        kernel("for (int64_t j = 0; j < N; ++j) {", *(s.replace("N + j", "M + i") for s in (SET, GET)), "}"),
        kernel(SET, GET, pragma="\n#pragma omp parallel for firstprivate(t)"),
        "#define T t[0]\n" + kernel(SET, GET),
    ],
)
def test_a_buffer_in_doubt_stays(source: str) -> None:
    assert shrunk(source) is None


@pytest.mark.slow
def test_results_stay_where_a_random_buffer_shrinks(tmp_path: Path) -> None:
    rng, parts, calls, moved = random.Random(7), ["#include <cstdio>\n#include <cstdint>\n#include <vector>\n"], [], 0
    for number in range(400):
        length = rng.choice(["N", "6", "6"])
        first = rng.choice([SET.replace("N", length), _loop(rng, length)])
        body = (first, *(_loop(rng, length) for _ in range(rng.randint(1, 4))))
        source = kernel(*body, declared="std::vector<float> t((M + 2) * N);")
        changed = shrunk(source)
        if changed is None:
            continue
        moved += 1
        for kind, text in (("before", source), ("after", changed)):
            function = text.split('extern "C" ', 1)[1]
            parts.append(function.replace("void run", f"static void {kind}{number}"))
        calls.append(f"  bad += differs(before{number}, after{number}, {number});")
    parts.append(_MAIN.replace("CALLS", "\n".join(calls)))
    (tmp_path / "all.cpp").write_text("\n".join(parts).replace("W", "4"))
    flags = ("-O1", "-fsanitize=address,undefined", "-ftrivial-auto-var-init=pattern", "-fno-sanitize-recover=all")
    build = [
        "g++",
        "-std=c++20",
        *flags,
        "-D_GLIBCXX_ASSERTIONS",
        str(tmp_path / "all.cpp"),
        "-o",
        str(tmp_path / "all"),
    ]
    subprocess.run(build, check=True)
    done = subprocess.run([str(tmp_path / "all")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert moved >= 30, moved


def _loop(rng: random.Random, length: str) -> str:
    """Write one loop over a row, or one statement; most are such that the buffer may move."""
    low, high = rng.choice(["0", "0", "0", "1"]), rng.choice([length, length, length, f"{length} - 1"])
    place = rng.choice(["j", "j", "j", f"{length} - 1 - j", "j + 1", "2"])
    element = f"t[i * {length} + ({place})]"
    match rng.randrange(8):
        case 0 | 1 | 2:
            inside = f"{element} = x[i * N + j] + y[i * N];"
        case 3:
            inside = f"{element} += x[i * N + j];"
        case 4:
            inside = f"if (x[j] > 0) {element} = y[i * N + j];"
        case _:
            inside = f"y[i * N + j] += {element};"
    return f"for (int64_t j = {low}; j < {high}; ++j) {{ {inside} }}"


_MAIN = """
typedef void Run(const float*, float*, int64_t, int64_t, int64_t);
static int differs(Run* before, Run* after, int number) {
  int bad = 0;
  for (int64_t n : {6, 7, 19}) {
    std::vector<float> x(5 * n), y(5 * n, 1.0f), z(5 * n, 1.0f);
    for (int64_t k = 0; k < 5 * n; ++k) x[k] = (k * 37 % 11) - 4.0f;
    before(x.data(), y.data(), 5, n, 3);
    after(x.data(), z.data(), 5, n, 3);
    if (y != z) bad += std::printf("%d differs for rows of %d\\n", number, int(n));
  }
  return bad;
}
int main() {
  int bad = 0;
CALLS
  return bad != 0;
}
"""
