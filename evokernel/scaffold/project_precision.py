"""Floating-point dtypes of a task: those of the example, and wider ones on a processor."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.arrays import is_float
from evokernel.scaffold.operation.dimensions import Layout
from evokernel.scaffold.operation.trial import dtype_name, outputs_of
from evokernel.scaffold.operation.user_operation import UserOperation
from evokernel.scaffold.task_text import output_names
from evokernel.task import DTYPES

_WIDE = "float32"
"""Dtype of low-precision numbers on a processor."""


@dataclass(frozen=True)
class ProjectPrecision:
    """Floating-point dtypes of a task."""

    signature: str
    """Replaces that of the example in the signature; empty to keep it."""
    on: Mapping[str, str]
    """By device class, that of its workloads; empty for that of the signature."""
    remark: str = ""
    """What was decided, in words; empty where nothing was."""

    @property
    def changes(self) -> bool:
        """True where a processor computes in another dtype than the example."""
        return bool(self.signature or self.on.get("cpu"))


def project_precision(
    subject: UserOperation, layout: Layout, devices: Sequence[str], *, cpu_dtype: str
) -> ProjectPrecision:
    """Decide the floating-point dtypes: low precision is for a GPU, as processors are slow at it."""
    inputs = [*map(dtype_name, subject.inputs.values())]
    given = [*inputs, *layout.output_dtypes]
    found = list(dict.fromkeys(filter(is_float, given)))
    low = [dtype for dtype in found if DTYPES[dtype] < DTYPES[_WIDE]]
    chosen = cpu_dtype or (_WIDE if low else "")
    if "cpu" not in devices or not found or not chosen or found == [chosen]:
        return ProjectPrecision("", {})
    if not cpu_dtype and not _follows(subject, layout, chosen):
        kept = min((each for each in layout.output_dtypes if each in low), key=DTYPES.__getitem__, default=low[0])
        fixed = f"the function casts to {kept}, so the cpu workloads are {', '.join(low)}, too"
        return ProjectPrecision("", {}, fixed if {*inputs} & {*low} else "")
    theirs = [dtype for dtype in found if dtype != chosen]
    keep = f"(--cpu-dtype {theirs[0]} to keep it)"
    if "cuda" not in devices:
        return ProjectPrecision(chosen, {}, f"{chosen} in place of {', '.join(theirs)} {keep}")
    remark = f"{', '.join(theirs)} on a GPU, {chosen} on a processor {keep}"
    return (
        ProjectPrecision(chosen, {"cuda": found[0]}, remark)
        if len(found) == 1
        else ProjectPrecision("", {"cpu": chosen}, remark)
    )


def _follows(subject: UserOperation, layout: Layout, dtype: str) -> bool:
    """Say whether floating-point outputs take this dtype where the inputs have it."""
    shapes = {name: tuple(tensor.shape) for name, tensor in subject.inputs.items()}
    with suppress(TaskError):
        wanted = [dtype if is_float(was) else was for was in layout.output_dtypes]
        return wanted == [dtype_name(each) for each in outputs_of(subject.with_floats(dtype), shapes)]
    return False


def tensor_dtypes(subject: UserOperation, layout: Layout, floats: str) -> dict[str, str]:
    """Return the dtypes of inputs and outputs by name, with `floats` for floating-point ones unless it is empty."""
    given = {name: dtype_name(tensor) for name, tensor in subject.inputs.items()}
    given |= dict(zip(output_names(subject, layout), layout.output_dtypes, strict=True))
    return {name: floats if floats and is_float(dtype) else dtype for name, dtype in given.items()}
