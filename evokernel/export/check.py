"""Trial of an export: its files run once, confined and without evokernel, against the reference."""

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evokernel.evaluate.numerics.arrays import raw_bytes, torch_dtype
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.inputs import draw, result_tensors
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.evaluate.sandbox.levels import detect_sandbox
from evokernel.evaluate.sandbox.run_once import ProcessLimits, VisiblePaths, run_confined
from evokernel.export.template_text import fill, numbers_of, op_name
from evokernel.task import Task, Workload

_LIMIT_S = 120.0


def check_exported(folder: Path, task: Task) -> str:
    """Run the kernel through its `kernel.py` and `op.py` on a held-out workload; return its fault, or nothing."""
    workloads = next(iter(task.workloads.values()))
    workload = min(workloads.holdout, key=task.bytes_at)
    with tempfile.TemporaryDirectory(prefix="evokernel-export-") as name:
        Path(name).chmod(0o711)  # the confined process is another user's, and enters only the folder inside
        inside = Path(name) / "export"
        shutil.copytree(folder, inside)
        inside.chmod(0o711)
        return _run(inside, task, workload)


def check_reference(texts: Mapping[str, str]) -> str:
    """Import reference.py with nothing beside it but these texts; return its fault, or nothing."""
    packages = Path(torch.__file__).parent.parent
    script = f"import sys; sys.modules['evokernel'] = None; sys.path[:0] = ['.', {str(packages)!r}]; import reference"
    with tempfile.TemporaryDirectory(prefix="evokernel-export-") as name:
        Path(name).chmod(0o711)
        inside = Path(name) / "reference"
        inside.mkdir(mode=0o711)
        for file, text in texts.items():
            (inside / file).write_text(text, encoding="utf-8")
        return run_alone(inside, script, packages)


def run_alone(folder: Path, script: str, packages: Path, *, limit_s: float = _LIMIT_S) -> str:
    """Run a script in a folder, confined, without evokernel; return its fault, or nothing."""
    (folder / "check.py").write_text(fill("sparing.py.txt") + script, encoding="utf-8")
    done = run_confined(
        [sys.executable, "-I", "-B", "check.py"],
        sandbox=detect_sandbox(),
        paths=VisiblePaths(read_only=(packages,), writable=(folder,), folder=folder),
        limits=ProcessLimits(timeout_s=limit_s, memory_bytes=None),
        environment={"HOME": str(folder), "TMPDIR": str(folder), "XDG_CACHE_HOME": str(folder)},
    )
    if done.ok:
        return ""
    return (done.stderr.strip() or f"the process ended with {done.exit_code or done.signal}")[-2000:]


def _run(folder: Path, task: Task, workload: Workload) -> str:
    inputs = draw(task, workload, "normal", np.random.default_rng())
    expected = expect(task, workload, inputs, distribution="normal")
    packages = Path(torch.__file__).parent.parent
    job: dict[str, Any] = {"inputs": [], "packages": str(packages)}
    job["operator"] = op_name(task) if (folder / "op.py").exists() else ""
    for tensor in task.signature.inputs:
        (folder / f"{tensor.name}.in").write_bytes(raw_bytes(inputs[tensor.name]))
        row = tensor.name, tensor.dtype, tensor.shape_at(workload.sizes), tensor.strides_at(workload.sizes)
        job["inputs"].append(row)
    job["numbers"] = {name: workload.dims[name] for name in numbers_of(task)}
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    complaint = run_alone(folder, fill("trial.py.txt"), packages)
    if complaint:
        return complaint
    answers = []
    for place, tensor in enumerate(result_tensors(task)):
        raw = bytearray((folder / f"{place}.out").read_bytes())
        answers.append(torch.frombuffer(raw, dtype=torch_dtype(tensor.dtype)).reshape(tensor.shape_at(workload.sizes)))
    finding = judge_output(expected, tuple(answers))
    return "" if finding is None else f"the result is wrong: {finding.feedback}"
