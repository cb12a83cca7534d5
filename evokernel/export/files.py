"""Files of an export as texts, by language: kernel, build or test, and README with the measurements."""

import os
import re
from collections.abc import Mapping, Sequence

from evokernel.config.run import RunConfig
from evokernel.evaluate.client.evaluate_kernel import KernelVerdict
from evokernel.evaluate.inside.driver.nvrtc import INCLUDE_FOLDERS
from evokernel.export.cuda_helper import with_helper
from evokernel.export.dispatch import Dispatch
from evokernel.export.template_text import (
    declared,
    example_arguments,
    fill,
    fixed_of,
    new_tensor,
    numbers_of,
    op_name,
    written,
)
from evokernel.export.torch_operator import op_file
from evokernel.languages.cpp.guide import entry_signature
from evokernel.records.timing import combined_speedup, microseconds
from evokernel.task import Task

Texts = dict[str, str]
KERNEL = "kernel"
"""Name of the module of the best kernel."""

_OTHER_BITS = """

It is nondeterministic: it adds in an order that differs from run to run, so equal inputs may give other bits. All runs
were within the tolerance."""
_KINDS = {
    "triton": ("Triton", "torch and triton"),
    "cuda": ("CUDA C++", "torch, and NVRTC, which comes with torch for CUDA"),
}


def export_files(
    task: Task,
    judgements: Mapping[str, KernelVerdict],
    config: RunConfig,
    *,
    reference: Mapping[str, str],
    dispatch: Dispatch | None = None,
    accept_from: float = 0.0,
) -> Texts:
    """Return all files of an export but its provenance.

    With a reference they include an operator of PyTorch, and a test of a GPU kernel.

    Args:
        task: with the workloads of one class of devices.
        judgements: by module name of each kernel; the first is the best, named `KERNEL`.
        reference: the files of `reference_files`; empty where the reference cannot be written.
        dispatch: who answers between the workloads; None for torch.
        accept_from: the least speed-up over torch of a kernel that answers.
    """
    texts = Texts()
    for module, judgement in judgements.items():
        texts |= _kernel_files(task, judgement, module)
    best = judgements[KERNEL]
    if reference:
        texts |= {**reference, "op.py": op_file(task, judgements, dispatch=dispatch, accept_from=accept_from)}
    # it draws the inputs itself, and those of a generator have to fit each other
    if reference and best.candidate.language in _KINDS and not task.signature.generators:
        texts["test_kernel.py"] = _gpu_test(task, best)
    readme = _gpu_readme if best.candidate.language in _KINDS else _cpp_readme
    rows = _rows(task, texts, beside=sorted(reference))
    return texts | {"README.md": readme(task, best, config, rows=rows) + (_answers(dispatch) if dispatch else "")}


def _answers(dispatch: Dispatch) -> str:
    """Return the part of a README on who answers between the workloads."""
    rows = "".join(f"| {' | '.join(row)} |\n" for row in dispatch.rows())
    ends = ", ".join(f"{name} from {low} to {high}" for name, (low, high) in dispatch.domain.ranges.items())
    return f"""
## Who answers between the workloads

`op.py` asks a tree that was fitted to the kernels' speed-ups over torch at {len(dispatch.measured)} sizes.
It answers for {ends}; outside, torch does.
A kernel answers in a part only where no interval begins below {dispatch.accept_from:g}: the interval here runs from the
least end to the greatest. `provenance.json` has all measurements.

| where | who answers | speed-up over torch |
|---|---|---|
{rows}"""


def _kernel_files(task: Task, judgement: KernelVerdict, module: str) -> Texts:
    """Return the files of one kernel alone: its module, and its source where that is another file."""
    source = judgement.candidate.source
    match judgement.candidate.language:
        case "cpp":
            return {f"{module}.cpp": source, f"{module}.py": _cpp_module(task, judgement)}
        case "cuda":
            return {f"{module}.py": with_helper(source)}
    return {f"{module}.py": source}


def _rows(task: Task, texts: Texts, *, beside: Sequence[str]) -> str:
    """Return the rows of a README on optional files; `beside` are those that the reference imports."""
    what = dict.fromkeys(beside, "what `reference.py` imports") | {
        "op.py": f"`{op_name(task)}`, an operator of PyTorch: a kernel where it is faster, torch everywhere else",
        "reference.py": "what is to be computed, in torch",
        "test_kernel.py": "`python test_kernel.py`: compares with torch, prints times",
    }
    rows = [f"| `{name}` | {text} |\n" for name, text in what.items() if name in texts]
    others = sorted(name for name in texts if name.startswith(f"{KERNEL}_"))
    return "".join([*rows, *(f"| `{name}` | a kernel that leads on some workload |\n" for name in others)])


def _cpp_readme(task: Task, judgement: KernelVerdict, config: RunConfig, *, rows: str) -> str:
    threads = "One thread" if config.threads == 1 else f"{config.threads} threads; set OMP_NUM_THREADS={config.threads}"
    return fill(
        "README.md.txt",
        **_measured(task, judgement),
        entry=entry_signature(task.signature),
        example=_cpp_example(task),
        flags=" ".join(compiler_flags(judgement.identity.environment)),
        threads=threads,
        rows=rows,
    )


def _headers_needed(config: RunConfig) -> str:
    folders = os.pathsep.join(config.evaluation.cuda_include)
    return f"; headers in the folders that the variable {INCLUDE_FOLDERS} names, here {folders}" if folders else ""


def _gpu_readme(task: Task, judgement: KernelVerdict, config: RunConfig, *, rows: str) -> str:
    kind, needs = _KINDS[judgement.candidate.language]
    return fill(
        "README.gpu.md.txt",
        **_measured(task, judgement),
        kind=kind,
        needs=needs + (_headers_needed(config) if judgement.candidate.language == "cuda" else ""),
        arguments=", ".join(argument.name for argument in task.signature.arguments),
        example=_gpu_example(task),
        rows=rows,
    )


def compiler_flags(environment: str) -> tuple[str, ...]:
    """Return the compiler's flags in the description of an environment."""
    return tuple(re.findall(r"(?<=\s)-[^\s;]+", environment))


def _measured(task: Task, judgement: KernelVerdict) -> dict[str, str]:
    """Return the measurement for a README, by placeholder."""
    evaluation, identity = judgement.last, judgement.identity
    speedup = combined_speedup(evaluation.timings)
    rows = ["| workload | kernel | baseline | speed-up | 95 % interval |", "|---|---|---|---|---|"]
    for timing in evaluation.timings:
        one, us, other_us = timing.speedup, timing.candidate_us, timing.baseline_us
        rows.append(
            f"| {timing.workload} | {microseconds(us)} | {microseconds(other_us)} ({timing.baseline}) "
            f"| {one.value:.2f}x | {one.low:.2f} to {one.high:.2f} |"
        )
    strided = ", ".join(
        f"`{t.name}` with strides { ({', '.join(map(str, t.strides))}) }" for t in task.signature.inputs if t.strides
    )
    fixed = ", ".join(f"`{name}={value}`" for name, value in fixed_of(task).items())
    return {
        "fixed": f"\nIt computes with {fixed} alone: these the task fixed, and for others `evokernel init --inputs` "
        "makes another task."
        if fixed
        else "",
        "strided": f" ({strided})" if strided else "",
        "task": task.name,
        "description": task.description or task.name,
        "candidate": judgement.candidate.id,
        "speedup": f"{speedup.value:.2f}x",
        "low": f"{speedup.low:.2f}",
        "high": f"{speedup.high:.2f}",
        "table": "\n".join(rows),
        "device": identity.device,
        "environment": identity.environment,
        "mode": evaluation.key.mode.value,
        "bits": _OTHER_BITS if evaluation.nondeterministic else "",
        "sandbox": identity.sandbox,
    }


# ---------------------------------------------------------------------------------------------------- C++


def _cpp_module(task: Task, judgement: KernelVerdict) -> str:
    signature = task.signature
    numbers = numbers_of(task)
    names = [tensor.name for tensor in signature.inputs]
    keywords = [*(f"{name}: {kind}" for name, kind in numbers.items()), "out: Any = None"]
    return fill(
        "kernel.py.txt",
        **declared(task),
        description=(task.description or task.name).replace("\\", "/").replace('"', "'"),
        candidate=judgement.candidate.id,
        example=_cpp_example(task),
        flags=repr(compiler_flags(judgement.identity.environment)),
        scalars=repr(tuple((scalar.name, scalar.dtype) for scalar in signature.scalars)),
        parameters=", ".join([*(f"{name}: torch.Tensor" for name in names), "*", *keywords]),
        returns="return one tensor" if len(written(task)) == 1 else "return a tuple of tensors",
        tensors=", ".join(f'"{name}": {name}' for name in names),
        given=", ".join(f'"{name}": {name}' for name in numbers),
    )


def _cpp_example(task: Task) -> str:
    return f"out = kernel.run({example_arguments(task, device='cpu')})"


# ---------------------------------------------------------------------------------------------------- on a GPU


def _gpu_example(task: Task) -> str:
    """Return lines that call the kernel on a workload."""
    workload = next(iter(task.workloads.values())).search[0]
    place = ', device="cuda"'
    lines = [f"{tensor.name} = {new_tensor(tensor, workload, place)}" for tensor in task.signature.tensors]
    given = [str(workload.dims.get(argument.name, argument.name)) for argument in task.signature.arguments]
    return "\n".join([*lines, f"kernel.run({', '.join(given)})"])


def _gpu_test(task: Task, judgement: KernelVerdict) -> str:
    """Return the text of test_kernel.py, which needs kernel.py and reference.py beside it."""
    workloads = next(iter(task.workloads.values()))
    used = {workload.name: dict(workload.dims) for workload in (*workloads.search, *workloads.holdout)}
    return fill(
        "test_kernel.py.txt",
        **declared(task),
        candidate=judgement.candidate.id,
        scalars=repr(tuple(scalar.name for scalar in task.signature.scalars)),
        workloads="\n".join(f"    {name!r}: {dims!r}," for name, dims in used.items()),
        slack=repr(task.precision.slack),
        allow_tf32=repr(task.precision.allow_tf32),
    )
