"""One call under sanitizers."""

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evokernel.languages.cpp.checked_job import EXIT_BAD_JOB, EXIT_FOUND, pack_job, read_sanitizer_report
from evokernel.languages.cpp.language import CppLanguage
from evokernel.languages.toolchain import run_plain
from evokernel.records.build import BuildFailure
from evokernel.records.process_exit import ProcessExit
from evokernel.task import Role, Scalar, Signature, Task, Tensor

SIGNATURE = Signature(
    inputs=(Tensor("x", ("N",)), Tensor("w", ("N", 2), "float64", Role.INOUT)),
    scalars=(Scalar("N"), Scalar("alpha", "float32")),
    outputs=(Tensor("y", ("N",), role=Role.OUTPUT),),
)
TASK = Task(name="t", reference=lambda **_: None, signature=SIGNATURE, workloads={}, flops="N")
SOURCE = """#include <cstdint>
#include <cstdlib>
extern "C" void run(const float* x, double* w, int64_t N, float alpha, float* y) {
    for (int64_t i = 0; i < N; ++i) {
        y[i] = alpha * x[i];
    }
    // here
}
"""


@pytest.fixture(scope="module")
def cpp() -> CppLanguage:
    language = CppLanguage(run=run_plain)
    if not language.sanitizers:
        pytest.skip("this compiler has no sanitizers")
    return language


def job(n: int, alpha: float = 2.0) -> bytes:
    arrays = {"x": np.arange(n, dtype=np.float32), "w": np.ones((n, 2))}
    return pack_job(SIGNATURE, {"N": n, "alpha": alpha}, arrays)


def outcome(cpp: CppLanguage, source: str, folder: Path, *, work: bytes | None = None) -> tuple[int, str]:
    made = cpp.build_checked(source, TASK)
    assert isinstance(made, bytes), made
    program = folder / "checked"
    program.write_bytes(made)
    program.chmod(0o755)
    done = subprocess.run(
        [program], input=job(5) if work is None else work, capture_output=True, timeout=300, check=False
    )
    report = read_sanitizer_report(done.stderr.decode())
    assert report.count("\n") < 12
    assert "0x" not in report
    assert str(folder) not in report
    return done.returncode, report


def test_clean_call_for_many_sizes(cpp: CppLanguage, tmp_path: Path):
    assert outcome(cpp, SOURCE, tmp_path) == (0, "")
    for n in (0, 1, 63, 64, 1000):
        assert subprocess.run([tmp_path / "checked"], input=job(n), check=False).returncode == 0


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("y[N] = 1;", "write of 4 bytes, reaching 4 bytes past the end of argument y (20 bytes)"),
        ("y[0] = x[N + 1];", "read of 4 bytes, reaching 8 bytes past the end of argument x (20 bytes)"),
        ("w[-1] = 0;", "write of 8 bytes, 8 bytes before the start of argument w (80 bytes)"),
        ("int q = (int)N + 2147483647; y[0] = q;", "signed integer overflow"),
        ("y[0] = *(const double*)(x + 1);", "misaligned address"),
        ("y[1L << 40] = 1;", "SEGV"),
    ],
)
def test_mistakes_are_named(cpp: CppLanguage, tmp_path: Path, statement: str, expected: str):
    status, report = outcome(cpp, SOURCE.replace("// here", statement), tmp_path)
    assert status == EXIT_FOUND
    assert expected in report
    assert "kernel.cpp:7" in report


def test_calls_of_several_shapes_are_made_by_one_process(cpp: CppLanguage, tmp_path: Path):
    kept = SOURCE.replace("// here", "static float* room = new float[N]; room[N - 1] = y[0];")
    assert outcome(cpp, kept, tmp_path, work=job(9) + job(5)) == (0, "")
    status, report = outcome(cpp, kept, tmp_path, work=job(5) + job(9))
    assert (status, report.split(":")[0]) == (EXIT_FOUND, "heap-buffer-overflow")
    earlier = SOURCE.replace("// here", "static const float* first = x; y[0] = first[0];")
    status, report = outcome(cpp, earlier, tmp_path, work=job(5) * 2)
    assert (status, report.split(":")[0]) == (EXIT_FOUND, "heap-use-after-free")


def test_a_clean_end_has_the_status_of_the_job(cpp: CppLanguage, tmp_path: Path):
    arrays = {"x": np.arange(5, dtype=np.float32), "w": np.ones((5, 2))}
    work = pack_job(SIGNATURE, {"N": 5, "alpha": 2.0}, arrays, status=17)
    assert outcome(cpp, SOURCE, tmp_path, work=work) == (17, "")
    assert outcome(cpp, SOURCE.replace("// here", "std::_Exit(0);"), tmp_path, work=work) == (0, "")


def test_the_main_around_all_candidates_of_a_task_is_compiled_once(cpp: CppLanguage):
    commands = []

    def run(argv: Sequence[str], **limits: Any) -> ProcessExit:
        commands.append(argv)
        return run_plain(argv, **limits)

    language = CppLanguage(run=run)
    for statement in ("", "y[0] = 1;"):
        assert isinstance(language.build_checked(SOURCE.replace("// here", statement), TASK), bytes)
    assert sum("main.cpp" in argv for argv in commands) == 1


def test_a_fast_linker_is_no_condition(cpp: CppLanguage):
    def run(argv: Sequence[str], **limits: Any) -> ProcessExit:
        missing = any("-fuse-ld" in word for word in argv)
        return run_plain(["false"] if missing else argv, **limits)

    assert isinstance(CppLanguage(run=run).build_checked(SOURCE, TASK), bytes)


def test_own_memory_is_watched_too(cpp: CppLanguage, tmp_path: Path):
    text = "volatile char* p = (char*)malloc(8); free((void*)p); p[0] = 1;"
    status, report = outcome(cpp, SOURCE.replace("// here", text), tmp_path)
    assert status == EXIT_FOUND
    assert "heap-use-after-free" in report


def test_scalars_arrive(cpp: CppLanguage, tmp_path: Path):
    text = "if (N != 3 || alpha != 0.5f || x[2] != 2.0f || w[5] != 1.0 || y[0] == y[0]) abort();"
    source = SOURCE.replace("    for (int64_t i", f"    {text}\n    for (int64_t i", 1)
    assert outcome(cpp, source, tmp_path, work=job(3, 0.5))[0] == 0
    assert outcome(cpp, source, tmp_path, work=job(3, 0.25))[0] != 0


def test_bad_job_is_told_from_a_finding(cpp: CppLanguage, tmp_path: Path):
    assert outcome(cpp, SOURCE, tmp_path, work=b"nonsense")[0] == EXIT_BAD_JOB
    assert outcome(cpp, SOURCE, tmp_path, work=job(5)[:-1])[0] == EXIT_BAD_JOB


def test_what_does_not_compile(cpp: CppLanguage):
    failure = cpp.build_checked(SOURCE.replace("alpha *", "beta *"), TASK)
    assert isinstance(failure, BuildFailure)
    assert "beta" in failure.message
    assert "walk" not in failure.message
    missing = cpp.build_checked(SOURCE.replace("run(", "walk("), TASK)
    assert missing == BuildFailure("link error: used but defined nowhere: run")


def test_pack_job_is_the_documented_format():
    packed = pack_job(SIGNATURE, {"N": 1, "alpha": 2.0}, {"x": b"abcd", "w": bytes(16)})
    assert packed == (
        b"EVKJOB1\0"
        + struct.pack("<Q4s", 4, b"abcd")
        + struct.pack("<Q16s", 16, b"")
        + struct.pack("<qd", 1, 2.0)
        + struct.pack("<Q4s", 4, b"\xff" * 4)
    )


def test_pack_job_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="a job needs alpha, w"):
        pack_job(SIGNATURE, {"N": 1}, {"x": b"abcd"})
    with pytest.raises(ValueError, match="'x' has 3 bytes; its shape needs 4"):
        pack_job(SIGNATURE, {"N": 1, "alpha": 1.0}, {"x": b"abc", "w": bytes(16)})


def test_report_of_something_else_is_shortened():
    text = "terminate called\n" * 50 + "at /usr/lib/x.so 0x7fff12345678\n"
    assert read_sanitizer_report(text).count("\n") < 12
    assert read_sanitizer_report("") == ""
    assert read_sanitizer_report("at /usr/lib/x.so 0x7fff12345678") == "at x.so (address)"
