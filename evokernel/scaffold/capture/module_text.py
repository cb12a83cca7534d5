"""Text of a file that makes a module as it exists in a running program."""

import inspect
import sys
from typing import Any

import torch

from evokernel.errors import TaskError
from evokernel.scaffold.capture.call_forms import is_plain
from evokernel.scaffold.operation.function_text import joint_text


def construction(module: torch.nn.Module) -> str:
    """Return the expression that makes a module like this one, with its mode and dtype.

    Arguments of its class are read from attributes of the same name, as modules of torch have them; for the others the
    defaults hold. What that makes is compared with the module. Raises `TaskError` if it makes another module.
    """
    kind = type(module)
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        value = getattr(module, name, parameter.empty)
        if is_plain(value):
            given[name] = value
        elif parameter.default is parameter.empty:
            raise _unknown(module, f"{name!r} is no attribute of it")
    spelt = f"{kind.__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
    try:
        with torch.device("meta"):
            twin = kind(**given)
    except Exception as error:
        raise _unknown(module, f"{spelt} raised {type(error).__name__}: {error}") from error
    if _shapes(twin) != _shapes(module) or repr(twin) != repr(module):
        raise _unknown(module, f"{spelt} is another one")
    dtypes = {each.dtype for each in module.parameters() if each.is_floating_point()} - {torch.float32}
    if len({each.dtype for each in module.parameters()}) > 1:
        raise _unknown(module, "its parameters have several types")
    return spelt + "".join(f".to({dtype})" for dtype in dtypes) + ("" if module.training else ".eval()")


def _shapes(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in module.state_dict().items()}


def _unknown(module: torch.nn.Module, why: str) -> TaskError:
    name = type(module).__name__
    return TaskError(
        f"it is not known how this {name} was made: {why}. Let the class keep each argument as an attribute of its "
        f"name, or run `evokernel init` on a file with {name} and get_init_inputs()"
    )


def module_text(module: torch.nn.Module, made: str, name: str) -> str:
    """Return the text of a file that binds the module to a name. Raises `TaskError`."""
    kind = type(module)
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    theirs = kind.__module__.startswith("torch.") and file
    text = f"from {kind.__module__} import {kind.__name__}" if theirs else joint_text([kind])
    return f'"""A `{kind.__name__}` of a program, for evokernel."""\n\nimport torch\n\n{text}\n\n\n{name} = {made}\n'
