"""The kernel that fills buffers for timed calls: it compiles for every dtype, and its text is right on a processor."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from evokernel.evaluate.inside.driver.nvrtc import find_nvrtc
from evokernel.evaluate.numerics.arrays import torch_dtype
from evokernel.evaluate.numerics.device_contents import SOURCE, options_of
from evokernel.task import DTYPES
from tests.support.nvrtc import needs_nvrtc

HEADER = Path(__file__).parents[2] / "support" / "cuda_on_cpu.h"
SIZE, STRIDE = 5001, 6000
# three contents of a table of 0, 1, 2 and so on, and the second of them once more on its own
MAIN = f"""
int main() {{
    std::vector<Stored> table(1 << BITS), rows(3 * {STRIDE}), one({STRIDE});
    for (int i = 0; i < 1 << BITS; ++i) table[i] = i + 1;
    launch(3, 3, THREADS, [&] {{ fill(table.data(), BITS, 1, rows.data(), {STRIDE}, {SIZE}, KEY, 7, 0.25f); }});
    launch(2, 1, THREADS, [&] {{ fill(table.data(), BITS, 0, one.data(), {STRIDE}, {SIZE}, KEY, 8, 0.25f); }});
    rows.insert(rows.end(), one.begin(), one.end());
    for (Stored value : rows) printf("%.9g ", (double)value);
}}
"""


@needs_nvrtc
@pytest.mark.parametrize("dtype", DTYPES)
def test_it_compiles(dtype: str) -> None:
    assert find_nvrtc().compile(SOURCE, options_of(torch_dtype(dtype)), target="sm_90a")


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("dtype", DTYPES)
def test_contents_are_drawn_from_the_table_and_come_again(dtype: str, tmp_path: Path) -> None:
    program, bits = tmp_path / "fill", 7 if DTYPES[dtype] == 1 else 9
    options = [option for option in options_of(torch_dtype(dtype)) if "THREADS" not in option]
    program.with_suffix(".cpp").write_text(f'#include "{HEADER}"\n#define THREADS 64\n{SOURCE}{MAIN}')
    command = ["g++", "-O1", "-w", "-std=c++17", *options, f"-DBITS={bits}", "-DKEY=987654321987ull"]
    subprocess.run([*command, f"{program}.cpp", "-o", str(program)], check=True, capture_output=True, timeout=300)
    done = subprocess.run([program], capture_output=True, text=True, timeout=300, check=True)
    rows = np.array(done.stdout.split(), dtype=np.float64).reshape(4, STRIDE)
    assert not rows[:, SIZE:].any()
    found = rows[:, :SIZE]
    assert (found[3] == found[1]).all()
    assert abs(np.corrcoef(found[:3]) - np.eye(3)).max() < 0.07
    assert abs(found[:3].mean(axis=1) / (2 ** (bits - 1) + 0.5) - 1).max() < 0.05
    scaled = dtype in ("float32", "float64")
    assert len(np.unique(found[0])) > SIZE - 10 if scaled else len(np.unique(found[0])) == 2**bits
    assert (0.74 if scaled else 1) <= found.min() <= found.max() <= (641 if scaled else 2**bits)
