"""The operation in a user's file: function or module, example inputs, and call from a task."""

import inspect
import keyword
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.func import functional_call

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.arrays import torch_dtype
from evokernel.scaffold.operation.example_text import inputs_line, parse_inputs, parse_tensor
from evokernel.scaffold.operation.module_buffers import BandMask, band_masks, is_input
from evokernel.scaffold.operation.nested_values import NestedArgument, can_be_spelt, results_of, taken_apart
from evokernel.scaffold.operation.user_file import helpers, load_source, refuse_held_module
from evokernel.task import DTYPES

_HELPERS = ("get_inputs", "get_init_inputs", "main")
_RESERVED = frozenset({
    "alignas", "alignof", "and", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const",
    "constexpr", "continue", "default", "delete", "do", "double", "else", "enum", "explicit", "export", "extern",
    "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "not",
    "operator", "or", "private", "protected", "public", "register", "return", "run", "short", "signed", "sizeof",
    "static", "struct", "switch", "template", "this", "throw", "true", "try", "typedef", "typename", "union",
    "unsigned", "using", "virtual", "void", "volatile", "while", "xor"
})  # fmt: skip


@dataclass(frozen=True)
class UserOperation:
    """One operation with an example of its inputs."""

    path: Path
    """The user's file."""
    name: str
    target: Any
    """The function or module."""
    inputs: Mapping[str, torch.Tensor]
    """Tensors of a kernel: arguments first, then parameters and buffers."""
    call_names: tuple[str, ...]
    """Names of the arguments by position."""
    keywords: Mapping[str, str]
    """Names of the arguments that are passed by keyword, by the operation's own names."""
    constants: Mapping[str, Any]
    """Arguments that are no tensors."""
    parameters: Mapping[str, str]
    """Names in `inputs`, by the module's own names."""
    kept: tuple[str, ...]
    """Buffers that are no inputs, by the module's own names: what a call changes, and integers that are no indices."""
    construct: str
    """Python text over `source` that makes the module; empty for a function."""
    zeros: tuple[str, ...] = ()
    """Parameters that do not count in the results, by the module's own names; they are 0 and no inputs."""
    in_place: tuple[str, ...] = ()
    """Inputs that a call changes; their new values are results, before those that it returns."""
    returned: Mapping[int, str] = field(default_factory=dict)
    """Places of the results among all tensors that are returned, with the text behind the call that names each.

    Empty where all that is returned is a result, and no tuple or dict is inside another.
    """
    nested: Mapping[str, NestedArgument] = field(default_factory=dict)
    """Arguments that hold tensors, by the operation's own names; their tensors are inputs."""
    masks: Mapping[str, BandMask] = field(default_factory=dict)
    """Buffers that are masks around a diagonal, by the module's own names; a kernel computes them."""
    single: frozenset[str] = frozenset()
    """Inputs that have no axes in the operation, and one axis of one element for a kernel."""
    tried: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What `trial` has found, by shapes."""

    @property
    def title(self) -> str:
        """The name as people know it."""
        return self.name.partition("._")[0]

    @property
    def orders(self) -> dict[str, tuple[int, ...]]:
        """Axes of the inputs that are not row-major, the outermost in memory first, by name."""
        return {name: axis_order(each) for name, each in self.inputs.items() if not each.is_contiguous()}

    def empty(self, shapes: Mapping[str, tuple[int, ...]], *, device: str = "cpu") -> dict[str, torch.Tensor]:
        """Return inputs of these shapes, with the dtypes and the order of axes of the example, and no contents."""
        made, orders = {}, self.orders
        for name, shape in shapes.items():
            order = orders.get(name, tuple(range(len(shape))))
            dense = torch.empty([shape[axis] for axis in order], dtype=self.inputs[name].dtype, device=device)
            made[name] = dense.permute([order.index(axis) for axis in range(len(shape))])
        return made

    def with_floats(self, dtype: str) -> "UserOperation":
        """Return the operation with another dtype for its floating-point inputs."""
        changed = {
            name: each.to(torch_dtype(dtype)) if each.is_floating_point() else each
            for name, each in self.inputs.items()
        }
        return replace(self, inputs=changed)

    def call(self, inputs: Mapping[str, Any]) -> Any:
        """Compute the results for tensors by name, which stay as they are."""
        if not self.in_place and not self.returned:
            return self._called(inputs)
        fresh = {**inputs, **{name: inputs[name].clone() for name in self.in_place}}
        made = [each for _, each in results_of(self._called(fresh))]
        return (*(fresh[name] for name in self.in_place), *(made[place] for place in self.returned))

    def _called(self, inputs: Mapping[str, Any]) -> Any:
        inputs = {**inputs, **{name: inputs[name].reshape(()) for name in self.single & inputs.keys()}}
        values = {**self.constants, **inputs, **{name: each.value(inputs) for name, each in self.nested.items()}}
        given = tuple(values[name] for name in self.call_names)
        named = {theirs: values[ours] for theirs, ours in self.keywords.items()}
        if not self.construct:
            return self.target(*given, **named)
        weights = {theirs: inputs[ours] for theirs, ours in self.parameters.items()}
        like = inputs[self.pattern]
        for name in self.kept:
            value, mask = self.target.get_buffer(name), self.masks.get(name)
            near: Any = like if value.is_floating_point() else like.device
            weights[name] = mask.made(near) if mask else value.to(near, copy=True)
        for name in self.zeros:
            weights[name] = like.new_zeros(self.target.get_parameter(name).shape)
        return functional_call(self.target, weights, given, named)

    @property
    def pattern(self) -> str:
        """The input whose device and dtype kept buffers take."""
        return next((name for name, each in self.inputs.items() if each.is_floating_point()), next(iter(self.inputs)))

    def keeping(self, changed: Collection[str]) -> "UserOperation":
        """Return the operation with some parameters, named as in `inputs`, as buffers that are no inputs."""
        return replace(self._without(changed), kept=(*self._theirs(changed), *self.kept))

    def zeroing(self, useless: Collection[str]) -> "UserOperation":
        """Return the operation with some parameters, named as in `inputs`, as zeros that are no inputs."""
        return replace(self._without(useless), zeros=self._theirs(useless))

    def _without(self, names: Collection[str]) -> "UserOperation":
        return replace(
            self,
            inputs={name: each for name, each in self.inputs.items() if name not in names},
            parameters={theirs: ours for theirs, ours in self.parameters.items() if ours not in names},
        )

    def _theirs(self, names: Collection[str]) -> tuple[str, ...]:
        return tuple(theirs for theirs, ours in self.parameters.items() if ours in names)


def find_subject(
    path: Path, *, name: str = "", inputs: str = "", example_inputs: Sequence[Any] | None = None
) -> UserOperation:
    """Import a file; return its operation with example inputs.

    Args:
        path: the Python file.
        name: the function or class; needed where the file has several.
        inputs: example inputs as text, for example `x: 1024x1024, eps: 1e-6`; they precede all others.
        example_inputs: tensors and numbers by position, in place of those of `get_inputs()`.

    Raises:
        TaskError: the file cannot be imported, or holds several operations; the message says what to pass.
    """
    source = load_source(path)
    chosen = _choose(source, path, name)
    target, construct = _module(source, chosen) if _is_module(chosen[1]) else (chosen[1], "")
    forward = target.forward if construct else target
    refuse_held_module(chosen[0], target)
    values = _example(source, forward, chosen[0], text=inputs, given_inputs=example_inputs)
    kinds = inspect.signature(forward).parameters
    left = [key for key, value in values.items() if value is kinds[key].default and not can_be_spelt(value, source)]
    behind = [*values][[*values].index(left[0]) :] if left else []
    values = {key: value for key, value in values.items() if key not in left}
    named = [key for key in values if key in behind or kinds[key].kind is inspect.Parameter.KEYWORD_ONLY]
    tensors = {argument_name(key): value for key, value in values.items() if isinstance(value, torch.Tensor)}

    def put(wanted: str, value: torch.Tensor) -> str:
        ours = argument_name(wanted)
        while ours in tensors or ours in values:
            ours += "_"
        tensors[ours] = value
        return ours

    others = {
        key: taken_apart(key, value, source, put)
        for key, value in values.items()
        if not isinstance(value, torch.Tensor)
    }
    nested = {key: value for key, value in others.items() if isinstance(value, NestedArgument)}
    constants = {key: value for key, value in others.items() if key not in nested}
    weights = _weights(target, taken=set(tensors)) if construct else {}
    for theirs, (ours, value) in weights.items():
        tensors[ours] = value
        _check_tensor(value, f"the parameter {theirs}")
    for key, value in tensors.items():
        _check_tensor(value, f"the input {key!r}")
    renamed = {key: key if key in constants or key in nested else argument_name(key) for key in values}
    single = frozenset(key for key, value in tensors.items() if not value.ndim)
    tensors |= {key: tensors[key].reshape(1) for key in single}
    return UserOperation(
        path=path.resolve(),
        name=chosen[0],
        target=target,
        inputs=tensors,
        call_names=tuple(renamed[key] for key in values if key not in named),
        keywords={key: renamed[key] for key in named},
        constants=constants,
        nested=nested,
        parameters={theirs: ours for theirs, (ours, _) in weights.items()},
        kept=tuple(key for key, _ in target.named_buffers() if key not in weights) if construct else (),
        construct=construct,
        masks=band_masks(target),
        single=single,
    )


def _is_module(value: Any) -> bool:
    return isinstance(value, torch.nn.Module) or (inspect.isclass(value) and issubclass(value, torch.nn.Module))


def _is_operation(value: Any) -> bool:
    return _is_module(value) or inspect.isroutine(value) or isinstance(value, partial | torch.jit.ScriptFunction)


def _operations(source: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield what a file defines that can be called with tensors; where there is nothing else, also what helpers are."""
    named = {key: value for key, value in vars(source).items() if not key.startswith("_") and key not in _HELPERS}
    own = {key: value for key, value in named.items() if getattr(value, "__module__", None) == source.__name__}
    found = {key: value for key, value in own.items() if _is_operation(value) and not isinstance(value, partial)}
    found |= {k: value for k, value in named.items() if isinstance(value, torch.nn.Module | torch.jit.ScriptFunction)}
    found = found or {key: value for key, value in named.items() if isinstance(value, partial)}
    yield from ((key, value) for key, value in named.items() if key in found)
    for kind in own.values() if not found else ():
        if inspect.isclass(kind) and not issubclass(kind, torch.autograd.Function):
            for key, value in vars(kind).items():
                if isinstance(value, staticmethod) and not key.startswith("_"):
                    yield f"{kind.__qualname__}.{key}", value.__func__


_COMPILED = "_orig_mod", "_torchdynamo_orig_callable", "_torchdynamo_inline"
"""What a module and a function under `torch.compile`, and a function under `torch.jit.script`, have of the original."""


def _as_written(name: str, value: Any) -> tuple[str, Any]:
    """Return an operation with its name, without a compiler of torch's, which shapes alone would crash."""
    for inner in _COMPILED:
        if (written := getattr(value, inner, None)) is not None:
            return f"{name}.{inner}", written
    return name, value


def _choose(source: ModuleType, path: Path, name: str) -> tuple[str, Any]:
    own = dict(_operations(source))
    if name:
        try:
            value = own[name] if name in own else attrgetter(name)(source)
        except AttributeError:
            value = None
        if not _is_operation(value):
            raise TaskError(f"{path} defines no function or module {name!r}; it has: {', '.join(own) or 'none'}")
        return _as_written(name, value)
    if "Model" in own and hasattr(source, "get_inputs"):  # the form of KernelBench, where helpers may stand beside
        return "Model", own["Model"]
    if len(whole := {*own} - helpers(path, own) or {*own}) == 1:
        return _as_written(name := whole.pop(), own[name])
    if not own:
        raise TaskError(f"{path} defines no function and no nn.Module: expected one that computes tensors from tensors")
    raise TaskError(
        f"{path} defines several: {', '.join(own)}; say which one with --name, e.g. --name {next(iter(own))}"
    )


def _module(source: ModuleType, chosen: tuple[str, Any]) -> tuple[torch.nn.Module, str]:
    name, value = chosen
    given = hasattr(source, "get_init_inputs")
    if isinstance(value, torch.nn.Module):
        return value, f"source.{name}"
    try:
        module = value(*source.get_init_inputs()) if given else value()
    except Exception as error:
        hint = "check get_init_inputs()" if given else "define get_init_inputs() that returns its arguments as a list"
        raise TaskError(f"{name} cannot be made ({type(error).__name__}: {error}); {hint}") from error
    return module, f"source.{name}({'*source.get_init_inputs()' if given else ''})"


def _example(
    source: ModuleType, forward: Any, name: str, *, text: str, given_inputs: Sequence[Any] | None
) -> dict[str, Any]:
    """Return example values by name of argument, in calling order."""
    try:
        parameters = dict(inspect.signature(forward).parameters)
    except ValueError:
        raise TaskError(
            f"Python does not know the arguments of {name}; wrap it in a function that names each"
        ) from None
    for key, each in list(parameters.items()):
        if each.kind is each.VAR_POSITIONAL:
            raise TaskError(f"{name} takes *{key}; wrap it in a function that names each argument")
        if each.kind is each.VAR_KEYWORD:  # as if nothing more were given
            del parameters[key]
    given = parse_inputs(text)
    listed = _listed(source, parameters, name, given=given_inputs)
    values: dict[str, Any] = {}
    missing = []
    for key, parameter in parameters.items():
        found = given.get(key, listed.get(key, _annotated(key, parameter)))
        if found is inspect.Parameter.empty:
            missing.append(key)
        else:
            values[key] = found
    unknown = [key for key in given if key not in parameters]
    example = inputs_line(text, missing, list(parameters))
    if unknown:
        line = f'; pass --inputs "{example}"' if example else ""
        raise TaskError(f"--inputs names {', '.join(unknown)}, but {name} takes: {', '.join(parameters)}{line}")
    if missing:
        advice = (
            f'pass --inputs "{example}" with the shapes you use, or define get_inputs() in the file that returns them '
            "as a list"
            if given_inputs is None
            else f"pass one by position behind the function, for example ({name}, torch.randn(1024, 1024))"
        )
        raise TaskError(f"{name} needs an example of {', '.join(missing)}: {advice}")
    return values


def _listed(
    source: ModuleType, parameters: Mapping[str, Any], name: str, *, given: Sequence[Any] | None
) -> dict[str, Any]:
    if given is None and not hasattr(source, "get_inputs"):
        return {}
    try:
        listed = source.get_inputs() if given is None else given
        if isinstance(listed, Mapping) and listed.keys() <= parameters.keys():
            return dict(listed)
        listed = [listed] if isinstance(listed, torch.Tensor | Mapping) else list(listed)
    except Exception as error:
        raise TaskError(f"get_inputs() raised {type(error).__name__}: {error}") from error
    if len(listed) > len(parameters):
        come = "get_inputs() returns" if given is None else "example_inputs holds"
        raise TaskError(f"{come} {len(listed)} values, but {name} takes {', '.join(parameters)}")
    return dict(zip(parameters, listed, strict=False))


def _annotated(name: str, parameter: inspect.Parameter) -> Any:
    """Return the default of an argument, or a tensor of the shape in its annotation (`x: "1024x1024"`)."""
    if parameter.default is not inspect.Parameter.empty:
        return parameter.default
    note = parameter.annotation
    tensor = (
        parse_tensor(name, note.strip("'"), generator=torch.Generator().manual_seed(0))
        if isinstance(note, str)
        else None
    )
    return inspect.Parameter.empty if tensor is None else tensor


def _weights(module: torch.nn.Module, *, taken: set[str]) -> dict[str, tuple[str, torch.Tensor]]:
    """Return parameters and buffers that are inputs, by their names there: the name as an argument, and the value."""
    made: dict[str, tuple[str, torch.Tensor]] = {}
    for theirs, value in (*module.named_parameters(), *module.named_buffers()):
        if is_input(value):
            ours = argument_name(theirs.replace(".", "_") if theirs[0].isalpha() else f"p{theirs.replace('.', '_')}")
            while ours in taken:
                ours += "_"
            taken.add(ours)
            made[theirs] = (ours, value.detach())
    return made


def argument_name(name: str) -> str:
    """Return a name that is an identifier in C++ and Python."""
    return f"{name}_" if name in _RESERVED or keyword.iskeyword(name) else name


def axis_order(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the axes of a tensor by their steps in memory, the outermost first."""
    return tuple(sorted(range(tensor.ndim), key=lambda axis: (-tensor.stride(axis), -tensor.shape[axis], axis)))


def _check_tensor(value: torch.Tensor, what: str) -> None:
    if value.is_complex():
        raise TaskError(
            f"{what} is {value.dtype}; a task has real numbers: pass torch.view_as_real(...) of it, and take "
            "torch.view_as_complex(...) of that in the function"
        )
    if str(value.dtype).removeprefix("torch.") not in DTYPES:
        raise TaskError(
            f"{what} is {value.dtype}; expected one of {', '.join(DTYPES)}: take another type, and cast it in the "
            "function"
        )
    if value.numel() == 0:
        raise TaskError(f"{what} has shape {tuple(value.shape)}; expected at least one element")
    if not value.permute(axis_order(value)).is_contiguous():
        raise TaskError(
            f"{what} has steps {value.stride()} for the shape {tuple(value.shape)}: it is padded, or its elements "
            "overlap. Pass it with .contiguous(), or set `strides` in the task file that init writes (docs/tasks.md)"
        )
