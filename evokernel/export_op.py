"""An export as an operator of PyTorch: which kernel answers for which shapes, and torch for all others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evokernel.config import DEVICE_OF
from evokernel.evaluation import Speedup
from evokernel.export_texts import declared, example_arguments, fill, numbers_of, op_name, written
from evokernel.judging import Judgement
from evokernel.task import Task, Tensor, Workload

ALIGNMENTS = {"cpu": 64, "cuda": 256}


@dataclass(frozen=True, slots=True)
class Winner:
    """The kernel for one workload: the module it lies in, and how fast it was there, if that was timed alone."""

    workload: Workload
    module: str
    speedup: Speedup | None


def winners(task: Task, judgements: Mapping[str, Judgement]) -> list[Winner]:
    """Return which kernel answers on which workload.

    On each search workload the fastest, by the low end of its speed-up. On held-out ones, which are timed together,
    the kernel that is fastest there, if it is faster than the baselines: an operator must not slow its user down.

    Args:
        task: with the workloads of one class of devices.
        judgements: by the name of the module of each kernel, each right on all workloads.
    """
    workloads = next(iter(task.workloads.values()))
    found = []
    for workload in workloads.search:
        timings = [
            (t.speedup, name) for name, j in judgements.items() for t in j.last.timings if t.workload == workload.name
        ]
        speedup, module = max(timings, key=lambda timing: timing[0].low)
        found.append(Winner(workload, module, speedup))
    held = {name: j.last.metrics.get("holdout_speedup", 0.0) for name, j in judgements.items()}
    module = max(held, key=held.__getitem__)
    return found + [Winner(workload, module, None) for workload in workloads.holdout if held[module] >= 1]


def op_file(task: Task, judgements: Mapping[str, Judgement]) -> str:
    """Return the text of op.py, which needs the kernels' modules and reference.py beside it."""
    candidate = next(iter(judgements.values())).candidate
    numbers, outputs = numbers_of(task), task.signature.outputs
    names = [tensor.name for tensor in task.signature.inputs]
    typed = [*(f"{name}: torch.Tensor" for name in names), *(f"{name}: {kind}" for name, kind in numbers.items())]
    device = DEVICE_OF[candidate.language]
    return fill(
        "op.py.txt",
        **declared(task),
        description=task.description or task.name,
        name=op_name(task),
        namespace=f"evokernel_{candidate.id}",
        example=f"out = {op_name(task)}({example_arguments(task, device=device)})",
        modules="".join(f"import {module}\n" for module in judgements),
        device=device,
        alignment=str(ALIGNMENTS[device]),
        scalars=repr(tuple(scalar.name for scalar in task.signature.scalars)),
        sizes=repr(tuple(_sizes(task))),
        kernels=_kernels(task, winners(task, judgements)),
        parameters=", ".join([*typed[: len(names)], *(["*", *typed[len(names) :]] if numbers else [])]),
        returns="return one tensor" if len(written(task)) == 1 else "return a tuple of tensors",
        tensors=", ".join(f'"{name}": {name}' for name in names),
        numbers=", ".join(f'"{name}": {name}' for name in numbers),
        arguments=", ".join([*names, *numbers]),
        typed=", ".join(typed),
        annotation=_annotation(outputs),
        made=("None", "made[0]")[len(outputs)] if len(outputs) < 2 else "tuple(made)",
    )


def _annotation(outputs: Sequence[Tensor]) -> str:
    match len(outputs):
        case 0:
            return "None"
        case 1:
            return "torch.Tensor"
    return f"tuple[{', '.join(['torch.Tensor'] * len(outputs))}]"


def _sizes(task: Task) -> list[str]:
    return list(next(iter(task.workloads.values())).search[0].dims)


def _kernels(task: Task, found: Sequence[Winner]) -> str:
    lines = []
    for winner in found:
        speedup, key = winner.speedup, tuple(winner.workload.dims[name] for name in _sizes(task))
        speed = f"  # {speedup.value:.3g}x ({speedup.low:.3g} to {speedup.high:.3g})" if speedup else ""
        lines.append(f"    {key!r}: {winner.module},{speed}")
    return "\n".join(lines)
