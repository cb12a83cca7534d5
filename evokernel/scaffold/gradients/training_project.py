"""Two projects of `evokernel init --training`: a function with what it saves, and its gradients."""

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.references import strict_torch
from evokernel.scaffold.gradients.joint_graph import (
    GraphNode,
    JointGraph,
    trace_gradients,
    trial_inputs,
    value_of,
    wanted_gradients,
)
from evokernel.scaffold.gradients.program_text import ProgramText, backward_arguments, value_name
from evokernel.scaffold.gradients.saved_values import SaveChoice, saved_values, to_decompose
from evokernel.scaffold.operation.dimensions import Layout, derive_layout
from evokernel.scaffold.operation.nested_values import constant_text, holds_classes
from evokernel.scaffold.operation.trial import state_apart, without_data
from evokernel.scaffold.operation.user_file import digest, load_source
from evokernel.scaffold.operation.user_operation import UserOperation, find_subject
from evokernel.scaffold.project import Project, ProjectSettings, init_project, stem_of, whole_or_nothing
from evokernel.scaffold.task_text import call_text, constants_text, template

_TRIALS = 3
_MODEL = """
@functools.cache
def _model():
    source = _source()
    return {construct}

"""
_CLOSE = {"rtol": 1e-5, "atol": 1e-6}
"""A function may compute in fp32 on its own account."""


@dataclass(frozen=True, slots=True)
class TrainingProject:
    """Both projects and the file of functions that they stand on."""

    file: Path
    """Forward, backward and the original, in PyTorch."""
    saved: tuple[str, ...]
    """Saved values with their shapes."""
    gradients: tuple[str, ...]
    """Inputs that get gradients."""
    fixed: str
    """Arguments that are no tensors, with the values that both functions compute with."""
    forward: Project
    backward: Project


@dataclass(frozen=True, slots=True)
class TrainingText:
    """Forward and backward as text."""

    text: str
    graph: JointGraph
    saved: Mapping[str, GraphNode]
    """Values that forward saves, results among them, by name."""


def init_training(
    path: Path,
    *,
    name: str = "",
    inputs: str = "",
    out: Path,
    force: bool = False,
    save: SaveChoice = "auto",
    settings: ProjectSettings,
) -> TrainingProject:
    """Write forward and backward of a PyTorch operation, and a project for each.

    The workloads of backward begin with those of forward, so that both kernels know the same sizes. Raises `TaskError`
    as `init_project`, or the operation has no gradients that can be traced.

    Args:
        path: the Python file.
        name: the function or module in it, where there are several.
        inputs: example inputs as text.
        out: the folder to write to.
        force: replace files that are there.
        save: the choice of values that forward saves.
    """
    subject = state_apart(find_subject(path, name=name, inputs=inputs))
    layout = derive_layout(subject)
    stem = stem_of(subject)
    written = training_text(subject, layout, save=save, stem=stem, out=out)
    file = out / f"{stem}_training.py"
    if file.exists() and not force:
        raise TaskError(f"{file} exists; pass --force to replace it, or --out for another folder")
    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{stem}_{part}{end}" for part in ("forward", "backward") for end in _ENDS]
    with whole_or_nothing((file, *files)):
        file.write_text(written.text, encoding="utf-8")
        module = load_source(file)
        compare_gradients(subject, layout, module, stem=stem)
        given = [tensor.detach() for tensor in subject.inputs.values()]
        forward = init_project(
            file, name=f"{stem}_forward", out=out, force=force, example_inputs=given, settings=settings
        )
        backward = init_project(
            file,
            name=f"{stem}_backward",
            out=out,
            force=force,
            example_inputs=_backward_example(subject, layout, module, stem=stem),
            settings=replace(
                settings,
                shapes=(),
                device_shapes=_shapes(module, forward, stem=stem),
                fewer_distributions=True,  # saved values are drawn apart from the inputs that they follow from
            ),
        )
    return TrainingProject(
        file=file,
        saved=tuple(_shown(written, forward)),
        gradients=tuple(written.graph.gradients),
        fixed=constants_text(subject.constants),
        forward=forward,
        backward=backward,
    )


def _shown(written: TrainingText, forward: Project) -> Iterator[str]:
    """Yield the values that are kept from forward to backward, with their shapes."""
    outputs = written.graph.outputs
    shapes = iter(forward.layout.outputs[len(outputs) :])
    for key, node in written.saved.items():
        if node in outputs:
            yield f"result {outputs.index(node)}"
        else:
            yield f"{key}[{','.join(map(str, next(shapes)))}]"


_ENDS = ("_task.py", ".cpp", "_triton.py", ".yaml")


def _names(subject: UserOperation, graph: JointGraph, saved: Sequence[GraphNode]) -> dict[str, GraphNode]:
    """Return saved values by name, which no input has."""
    made: dict[str, GraphNode] = {}
    for node in saved:
        base = f"result{graph.outputs.index(node)}" if node in graph.outputs else value_name(node)
        while base in subject.inputs or base in made:
            base += "_"
        made[base] = node
    return made


def training_text(subject: UserOperation, layout: Layout, *, save: SaveChoice, stem: str, out: Path) -> TrainingText:
    """Return the file of functions. Raises `TaskError` as `trace_gradients`, or where a size cannot be written."""
    graph = trace_gradients(subject, layout)
    hidden = to_decompose(graph) if save == "auto" else []
    graph = trace_gradients(subject, layout, decompose=hidden) if hidden else graph
    names = _names(subject, graph, saved_values(graph, save))
    saved = {key: node for key, node in names.items() if node not in graph.outputs}
    arguments = backward_arguments(graph, names)
    functions = [
        ProgramText(graph.inputs).function(
            f"{stem}_forward", [*graph.outputs, *saved.values()], purpose="Compute the results, and what is saved."
        ),
        ProgramText(arguments).function(
            f"{stem}_backward", list(graph.gradients.values()), purpose="Compute the gradients of the inputs."
        ),
    ]
    meant = {
        node: f"result {graph.outputs.index(node)}" if node in graph.outputs else key for key, node in names.items()
    }
    meant |= {node: f"gradient {place}" for place, node in zip(graph.differentiable, graph.tangents, strict=True)}
    text = template(
        "training.py.txt",
        name=subject.name,
        file=subject.path.name,
        forward=f"{stem}_forward",
        backward=f"{stem}_backward",
        saved_text=", ".join(saved) or "nothing",
        outputs=str(len(graph.outputs)),
        scalars=repr(tuple(place for place, node in enumerate(graph.outputs) if not value_of(node).shape)),
        saved=repr(tuple(saved)),
        arguments=repr(tuple(meant.get(node, key) for key, node in arguments.items())),
        gradients=repr(tuple(graph.gradients)),
        fixed=", ".join(
            f"{each!r}: {constant_text(each, value)}"
            for each, value in subject.constants.items()
            if not holds_classes(value)
        ),
        functions="\n\n".join(functions),
        given=", ".join(subject.inputs),
        model="model = _model()\n    " if subject.construct else "",
        construct=_MODEL.format(construct=subject.construct) if subject.construct else "",
        call=call_text(subject),
        where=repr(os.path.relpath(subject.path, out.resolve())),
        file_text=repr(subject.path.name),
        digest=repr(digest(subject.path)),
    )
    return TrainingText(text, graph, names)


def backward_inputs(
    module: ModuleType, inputs: Mapping[str, Any], results: Sequence[Any], gradients: Sequence[Any]
) -> list[Any]:
    """Return the arguments of backward.

    Args:
        module: the file of functions.
        inputs: those of the function, by name.
        results: what forward returned.
        gradients: one for each result, None for those without.
    """
    known = {**inputs, **dict(zip(module.SAVED, results[module.OUTPUTS :], strict=True))}
    known |= {f"result {place}": each for place, each in enumerate(results[: module.OUTPUTS])}
    known |= {f"gradient {place}": each for place, each in enumerate(gradients)}
    return [known[key] for key in module.BACKWARD]


def compare_gradients(subject: UserOperation, layout: Layout, module: ModuleType, *, stem: str) -> None:
    """Compare both functions with autograd of the original, in fp64, on inputs of several sizes.

    Raises `TaskError` if they differ.
    """
    forward, backward = getattr(module, f"{stem}_forward"), getattr(module, f"{stem}_backward")
    wide, wanted = subject.with_floats("float64"), wanted_gradients(subject)
    for seed in range(_TRIALS):
        inputs = trial_inputs(wide, layout, seed=seed)
        leaves = inputs | {name: inputs[name].detach().requires_grad_() for name in wanted}
        with strict_torch(), torch.enable_grad():
            outputs = _flat(wide.call(leaves))
        kept = [each for each in outputs if each.requires_grad]
        generator = torch.Generator().manual_seed(seed)
        tangents = [torch.randn(each.shape, generator=generator, dtype=each.dtype) for each in kept]
        due = torch.autograd.grad(kept, [leaves[name] for name in module.GRADIENTS], tangents)
        try:
            with torch.no_grad():
                results = _flat(forward(*inputs.values()))
                left = iter(tangents)
                flowing = [torch.atleast_1d(next(left)) if each.requires_grad else None for each in outputs]
                found = _flat(backward(*backward_inputs(module, inputs, results, flowing)))
            for made, expected in zip([*results[: module.OUTPUTS], *found], [*outputs, *due], strict=True):
                torch.testing.assert_close(made.reshape(expected.shape), expected.detach(), equal_nan=True, **_CLOSE)
        except Exception as error:
            raise TaskError(
                f"the gradients of {subject.name}, written down, differ from those of autograd: {error}; try another "
                "--save, or write two functions and run `evokernel init` on each"
            ) from error


def _backward_example(subject: UserOperation, layout: Layout, module: ModuleType, *, stem: str) -> list[torch.Tensor]:
    """Return arguments of backward at the size of the example. Only integers have contents that mean something.

    Raises `TaskError` if forward gives other types than the original, as the example's types show.
    """
    forward = getattr(module, f"{stem}_forward")
    with without_data():
        results = _flat(
            forward(*subject.empty({key: tuple(each.shape) for key, each in subject.inputs.items()}).values())
        )
    found = [str(each.dtype).removeprefix("torch.") for each in results[: module.OUTPUTS]]
    if found != list(layout.output_dtypes):
        raise TaskError(
            f"{subject.name} returns {', '.join(layout.output_dtypes)}; traced, it gives {', '.join(found)}"
        )
    if any(not each.is_floating_point() and each.dtype != torch.bool for each in results[module.OUTPUTS :]):
        with torch.no_grad():
            results = _flat(forward(*(each.detach() for each in subject.inputs.values())))
    made = [each if type(each) is torch.Tensor else torch.ones(each.shape, dtype=each.dtype) for each in results]
    return [each.detach() for each in backward_inputs(module, subject.inputs, made, made[: module.OUTPUTS])]


def _shapes(module: ModuleType, forward: Project, *, stem: str) -> dict[str, tuple[str, ...]]:
    """Return, by device class, the shapes of backward's inputs at the search workloads of forward, as text."""
    names = inspect.signature(getattr(module, f"{stem}_backward")).parameters
    made = dict[str, tuple[str, ...]]()
    for device, workloads in forward.task.workloads.items():
        texts = []
        for workload in workloads.search:
            shape = {each.name: each.shape_at(workload.sizes) for each in forward.task.signature.tensors}
            results = [shape[each.name] for each in forward.task.signature.outputs]
            inputs = {each.name: shape[each.name] for each in forward.task.signature.inputs}
            given = backward_inputs(module, inputs, results, results[: module.OUTPUTS])
            texts.append(
                ", ".join(f"{key}: {'x'.join(map(str, each))}" for key, each in zip(names, given, strict=True))
            )
        made[device] = tuple(texts)
    return made


def _flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]
