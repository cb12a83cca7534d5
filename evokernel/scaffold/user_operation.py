"""The operation in a user's file: function or module, example inputs, and call from a task."""

import inspect
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.func import functional_call

from evokernel.errors import TaskError
from evokernel.scaffold.user_file import load_source

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
    constants: Mapping[str, Any]
    """Arguments that are no tensors."""
    parameters: Mapping[str, str]
    """Names in `inputs`, by the module's own names."""
    construct: str
    """Python text over `source` that makes the module; empty for a function."""

    def call(self, inputs: Mapping[str, Any]) -> Any:
        """Compute the outputs for tensors by name."""
        given = [inputs[name] if name in inputs else self.constants[name] for name in self.call_names]
        if not self.construct:
            return self.target(*given)
        weights = {theirs: inputs[ours] for theirs, ours in self.parameters.items()}
        return functional_call(self.target, weights, tuple(given))


def find_subject(path: Path, *, name: str = "", inputs: str = "") -> UserOperation:
    """Import a file; return its operation with example inputs.

    Args:
        path: the Python file.
        name: the function or class; needed where the file has several.
        inputs: example inputs as text, for example `x: 1024x1024, eps: 1e-6`; they precede all others.

    Raises:
        TaskError: the file cannot be imported, or holds several operations; the message says what to pass.
    """
    source = load_source(path)
    chosen = _choose(source, path, name)
    target, construct = _module(source, chosen) if _is_module(chosen[1]) else (chosen[1], "")
    forward = target.forward if construct else target
    values = _example(source, forward, chosen[0], inputs)
    call_names = tuple(values)
    tensors = {_argument(key): value for key, value in values.items() if isinstance(value, torch.Tensor)}
    constants = {key: value for key, value in values.items() if not isinstance(value, torch.Tensor)}
    weights = _weights(target, taken=set(tensors)) if construct else {}
    for theirs, (ours, value) in weights.items():
        tensors[ours] = value
        _check_tensor(value, f"the parameter {theirs}")
    for key, value in tensors.items():
        _check_tensor(value, f"the input {key!r}")
    return UserOperation(
        path=path.resolve(),
        name=chosen[0],
        target=target,
        inputs=tensors,
        call_names=tuple(_argument(key) if key not in constants else key for key in call_names),
        constants=constants,
        parameters={theirs: ours for theirs, (ours, _) in weights.items()},
        construct=construct,
    )


def parse_inputs(text: str) -> dict[str, Any]:
    """Return example inputs by name: `x: 64x32` is a tensor, `eps: 1e-6`, `causal: True` and `mode: 'a'` are not.

    Raises:
        TaskError: an item is not of that form.
    """
    made: dict[str, Any] = {}
    generator = torch.Generator().manual_seed(0)
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, value = (part.strip() for part in item.partition(":"))
        if not colon or not name.isidentifier():
            raise TaskError(f'--inputs: expected "name: 1024x1024" or "name: 0.5" between commas, got {item!r}')
        if re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", value):
            made[name] = torch.randn(*(int(extent) for extent in value.split("x")), generator=generator)
        else:
            made[name] = _constant(name, value)
    return made


def _constant(name: str, value: str) -> Any:
    words = {"True": True, "False": False, "None": None}
    if value in words:
        return words[value]
    if re.fullmatch(r"'[^']*'|\"[^\"]*\"", value):
        return value[1:-1]
    try:
        return int(value) if re.fullmatch(r"[+-]\d+", value) else float(value)
    except ValueError:
        raise TaskError(f"--inputs {name}: {value!r} is neither a shape such as 64x32 nor a number") from None


def _is_module(value: Any) -> bool:
    return isinstance(value, torch.nn.Module) or (inspect.isclass(value) and issubclass(value, torch.nn.Module))


def _choose(source: ModuleType, path: Path, name: str) -> tuple[str, Any]:
    own = {
        key: value
        for key, value in vars(source).items()
        if not key.startswith("_")
        and key not in _HELPERS
        and (isinstance(value, torch.nn.Module) or getattr(value, "__module__", None) == source.__name__)
        and (_is_module(value) or inspect.isfunction(value))
    }
    if name:
        if name not in own:
            raise TaskError(f"{path} defines no function or module {name!r}; it has: {', '.join(own) or 'none'}")
        return name, own[name]
    if "Model" in own and hasattr(source, "get_inputs"):  # the form of KernelBench, where helpers may stand beside
        return "Model", own["Model"]
    if len(own) == 1:
        return next(iter(own.items()))
    if not own:
        raise TaskError(f"{path} defines no function and no nn.Module: expected one that computes tensors from tensors")
    raise TaskError(
        f"{path} defines several: {', '.join(own)}; say which one with --name, e.g. --name {next(iter(own))}"
    )


def _module(source: ModuleType, chosen: tuple[str, Any]) -> tuple[torch.nn.Module, str]:
    name, value = chosen
    if isinstance(value, torch.nn.Module):
        return value.eval(), f"source.{name}"
    given = hasattr(source, "get_init_inputs")
    try:
        module = value(*source.get_init_inputs()) if given else value()
    except Exception as error:
        hint = "check get_init_inputs()" if given else "define get_init_inputs() that returns its arguments as a list"
        raise TaskError(f"{name} cannot be made ({type(error).__name__}: {error}); {hint}") from error
    module = module.eval()
    return module, f"source.{name}({'*source.get_init_inputs()' if given else ''})"


def _example(source: ModuleType, forward: Any, name: str, text: str) -> dict[str, Any]:
    """Return example values by name of argument, in calling order."""
    parameters = inspect.signature(forward).parameters
    odd = [key for key, parameter in parameters.items() if parameter.kind not in (1, 0)]
    if odd:
        raise TaskError(f"{name} takes {', '.join(map(repr, odd))} by keyword or as *args; wrap it in a function that "
                        "takes each tensor by position")  # fmt: skip
    given = parse_inputs(text)
    unknown = given.keys() - parameters.keys()
    if unknown:
        raise TaskError(f"--inputs names {sorted(unknown)}, but {name} takes: {', '.join(parameters)}")
    listed = _listed(source, parameters, name)
    values: dict[str, Any] = {}
    missing = []
    for key, parameter in parameters.items():
        found = given.get(key, listed.get(key, _annotated(key, parameter)))
        if found is inspect.Parameter.empty:
            missing.append(key)
        else:
            values[key] = found
    if missing:
        example = ", ".join(f"{key}: 1024x1024" for key in missing)
        raise TaskError(
            f'{name} needs an example of {", ".join(missing)}: pass --inputs "{example}" with the shapes you use, or '
            "define get_inputs() in the file that returns them as a list"
        )
    return values


def _listed(source: ModuleType, parameters: Mapping[str, Any], name: str) -> dict[str, Any]:
    if not hasattr(source, "get_inputs"):
        return {}
    try:
        listed = list(source.get_inputs())
    except Exception as error:
        raise TaskError(f"get_inputs() raised {type(error).__name__}: {error}") from error
    if len(listed) > len(parameters):
        raise TaskError(f"get_inputs() returns {len(listed)} values, but {name} takes {', '.join(parameters)}")
    return dict(zip(parameters, listed, strict=False))


def _annotated(name: str, parameter: inspect.Parameter) -> Any:
    """Return the default of an argument, or a tensor of the shape in its annotation (`x: "1024x1024"`)."""
    if parameter.default is not inspect.Parameter.empty:
        return parameter.default
    note = parameter.annotation
    if isinstance(note, str) and re.fullmatch(r"'?[1-9]\d*(x[1-9]\d*)+'?", note):
        return parse_inputs(f"{name}: {note.strip(chr(39))}")[name]
    return inspect.Parameter.empty


def _weights(module: torch.nn.Module, *, taken: set[str]) -> dict[str, tuple[str, torch.Tensor]]:
    """Return, by the module's own names, the name as an argument and the value of every float parameter and buffer."""
    made: dict[str, tuple[str, torch.Tensor]] = {}
    for theirs, value in (*module.named_parameters(), *module.named_buffers()):
        if value.is_floating_point():
            ours = _argument(theirs.replace(".", "_"))
            while ours in taken:
                ours += "_"
            taken.add(ours)
            made[theirs] = (ours, value.detach())
    return made


def _argument(name: str) -> str:
    """Return a name that is an identifier in C++ and Python."""
    return f"{name}_" if name in _RESERVED or keyword.iskeyword(name) else name


def _check_tensor(value: torch.Tensor, what: str) -> None:
    if value.dtype is not torch.float32:
        raise TaskError(
            f"{what} is {value.dtype}; init writes tasks for torch.float32 tensors. For other types copy a task file "
            "it wrote and set the dtype of that Tensor by hand"
        )
    if value.ndim == 0 or value.numel() == 0:
        raise TaskError(f"{what} has shape {tuple(value.shape)}; expected at least one element and one dimension")
