"""The files of an export as texts, by language: the kernel, what builds or checks it, and what is proved of it."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from string import Template
from types import ModuleType
from typing import Any

from evokernel.config import RunConfig
from evokernel.evaluation import combined_speedup
from evokernel.export_helper import with_helper
from evokernel.judging import Judgement
from evokernel.languages.cpp_guide import entry_signature
from evokernel.task import Role, Task, Tensor

Texts = dict[str, str]
_TEMPLATES = Path(__file__).with_name("templates")


def cpp_files(task: Task, judgement: Judgement, config: RunConfig) -> Texts:
    """Return a C++ kernel, the module that builds and calls it, and a README."""
    threads = "One thread" if config.threads == 1 else f"{config.threads} threads; set OMP_NUM_THREADS={config.threads}"
    readme = _fill(
        "README.md.txt",
        **_measured(task, judgement),
        entry=entry_signature(task.signature),
        example=_cpp_example(task),
        flags=" ".join(compiler_flags(judgement.identity.environment)),
        threads=threads,
    )
    return {"kernel.cpp": judgement.candidate.source, "kernel.py": _cpp_module(task, judgement), "README.md": readme}


def triton_files(task: Task, judgement: Judgement, config: RunConfig) -> Texts:
    """Return a Triton kernel as it is, a test where the task's reference can be written down, and a README."""
    return _python_files(task, judgement, judgement.candidate.source, kind="Triton", needs="torch and triton")


def cuda_files(task: Task, judgement: Judgement, config: RunConfig) -> Texts:
    """Return a CUDA C++ kernel with its helper inlined, a test where the reference can be written down, a README."""
    needs = "torch, and NVRTC, which comes with torch for CUDA"
    return _python_files(task, judgement, with_helper(judgement.candidate.source), kind="CUDA C++", needs=needs)


def _python_files(task: Task, judgement: Judgement, kernel: str, *, kind: str, needs: str) -> Texts:
    test = _gpu_test(task, judgement)
    readme = _fill(
        "README.gpu.md.txt",
        **_measured(task, judgement),
        kind=kind,
        needs=needs,
        arguments=", ".join(argument.name for argument in task.signature.arguments),
        test_row="| `test_kernel.py` | `python test_kernel.py`: compares with torch, prints times |\n" if test else "",
        example=_gpu_example(task),
    )
    texts = {"kernel.py": kernel, "README.md": readme}
    return {**texts, "test_kernel.py": test} if test else texts


WRITERS: Mapping[str, Callable[[Task, Judgement, RunConfig], Texts]] = {
    "cpp": cpp_files,
    "triton": triton_files,
    "cuda": cuda_files,
}
"""By language, what makes the files of an export."""


def _fill(template: str, /, **values: str) -> str:
    return Template((_TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)


def compiler_flags(environment: str) -> tuple[str, ...]:
    """Return the compiler's flags in the description of an environment."""
    return tuple(re.findall(r"(?<=\s)-[^\s;]+", environment))


def _measured(task: Task, judgement: Judgement) -> dict[str, str]:
    """Return what every README says of the measurement, by placeholder."""
    evaluation, identity = judgement.last, judgement.identity
    speedup = combined_speedup(evaluation.timings)
    rows = ["| workload | kernel | baseline | speed-up | 95 % interval |", "|---|---|---|---|---|"]
    for timing in evaluation.timings:
        one = timing.speedup
        rows.append(
            f"| {timing.workload} | {timing.candidate_us:.4g} us | {timing.baseline_us:.4g} us ({timing.baseline}) "
            f"| {one.value:.3g}x | {one.low:.3g} to {one.high:.3g} |"
        )
    return {
        "task": task.name,
        "description": task.description or task.name,
        "candidate": judgement.candidate.id,
        "speedup": f"{speedup.value:.3g}x",
        "low": f"{speedup.low:.3g}",
        "high": f"{speedup.high:.3g}",
        "table": "\n".join(rows),
        "device": identity.device,
        "environment": identity.environment,
        "mode": evaluation.key.mode.value,
        "sandbox": identity.sandbox,
    }


def _tables(task: Task) -> dict[str, str]:
    """Return the tensors of a signature as Python text, by placeholder."""
    signature = task.signature
    return {
        "inputs": repr(tuple(_row(tensor) for tensor in signature.inputs)),
        "inouts": repr(tuple(tensor.name for tensor in signature.inputs if tensor.role is Role.INOUT)),
        "outputs": repr(tuple(_row(tensor) for tensor in signature.outputs)),
    }


def _row(tensor: Tensor) -> tuple[str, str, tuple[str | int, ...]]:
    return tensor.name, tensor.dtype, tensor.shape


# ---------------------------------------------------------------------------------------------------- C++


def _cpp_module(task: Task, judgement: Judgement) -> str:
    signature = task.signature
    numbers = [scalar.name for scalar in signature.scalars if scalar.name not in _sizes_in_shapes(task)]
    names = [tensor.name for tensor in signature.inputs]
    keywords = [*(f"{name}: float" for name in numbers), "out: Any = None"]
    return _fill(
        "kernel.py.txt",
        **_tables(task),
        description=(task.description or task.name).replace("\\", "/").replace('"', "'"),
        candidate=judgement.candidate.id,
        example=_cpp_example(task),
        flags=repr(compiler_flags(judgement.identity.environment)),
        scalars=repr(tuple((scalar.name, scalar.dtype) for scalar in signature.scalars)),
        parameters=", ".join([*(f"{name}: torch.Tensor" for name in names), "*", *keywords]),
        returns="return one tensor" if len(_written(task)) == 1 else "return a tuple of tensors",
        tensors=", ".join(f'"{name}": {name}' for name in names),
        given=", ".join(f'"{name}": {name}' for name in numbers),
    )


def _written(task: Task) -> list[Tensor]:
    return [tensor for tensor in task.signature.tensors if tensor.role is not Role.INPUT]


def _sizes_in_shapes(task: Task) -> set[str]:
    """Return the dimensions that the shapes of the inputs tell."""
    extents = [str(extent) for tensor in task.signature.inputs for extent in tensor.shape]
    found = [re.fullmatch(r"(?:\d+ \* )?([A-Za-z_]\w*)", extent) for extent in extents]
    return {match[1] for match in found if match}


def _cpp_example(task: Task) -> str:
    """Return one line that calls the kernel on a workload."""
    workload = next(iter(task.workloads.values())).search[0]
    given = []
    for tensor in task.signature.inputs:
        shape = ", ".join(map(str, tensor.shape_at(workload.sizes)))
        made = "ones" if tensor.dtype.startswith("int") else "randn"
        given.append(f"torch.{made}({shape}, dtype=torch.{tensor.dtype})")
    told = _sizes_in_shapes(task)
    given += [f"{s.name}={workload.dims[s.name]}" for s in task.signature.scalars if s.name not in told]
    return f"out = kernel.run({', '.join(given)})"


# ---------------------------------------------------------------------------------------------------- on a GPU


def _gpu_example(task: Task) -> str:
    """Return lines that call the kernel on a workload."""
    workload = next(iter(task.workloads.values())).search[0]
    lines = []
    for tensor in task.signature.tensors:
        shape = ", ".join(map(str, tensor.shape_at(workload.sizes)))
        made = "empty" if tensor.role is Role.OUTPUT else "ones" if tensor.dtype.startswith("int") else "randn"
        lines.append(f'{tensor.name} = torch.{made}({shape}, dtype=torch.{tensor.dtype}, device="cuda")')
    given = [str(workload.dims.get(argument.name, argument.name)) for argument in task.signature.arguments]
    return "\n".join([*lines, f"kernel.run({', '.join(given)})"])


def _gpu_test(task: Task, judgement: Judgement) -> str:
    """Return the text of test_kernel.py; empty where the reference needs more than modules."""
    reference = reference_text(task.reference)
    if reference is None:
        return ""
    imports, text = reference
    workloads = next(iter(task.workloads.values()))
    used = {workload.name: dict(workload.dims) for workload in (*workloads.search, *workloads.holdout)}
    return _fill(
        "test_kernel.py.txt",
        **_tables(task),
        candidate=judgement.candidate.id,
        imports=imports,
        scalars=repr(tuple(scalar.name for scalar in task.signature.scalars)),
        workloads="\n".join(f"    {name!r}: {dims!r}," for name, dims in used.items()),
        slack=repr(task.precision.slack),
        reference=text,
        allow_tf32=repr(task.precision.allow_tf32),
    )


def reference_text(function: Callable[..., Any]) -> tuple[str, str] | None:
    """Return the imports and the definition of a function as `reference`; None where it needs more than modules."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
        needs = inspect.getclosurevars(function)
        parsed = ast.parse(text).body
    except (OSError, TypeError, SyntaxError, ValueError):  # not written in a file, or not on lines of its own
        return None
    modules = {name: value.__name__ for name, value in needs.globals.items() if isinstance(value, ModuleType)}
    if needs.nonlocals or len(modules) < len(needs.globals):
        return None
    match parsed:
        case [ast.FunctionDef(name=own, decorator_list=[])]:
            imports = [f"import {module} as {name}\n" for name, module in sorted(modules.items()) if name != "torch"]
            return "".join(imports), re.sub(rf"\bdef {own}\b", "def reference", text, count=1)
    return None
