"""CUDA C++ on a GPU: compiled at hand, exported, and taken from what was compiled without a GPU."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from evokernel.cuda import Module
from evokernel.evaluate.inside.driver.nvrtc import CompileError
from evokernel.evaluate.inside.process import bundle
from evokernel.export.cuda_helper import with_helper
from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.gpu.cuda import CudaLanguage
from evokernel.languages.toolchain import forge_plain
from evokernel.records.build import Built
from evokernel.tasks import load_task
from tests.languages.gpu.test_cuda_build import KINDS, TASK

GEMM_SIZES = [(1, 1, 1), (1, 8, 16), (70, 65, 33), (257, 66, 47), (512, 384, 256)]
SOFTMAX_SIZES = [(1, 1), (3, 2), (5, 257), (2, 5000), (64, 4096)]
# What a worker does: KINDS makes y[i] = x[191 - i] + 3.75 of 64 elements, by way of everything.
LAUNCH = """
import sys
from pathlib import Path
import torch
folder, evaluate = sys.argv[1:]
sys.path.append(evaluate)
from inside.driver import nvrtc
from inside.untrusted import cuda_cache, load_module

nvrtc.find_nvrtc = None  # nothing is compiled
x = torch.randn(65536, device="cuda")
y = torch.zeros_like(x)
major, minor = torch.cuda.get_device_capability()
cuda_cache.use_cache(Path(folder, cuda_cache.CACHE), capability=10 * major + minor)
run = load_module.load(Path(folder, load_module.FILE).read_text()).run
off = lambda: (y[:64] - x[128:192].flip(0) - 3.75).abs().max().item()
run(x, x.numel(), y)
assert off() < 1e-5, off()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    run(x, x.numel(), y)
x.normal_()
y.zero_()
graph.replay()
assert off() < 1e-5, off()
assert not y[64:].any()
"""


def loaded(source: str) -> ModuleType:
    module = ModuleType("kernel")
    exec(source, vars(module))
    return module


def seed(task: str) -> str:
    return load_task(task).seeds["cuda"].read_text(encoding="utf-8")


@pytest.mark.parametrize("exported", [False, True])
def test_the_plain_products_are_right(exported: bool) -> None:
    kernel = loaded(with_helper(seed("gemm")) if exported else seed("gemm"))
    for m, n, k in GEMM_SIZES:
        a, b = (torch.randn(shape, device="cuda").bfloat16() for shape in ((m, k), (k, n)))
        c = torch.full((m + 1, n), 7.0, device="cuda").bfloat16()
        kernel.run(a, b, m, n, k, c)
        exact = a.double() @ b.double()
        assert ((c[:m].double() - exact).abs() <= exact.abs() / 250 + 1e-5 * k).all()
        assert (c[m:] == 7).all()


@pytest.mark.parametrize("exported", [False, True])
def test_the_plain_softmax_is_right(exported: bool) -> None:
    kernel = loaded(with_helper(seed("softmax")) if exported else seed("softmax"))
    for rows, columns in SOFTMAX_SIZES:
        x, y = torch.randn(rows, columns, device="cuda"), torch.full((rows + 1, columns), 7.0, device="cuda")
        kernel.run(x, rows, columns, y)
        torch.testing.assert_close(y[:rows].double(), torch.softmax(x.double(), dim=1), rtol=1e-5, atol=1e-7)
        assert (y[rows:] == 7).all()


def test_a_mistake_is_told_when_the_kernel_is_launched() -> None:
    module = Module('extern "C" __global__ void k(float* x) { *x = nowhere; }')
    with pytest.raises(CompileError, match="nowhere"):
        module.k[1, 1](torch.empty(1, device="cuda"))
    with pytest.raises(RuntimeError, match="CUDA error"):
        Module("").missing[1, 1]()


def test_a_worker_launches_what_was_compiled_without_a_gpu(tmp_path: Path) -> None:
    major, minor = torch.cuda.get_device_capability()
    language = CudaLanguage(forge=forge_plain, device=DeviceLimits(capability=10 * major + minor))
    built = language.build(KINDS, TASK)
    assert isinstance(built, Built), built
    for name, content in bundle.unpack(built.artifact).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    evaluate = str(Path(bundle.__file__).parents[2])
    argv = [sys.executable, "-I", "-B", "-c", LAUNCH, str(tmp_path), evaluate]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
