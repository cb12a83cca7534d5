"""What is due of a kernel on a size, asked and judged by the real rules; whoever runs the kernel has no GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from evokernel.evaluate.numerics.canary import draw_poison, poison_like
from evokernel.evaluate.numerics.correctness import Mismatch, judge_output
from evokernel.evaluate.numerics.expected import Expected
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.task import Scalar, Task, Workload

_POISON = draw_poison(np.random.default_rng(0))


@dataclass(frozen=True)
class Question:
    """Fresh inputs of a size: the arguments of `run` by name and in their order, and what is due."""

    workload: Workload
    expected: Expected
    named: Mapping[str, Any]
    outputs: Sequence[str]

    @property
    def arguments(self) -> list[Any]:
        return list(self.named.values())


def ask(task: Task, dims: Mapping[str, int], distribution: str, *, dtype: str | None = "float32") -> Question:
    """Ask for a size; `dtype` replaces that of floating-point tensors, for Triton's interpreter knows no bf16."""
    changed = task if dtype is None else replace(task, signature=task.signature.with_floats(dtype))
    constants = {key: value for key, value in task.workloads["cuda"].search[0].dims.items() if type(value) is float}
    workload = Workload("small", {**constants, **dims})
    inputs = draw(changed, workload, distribution, np.random.default_rng(3))
    expected = expect(changed, workload, inputs, distribution=distribution)
    wrote = {out.tensor.name: poison_like(out.native, _POISON).clone() for out in expected.outputs}
    values = {**inputs, **wrote}
    named = {
        argument.name: workload.dims[argument.name] if isinstance(argument, Scalar) else values[argument.name]
        for argument in changed.signature.arguments
    }
    return Question(workload, expected, named, tuple(wrote))


def finding(question: Question, left: Sequence[Any]) -> Mismatch | None:
    """Return what is wrong with the outputs among the arguments that a call left."""
    after = dict(zip(question.named, left, strict=True))
    return judge_output(question.expected, [after[name] for name in question.outputs], poison=_POISON)


def complaint(question: Question, left: Sequence[Any]) -> str | None:
    """Return what is wrong with the arguments that a call left: a wrong output, or a changed input."""
    found = finding(question, left)
    if found is not None:
        return found.feedback
    changed = [
        name
        for (name, before), after in zip(question.named.items(), left, strict=True)
        if name not in question.outputs and isinstance(before, torch.Tensor) and not torch.equal(before, after)
    ]
    return f"inputs changed: {changed}" if changed else None
