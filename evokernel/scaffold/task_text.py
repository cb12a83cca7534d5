"""Text of a new task file."""

import importlib.resources
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

from evokernel.scaffold.operation.additive_masks import AdditiveMask
from evokernel.scaffold.operation.dimensions import Layout
from evokernel.scaffold.operation.index_bounds import ValueRange
from evokernel.scaffold.operation.nested_values import constant_text
from evokernel.scaffold.operation.user_file import digest
from evokernel.scaffold.operation.user_operation import UserOperation
from evokernel.scaffold.workloads import Dims, WorkloadDraft
from evokernel.task import DISTRIBUTIONS

_LINE = 110
_SHORT = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


@dataclass(frozen=True, slots=True)
class TaskDraft:
    """All that the text of a task is made from."""

    subject: UserOperation
    layout: Layout
    dtypes: Mapping[str, str]
    """Dtypes of inputs and outputs in the signature, by name."""
    ranges: Mapping[str, str | int]
    """Size or number that the integers of an input stay below, by name."""
    offsets: Mapping[str, str | int]
    """Size that the offsets in an input lead to, by name."""
    lengths: Mapping[str, str | int]
    """Size that the lengths in an input add up to, by name."""
    scales: Mapping[str, float]
    """Factors on the numbers of weights and biases of a deep operation, by name."""
    signed: Mapping[str, ValueRange]
    """Ranges of signed integers beside floating-point inputs, by name."""
    sorted: tuple[str, ...]
    """Inputs of floating-point numbers that the operation takes for sorted."""
    places: Mapping[str, tuple[str, str]]
    """Number of places that come once, and the size they stay below, by name of the input."""
    segments: Mapping[str, bool]
    """Inputs of integers in order, many of them equal, and whether the first one is 0, by name."""
    workloads: Mapping[str, WorkloadDraft]
    """By device class."""
    seeds: Mapping[str, str]
    """File names by language."""
    flops: str
    """Expression over the dimensions."""
    reduction: str
    """Expression over the dimensions."""
    exact: bool
    """Demand equality on 0/1 inputs."""
    distributions: tuple[str, ...] = ()
    """Those of the task, where not all make sense."""
    left_out: tuple[str, ...] = ()
    """Distributions on which honest answers were refused."""
    distribution: str = "normal"
    """Distribution that search workloads are timed on."""
    seen: str = ""
    """Values in recorded calls, in words."""
    masks: Mapping[str, AdditiveMask] = field(default_factory=dict)
    """Inputs of floats that hold -inf, or another number that closes a place, by name."""
    signs: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Ends, that next to 0 first, of the floats of inputs that must have the sign of the example, by name."""

    @property
    def generated(self) -> dict[str, str]:
        """Kind of the generator of each input that random numbers do not fit, by name."""
        kinds = {"offsets": self.offsets, "sorted": self.sorted, "integers": self.signed, "places": self.places}
        kinds |= {"ranges": self.signs, "segments": self.segments, "lengths": self.lengths}
        kinds |= {"mask": self.masks}
        return {name: kind for kind, names in kinds.items() for name in names}

    @property
    def unusual(self) -> bool:
        """True where search workloads are timed on another distribution than `normal`."""
        return self.distribution in (self.distributions or DISTRIBUTIONS) and self.distribution != "normal"


def template(name: str, /, **values: str) -> str:
    """Return a template of this package with its values filled in."""
    text = importlib.resources.files("evokernel.scaffold").joinpath("templates", name).read_text(encoding="utf-8")
    return Template(text).substitute(values)


def task_text(draft: TaskDraft, *, stem: str, out: Path) -> str:
    """Return the task file. Raises `TaskError` where an argument cannot be spelt in it."""
    subject, layout = draft.subject, draft.layout
    outputs = output_names(subject, layout)
    module, gpu = bool(subject.construct), "cuda" in draft.workloads
    tensor = "torch.Tensor"
    returns = tensor if len(outputs) == 1 else f"tuple[{', '.join([tensor] * len(outputs))}]"
    reduction = draft.reduction if draft.reduction.isdecimal() else f'"{draft.reduction}"'
    names, given = layout.sizes.names, ", ".join(f"{name}: {tensor}" for name in subject.inputs)
    return template(
        "task.py.txt",
        name=subject.title,
        stem=stem,
        file=subject.path.name,
        typing="from typing import Any\n" * (gpu or bool(subject.in_place)),
        functional="from torch.func import functional_call\n" * module,
        compiled="from evokernel.tasks.compiled import compiled\n" * gpu,
        where=os.path.relpath(subject.path, out.resolve()),
        digest=digest(subject.path),
        fixed=_fixed_text(subject),
        model=f"model = {subject.construct}\n\n" if module else "\n",
        in_place=_in_place_text(subject, given, returns) if subject.in_place else "",
        given=given,
        returns=returns,
        call=f"return in_place({_copies(subject)})" if subject.in_place else call_text(subject),
        eager=_eager_text(subject, outputs) if gpu or subject.in_place else "",
        description=_description(draft, outputs),
        inputs="".join(f"            {_tensor_text(draft, name, shape)},\n" for name, shape in layout.inputs.items()),
        scalars="".join(f'Scalar("{name}"), ' for name in names).rstrip(" "),
        outputs="".join(
            f"            {_tensor_text(draft, name, shape, output=True)},\n"
            for name, shape in list(zip(outputs, layout.outputs, strict=True))[len(subject.in_place) :]
        ),
        generators=_generators_text(draft),
        numpy="import numpy as np\n" * bool(draft.generated),
        size_arguments=", ".join(f"{name}: int" for name in names),
        size_comma=", " if names else "",
        size_more=', distribution: str = "normal"' * draft.unusual,
        size_rest=", distribution" * draft.unusual,
        size_name="x".join(f"{{{name}}}" for name in names) or "fixed",
        size_dims=", ".join(f'"{name}": {name}' for name in names),
        workloads="".join(_set_text(draft, device, plan) for device, plan in draft.workloads.items()),
        flops=draft.flops,
        precision=", ".join([f"reduction={reduction}", *["exact_on_integers=True"] * draft.exact]),
        distributions=_distributions_text(draft),
        seeds=", ".join(f'"{language}": HERE / "{file}"' for language, file in draft.seeds.items()),
    )


def _fixed_text(subject: UserOperation) -> str:
    """Return the lines on arguments that are no tensors; nothing without any."""
    if not subject.constants:
        return ""
    values = ", ".join(f'"{name}": {constant_text(name, value)}' for name, value in subject.constants.items())
    return template("fixed.py.txt", file=subject.path.name, name=next(iter(subject.constants)), values=values)


def constants_text(constants: Mapping[str, Any]) -> str:
    """Return arguments that are no tensors as a call passes them. Raises `TaskError` where one cannot be spelt."""
    return ", ".join(f"{name}={constant_text(name, value)}" for name, value in constants.items())


def _in_place_text(subject: UserOperation, given: str, returns: str) -> str:
    changed = " and ".join(subject.in_place)
    call = call_text(subject)
    return template("in_place.py.txt", name=subject.name, changed=changed, given=given, returns=returns, call=call)


def _copies(subject: UserOperation) -> str:
    return ", ".join(f"{name}.clone()" if name in subject.in_place else name for name in subject.inputs)


def _eager_text(subject: UserOperation, outputs: Sequence[str]) -> str:
    """Return the baseline: torch as it is, in place where the operation is."""
    if not (count := len(subject.in_place)):
        return template("eager.py.txt")
    call = "in_place(**inputs)"
    if count < len(outputs):
        head = f"for output, result in zip(outputs[{count}:], {call}[{count}:], strict=True):"
        call = f"{head}\n        output.copy_(result)"
    return template("eager_in_place.py.txt", call=call)


def output_names(subject: UserOperation, layout: Layout) -> list[str]:
    """Return a name for each result: that of the input which it replaces, or one that no argument has."""
    taken, count = {*subject.inputs, *layout.sizes.names}, len(layout.outputs) - len(subject.in_place)
    base = "out"
    while base in taken or f"{base}0" in taken:
        base += "_"
    return [*subject.in_place, *([base] if count == 1 else [f"{base}{place}" for place in range(count)])]


def _description(draft: TaskDraft, outputs: Sequence[str]) -> str:
    def listed(pairs: Iterable[tuple[str, tuple[str | int, ...]]]) -> str:
        return ", ".join(f"{name}[{','.join(map(str, shape))}]" for name, shape in pairs)

    types = ", ".join(dict.fromkeys(_SHORT.get(each, each) for each in draft.dtypes.values()))
    machines = {"cpu": "a processor", "cuda": "a GPU"}
    for device, plan in draft.workloads.items():
        types += f"; {_SHORT.get(plan.dtype, plan.dtype)} on {machines[device]}" if plan.dtype else ""
    made = listed(zip(outputs, draft.layout.outputs, strict=True))
    fixed, name = constants_text(draft.subject.constants), draft.subject.title
    inputs = listed(draft.layout.inputs.items())
    all_said = ", ".join(filter(None, (inputs, fixed)))
    texts = [f"{each}, {types}" for each in (f"{made} = {name}({all_said})", f"{made} = {name}({inputs})", name)]
    text = next((each for each in texts if len(each) < _LINE), texts[-1])
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'{text}"\n    "; {draft.seen}' if draft.seen else text


def call_text(subject: UserOperation) -> str:
    """Return the lines that call the operation in `source`. Raises `TaskError` where an argument cannot be spelt."""

    def spelt(name: str) -> str:
        if name in subject.inputs:
            return f"{name}.reshape(())" if name in subject.single else name
        if name in subject.nested:
            return subject.nested[name].text(spelt, lambda value: constant_text(name, value))
        return constant_text(name, subject.constants[name])

    before, given = [], [spelt(name) for name in subject.call_names]
    named = {theirs: spelt(ours) for theirs, ours in subject.keywords.items()}
    if subject.construct:
        pairs = "".join(f'        "{theirs}": {spelt(ours)},\n' for theirs, ours in subject.parameters.items())
        for name in subject.kept:
            value, device = subject.target.get_buffer(name), f"{subject.pattern}.device"
            like, mask = subject.pattern if value.is_floating_point() else device, subject.masks.get(name)
            made = mask.text(device) if mask else f'model.get_buffer("{name}").to({like}, copy=True)'
            pairs += f'        "{name}": {made},\n'
        for name in subject.zeros:
            shape, like = tuple(subject.target.get_parameter(name).shape), subject.pattern
            pairs += f'        "{name}": torch.zeros({shape}, dtype={like}.dtype, device={like}.device),\n'
        before.append(f"weights = {{\n{pairs}    }}" if pairs else "weights: dict[str, torch.Tensor] = {}")
        more = f", {{{', '.join(f'{theirs!r}: {text}' for theirs, text in named.items())}}}" if named else ""
        call = f"functional_call(model, weights, ({', '.join(given)},){more})"
    else:
        call = f"source.{subject.name}({', '.join([*given, *(f'{k}={v}' for k, v in named.items())])})"
    kept = [f"made{path}" for path in subject.returned.values()]
    results = ", ".join([*subject.in_place, *kept])
    last = [f"made = {call}" if kept else call, f"return {results}"] if results else [f"return {call}"]
    return "\n    ".join([*before, *last])


def _tensor_text(draft: TaskDraft, name: str, shape: tuple[str | int, ...], *, output: bool = False) -> str:
    dtype, below = draft.dtypes[name], None if output else draft.ranges.get(name)
    parts = [f'"{name}"', _tuple_text(shape), *([f'"{dtype}"'] if dtype != "float32" else [])]
    parts += [f"below={_extent_text(below)}"] if below is not None else []
    made = draft.generated
    parts += [f"generator={_generator_name(draft, name)}"] if name in made and not output else []
    parts += [f"scale={draft.scales[name]}"] if name in draft.scales and not output else []
    parts += (
        [f"strides={_tuple_text(draft.layout.strides[name])}"] if name in draft.layout.strides and not output else []
    )
    if output or name in draft.subject.in_place:
        parts.append(f"role=Role.{'OUTPUT' if output else 'INOUT'}")
    return f"Tensor({', '.join(parts)})"


def _generators_text(draft: TaskDraft) -> str:
    """Return the functions that make inputs; that of ranges is one, which is asked once for all of them."""
    text, lines = "", list[str]()
    for name, kind in draft.generated.items():
        if kind != "ranges":
            text += _generator_text(draft, name, kind)
            continue
        near, far = draft.signs[name]
        shape = "".join(f"{_sized(extent)}, " for extent in draft.layout.inputs[name]).rstrip(" ")
        lines.append(f'        ("{name}", {near:.3g}, {far:.3g}, ({shape})),\n')
    return text + (template("ranges.py.txt", ranges="".join(lines)) if lines else "")


def _generator_name(draft: TaskDraft, name: str) -> str:
    kind = draft.generated[name]
    return kind if kind == "ranges" else f"{name}_{kind}"


def _sized(extent: str | int) -> str:
    return re.sub(r"[A-Z]\w*", r'sizes["\g<0>"]', str(extent))


def _generator_text(draft: TaskDraft, name: str, kind: str) -> str:
    """Return the function that makes an input of some kind, `TaskDraft.generated`."""
    shape, dtype = [_sized(extent) for extent in draft.layout.inputs[name]], draft.dtypes[name]
    if kind in ("offsets", "lengths"):
        (count,), total = shape, (draft.offsets if kind == "offsets" else draft.lengths)[name]
        return template(f"{kind}.py.txt", name=name, total=str(total), count=count, end=_sized(total), dtype=dtype)
    if kind == "sorted":
        return template("sorted.py.txt", name=name, shape=", ".join(shape))
    if kind == "places":
        count, below = map(_sized, draft.places[name])
        return template("places.py.txt", name=name, count=count, below=below, dtype=dtype)
    if kind == "mask":
        return _mask_text(name, shape, draft.masks[name])
    if kind == "segments":
        below, kind = _sized(draft.ranges[name]), "begins" if draft.segments[name] else kind
        return template(f"{kind}.py.txt", name=name, count=shape[0], below=below, dtype=dtype)
    each = draft.signed[name]
    marked = f"    numbers.reshape(-1)[1:][rng.random(numbers.size - 1) < {each.share}] = {each.mark}\n"
    return template(
        "integers.py.txt",
        name=name,
        low=str(each.low),
        below=_sized(each.below),
        shape=", ".join(shape),
        dtype=dtype,
        marked=marked if each.mark is not None else "",
    )


def _mask_text(name: str, shape: Sequence[str], mask: AdditiveMask) -> str:
    others = "np.zeros(shape, np.float32)"
    if mask.spread:
        others = f"({mask.spread:g} * rng.standard_normal(shape, np.float32))"
    closed = repr(mask.closed).replace("inf", "np.inf").replace("nan", "np.nan")
    height = shape[-2] if len(shape) > 1 else "1"
    return template("mask.py.txt", name=name, shape=", ".join(shape), numbers=others, closed=closed, height=height)


def _distributions_text(draft: TaskDraft) -> str:
    if not draft.distributions:
        return ""
    note = "    # On the others the function raises an error, or converts numbers that int8 or uint8 cannot hold.\n"
    if draft.left_out:
        note = f"    # Without {', '.join(draft.left_out)}: on such values honest answers would be refused.\n"
    return f"{note}    distributions={_tuple_text(draft.distributions)},\n"


def _extent_text(extent: str | int) -> str:
    return f'"{extent}"' if isinstance(extent, str) else str(extent)


def _tuple_text(extents: Sequence[str | int]) -> str:
    return f"({', '.join(map(_extent_text, extents))}{',' if len(extents) == 1 else ''})"


def _set_text(draft: TaskDraft, device: str, plan: WorkloadDraft) -> str:
    more = [f'            dtype="{plan.dtype}",\n'] if plan.dtype else []
    more += ["            probes=3,\n"] if device == "cuda" else []
    if device == "cuda":
        more.append('            baselines={"torch": eager, "torch.compile": compiled(eager)},\n')
    elif draft.subject.in_place:
        more.append('            baselines={"torch": eager},\n')
    return template(
        "workloads.py.txt",
        device=device,
        scale_note=_scale_note(draft.layout, plan),
        search=_workloads_text(plan.search, plan.weights, draft.distribution if draft.unusual else ""),
        holdout=_workloads_text(plan.holdout),
        probe=_probe_text(draft, plan),
        more="".join(more),
    )


def _probe_text(draft: TaskDraft, plan: WorkloadDraft) -> str:
    """Return the ranges of hidden sizes; places that come once are no more than there are."""
    below = dict(draft.places.values())
    free = [f'"{name}": {bounds}' for name, bounds in plan.probe.items() if name not in below]
    bound = [f'"{name}": ({plan.probe[name][0]}, "{most}")' for name, most in below.items() if name in plan.probe]
    return ", ".join([*free, *bound])


def _scale_note(layout: Layout, plan: WorkloadDraft) -> str:
    if not plan.cut:
        return ""
    example = ", ".join(f"{name}={value}" for name, value in layout.example.items())
    return f"            # Smaller than your example ({example}), so that a search can try many kernels.\n"


def _workloads_text(all_dims: tuple[Dims, ...], weights: Sequence[float] = (), distribution: str = "") -> str:
    made = []
    for place, dims in enumerate(all_dims):
        values = ", ".join(str(value) for value in dims.values())
        weight = f"weight={weights[place]}" if weights and weights[place] != 1.0 else ""
        timed = f'distribution="{distribution}"' * bool(distribution)
        made.append(f"_size({', '.join(filter(None, (values, weight, timed)))})")
    return f"({', '.join(made)},)" if len(made) == 1 else f"({', '.join(made)})"
