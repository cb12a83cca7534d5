import pytest

from evokernel.languages.cpp.static_check import static_check
from evokernel.source import SIZE_LIMIT_BYTES

GOOD = '#include <cstdint>\nextern "C" void run(const float* x, int64_t N, float* y) {}\n'


@pytest.mark.parametrize(
    "source",
    [
        GOOD,
        'extern "C" {\nstatic int f();\nvoid run(float* y) {}\n}',
        "#include <immintrin.h>\n" + GOOD,
        '// #include "other.h"\n' + GOOD,
        "constexpr int MR = 4;  // tune: 2 4\n// tune-where: MR <= 4\n" + GOOD,
        GOOD + 'void f() { asm volatile("nop"); }',
    ],
)
def test_accepted(source: str):
    assert static_check(source) is None


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "entry point is missing"),
        ("void run(float* y) {}", 'extern "C"'),
        ('// extern "C" void run(float* y) {}', "entry point is missing"),
        ('const char* s = "extern \\"C\\" void run()";', "entry point is missing"),
        ('#include "secret.h"\n' + GOOD, "only standard headers"),
        ("#include </etc/passwd>\n" + GOOD, "only standard headers"),
        ("# /* */ include <../x>\n" + GOOD, "only standard headers"),
        ("%: include <sys/mman.h>\n" + GOOD, "sys/mman.h"),
        ("#define H <vector>\n#include H\n" + GOOD, "only standard headers"),
        ("#inc\\\nlude <unistd.h>\n" + GOOD, "only standard headers"),
        ("#embed </etc/passwd>\n" + GOOD, "#embed cannot be used"),
        ("#include_next <vector>\n" + GOOD, "#include_next cannot be used"),
        (GOOD + '__asm__(".incbin \\"/etc/passwd\\"");', ".incbin"),
        (GOOD + 'asm(R"(.include "x")");', ".incbin or .include"),
        (GOOD + "\0", "NUL"),
        (GOOD + "// \ud800", "line 3"),
        (GOOD + "//" + "x" * SIZE_LIMIT_BYTES, "the limit is"),
        ("int A = 1;  // tune: 1 2\nint A = 2;  // tune: 1 2\n" + GOOD, "declared twice"),
        ("// tune-where: A < 2\n" + GOOD, "not tunables"),
        ("constexpr int A = 4;  // tune: 2 4\n// tune-where: A <= 2\n" + GOOD, "break a constraint"),
        ("constexpr int A = 4;  // tune: 2 4\n// tune-where: A // 0 == 1\n" + GOOD, "divides by zero"),
    ],
)
def test_rejected(source: str, reason: str):
    problem = static_check(source)
    assert problem is not None
    assert reason in problem
