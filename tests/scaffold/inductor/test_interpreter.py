"""Triton's interpreter as `init` uses it: what is added to it, in processes of its own."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")

FOLDS = """
import numpy as np, torch, triton, triton.language as tl
from evokernel.scaffold.inductor.interpreted_library import folds_of_slices
folds_of_slices()
calls = 0

def best(x, at, y, to):
    global calls
    calls += 1
    first = (x > y) | ((x == y) & (at < to))
    return tl.where(first, x, y), tl.where(first, at, to)

best = triton.jit(best)

@triton.jit
def longer(x, y):
    return tl.where(x > y, x, y)

@triton.jit
def kernel(x, top, place, whole, so_far):
    rows, columns = tl.arange(0, 8)[:, None], tl.arange(0, 16)[None, :]
    given = tl.load(x + rows * 16 + columns)
    values, places = tl.reduce((given, columns.broadcast_to(8, 16)), 1, best)
    tl.store(top + tl.arange(0, 8), values)
    tl.store(place + tl.arange(0, 8), places)
    tl.store(whole, tl.reduce(given, None, longer))
    tl.store(so_far + rows * 16 + columns, tl.associative_scan(given, 0, longer))

x = torch.randn(8, 16)
made = torch.empty(8), torch.empty(8, dtype=torch.int64), torch.empty(1), torch.empty(8, 16)
kernel[(1,)](x, *made)
assert torch.equal(made[0], x.amax(1)) and torch.equal(made[1], x.argmax(1))
assert made[2] == x.max() and torch.equal(made[3], x.cummax(0).values)
assert calls == 15, calls
"""


def test_the_interpreter_folds_slices_by_functions_of_a_kernels_own(tmp_path: Path) -> None:
    (path := tmp_path / "folds.py").write_text(FOLDS, encoding="utf-8")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


NUMBERS = """
import torch, triton, triton.language as tl
from evokernel.scaffold.inductor.interpreted_library import InterpretedLibrary

libdevice = InterpretedLibrary()

@triton.jit
def kernel(out, size):
    rows, columns = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
    root = libdevice.pow((size / 2).to(tl.float64), tl.full([], 0.5, tl.float64))
    whole = tl.broadcast_to(root, [4, 8]).to(tl.float32)
    tl.store(out + rows * 8 + columns, whole + libdevice.sqrt(columns.to(tl.float32)))

kernel[(1,)](out := torch.empty(4, 8), 18)
torch.testing.assert_close(out, 3 + torch.arange(8.0).sqrt().expand(4, 8))
"""


def test_functions_of_single_numbers_give_single_numbers(tmp_path: Path) -> None:
    (path := tmp_path / "single.py").write_text(NUMBERS, encoding="utf-8")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


UNTOUCHED = """
import json, sys, torch
from pathlib import Path
from evokernel.scaffold.inductor.interpreter_process import main
from evokernel.tasks import load_task

def touched():
    raise RuntimeError("No CUDA GPUs are available")

torch.cuda.is_available, torch.cuda._lazy_init = lambda: True, touched  # as in a fork beside a GPU
text = Path(load_task("softmax").seeds["triton"]).read_text()
given = Path("program.py")
more = ["import torch", "inner = run", "def run(*given):", "    with torch.cuda.device(0):", "        inner(*given)"]
given.write_text("\\n".join([text, *more]))
main("softmax", "cuda", str(given), "answer.json")
assert json.loads(Path("answer.json").read_text()) == {"wrong": ""}, Path("answer.json").read_text()
"""


def test_the_comparison_in_the_interpreter_asks_for_no_gpu(tmp_path: Path) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    argv = [sys.executable, "-c", UNTOUCHED]
    done = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
