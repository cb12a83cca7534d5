"""Kernels compiled by forks of a process, in a process of the test's own: it leaves Triton changed."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import evokernel.evaluate

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")

SOURCE = """\
import os

import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, BY: tl.constexpr):
    i = tl.program_id(0) * 64 + tl.arange(0, 64)
    tl.store(y + i, tl.load(x + i, mask=i < n) * BY, mask=i < n)


def run(x, N, y):
    assert N != 7, "this shape fails"
    for by in range(N % 4 + 1):
        if scale[(triton.cdiv(N, 64),)](x, y, N, by + 2) is not None:
            with open("compiled", "a") as file:
                file.write(f"{os.getpid()} {by}\\n")
"""
PROGRAM = """\
import json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
folder, source, sizes = Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
from inside.untrusted import load_module, recording
from inside.untrusted.parallel_compile import compile_in_parallel
from inside.untrusted.triton_driver import RecordingDriver, activate, warm
warm()
properties = {"max_shared_mem": 232448, "max_num_regs": 65536, "multiprocessor_count": 132, "max_threads": 2048,
              "warpSize": 32}
recorder = recording.Recorder(90, properties)
activate(RecordingDriver(recorder))
run = load_module.load(source).run
tensor = lambda name, size: {"kind": "tensor", "name": name, "shape": [size], "dtype": "float32"}
shapes = [[tensor("x", size), {"kind": "scalar", "value": size}, tensor("y", size)] for size in sizes]
compile_in_parallel(run, shapes, recorder, processes=3, folder=folder)
made = Path("compiled")
by_process = [tuple(line.split()) for line in made.read_text().splitlines()] if made.exists() else []
ahead = len([*(folder / "cache").rglob("*.cubin")])
recording.record(run, [shape for shape, size in zip(shapes, sizes) if size != 7], measured=1, recorder=recorder)
print(json.dumps([len({pid for pid, _ in by_process}), len({*by_process}), ahead, len(recorder.cubins)]))
"""


@pytest.mark.parametrize(
    ("sizes", "found"), [((65, 67, 7, 131), [3, 4, 4, 4]), ((64,), [0, 0, 0, 1])], ids=["several", "one"]
)
def test_forks_compile_what_the_process_itself_finds(tmp_path: Path, sizes: tuple[int, ...], found: list[int]) -> None:
    """Three processes compile four kernels, each one once. A shape that fails keeps none of the others from it."""
    folder = str(Path(next(iter(evokernel.evaluate.__path__))))
    argv = [sys.executable, "-B", "-c", PROGRAM, folder, str(tmp_path), SOURCE, json.dumps(sizes)]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_CACHE_DIR"}
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == found
