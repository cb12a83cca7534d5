"""The kernel that compares outputs: it compiles for every dtype, and its text is right when run on the processor."""

import math
import shutil
import subprocess
from pathlib import Path

import pytest

from evokernel.evaluate.artifact_mode.row_comparison import KINDS, SOURCE
from evokernel.evaluate.inside.driver.nvrtc import find_nvrtc
from tests.support.nvrtc import needs_nvrtc

HEADER = Path(__file__).parents[2] / "support" / "cuda_on_cpu.h"
# four rows of 5000, strides of 6000 and 5000: equal; one element off by 0.5; a NaN; off by more where it is larger
MAIN = """
int main() {
    std::vector<Stored> mine(4 * 6000), theirs(4 * 5000);
    std::vector<float> found(12);
    for (int i = 0; i < 4 * 5000; ++i) theirs[i] = mine[i / 5000 * 6000 + i % 5000] = store(1 + i % 2);
    mine[6000 + 4999] = store(2.5f);
    mine[2 * 6000 + 1] = store(NAN);
    for (int i = 0; i < 5000; ++i) mine[3 * 6000 + i] = store(1 + i % 2 + (i % 2 ? 0.25f : 0.125f));
    launch(7, 4, THREADS, [&] { compare(mine.data(), theirs.data(), 6000, 5000, 5000, 0.125f, found.data()); });
    for (float value : found) printf("%g ", value);
}
"""
STORE = {
    "FLOAT32": "static float store(float x) { return x; }",
    "FLOAT64": "static double store(float x) { return x; }",
    "BFLOAT16": "static unsigned short store(float x) { return rounded(x); }",
}


@needs_nvrtc
@pytest.mark.parametrize("kind", sorted(set(KINDS.values())))
def test_it_compiles(kind: str) -> None:
    assert find_nvrtc().compile(SOURCE, ("-DTHREADS=256", f"-D{kind}"), target="sm_90a")


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("kind", STORE)
def test_errors_are_summed_and_the_worst_is_found(kind: str, tmp_path: Path) -> None:
    program = tmp_path / "compare"
    head = f'#include "{HEADER}"\n#define THREADS 64\n#define {kind}'
    program.with_suffix(".cpp").write_text("\n".join([head, SOURCE.replace("#else", "#elif 0"), STORE[kind], MAIN]))
    command = ["g++", "-O1", "-w", "-std=c++17", f"{program}.cpp", "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    done = subprocess.run([program], capture_output=True, text=True, timeout=300, check=True)
    found = [float(value) for value in done.stdout.split()]
    rows = [found[at : at + 3] for at in range(0, 12, 3)]
    due = 5000 * 2.5
    assert rows[0] == [0, due, 0]
    assert rows[1] == [0.25, due, 0.25]  # 0.5, less an eighth of 2
    assert math.isnan(rows[2][0])
    assert rows[2][1:] == [due, math.inf]
    assert rows[3] == pytest.approx([2500 * (0.125**2 + 0.25**2), due, 0], rel=1e-5)
