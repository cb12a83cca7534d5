"""Trial of an operator with gradients: confined, against autograd in fp64, and timed beside torch."""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

from evokernel.evaluate.numerics.arrays import raw_bytes, torch_dtype
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.export.check import run_alone
from evokernel.export.gradients.gradient_task import differentiable, gradient_task
from evokernel.export.gradients.pair_texts import Figures
from evokernel.export.template_text import fill
from evokernel.task import Task, Workload

_LIMIT_S = 480.0
_TIMED_CALLS = ("torch", "torch.compile", "kernels")


def check_pair(folder: Path, forward: Task, backward: Task, functions: ModuleType, *, name: str) -> tuple[str, Figures]:
    """Compare an exported pair with autograd in fp64 by the tasks' rules, and time it.

    Args:
        folder: the export.
        forward: the task of one class of devices.
        backward: the other task.
        functions: the file that both stand on.
        name: the operator.

    Returns:
        The fault, or nothing; the times, empty where they could not be taken.

    Raises:
        TaskError: the original cannot be called.
    """
    workloads = next(iter(forward.workloads.values())).search
    with tempfile.TemporaryDirectory(prefix="evokernel-export-") as place:
        Path(place).chmod(0o711)  # the confined process is another user's, and enters only the folder inside
        inside = Path(place) / "export"
        shutil.copytree(folder, inside)
        inside.chmod(0o711)
        for part in ("forward", "backward"):
            (inside / part).chmod(0o755)
        fault = _compare(inside, forward, backward, functions, workloads, name=name)
        if fault:
            return fault, {}
        fault = run_alone(inside, fill("gradient_timing.py.txt"), _packages(), limit_s=_LIMIT_S)
        return "", {} if fault else _read_figures(inside / "figures.json")


def _read_figures(file: Path) -> Figures:
    """Return times that a confined process wrote, and nothing where they are not of that form."""
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        return {
            str(workload): {
                "us": {key: float(found["us"][key]) for key in _TIMED_CALLS if key in found["us"]},
                "missing": str(found["missing"])[:300],
                **{key: [float(found[key][end]) for end in range(3)] for key in _TIMED_CALLS[:2] if key in found},
            }
            for workload, found in raw.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return {}


def _packages() -> Path:
    return Path(torch.__file__).parent.parent


def _compare(
    folder: Path, forward: Task, backward: Task, functions: ModuleType, workloads: tuple[Workload, ...], *, name: str
) -> str:
    rng, expectations, cases = np.random.default_rng(), [], []
    for number, workload in enumerate(workloads):
        task = gradient_task(forward, backward, functions, workload)
        inputs = draw(task, workload, "normal", rng)
        expectations.append(expect(task, workload, inputs, distribution="normal"))
        rows = []
        for tensor in task.signature.inputs:
            file = f"{number}.{tensor.name}"
            (folder / f"{file}.in").write_bytes(raw_bytes(inputs[tensor.name]))
            rows.append((file, tensor.dtype, tensor.shape_at(workload.sizes), tensor.strides_at(workload.sizes)))
        cases.append(rows)
    job = {"cases": cases, "operator": name, "packages": str(_packages())}
    job["python"] = str(Path(sys.executable).resolve())  # a virtual environment's link is not there for a confined one
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    fault = run_alone(folder, fill("gradient_trial.py.txt"), _packages(), limit_s=_LIMIT_S)
    if fault:
        return fault
    names = [f"result {place}" for place in range(functions.OUTPUTS)]
    names += [f"the gradient of {each}" for each in functions.GRADIENTS]
    for number, expected in enumerate(expectations):
        found = []
        for place, output in enumerate(expected.outputs):
            raw = bytearray((folder / f"{number}.{place}.out").read_bytes())
            shape = output.tensor.shape_at(expected.workload.sizes)
            found.append(torch.frombuffer(raw, dtype=torch_dtype(output.tensor.dtype)).reshape(shape))
        finding = judge_output(expected, tuple(found))
        if finding is not None:
            return f"on {expected.workload.name}, of {', '.join(names)}: {finding.feedback}"
    return ""


def checked_text(functions: ModuleType, workloads: tuple[Workload, ...]) -> str:
    """Return what `check_pair` found right, as a sentence."""
    places = ", ".join(str(place) for place in differentiable(functions))
    return (
        f"Results and gradients of {', '.join(functions.GRADIENTS)} (from result {places}) were within the tasks' "
        f"tolerances of autograd in fp64 on {', '.join(workload.name for workload in workloads)}, in the files of this "
        "folder, without evokernel."
    )
