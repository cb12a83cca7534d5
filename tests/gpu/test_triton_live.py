"""Launching on a GPU what was built without one: every kind of argument, clusters, tensor maps, graphs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from evokernel.evaluate.inside.process import bundle
from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.gpu.triton import TritonLanguage
from evokernel.languages.toolchain import forge_plain
from evokernel.records.build import Built
from tests.languages.gpu.test_triton_build import KINDS, TASK

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]

# y = 2 x + 30, by way of everything
SOURCE = (
    KINDS[: KINDS.index("def run(")]
    + """\
def run(x, N, y):
    scratch = torch.empty_like(x)
    scratch.zero_()
    grid = lambda meta: (triton.cdiv(N, meta["BLOCK"]),)
    mixed[grid](x, scratch, None, N, 0.5, True, (3, 4), 1, 2, BLOCK=256)
    mixed[grid](scratch, y, x, N, 2.0, False, (7, 1), 5, 2, BLOCK=256, num_ctas=2)
    rows = N // 64
    source, target = (TensorDescriptor.from_tensor(each.view(rows, 64), [32, 64]) for each in (y, scratch))
    on_host[(rows // 32,)](source, target, 32)
    on_device[(rows // 32,)](scratch, y, rows, 32, num_warps=8)
"""
)
LAUNCH = """
import json, sys
import torch
folder, evaluate = sys.argv[1:]
sys.path.append(evaluate)
from inside.untrusted import load_module, triton_build
from inside.untrusted.triton_driver import LiveDriver, activate, use_cache

x = torch.randn(65536, device="cuda")
y = torch.full_like(x, float("nan"))
activate(LiveDriver())
use_cache(folder + "/" + triton_build.CACHE)
run = load_module.load(open(folder + "/" + load_module.FILE).read()).run
run(x, x.numel(), y)
plain = (y - (2 * x + 30)).abs().max().item()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    run(x, x.numel(), y)
x.normal_()
y.fill_(float("nan"))
graph.replay()
print(json.dumps([plain, (y - (2 * x + 30)).abs().max().item()]))
"""


def test_what_was_recorded_runs(tmp_path: Path):
    major, minor = torch.cuda.get_device_capability()
    language = TritonLanguage(
        forge=forge_plain, device=DeviceLimits(capability=10 * major + minor), compile_timeout_s=120.0
    )
    built = language.build(SOURCE, TASK)
    assert isinstance(built, Built), built
    for name, content in bundle.unpack(built.artifact).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    evaluate = str(Path(bundle.__file__).parents[2])
    argv = [sys.executable, "-I", "-B", "-c", LAUNCH, str(tmp_path), evaluate]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    errors = json.loads(done.stdout)
    assert max(errors) < 1e-4, errors
