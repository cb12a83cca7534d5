"""The plain CUDA seeds are right for any size: their text is run on the processor, on a small stand-in for CUDA."""

import shutil
from pathlib import Path

import pytest

from evokernel.source.tunables import read_tunables, with_values
from evokernel.tasks import load_task
from tests.support.cuda_seeds import run_on_cpu

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@pytest.mark.parametrize(
    ("task", "values"),
    [
        ("gemm", {}),
        ("gemm", {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "WARPS_M": 1, "WARPS_N": 1}),
        ("gemm", {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "WARPS_M": 4, "WARPS_N": 1}),
        ("gemm", {"BLOCK_M": 32, "BLOCK_N": 256, "BLOCK_K": 16, "WARPS_M": 1, "WARPS_N": 4}),
        ("softmax", {}),
        ("softmax", {"THREADS": 32, "UNROLL": 4}),
        ("softmax", {"THREADS": 1024, "UNROLL": 2}),
        ("histogram", {"BLOCKS": 132}),
        ("histogram", {"THREADS": 64, "BLOCKS": 264, "UNROLL": 4}),
    ],
)
def test_a_plain_seed_is_right_for_any_size(task: str, values: dict[str, int], tmp_path: Path) -> None:
    source = load_task(task).seeds["cuda"].read_text(encoding="utf-8")
    space = read_tunables(source)
    assert space.allows(space.values | values)
    done = run_on_cpu(task, with_values(source, values), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("task", "old", "new"),
    [
        ("gemm", "row < M && col < N", "row < M"),
        ("gemm", "k0 + k < K && col0 + n < N", "col0 + n < N"),
        ("gemm", "left[i][1] = pair(at + 8 * STRIDE)", "left[i][1] = pair(at + 8)"),
        ("softmax", "i < C; i += THREADS) y", "i < C + 9; i += THREADS) y"),
        ("softmax", "    __syncthreads();\n    return whole", "    return whole"),
        ("histogram", "i < N; i", "i < N - 1; i"),
        ("histogram", "own[bin] = 0;\n    __syncthreads();", "own[bin] = 0;"),
        ("histogram", "int* bins = fits ? own : counts", "int* bins = own"),
        ("gemm", "        }\n        __syncthreads();\n        #pragma", "        }\n        #pragma"),
    ],
)
def test_mistakes_are_seen(task: str, old: str, new: str, tmp_path: Path) -> None:
    source = load_task(task).seeds["cuda"].read_text(encoding="utf-8")
    assert old in source
    assert run_on_cpu(task, source.replace(old, new), tmp_path).returncode != 0
