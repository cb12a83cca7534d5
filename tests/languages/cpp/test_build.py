"""Real compilers, real machine code."""

import ctypes
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from evokernel.config.run import DESCRIPTORS
from evokernel.languages.cpp.language import CppLanguage
from evokernel.languages.toolchain import run_plain
from evokernel.records.build import BuildFailure, Built
from evokernel.records.process_exit import ProcessExit

HEAD = "#include <cstdint>\n"
ENTRY = 'extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {'
NAIVE = f"""{HEAD}{ENTRY}
    for (int64_t i = 0; i < M; ++i)
        for (int64_t j = 0; j < N; ++j) {{
            float sum = 0.0f;
            for (int64_t k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
            c[i * N + j] = sum;
        }}
}}
"""
IKJ = f"""{HEAD}{ENTRY}
    for (int64_t i = 0; i < M; ++i) {{
        for (int64_t j = 0; j < N; ++j) c[i * N + j] = 0.0f;
        for (int64_t k = 0; k < K; ++k)
            for (int64_t j = 0; j < N; ++j) c[i * N + j] += a[i * K + k] * b[k * N + j];
    }}
}}
"""
DECOY = NAIVE.replace(ENTRY, ENTRY + "\n    for (int64_t i = 0; i < M * N; ++i) c[i] = 3.0f * a[i];")


@pytest.fixture(scope="module")
def cpp() -> CppLanguage:
    return CppLanguage(run=run_plain)


def built(made: Built | BuildFailure) -> Built:
    assert isinstance(made, Built), made
    return made


def failed(made: Built | BuildFailure) -> BuildFailure:
    assert isinstance(made, BuildFailure)
    return made


def test_vector_bits_are_those_of_the_hot_loop(cpp: CppLanguage):
    assert built(cpp.build(NAIVE)).descriptor["vector_bits"] == 0
    assert built(cpp.build(DECOY)).descriptor["vector_bits"] == 0
    wide = built(cpp.build(IKJ))
    assert wide.descriptor["vector_bits"] in ((256, 512) if platform.machine() == "x86_64" else (128, 256, 512))
    assert wide.metrics["hot_loop_depth"] == 3
    assert wide.metrics["hot_loop_fma"] >= 1


def test_numbers_that_code_compares_sizes_with_are_read_as_the_compiler_has_worked_them_out(cpp: CppLanguage):
    singled = "M > 1000 && M < 1010 || N % 128 == 7 * 11 || K == -4321 - 1 || ((N ^ 341) & 4095) == 0"
    built = cpp.build(NAIVE.replace(ENTRY, f"{ENTRY}\n    if ({singled}) return;"))
    assert isinstance(built, Built)
    assert {77, 127, 341, 1001, 4322} <= set(built.numbers)
    plain = cpp.build(NAIVE)
    assert isinstance(plain, Built)
    assert max(plain.numbers) < 100, "addresses and stack frames were read"


def test_the_hot_loop_can_be_read(cpp: CppLanguage):
    assert "xmm" in cpp.hot_loop(NAIVE) or platform.machine() != "x86_64"
    assert len(cpp.hot_loop(NAIVE).split("\n")) == built(cpp.build(NAIVE)).metrics["hot_loop_instructions"]
    assert cpp.hot_loop("int run;") == ""


def test_comment_changes_nothing_that_was_measured(cpp: CppLanguage):
    plain, commented = (
        built(cpp.build(IKJ)),
        built(cpp.build(IKJ.replace("int64_t j = 0", "int64_t j = /* vmulss */ 0"))),
    )
    assert plain.hash == commented.hash
    assert plain.descriptor == commented.descriptor
    assert plain.descriptor.keys() == DESCRIPTORS["cpu"]


def test_a_note_that_is_loaded_is_part_of_the_hash(cpp: CppLanguage):
    text = """extern "C" const int repeats __attribute__((visibility("hidden")));
asm(".pushsection .note.mode,\\"a\\",@note\\n.globl repeats\\nrepeats: .long COUNT\\n.popsection");
extern "C" void run(float* y) { for (volatile int i = 0; i < repeats; i = i + 1) y[0] = 1.0f; }
"""
    once, often = (built(cpp.build(text.replace("COUNT", count))) for count in ("1", "9"))
    assert once.hash != often.hash


def test_names_of_locals_do_not_change_the_hash(cpp: CppLanguage):
    other = NAIVE.replace("sum", "acc")
    assert built(cpp.build(NAIVE)).hash == built(cpp.build(other)).hash
    assert cpp.program_hash(NAIVE) != cpp.program_hash(other)


def test_called_functions_and_constants_are_part_of_the_hash(cpp: CppLanguage):
    text = "#include <cmath>\n" + 'extern "C" void run(float* y) { y[0] = std::FUN(y[1]) + 2.5f; }'
    sources = [text.replace("FUN", "exp"), text.replace("FUN", "log"), text.replace("FUN", "exp").replace("2.5", "3.5")]
    assert len({built(cpp.build(source)).hash for source in sources}) == 3


def test_spills_are_seen(cpp: CppLanguage):
    if platform.machine() != "x86_64":
        pytest.skip("the source below uses x86 vectors")
    tile = """typedef float V __attribute__((vector_size(32), aligned(4)));
extern "C" void run(const float* a, const float* b, long K, float* c) {
    V acc[SIZE] = {};
    for (long k = 0; k < K; ++k)
#pragma GCC unroll 64
        for (int r = 0; r < SIZE; ++r) acc[r] += a[k * 64 + r] * *(const V*)(b + k * 8);
#pragma GCC unroll 64
    for (int r = 0; r < SIZE; ++r) *(V*)(c + 8 * r) = acc[r];
}
"""
    small = built(cpp.build(tile.replace("SIZE", "6")))
    large = built(cpp.build(tile.replace("SIZE", "60")))
    assert small.descriptor["spills"] == 0
    assert small.descriptor["vector_bits"] == 256
    assert large.descriptor["spills"] >= 20
    assert large.descriptor["code_bytes"] > small.descriptor["code_bytes"]


def test_artifact_can_be_called(cpp: CppLanguage, tmp_path: Path):
    library = tmp_path / "kernel.so"
    library.write_bytes(built(cpp.build(NAIVE)).artifact)
    a, b, c = (ctypes.c_float * 2)(2, 3), (ctypes.c_float * 2)(5, 7), (ctypes.c_float * 1)()
    sizes = [ctypes.c_int64(size) for size in (1, 1, 2)]
    ctypes.CDLL(str(library)).run(a, b, *sizes, c)
    assert c[0] == 31


def test_thread_local_scratch_and_standard_library(cpp: CppLanguage):
    text = "#include <vector>\nstatic thread_local std::vector<float> s;\n"
    text += 'extern "C" void run(float* y) { s.resize(9); y[0] = s[0]; }'
    assert built(cpp.build(text)).descriptor["code_bytes"] > 0


def test_openmp_only_with_threads(cpp: CppLanguage):
    text = NAIVE.replace("    for (int64_t i", "#pragma omp parallel for\n    for (int64_t i", 1)
    parallel = CppLanguage(run=run_plain, threads=2)
    assert "-fopenmp" in parallel.environment
    assert built(parallel.build(text)).hash != built(cpp.build(text)).hash
    assert built(parallel.build(text)).metrics["hot_loop_depth"] >= 3  # the body is a function of its own


def test_date_and_time_are_fixed(cpp: CppLanguage):
    made = built(
        cpp.build('extern "C" const char* when() { return __DATE__ __TIME__ __TIMESTAMP__; }\nextern "C" void run() {}')
    )
    assert b"Jan  1 1970" in made.artifact
    assert time.strftime("%Y").encode() not in made.artifact


def test_link_error_names_the_symbol(cpp: CppLanguage):
    message = failed(
        cpp.build("float missing(float);\n" + 'extern "C" void run(float* y) { *y = missing(*y); }')
    ).message
    assert message == "link error: used but defined nowhere: missing(float)"


@pytest.mark.parametrize(
    "source", ["static " + "void run(float*) {}", 'extern "C" void run(float*);', "void run(float*) {}"]
)
def test_no_entry_point(cpp: CppLanguage, source: str):
    assert "defines no visible function" in failed(cpp.build(source)).message


def test_enormous_message_is_cut(cpp: CppLanguage):
    text = f'static_assert(false, "{"x" * (10 << 20)}");\nint y = nowhere;\n'
    message = failed(cpp.build(text)).message
    assert len(message) < 10_000
    assert "static assertion failed" in message


def test_enormous_program_is_refused(cpp: CppLanguage):
    text = 'static float table[1 << 25] = {1.0f};\nextern "C" void run(float* y) { y[0] = table[(long)y[1]]++; }'
    assert "larger than 64 MiB" in failed(cpp.build(text)).message


def test_odd_text_is_a_failure(cpp: CppLanguage):
    assert failed(cpp.build("\ud800\0")).message
    assert failed(cpp.build("")).message


def test_time_limit_leaves_nobody_behind():
    folders: list[Path] = []

    def watched(argv: Sequence[str], *, workdir: Path, timeout_s: float, memory_bytes: int) -> ProcessExit:
        folders.append(workdir)
        return run_plain(argv, workdir=workdir, timeout_s=timeout_s, memory_bytes=memory_bytes)

    levels = "".join(f"#define L{n} L{n - 1} L{n - 1} L{n - 1} L{n - 1}\n" for n in range(1, 16))
    slow = CppLanguage(run=watched, compile_timeout_s=0.5)
    failure = failed(slow.build(f"#define L0 ;\n{levels}L15\n"))
    assert failure.timed_out
    assert "0.5 s" in failure.message
    deadline = time.monotonic() + 60
    while _alive(folders[0]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _alive(folders[0])
    assert not folders[0].exists()


def test_memory_limit_is_a_failure():
    small = CppLanguage(run=run_plain, memory_bytes=64 << 20)
    assert "memory" in failed(small.build("#include <regex>\n" + NAIVE)).message


def _alive(folder: Path) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(str(folder)):
                return True
        except OSError:
            continue
    return False
