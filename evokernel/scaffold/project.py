"""Files of a new project: the task, its plain kernel and a config that runs as it is."""

import importlib.resources
import math
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from evokernel.errors import HarnessError, LanguageError, TaskError
from evokernel.evaluate.bench.admission import admit
from evokernel.languages.cpp.guide import entry_signature
from evokernel.scaffold.dimensions import Layout, derive_layout
from evokernel.scaffold.seed import check_seed, write_seed
from evokernel.scaffold.sizes import FIRST, SECOND, NotGeneral, SymbolicSizes
from evokernel.scaffold.trace import Traced, flop_terms, reduction_terms, to_graph, trace
from evokernel.scaffold.user_file import digest
from evokernel.scaffold.user_operation import UserOperation, find_subject
from evokernel.scaffold.workloads import Dims, WorkloadDraft, plan_workloads
from evokernel.source.expressions import evaluate
from evokernel.task import Task, Workload
from evokernel.tasks import load_task

_DEVICE_CLASS = "cpu"
_LINE = 110


@dataclass(frozen=True)
class Project:
    """Files that were written, and the findings on the task."""

    files: tuple[Path, ...]
    """In the order task, kernel, config."""
    task: Task
    layout: Layout
    entry: str
    """C++ signature of the kernel."""
    seedless: str = ""
    """Reason why there is no plain kernel; empty where there is one."""
    admission: str = ""
    """Result of the admission; empty where it failed."""
    unfit: str = ""
    """Reason why the admission failed; else empty."""
    cut: bool = False
    """True where workloads are smaller than the example."""


@dataclass
class _Analysis:
    flops: str
    reduction: str
    exact: bool = False
    traced: Traced | None = None
    why: str = ""


def init_project(path: Path, *, name: str = "", inputs: str = "", out: Path, force: bool = False) -> Project:
    """Write task, kernel and config for the PyTorch operation in a file.

    Args:
        path: the Python file.
        name: the function or module in it, where there are several.
        inputs: example inputs as text, see `user_operation.parse_inputs`.
        out: the folder to write to.
        force: replace files that are there.

    Raises:
        TaskError: the operation cannot be found, run or described; the message says what to do.
    """
    subject = find_subject(path, name=name, inputs=inputs)
    layout = derive_layout(subject)
    analysis = _analyse(subject, layout)
    stem = _stem(subject)
    task_file, seed_file, config_file = (out / f"{stem}{end}" for end in ("_task.py", ".cpp", ".yaml"))
    _refuse_to_replace((task_file, seed_file, config_file), force=force)
    plan = plan_workloads(subject, layout, lambda dims: evaluate(analysis.flops, dims))
    out.mkdir(parents=True, exist_ok=True)
    task_file.write_text(_task_text(subject, layout, analysis, plan, stem=stem, out=out), encoding="utf-8")
    task = load_task(str(task_file))
    seedless = _make_seed(task, analysis, seed_file, layout)
    config_file.write_text(
        _template("config.yaml.txt", stem=stem, task=task_file.name, file=path.name), encoding="utf-8"
    )
    admission, unfit = _admission(task)
    return Project(
        files=(task_file, *((seed_file,) if not seedless else ()), config_file),
        task=task,
        layout=layout,
        entry=entry_signature(task.signature),
        seedless=seedless,
        admission=admission,
        unfit=unfit,
        cut=plan.cut,
    )


def _refuse_to_replace(files: Iterable[Path], *, force: bool) -> None:
    there = [str(file) for file in files if file.exists()]
    if there and not force:
        raise TaskError(f"{', '.join(there)} exist; pass --force to replace them, or --out for another folder")


def _stem(subject: UserOperation) -> str:
    name = subject.path.stem if subject.name in ("Model", "forward", "run") else subject.name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|\W", "_", name).lower()


# ---------------------------------------------------------------------------------------------------- what it computes


def _analyse(subject: UserOperation, layout: Layout) -> _Analysis:
    units = {dimension.axes: dimension.unit for dimension in layout.dimensions}
    example = {name: list(tensor.shape) for name, tensor in subject.inputs.items()}
    pairs = {name: (list(shape), list(shape)) for name, shape in example.items()}
    for place, dimension in enumerate(layout.dimensions):
        for name, axis in dimension.axes:
            pairs[name][0][axis] = units[dimension.axes] * FIRST[place]
            pairs[name][1][axis] = units[dimension.axes] * SECOND[place]
    shapes = {name: (tuple(first), tuple(second)) for name, (first, second) in pairs.items()}
    try:
        first, second = trace(subject.call, shapes, layout.sizes)
    except NotGeneral as error:
        whole = max(layout.inputs.values(), key=len)
        text = " * ".join(f"({extent})" for extent in whole)
        return _Analysis(flops=text, reduction=str(whole[-1]), why=str(error))
    made = _Analysis(_sum(flop_terms(first), layout.sizes), _longest(reduction_terms(first), layout))
    try:
        made.traced = to_graph(first, second, layout.sizes)
        made.exact = made.traced.exact_on_integers
    except NotGeneral as error:
        made.why = str(error)
    return made


def _sum(terms: Iterable[tuple[int, tuple[int, ...]]], sizes: SymbolicSizes) -> str:
    """Return the sum of products as an expression, the longest first."""
    total: Counter[tuple[str, ...]] = Counter()
    for count, extents in terms:
        number, names = sizes.terms(extents)
        total[names] += count * number
    ordered = sorted(total.items(), key=lambda item: (-len(item[0]), item[0]))
    parts = [" * ".join([*([str(number)] if number != 1 or not names else []), *names]) for names, number in ordered]
    return " + ".join(parts) or "1"


def _longest(sums: Iterable[tuple[int, ...]], layout: Layout) -> str:
    def length(extents: tuple[int, ...]) -> int:
        return prod(layout.sizes.at(extent, layout.example) for extent in extents)

    longest: tuple[int, ...] = max(sums, key=length, default=())
    return layout.sizes.product(longest)


def _make_seed(task: Task, analysis: _Analysis, file: Path, layout: Layout) -> str:
    """Write the plain kernel if it is right; return the reason where there is none."""
    if analysis.traced is None:
        return analysis.why
    source = write_seed(analysis.traced, task.signature)
    workloads = task.workloads[_DEVICE_CLASS]
    small = min(workloads.search, key=task.flops_at)
    try:
        check_seed(task, source, [small, workloads.holdout[0], Workload("example", layout.example)][: _trials(layout)])
    except (HarnessError, LanguageError) as error:
        return str(error)
    file.write_text(source, encoding="utf-8")
    return ""


def _trials(layout: Layout) -> int:
    """Return the number of trials: an example too large for a plain kernel is left out."""
    large = prod(layout.example.values()) > 1_000_000_000
    return 2 if large else 3


def _admission(task: Task) -> tuple[str, str]:
    try:
        return admit(task, _DEVICE_CLASS, rng=np.random.default_rng()).message, ""
    except TaskError as error:
        return "", str(error)


# ---------------------------------------------------------------------------------------------------- the text


def _template(template: str, /, **values: str) -> str:
    text = importlib.resources.files("evokernel.scaffold").joinpath("templates", template).read_text(encoding="utf-8")
    return Template(text).substitute(values)


def _task_text(
    subject: UserOperation, layout: Layout, analysis: _Analysis, plan: WorkloadDraft, *, stem: str, out: Path
) -> str:
    outputs = _output_names(subject, layout)
    module = bool(subject.construct)
    tensor = "torch.Tensor"
    returns = tensor if len(outputs) == 1 else f"tuple[{', '.join([tensor] * len(outputs))}]"
    given = ", ".join(f"{name}: {tensor}" for name in subject.inputs)
    where = os.path.relpath(subject.path, out.resolve())
    precision = [f'reduction="{analysis.reduction}"'] if not analysis.reduction.isdecimal() else [
        f"reduction={analysis.reduction}"
    ]  # fmt: skip
    precision += ["exact_on_integers=True"] * analysis.exact
    return _template(
        "task.py.txt",
        name=subject.name,
        stem=stem,
        file=subject.path.name,
        functional="from torch.func import functional_call\n" * module,
        where=where,
        digest=digest(subject.path),
        model=f"model = {subject.construct}.eval()\n\n" if module else "\n",
        given=given,
        returns=returns,
        call=_call_text(subject),
        description=_description(subject, layout, outputs),
        inputs="".join(f"            {_tensor_text(name, shape)},\n" for name, shape in layout.inputs.items()),
        scalars="".join(f'Scalar("{name}"), ' for name in layout.sizes.names).rstrip(" "),
        outputs="".join(
            f"            {_tensor_text(name, shape, role=True)},\n"
            for name, shape in zip(outputs, layout.outputs, strict=True)
        ),
        size_arguments=", ".join(f"{name}: int" for name in layout.sizes.names),
        size_comma=", " if layout.sizes.names else "",
        size_name="x".join(f"{{{name}}}" for name in layout.sizes.names) or "fixed",
        size_dims=", ".join(f'"{name}": {name}' for name in layout.sizes.names),
        scale_note=_scale_note(layout, plan),
        search=_workloads_text(plan.search, weigh_first=len(plan.search) > 1),
        holdout=_workloads_text(plan.holdout),
        probe=", ".join(f'"{name}": {bounds}' for name, bounds in plan.probe.items()),
        flops=analysis.flops,
        precision=", ".join(precision),
    )


def _output_names(subject: UserOperation, layout: Layout) -> list[str]:
    taken = {*subject.inputs, *layout.sizes.names}
    base = "out"
    while base in taken or f"{base}0" in taken:
        base += "_"
    return [base] if len(layout.outputs) == 1 else [f"{base}{place}" for place in range(len(layout.outputs))]


def _call_text(subject: UserOperation) -> str:
    given = [
        name if name in subject.inputs else _constant_text(name, subject.constants[name]) for name in subject.call_names
    ]
    if not subject.construct:
        return f"return source.{subject.name}({', '.join(given)})"
    pairs = "".join(f'        "{theirs}": {ours},\n' for theirs, ours in subject.parameters.items())
    weights = f"weights = {{\n{pairs}    }}\n    " if pairs else "weights: dict[str, torch.Tensor] = {}\n    "
    return f"{weights}return functional_call(model, weights, ({', '.join(given)},))"


def _constant_text(name: str, value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if (
        value is None
        or isinstance(value, (bool, int, float, str))
        or (isinstance(value, (tuple, list)) and all(isinstance(item, (bool, int, float, str)) for item in value))
    ):
        return repr(value)
    raise TaskError(
        f"the argument {name!r} is a {type(value).__name__}, which a task file cannot spell; wrap the operation in a "
        "function that takes tensors and numbers"
    )


def _tensor_text(name: str, shape: tuple[str | int, ...], *, role: bool = False) -> str:
    extents = ", ".join(f'"{extent}"' if isinstance(extent, str) else str(extent) for extent in shape)
    comma = "," if len(shape) == 1 else ""
    return f'Tensor("{name}", ({extents}{comma}){", role=Role.OUTPUT" if role else ""})'


def _description(subject: UserOperation, layout: Layout, outputs: list[str]) -> str:
    def listed(pairs: Iterable[tuple[str, tuple[str | int, ...]]]) -> str:
        return ", ".join(f"{name}[{','.join(map(str, shape))}]" for name, shape in pairs)

    made = listed(zip(outputs, layout.outputs, strict=True))
    text = f"{made} = {subject.name}({listed(layout.inputs.items())}), fp32"
    return text if len(text) < _LINE else f"{subject.name}, fp32"


def _scale_note(layout: Layout, plan: WorkloadDraft) -> str:
    if not plan.cut:
        return ""
    example = ", ".join(f"{name}={value}" for name, value in layout.example.items())
    return f"            # Smaller than your example ({example}), so that a search can try many kernels.\n"


def _workloads_text(all_dims: tuple[Dims, ...], *, weigh_first: bool = False) -> str:
    made = []
    for place, dims in enumerate(all_dims):
        values = ", ".join(str(value) for value in dims.values())
        weight = "weight=2.0" if weigh_first and place == 0 else ""
        made.append(f"_size({', '.join(filter(None, (values, weight)))})")
    return f"({', '.join(made)},)" if len(made) == 1 else f"({', '.join(made)})"
