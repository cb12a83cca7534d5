"""Evaluators of other projects on a kernel with a `run`, each called as its own scripts call it.

Nothing of theirs is part of this project: each is a checkout that is named, or an installed package. Every function
runs in a process of its own, decides there, and returns whether the kernel was accepted, in which words, and the
speed-up that it was given over the reference.
"""

import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from evokernel.evaluate.numerics.arrays import torch_dtype
from evokernel.task import Scalar, Task, Tensor, Workload
from evokernel.tasks import load_task

TIMEOUT_S = 40
"""Time that a kernel has before a judge, its process's start included."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What another judge said of a kernel."""

    accepted: bool
    words: str
    """Its status, or what it complained about."""
    speedup: float | None = None
    """Its number over the reference, where it accepted."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A kernel with its task."""

    name: str
    language: str
    source: str
    spec: str
    """Path of the task."""

    @property
    def task(self) -> Task:
        """The task on a GPU."""
        return load_task(self.spec).on("cuda")

    @property
    def workload(self) -> Workload:
        """The first search workload: other judges know one size."""
        return self.task.workloads["cuda"].search[0]

    @property
    def numbers(self) -> dict[str, float]:
        """Values of the scalars by name."""
        return {scalar.name: self.workload.dims[scalar.name] for scalar in self.task.signature.scalars}

    @property
    def call(self) -> str:
        """Python text that calls `run` with inputs of their names, makes the outputs, and returns them."""
        signature = self.task.signature
        sizes, outputs, device = self.workload.sizes, signature.outputs, f"{signature.inputs[0].name}.device"
        lines = [
            f"{each.name} = _torch.empty({each.shape_at(sizes)}, dtype=_torch.{each.dtype}, device={device})"
            for each in outputs
        ]
        given = (
            repr(self.numbers[each.name]) if isinstance(each, Scalar) else each.name for each in signature.arguments
        )
        return "\n".join([*lines, f"run({', '.join(given)})", f"return {', '.join(each.name for each in outputs)}"])

    @property
    def inputs(self) -> str:
        """Names of the input tensors, as parameters."""
        return ", ".join(tensor.name for tensor in self.task.signature.inputs)


# --------------------------------------------------------------------------------------------------- KernelBench

_REFERENCE = """
import torch
from evokernel.tasks import load_task
_task = load_task({spec!r}).on("cuda")
_sizes = {sizes!r}
class Model(torch.nn.Module):
    def forward(self, {inputs}):
        return _task.reference({inputs}, **{numbers!r})
def get_inputs():
    return [torch.rand(each.shape_at(_sizes)) for each in _task.signature.inputs]
def get_init_inputs():
    return []
"""
_MODEL = """

import torch as _torch


class ModelNew(_torch.nn.Module):
    def forward(self, {inputs}):
{body}
"""


def as_model(given: Submission) -> tuple[str, str]:
    """Return the reference and the kernel as KernelBench reads them."""
    named = {"spec": given.spec, "sizes": dict(given.workload.sizes), "inputs": given.inputs, "numbers": given.numbers}
    body = "\n".join(f"        {line}" for line in given.call.splitlines())
    return _REFERENCE.format(**named), given.source + _MODEL.format(inputs=given.inputs, body=body)


def kernelbench(given: Submission, checkout: Path) -> Outcome:
    """KernelBench: static checker, then five trials and 100 timed calls, the defaults of its scripts."""
    sys.path.insert(0, str(checkout / "src"))
    for name, needed in (("openai", "OpenAI"), ("litellm", "completion"), ("dotenv", "load_dotenv")):
        # it imports clients of language models, which no evaluation calls and some of which ask the network
        sys.modules[name] = types.ModuleType(name)
        setattr(sys.modules[name], needed, lambda *_, **__: None)
    checker = importlib.import_module("kernelbench.kernel_static_checker")
    evaluation = importlib.import_module("kernelbench.eval")
    reference, model = as_model(given)
    dtype = torch_dtype(given.task.signature.inputs[0].dtype)
    valid, complaints, _ = checker.validate_kernel_static(given.source, backend="", precision="fp32")
    if not valid:
        return Outcome(False, f"static checker: {'; '.join(complaints)}")
    found = evaluation.eval_kernel_against_ref(
        reference,
        model,
        num_correct_trials=5,
        num_perf_trials=100,
        measure_performance=True,
        device=torch.device("cuda:0"),
        backend="triton" if given.language == "triton" else "cuda",
        precision=dtype,
    )
    if found is None or not found.correctness:
        metadata = {} if found is None else found.metadata
        words = next(
            (
                str(metadata[key])
                for key in ("correctness_issue", "runtime_error", "compilation_error")
                if key in metadata
            ),
            "not right",
        )
        return Outcome(False, words)
    speedup = found.ref_runtime / found.runtime if found.runtime > 0 else None
    if found.metadata.get("excessive_speedup"):
        return Outcome(False, f"flagged: {speedup:.1f}x is excessive")
    return Outcome(True, "correct", speedup)


# ------------------------------------------------------------------------------- flashinfer-bench and SOL-ExecBench


def as_problem(given: Submission) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return definition, workload and solution in flashinfer-bench's format; the kernel is taken as it is."""
    task, stem = given.task, Path(given.spec).stem

    def described(each: Tensor | Scalar) -> dict[str, Any]:
        # an axis may not have the name of an input, and the sizes are inputs
        shape = None if isinstance(each, Scalar) else [f"axis_{axis}" for axis in each.shape]
        return {"shape": shape, "dtype": each.dtype}

    outputs = {each.name: described(each) for each in task.signature.outputs}
    inputs = {each.name: described(each) for each in task.signature.arguments if each.name not in outputs}
    axes = {str(axis) for each in task.signature.tensors for axis in each.shape}
    reference = (
        f"from evokernel.tasks import load_task\n_task = load_task({given.spec!r}).on('cuda')\n"
        f"def run({', '.join(inputs)}):\n    return _task.reference({given.inputs}, **{given.numbers!r})\n"
    )
    definition = {
        "name": stem,
        "op_type": stem,
        "axes": {f"axis_{axis}": {"type": "var"} for axis in axes},
        "inputs": inputs,
        "outputs": outputs,
        "reference": reference,
    }
    drawn = {each.name: {"type": "random"} for each in task.signature.inputs}
    known = {name: {"type": "scalar", "value": value} for name, value in given.numbers.items()}
    workload = {
        "uuid": given.workload.name,
        "axes": {f"axis_{axis}": given.workload.sizes[axis] for axis in axes},
        "inputs": {**drawn, **known},
    }
    solution = {
        "name": given.name.replace("/", "_"),
        "definition": stem,
        "author": "museum",
        "spec": {
            "language": "triton" if given.language == "triton" else "python",
            "target_hardware": ["cuda"],
            "entry_point": "kernel.py::run",
            "destination_passing_style": True,
        },
        "sources": [{"path": "kernel.py", "content": given.source}],
    }
    return definition, workload, solution


def flashinfer_bench(given: Submission, checkout: Path | None) -> Outcome:
    """flashinfer-bench: its isolated runner with the defaults."""
    if checkout is not None:
        sys.path.insert(0, str(checkout))
    bench = importlib.import_module("flashinfer_bench.bench")
    data = importlib.import_module("flashinfer_bench.data")
    runner = importlib.import_module("flashinfer_bench.bench.runner.isolated_runner")
    definition, workload, solution = (
        kind.model_validate(content)
        for kind, content in zip((data.Definition, data.Workload, data.Solution), as_problem(given), strict=True)
    )
    config = bench.BenchmarkConfig(timeout_seconds=TIMEOUT_S // 2)
    worker = runner.SubprocessWorker("cuda:0")
    found = worker.run_solution(solution, worker.run_ref(definition, workload, config), config)
    accepted = found.status.value == "PASSED"
    words = (
        found.status.value.lower()
        if accepted or not found.log
        else f"{found.status.value.lower()}: {found.log.strip()[-200:]}"
    )
    return Outcome(accepted, words, found.performance.speedup_factor if accepted else None)


def sol_execbench(given: Submission, checkout: Path) -> Outcome:
    """SOL-ExecBench: its driver, a program of its own, with the defaults."""
    definition, workload, solution = as_problem(given)
    solution["spec"] |= {
        "languages": [given.language if given.language == "triton" else "pytorch"],
        "target_hardware": ["LOCAL"],
    }
    del solution["spec"]["language"]
    with tempfile.TemporaryDirectory() as place:
        stage = Path(place)
        for name, content in (("definition", definition), ("solution", solution)):
            (stage / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        (stage / "workload.jsonl").write_text(json.dumps(workload), encoding="utf-8")
        (stage / "kernel.py").write_text(given.source, encoding="utf-8")
        shutil.copy(checkout / "src/sol_execbench/driver/templates/eval_driver.py", stage)
        done = subprocess.run(
            [sys.executable, "eval_driver.py"],
            cwd=stage,
            env={**os.environ, "PYTHONPATH": ":".join([str(checkout / "src"), *filter(None, sys.path)])},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    traces = [json.loads(line)["evaluation"] for line in done.stdout.splitlines() if line.startswith("{")]
    if not traces:
        if "No module named" in done.stderr:
            raise ImportError(done.stderr.strip().splitlines()[-1])
        return Outcome(False, f"no verdict: {done.stderr.strip()[-200:]}")
    accepted = traces[0]["status"] == "PASSED"
    return Outcome(
        accepted, traces[0]["status"].lower(), traces[0]["performance"]["speedup_factor"] if accepted else None
    )


# -------------------------------------------------------------------------------------------------- robust-kbench


def robust_kbench(given: Submission, checkout: Path) -> Outcome:
    """robust-kbench: the check of forward operators and the timer of its `run_kernel.py`, with that script's defaults.

    It compiles a CUDA C++ file with torch's headers for a minute; the function that it would load from there is ours.
    """
    sys.path.insert(0, str(checkout))
    check = importlib.import_module("robust_kbench.sandbox.correct_forward_fn")
    timer = importlib.import_module("robust_kbench.sandbox.eval_forward_fn")
    task, workload = given.task, given.workload
    path = Path(tempfile.mkdtemp()) / "submission.py"
    text = given.source + "\n\nimport torch as _torch\n\n\ndef _forward({}):\n{}\n".format(
        given.inputs, "\n".join(f"    {line}" for line in given.call.splitlines())
    )
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("submission", path)
    assert spec is not None
    assert spec.loader is not None
    namespace = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(namespace)

    def reference(*tensors: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = task.reference(*tensors, **given.numbers)
        return found

    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *tensors: torch.Tensor, fn: Callable[..., torch.Tensor] = reference) -> torch.Tensor:
            return fn(*tensors)

    def inputs() -> list[torch.Tensor]:
        return [
            torch.randn(each.shape_at(workload.sizes)).to(torch_dtype(each.dtype)) for each in task.signature.inputs
        ]

    found = check.check_forward_correctness(Model, reference, namespace._forward, inputs, {}, {}, rtol=1e-3, atol=1e-3)
    if not found.correct:
        return Outcome(False, f"incorrect, off by {found.max_diff:.3g}")
    tensors = [each.cuda() for each in inputs()]
    times = [
        timer.time_function_kernel_bench(function, *tensors, n_iter=1000).mean_time
        for function in (reference, namespace._forward)
    ]
    return Outcome(True, "correct", float(times[0] / times[1]))


JUDGES: Mapping[str, Callable[[Submission, Any], Outcome]] = {
    "KernelBench": kernelbench,
    "flashinfer-bench": flashinfer_bench,
    "SOL-ExecBench": sol_execbench,
    "robust-kbench": robust_kbench,
}
