"""Plain kernel of a traced reference, and its comparison with that reference."""

import ctypes
import inspect
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evokernel.errors import HarnessError, LanguageError, TaskError
from evokernel.evaluate.numerics.arrays import torch_dtype
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.inputs import draw, result_tensors
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.languages.cpp.guide import entry_signature
from evokernel.languages.cpp.language import CppLanguage
from evokernel.languages.toolchain import run_plain
from evokernel.records.build import BuildFailure, Built
from evokernel.scaffold.inductor.seed import NOT_COMPARED, NoInductorSeed, inductor_seed
from evokernel.scaffold.loops.cpp_writer import CppWriter
from evokernel.scaffold.loops.narrow_numbers import SHORT, conversions_text
from evokernel.scaffold.loops.operation_graph import PLACES, STORES, Node, in_order
from evokernel.scaffold.loops.part_functions import MOST_LINES, in_functions
from evokernel.scaffold.loops.selection_text import keeping_nan
from evokernel.scaffold.loops.trace import Traced
from evokernel.scaffold.loops.vector_functions import with_vector_functions
from evokernel.scaffold.operation.sizes import NotGeneral
from evokernel.scaffold.operation.user_operation import UserOperation
from evokernel.scaffold.seed_memory import aligned, as_it_lies, unwritten
from evokernel.source.expressions import evaluate
from evokernel.task import Role, Scalar, Signature, Task, Workload

_C_SCALARS: dict[str, Any] = {"int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}
_LARGE_BYTES = 1 << 25
"""Size of the tensors above which an example is no trial of a plain kernel."""
_HARD_ON_SUMS = ("offset", "wide")
_TIED = ("integers01", "needles")
_QUICK_FLOPS = 3e8
"""Arithmetic of a workload on which a plain kernel is tried with numbers that are hard on sums, at most."""
_MOST_FLOPS = 1e10
"""Arithmetic of a second workload on which a plain kernel is tried, at most: it does some 1e9 operations in 1 s."""
_SHARE_OF_SLACK = 0.5
"""Part of the tolerance that a seed may use up on these numbers before it adds up in double."""
_HEAD_LINES = 4
"""Lines of a program's docstring."""
COMPILE_S = 60.0
"""The longest that compiling a C++ kernel may take, in s: steps in Python that are written out make many loops."""
_COMPARE_S = 45.0
"""The longest that Triton's interpreter may compare a program with its reference, in s."""


@dataclass(frozen=True, slots=True)
class Seed:
    """The kernel that a search starts from, in one language."""

    language: str
    file: Path
    entry: str
    """Signature of the kernel."""
    why: str = ""
    """Reason why it only shows where to begin; empty where it is right."""
    remark: str = ""
    """Reason why nobody knows whether it is right, or why it is not where numbers are equal; else empty."""
    compile_s: float = 0.0
    """Time that compiling it took, in s; 0 where that is not known."""


@dataclass(frozen=True, slots=True)
class OperationTask:
    """The operation and the task made of it."""

    subject: UserOperation
    task: Task
    file: Path
    """The task file."""
    example: Mapping[str, int]
    """Dimensions of the example."""
    too_long: str = ""
    """Reason why a compiler would write too many kernels for a GPU; empty where it is asked for them."""


def quiet(text: str) -> None:
    """Say nothing of what is done next."""


def make_seeds(
    origin: OperationTask,
    files: Mapping[str, Path],
    *,
    traced: Traced | None,
    why: str,
    kernel: Callable[[Task, Path], str] | None = None,
    tell: Callable[[str], None] = quiet,
) -> tuple[Seed, ...]:
    """Write a kernel in each language: a right one, or one that is built and fails, with all that its author needs.

    `kernel` returns a GPU program for the task and its file, in place of Inductor's. `tell` is called with what is done
    next, in words.
    """
    made = []
    for language, file in files.items():
        tell(f"writing {file.name}, and comparing it with the operation")
        compile_s = 0.0
        if language == "cpp":
            task = origin.task.on("cpu")
            entry = entry_signature(task.signature)
            source, reason = _plain(task, traced, why, example=origin.example)
            remark = _of_ties(task, source, ordered=traced is not None and _orders(traced)) if source else ""
            if source and isinstance(built := _built(source), Built):
                compile_s = built.metrics["compile_ms"] / 1e3
        else:
            entry = f"def run({', '.join(argument.name for argument in origin.task.signature.arguments)})"
            source, reason = (kernel(origin.task, origin.file), "") if kernel else ("", origin.too_long)
            if not source and not reason:
                source, reason, compile_s = _triton(origin.file)
            remark = _uncompared(source)
        file.write_text(source or _stub(origin, file, entry=entry, language=language), encoding="utf-8")
        made.append(Seed(language, file, entry, reason, remark=remark, compile_s=compile_s))
    return tuple(made)


def _uncompared(source: str) -> str:
    """Return the remark of a program that was not compared with the reference, or nothing."""
    head = source.splitlines()[:_HEAD_LINES]
    return next((line[line.index(NOT_COMPARED) :] for line in head if NOT_COMPARED in line), "")


def _plain(task: Task, traced: Traced | None, why: str, *, example: Mapping[str, int]) -> tuple[str, str]:
    """Return plain C++ and nothing, or nothing and the reason."""
    if traced is None:
        return "", why
    workloads = task.workloads["cpu"]
    tried = [min(workloads.search, key=task.flops_at)]
    tried += [each for each in workloads.holdout[:1] if task.flops_at(each) <= _MOST_FLOPS]
    shown = Workload("example", example)
    tried += [shown] * (task.bytes_at(shown) <= _LARGE_BYTES and task.flops_at(shown) <= max(map(task.flops_at, tried)))
    try:
        source = write_seed(traced, task.signature)
        kept = keeping_nan(source)
        if kept != source and not _is_right(task, source, tried) and _is_right(task, kept, tried):
            return kept, ""
        try:
            check_seed(task, source, tried)
            _check_long_sums(task, source, workloads.search)
            if not _orders(traced):
                _check_ties(task, source)
        except HarnessError:
            if (exact := write_seed(traced, task.signature, wide_sums=True)) == source:
                raise
            source = exact
            check_seed(task, source, tried)
    except (HarnessError, LanguageError, NotGeneral, TaskError) as error:
        return "", str(error)
    return source, ""


def _is_right(task: Task, source: str, workloads: Sequence[Workload]) -> bool:
    try:
        check_seed(task, source, workloads)
        _check_ties(task, source)
    except HarnessError:
        return False
    return True


def _orders(traced: Traced) -> bool:
    """Say whether an order of numbers decides, so that equal ones may come in another."""
    return any(node.op in PLACES for node in in_order(traced.outputs))


def _of_ties(task: Task, source: str, *, ordered: bool) -> str:
    """Return the remark on a kernel that differs from the reference only where many numbers are equal, or nothing."""
    try:
        _check_ties(task, source)
    except HarnessError as error:
        advice = (
            "If an order of equal numbers decides, fix it in your function, as torch.sort(x, stable=True) does, and "
            "run init again"
            if ordered
            else "Numbers that are nearly 0, as the variance of equal ones, may be left with rounding alone there; the "
            "judge draws such inputs, too, and may refuse this kernel"
        )
        return f"It differs from {task.name} where many numbers are equal: {error}. {advice}"
    return ""


def _check_ties(task: Task, source: str) -> None:
    """Check a kernel on numbers of which many are equal. Raises as `check_seed`."""
    workloads = task.workloads["cpu"]
    workload = min((*workloads.holdout, *workloads.search), key=task.flops_at)
    check_seed(task, source, [workload], distributions=[name for name in _TIED if name in task.distributions])


def _check_long_sums(task: Task, source: str, workloads: Sequence[Workload]) -> None:
    """Check a kernel on numbers that make long sums inexact, where the sums are longest. Raises as `check_seed`.

    The judge draws other numbers of these kinds in each run, and a seed should not be right by luck: it keeps to a part
    of the tolerance.
    """
    task = replace(task, precision=replace(task.precision, slack=_SHARE_OF_SLACK * task.precision.slack))
    hard = [name for name in _HARD_ON_SUMS if name in task.distributions]
    quick = [workload for workload in workloads if task.flops_at(workload) <= _QUICK_FLOPS]
    longest = max(quick, key=lambda each: evaluate(task.precision.reduction, each.sizes), default=None)
    check_seed(task, source, [longest] if longest else [], distributions=hard)


def _triton(task_file: Path) -> tuple[str, str, float]:
    """Return Inductor's own program, nothing, and the time that compiling it took; or nothing and the reason."""
    try:
        made = inductor_seed(str(task_file), compare_s=_COMPARE_S)
    except NoInductorSeed as error:
        return "", str(error), 0.0
    return made.text, "", made.compile_s


def _stub(origin: OperationTask, file: Path, *, entry: str, language: str) -> str:
    """Return a kernel that is built and writes nothing."""
    subject = origin.subject
    lines = [
        origin.task.description,
        "",
        "Fill in `run`; as it is, it writes nothing and is rejected. Judge it with",
        f"    evokernel evaluate {file.name} --task {origin.file.name}",
        f"It computes what `{subject.name}` of {subject.path.name} does:",
        *("    " + line for line in _source_of(subject).splitlines()),
        "",
    ]
    if language == "cpp":
        comment = "".join(f"// {line}".rstrip() + "\n" for line in lines)
        return f"{comment}#include <cstdint>\n\n{entry} {{\n}}\n"
    comment = "".join(f"# {line}".rstrip() + "\n" for line in lines)
    written = result_tensors(origin.task)[0].name
    kernel = f"@triton.jit\ndef fill({written}):\n    pass\n\n\n"
    return f"{comment}import triton\nimport triton.language as tl\n\n\n{kernel}{entry}:\n    fill[(1,)]({written})\n"


def _source_of(subject: UserOperation) -> str:
    try:
        return inspect.getsource(type(subject.target) if subject.construct else subject.target).rstrip()
    except (OSError, TypeError):
        return ""


def _changed(signature: Signature) -> list[str]:
    return [tensor.name for tensor in signature.inputs if tensor.role is Role.INOUT]


def write_seed(traced: Traced, signature: Signature, *, wide_sums: bool = False) -> str:
    """Return a C++ kernel with one plain loop nest for each step. It computes in double where a tensor is float64.

    With `wide_sums` it adds up in double in any case, and calls no vector forms of functions.
    """
    short = {tensor.name: tensor.dtype for tensor in signature.tensors if tensor.dtype in SHORT}
    inputs = [tensor.name for tensor in signature.inputs]
    arguments = [f"{name}_wide" if name in short else name for name in inputs]
    pairs = list(zip(_changed(signature), traced.outputs, strict=False))
    there = [name for name, node in pairs if _only_stores(node, inputs.index(name), traced.outputs)]
    # what is read may not be replaced yet
    changed = {name: f"{name}_new" for name, _ in pairs if name in short or name not in there}
    if "bool" in {tensor.dtype for tensor in signature.inputs if tensor.name in changed}:
        raise NotGeneral("a change of bool in place has no plain loops yet")
    changed |= {tensor.name: f"{tensor.name}_new" for tensor in signature.outputs if tensor.name in short}
    outputs = [changed.get(name, name) for name in (*_changed(signature), *(each.name for each in signature.outputs))]
    made = dict(zip(outputs, traced.outputs, strict=True))
    product = traced.sizes.product
    read = {str(node.attrs[0]): node.shape for node in in_order(traced.outputs) if node.op == "input"}
    widened = {
        name: product(read[f"input {n}"]) for n, name in enumerate(inputs) if name in short and f"input {n}" in read
    }
    body = "\n".join(
        [
            *(f"    std::vector<float> {name}_wide({size});" for name, size in widened.items()),
            *(
                f"    std::transform({name}, {name} + {name}_wide.size(), {name}_wide.begin(), from_{short[name]});"
                for name in widened
            ),
            *(f"    std::vector<{made[new].kind}> {new}({product(made[new].shape)});" for new in changed.values()),
            *CppWriter(
                made,
                traced.sizes,
                arguments=arguments,
                taken=[*outputs, *(each.name for each in signature.scalars)],
                wide_sums=wide_sums,
            ).body(),
            *(
                f"    std::transform({new}.begin(), {new}.end(), {name}, to_{short[name]});"
                if name in short
                else f"    std::copy({new}.begin(), {new}.end(), {name});"
                for name, new in changed.items()
            ),
        ]
    )
    wide = any(tensor.dtype == "float64" for tensor in signature.tensors)
    if wide:
        body = re.sub(r"(?<=[\d.])f\b", "", re.sub(r"\bfloat\b", "double", body))
    helpers = conversions_text(body)
    if not wide_sums:  # what is as exact as it can be calls functions as they are
        declared, body = with_vector_functions(body, "double" if wide else "float")
        helpers += "\n" * bool(declared) + declared
    entry, lines = entry_signature(signature), body.splitlines()
    if len(lines) > MOST_LINES:
        found = (each.rpartition(" ") for each in entry.partition("(")[2].rstrip(") ").split(","))
        functions, lines = in_functions(lines, {name: kind.strip() for kind, _, name in found})
        helpers += "".join("\n" + each for each in functions)
    body = helpers + "\n".join(["", f"{entry} {{", *lines, "}", ""])
    headers = ["algorithm"] * bool(re.search(r"std::(max|min|copy|transform|\w+_sort)\b", body)) + ["bit"] * (
        "std::bit_cast" in body
    )
    headers += ["cmath"] * (
        "std::" in body.replace("std::vector", "") or re.search(r"INFINITY|NAN|simd", body) is not None
    ) + ["cstdint"]
    headers += ["utility"] * ("std::swap(" in body) + ["vector"] * ("std::vector" in body)
    includes = "".join(f"#include <{name}>\n" for name in headers)
    return includes + body


def _only_stores(node: Node, place: int, outputs: tuple[Node, ...]) -> bool:
    """Say whether the new value of an argument is the old one, which nothing else reads, with some elements stored."""
    if node.op not in STORES or node.args[0].attrs != (f"input {place}",):
        return False
    return [*outputs, *(arg for each in in_order(outputs) for arg in each.args)].count(node.args[0]) == 1


def check_seed(
    task: Task, source: str, workloads: Sequence[Workload], *, distributions: Sequence[str] = ("normal",)
) -> None:
    """Compile a kernel and compare it with the reference on workloads, as the evaluator would.

    Only for source from `write_seed`: it runs in this process. Raises `HarnessError` if it does not compile, or its
    results differ, and `NotGeneral` if the compiler takes too long.
    """
    built = _built(source)
    if isinstance(built, BuildFailure):
        fault = NotGeneral if built.timed_out else HarnessError  # another one like it would take as long
        raise fault(f"the generated kernel does not compile: {built.message}")
    with tempfile.TemporaryDirectory(prefix="evokernel-") as folder:
        library = Path(folder) / "seed.so"
        library.write_bytes(built.artifact)
        run = ctypes.CDLL(str(library)).run
        run.restype = None
        for workload in workloads:
            for distribution in distributions:
                _compare(task, run, workload, distribution)


@lru_cache(maxsize=1)
def _built(source: str) -> Built | BuildFailure:
    """Return the build of a C++ kernel, once for all its trials: that of many loops takes seconds."""
    return CppLanguage(run=run_plain, compile_timeout_s=COMPILE_S).build(source)


def _compare(task: Task, run: Any, workload: Workload, distribution: str) -> None:
    inputs = draw(task, workload, distribution, np.random.default_rng(0))
    expected = expect(task, workload, inputs, distribution=distribution)
    lying = {each.name: aligned(as_it_lies(each, inputs[each.name], workload)) for each in task.signature.inputs}
    lying |= {each.name: aligned(unwritten(each, workload)) for each in task.signature.outputs}
    values: list[Any] = []
    for argument in task.signature.arguments:
        if isinstance(argument, Scalar):
            values.append(_C_SCALARS[argument.dtype](workload.dims[argument.name]))
        else:
            values.append(ctypes.c_void_p(lying[argument.name].ctypes.data))
    run(*values)
    results = tuple(
        torch.from_numpy(lying[tensor.name]).view(torch_dtype(tensor.dtype)) for tensor in result_tensors(task)
    )
    finding = judge_output(expected, results)
    if finding is not None:
        raise HarnessError(f"the generated kernel is wrong on {dict(workload.dims)}: {finding.feedback}")
