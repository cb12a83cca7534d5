"""`evokernel evaluate --compile-only`: a kernel is checked and built, never run; a GPU kernel without a GPU."""

import importlib.util
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.tools_task import place_task
from tests.support.nvrtc import needs_nvrtc

SEEDS = Path(__file__).parents[2] / "evokernel" / "tasks" / "gemm" / "seeds"
TRITON, CUDA = SEEDS / "plain.py", SEEDS / "plain.cu.py"

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")


def test_cpp_is_built_and_described(project: Path, call: Call) -> None:
    task, kernel = place_task(project)
    result = call("evaluate", kernel, "--task", task, "--compile-only", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert (found["ok"], found["language"], found["stage"], found["feedback"]) == (True, "cpp", "compile", "")
    assert found["descriptor"]["code_bytes"] > 0
    assert found["artifact_hash"]


def test_what_does_not_compile_says_why(project: Path, call: Call) -> None:
    task, kernel = place_task(project)
    kernel.write_text('extern "C" void run(const float* a) { nonsense; }\n', encoding="utf-8")
    result = call("evaluate", kernel, "--task", task, "--compile-only")
    assert result.exit_code == 1, result.output
    assert "not built: compile" in " ".join(result.output.split())
    assert "nonsense" in result.output


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("evaluation.compile_timeout_s=long", "evaluation.compile_timeout_s: expected a number, given 'long'"),
        ("evaluation.compile_time_s=60", "did you mean 'compile_timeout_s'?"),
        ("evaluation.timeout_s", "expected evaluation.KEY=VALUE"),
        ("threads=2", "expected evaluation.KEY=VALUE, such as evaluation.compile_timeout_s=60"),
        ("evaluation={hosts: ray, devices: {CPU: 2}}", "expected evaluation.KEY=VALUE"),
    ],
)
def test_a_wrong_setting_is_told(project: Path, call: Call, setting: str, said: str) -> None:
    task, kernel = place_task(project)
    told = call("evaluate", kernel, "--task", task, "--compile-only", "--set", setting)
    assert told.exit_code == 2, told.output
    assert said in " ".join(told.output.split())


def test_a_cluster_is_for_searches(project: Path, call: Call) -> None:
    task, kernel = place_task(project)
    cluster = ("--set", "evaluation.hosts=ray", "--set", "evaluation.devices={CPU: 2}")
    for settings in (cluster, cluster[:2]):
        told = call("evaluate", kernel, "--task", task, "--compile-only", *settings)
        assert told.exit_code == 2, told.output
        assert "a cluster is for searches" in told.output


@needs_triton
def test_triton_is_built_without_a_gpu(project: Path, call: Call) -> None:
    result = call("evaluate", TRITON, "--task", "gemm", "--compile-only", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["language"] == "triton"
    assert found["descriptor"]["registers"] > 0
    assert {"shared_kib", "tensor_cores", "spills"} <= found["descriptor"].keys()
    shown = call("evaluate", TRITON, "--task", "gemm", "--compile-only", "--target", "sm_80")
    assert shown.exit_code == 0, shown.output
    for part in ("built, not run", "registers", "spills", "environment"):
        assert part in shown.output


@needs_triton
def test_triton_that_does_not_compile_says_why(project: Path, call: Call) -> None:
    kernel = project / "kernel.py"
    kernel.write_text(TRITON.read_text(encoding="utf-8").replace("BLOCK_M = 64", "BLOCK_M = 63"), encoding="utf-8")
    result = call("evaluate", kernel, "--task", "gemm", "--compile-only")
    assert result.exit_code == 1, result.output
    assert "power of 2" in result.output


@needs_nvrtc
def test_cuda_is_built_without_a_gpu(project: Path, call: Call) -> None:
    result = call("evaluate", CUDA, "--task", "gemm", "--compile-only", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["language"] == "cuda"
    assert found["environment"].startswith("nvrtc ")
    assert found["descriptor"]["tensor_cores"] == 1
    kernel = project / "kernel.cu.py"
    kernel.write_text(CUDA.read_text(encoding="utf-8").replace("const int row0", "const int row"), encoding="utf-8")
    result = call("evaluate", kernel, "--task", "gemm", "--compile-only", "--target", "sm_80")
    assert result.exit_code == 1, result.output
    assert 'identifier "row0" is undefined' in " ".join(result.output.split())


@needs_nvrtc
def test_headers_of_a_folder_are_part_of_what_was_judged(project: Path, call: Call) -> None:
    project.chmod(0o755)
    header, kernel = project / "include" / "mine" / "start.cuh", project / "kernel.cu.py"
    header.parent.mkdir(parents=True)
    header.write_text("__device__ const float mine = 0.0f;\n")
    text = CUDA.read_text(encoding="utf-8")
    kernel.write_text(text.replace("#define THREADS", "#include <mine/start.cuh>\n#define THREADS"), encoding="utf-8")
    arguments = ("evaluate", kernel, "--task", "gemm", "--compile-only", "--json")
    alone = call(*arguments)
    assert alone.exit_code == 1, alone.output
    assert "mine/start.cuh" in json.loads(alone.output)["feedback"]
    there = [call(*arguments, "--cuda-include", project / "include")]
    header.write_text("__device__ const int mine = 0;\n")
    there.append(call(*arguments, "--cuda-include", project / "include"))
    assert [each.exit_code for each in there] == [0, 0], there[0].output
    first, second = (json.loads(each.output)["environment"] for each in there)
    assert first != second != json.loads(alone.output)["environment"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--compile-only", "--final"), "leave out --final"),
        (("--target", "sm_90"), "--target goes with --compile-only"),
        (("--cuda-include", "."), "--cuda-include names headers for CUDA C++"),
        (("--compile-only", "--target", "sm_12"), "unknown target 'sm_12': expected one of sm_80"),
    ],
)
def test_options_that_make_no_sense_are_refused(call: Call, arguments: tuple[str, ...], words: str) -> None:
    result = call("evaluate", TRITON, "--task", "gemm", *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())


def test_cpp_takes_no_target(call: Call) -> None:
    result = call("evaluate", SEEDS / "naive.cpp", "--task", "gemm", "--compile-only", "--target", "sm_90")
    assert result.exit_code == 2
    assert "for the processor of this machine" in " ".join(result.output.split())


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="for machines without a GPU")
def test_measuring_triton_without_a_gpu_says_what_can_be_done(call: Call) -> None:
    result = call("evaluate", TRITON, "--task", "gemm")
    assert result.exit_code == 2
    assert "none is visible here" in " ".join(result.output.split())
    assert "--compile-only" in result.output
