"""Nsight Compute and compute-sanitizer on recordings: each rule names its planted kernel, and sanitizers what is wrong.

`pytest -m gpu -rP tests/gpu/test_instruments.py` prints what was found, with all counters.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.artifact_mode.build_checks import Target
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.device.nvml import visible_gpu
from evokernel.evaluate.instruments.bottlenecks import RULES, derive, diagnose
from evokernel.evaluate.instruments.inspection import Inspection
from evokernel.evaluate.instruments.profiler import PREFIX, Profiler
from evokernel.evaluate.instruments.sanitizer import MEMCHECK, RACECHECK, Sanitizer, Tool
from evokernel.evaluate.instruments.tool_run import RecordedCall, ToolRunner
from evokernel.evaluate.instruments.tools import PROFILER, SANITIZER, counters_refused, find_tool
from evokernel.evaluate.sandbox.levels import detect_sandbox
from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.gpu.cuda import CudaLanguage
from evokernel.languages.gpu.triton import TritonLanguage
from evokernel.protocols import Language
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity, Status
from evokernel.task import Task, Workload, WorkloadSet
from evokernel.tasks import load_task
from tests.gpu import fault_kernels as planted
from tests.support.warm_compiler import WarmForge

SCALE = str(Path(__file__).parent / "scale_task.py")
needs_profiler = pytest.mark.skipif(
    find_tool(PROFILER) is None or counters_refused(), reason="hardware counters cannot be read here"
)
needs_sanitizer = pytest.mark.skipif(find_tool(SANITIZER) is None, reason="compute-sanitizer is not installed")
# Right on every run, since nobody is late by so much: a block is read as it was written, by other warps, unordered.
RACING = """\
from evokernel.cuda import Module

kernels = Module(r'''
extern "C" __global__ void racing(const float* x, float* y, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * 256 + threadIdx.x, j = blockIdx.x * 256 + 255 - threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0.0f;
    __threadfence_block();
    __nanosleep(20000);
    if (j < n) y[j] = 2 * s[255 - threadIdx.x] + 1;
}
''')


def run(x, R, C, y):
    kernels.racing[-(-R * C // 256), 256](x, y, R * C)
"""
ORDERED = RACING.replace("__threadfence_block();\n    __nanosleep(20000);", "__syncthreads();")


@cache
def device() -> tuple[Target, Mapping[str, Language], int]:
    """Return what plans are checked against, the languages, and how many multiprocessors there are."""
    gpu = visible_gpu()
    assert gpu is not None
    limits, forge = DeviceLimits(capability=gpu.capability), WarmForge()
    languages: dict[str, Language] = {
        "cuda": CudaLanguage(forge=forge, device=limits),
        "triton": TritonLanguage(forge=forge, device=limits, compile_timeout_s=120.0),
    }
    target = planted.target_of(gpu.capability, shared_bytes=gpu.shared_bytes)
    return target, languages, torch.cuda.get_device_properties(0).multi_processor_count


@cache
def toolbox(tool: str) -> ToolRunner:
    """Return one for each tool: one may work in the sandbox and the other not."""
    return ToolRunner(detect_sandbox())


@cache
def profiler() -> Profiler:
    return Profiler(toolbox(PROFILER), multiprocessors=device()[2], timeout_s=120.0)


def recorded(kernel: planted.Planted) -> RecordedCall:
    target, languages, _ = device()
    content = torch.rand(kernel.workload.sizes["N"]).numpy().tobytes()
    language = languages[kernel.language]
    return planted.recorded(language, kernel.source, kernel.workload, {"x": content}, task=planted.TASK, target=target)


@cache
def profiled(name: str) -> Inspection:
    found = profiler().profile(recorded(planted.kernels(device()[2])[name]))
    print(f"--- {name}\n{found.remarks}\n{found.metrics}\nin the sandbox: {toolbox(PROFILER).sandboxed}")
    return found


def rule_of(found: Inspection) -> str:
    assert found.complete, found.remarks
    counters = {key.removeprefix(PREFIX): value for key, value in found.metrics.items() if key.startswith(PREFIX)}
    return diagnose(derive(counters, multiprocessors=device()[2])).rule


@needs_profiler
@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_a_rule_names_its_planted_kernel_and_not_its_neighbours(name: str) -> None:
    own, neighbour = profiled(name), profiled(planted.NEIGHBOUR[name])
    assert rule_of(own) == name, own
    assert f"bottleneck: {name}: " in own.remarks
    assert rule_of(neighbour) != name, neighbour


@needs_profiler
def test_every_counter_exists_on_this_device() -> None:
    needed = {name for rule in RULES for name in (*rule.at_least, *rule.at_most)}
    known = profiled("fp32 pipe").metrics
    counters = {key.removeprefix(PREFIX): value for key, value in known.items()}
    derived = derive({**counters, "load_requests": 1.0, "store_requests": 1.0}, multiprocessors=device()[2])
    assert needed - {"conflict_pct"} <= derived.keys(), known  # without shared memory there is no share of it


def check(call: RecordedCall, tool: Tool) -> Inspection:
    found = Sanitizer(toolbox(SANITIZER), timeout_s=300.0).check([(tool, call)])
    print(f"--- {tool.name} on {call.label}\n{found}\nin the sandbox: {toolbox(SANITIZER).sandboxed}")
    return found


@needs_sanitizer
def test_a_write_out_of_bounds_is_found_and_told_with_its_place() -> None:
    found = check(recorded(planted.FOR_SANITIZERS["out of bounds"]), MEMCHECK).verdict
    assert found is not None
    assert found.status is Status.SANITIZER
    assert "out-of-bounds write of 4 bytes of global memory" in found.feedback
    assert "planted" in found.feedback
    assert not re.search("0x[0-9a-f]{6,}", found.feedback)


@needs_sanitizer
def test_a_race_on_shared_memory_is_found_and_told_with_its_places() -> None:
    found = check(recorded(planted.FOR_SANITIZERS["race"]), RACECHECK).verdict
    assert found is not None
    assert "race on shared memory\n" in found.feedback
    assert "planted" in found.feedback


@needs_sanitizer
@pytest.mark.parametrize("name", ["out of bounds", "race"])
def test_of_a_hidden_shape_nothing_is_told(name: str) -> None:
    call = replace(recorded(planted.FOR_SANITIZERS[name]), hidden=True, label="a hidden shape")
    found = check(call, MEMCHECK if name == "out of bounds" else RACECHECK).verdict
    assert found is not None
    assert "\n" not in found.feedback
    assert not any(character.isdigit() for character in found.feedback)


@needs_sanitizer
@pytest.mark.parametrize("name", ["in bounds", "no race"])
@pytest.mark.parametrize("tool", [MEMCHECK, RACECHECK], ids=lambda tool: tool.name)
def test_right_kernels_pass(name: str, tool: Tool) -> None:
    found = check(recorded(planted.FOR_SANITIZERS[name]), tool)
    assert found.complete, found.remarks
    assert found.verdict is None


SEEDS: Mapping[str, Mapping[str, int]] = {
    "gemm": {"M": 256, "N": 256, "K": 128},
    "softmax": {"R": 64, "C": 2048},
    "layernorm": {"R": 64, "C": 2048},
}


def seed_call(name: str, language: str) -> RecordedCall:
    """Return a call of a built-in task's seed on a small workload, with random bits that are numbers as inputs."""
    target, languages, _ = device()
    task: Task = load_task(name).on("cuda")
    small = Workload("small", {**task.workloads["cuda"].search[0].dims, **SEEDS[name]})
    task = replace(task, workloads={"cuda": WorkloadSet((small,), (small,), task.workloads["cuda"].probe)})
    inputs = {
        tensor.name: torch.randn(tensor.shape_at(small.sizes)).to(getattr(torch, tensor.dtype)).view(torch.uint8)
        for tensor in task.signature.inputs
    }
    content = {key: bytes(value.reshape(-1).numpy()) for key, value in inputs.items()}
    source = task.seeds[language].read_text(encoding="utf-8")
    return planted.recorded(languages[language], source, small, content, task=task, target=target)


@needs_sanitizer
@pytest.mark.parametrize("tool", [MEMCHECK, RACECHECK], ids=lambda tool: tool.name)
@pytest.mark.parametrize("kernel", ["warp-group products", "gemm", "softmax", "layernorm"])
def test_what_triton_compiles_passes(kernel: str, tool: Tool) -> None:
    """Warp-group products, copies that run ahead, reductions over warps: none of it is a finding."""
    seed = kernel in SEEDS
    call = seed_call(kernel, "triton") if seed else recorded(planted.FOR_SANITIZERS[kernel])
    found = check(call, tool)
    assert found.verdict is None, found.verdict
    assert found.complete, found.remarks


async def judged(*sources: str, budget: Fidelity) -> list[Evaluation]:
    settings = EvaluationConfig(quick_ms=20, precise_ms=40, final_ms=60, final_processes=1, gpus=1).on("cuda")
    language = local_language("cuda", settings)
    async with open_evaluator(SCALE, language, settings=settings, profiled=True) as evaluator:
        requests = [
            EvaluationRequest(Candidate(source, "cuda"), language.program_hash(source), budget) for source in sources
        ]
        return [await evaluator.evaluate(request) for request in requests]


@needs_profiler
def test_a_candidate_that_is_timed_precisely_is_profiled() -> None:
    (found,) = asyncio.run(judged(ORDERED, budget=Fidelity.PRECISE))
    print(found.feedback, found.metrics)
    assert found.ok, found.feedback
    assert "profiled with hardware counters on 1024x1024: kernel racing" in found.feedback
    assert "\nbottleneck: " in found.feedback
    assert found.metrics["profile_s"] > 0
    assert found.metrics[f"{PREFIX}time_ns"] > 0
    assert found.feedback.count("\n") < 60


@needs_sanitizer
def test_a_winner_with_a_race_is_no_winner() -> None:
    ordered, racing = asyncio.run(judged(ORDERED, RACING, budget=Fidelity.FINAL))
    print(ordered.feedback, ordered.metrics, racing.feedback, sep="\n")
    assert ordered.ok, ordered.feedback
    assert ordered.metrics["sanitized"] == 1.0
    assert racing.status is Status.SANITIZER, racing.feedback
    assert "racecheck" in racing.feedback
