"""The files of a GPU kernel's export. What they need a GPU for is done by torch on the processor here."""

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from evokernel.config.run import RunConfig
from evokernel.errors import LanguageError
from evokernel.evaluate.client.evaluate_kernel import KernelVerdict
from evokernel.export.cuda_helper import with_helper
from evokernel.export.files import KERNEL, export_files
from evokernel.export.reference import reference_files
from evokernel.languages.gpu.cuda_static_check import HELPER_IMPORT
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import NONDETERMINISTIC, Evaluation, EvaluatorIdentity, Fidelity, Mode, Stage, Status
from evokernel.records.process_exit import ProcessExit
from evokernel.task import Task, Workload, WorkloadSet
from evokernel.tasks import load_task
from tests.support.exports import exit_beside
from tests.support.nvrtc import needs_nvrtc
from tests.support.stores import make_timing

TASKS = ("gemm", "softmax")
ON_CPU = {
    "gemm": "import torch\ndef run(a, b, M, N, K, c):\n    torch.mm(a, b, out=c)\n",
    "softmax": "import torch\ndef run(x, M, N, y):\n    torch.softmax(x, dim=1, out=y)\n",
}
CONFIG = RunConfig.model_validate(
    {"task": "gemm", "budget": {"evaluations": 1}, "islands": [{"name": "one", "operators": {"tune": 1}}]}
)

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")


def small(name: str) -> Task:
    """A built-in task as it is on GPUs, at sizes for a processor."""
    task = load_task(name).on("cuda")
    dims = {dim: 24 + 8 * place for place, dim in enumerate(task.workloads["cuda"].search[0].dims)}
    one, other = Workload("small", dims), Workload("held out", {dim: size + 1 for dim, size in dims.items()})
    return replace(task, workloads={"cuda": WorkloadSet((one,), (other,), {})})


def files(task: Task, source: str) -> dict[str, str]:
    found = {KERNEL: judgement(Candidate(source, "triton"))}
    return export_files(task, found, CONFIG, reference=reference_files(task.reference))


def cuda_files(source: str) -> dict[str, str]:
    found, task = {KERNEL: judgement(Candidate(source, "cuda"))}, small("softmax")
    return export_files(task, found, CONFIG, reference=reference_files(task.reference))


def judgement(candidate: Candidate) -> KernelVerdict:
    identity = EvaluatorIdentity("t" * 16, "NVIDIA H100", "triton 3.6.0; torch 2.11", "1", Mode.ARTIFACT, {}, "none")
    evaluation = Evaluation(
        identity.key("p" * 16, Fidelity.FINAL), candidate.id, Status.OK, Stage.FINAL,
        timings=(make_timing("small", 1.25),),
    )  # fmt: skip
    return KernelVerdict(candidate, identity, (evaluation,))


def run_test(folder: Path, texts: dict[str, str]) -> ProcessExit:
    """Run the exported test without evokernel, on the processor."""
    for name, text in texts.items():
        (folder / name).write_text(text.replace('DEVICE = "cuda"', 'DEVICE = "cpu"'), encoding="utf-8")
    return exit_beside(folder, "import test_kernel; test_kernel.test_kernel()", timeout_s=600)


@needs_triton
@pytest.mark.parametrize("name", TASKS)
def test_a_right_kernel_passes_the_exported_test(name: str, tmp_path: Path) -> None:
    done = run_test(tmp_path, files(small(name), ON_CPU[name]))
    assert done.ok, done.stderr


@needs_triton
@pytest.mark.parametrize(
    "wrong", ["    torch.mm(a, b, out=c).mul_(1.05)\n", "    c.zero_()\n", "    c.fill_(float('nan'))\n"]
)
def test_a_wrong_kernel_fails_the_exported_test(wrong: str, tmp_path: Path) -> None:
    done = run_test(tmp_path, files(small("gemm"), f"import torch\ndef run(a, b, M, N, K, c):\n{wrong}"))
    assert done.exit_code == 1
    assert "AssertionError: small: off by" in done.stderr


def test_the_kernel_is_handed_on_as_it_is_and_the_readme_says_how_to_call_it() -> None:
    texts = files(small("gemm"), ON_CPU["gemm"])
    assert texts.keys() == {"kernel.py", "op.py", "reference.py", "test_kernel.py", "README.md"}
    assert texts["kernel.py"] == ON_CPU["gemm"]
    call, numbers = "kernel.run(a, b, 24, 32, 40, c)", ("1.25x", "80.0 us")
    for part in ("run(a, b, M, N, K, c)", call, *numbers, "NVIDIA H100", "artifact mode"):
        assert part in texts["README.md"]
    assert "nondeterministic" not in texts["README.md"]


def test_the_readme_says_that_bits_differ_from_run_to_run() -> None:
    found = judgement(Candidate(ON_CPU["gemm"], "triton"))
    marked = replace(found, evaluations=(replace(found.last, metrics={NONDETERMINISTIC: 1.0}),))
    task = small("gemm")
    texts = export_files(task, {KERNEL: marked}, CONFIG, reference=reference_files(task.reference))
    assert "It is nondeterministic: " in texts["README.md"]


def test_without_a_reference_that_can_be_written_down_there_is_neither_test_nor_operator() -> None:
    assert files(replace(small("gemm"), reference=lambda a, b, **_: a @ b), "").keys() == {"kernel.py", "README.md"}


CUDA = """# first: ä
{helper}

m = Module("extern \\"C\\" __global__ void k(float* x) {{ *x = N; }}", N=4)

def run(x, R, C, y):
    m.k[1, 1](y)
"""


@pytest.mark.parametrize(
    "helper", [HELPER_IMPORT, f"{HELPER_IMPORT}; rest = 1", "from evokernel.cuda import (\n    Module\n)"]
)
def test_a_cuda_kernel_carries_its_helper(helper: str, tmp_path: Path) -> None:
    texts = cuda_files(CUDA.format(helper=helper))
    assert texts.keys() == {"kernel.py", "op.py", "reference.py", "test_kernel.py", "README.md"}
    assert "A CUDA C++ kernel found" in texts["README.md"]
    assert texts["kernel.py"].startswith("# first: ä\ndef _nvrtc()")
    (tmp_path / "kernel.py").write_text(texts["kernel.py"], encoding="utf-8")
    script = "import sys; sys.modules['evokernel'] = None; import kernel, torch\n"
    script += "try:\n    kernel.run(None, 1, 1, torch.empty(1))\n"
    script += "except (AssertionError, RuntimeError) as error:\n    print('at the GPU:', error)"
    command = [sys.executable, "-W", "error", "-c", script]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("at the GPU:"), done.stderr


@needs_nvrtc
def test_the_helper_of_an_exported_file_compiles(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(with_helper(CUDA.format(helper=HELPER_IMPORT)), encoding="utf-8")
    script = "import kernel; find_nvrtc, target_of = kernel._nvrtc(); "
    script += "print(len(find_nvrtc().compile(kernel.m._source, kernel.m._options, target=target_of(90))))"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert int(done.stdout) > 1000, done.stderr


def test_what_is_no_cuda_source_gets_no_helper() -> None:
    with pytest.raises(LanguageError, match=r"evokernel\.cuda"):
        with_helper("import torch\n")
