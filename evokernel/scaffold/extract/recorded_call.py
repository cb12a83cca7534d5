"""One recorded call of a host function: its arguments, and the configurations of the kernels that Triton tunes."""

import importlib.util
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from evokernel.errors import TaskError
from evokernel.evaluate.build.compile_pool import CompilePool, CompilerPrograms
from evokernel.evaluate.numerics.arrays import torch_dtype
from evokernel.evaluate.sandbox.levels import detect_sandbox
from evokernel.languages.toolchain import CompileAnswer
from evokernel.task import DTYPES

_PROGRAM = "recorder"
_LIMIT_S = 120.0
Config = Mapping[str, int | bool | str]
"""Values of a kernel's parameters, `num_warps` and `num_stages` by name; text for what is no number."""


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A call of a function that launches Triton kernels."""

    module: Path
    """The user's file."""
    function: str
    """Name of the function in it."""
    arguments: Mapping[str, Any]
    """Tensors and numbers by name, in calling order; only integers have their contents."""
    tuned: Mapping[str, tuple[Config, ...]]
    """Configurations by name of each kernel that Triton tunes."""
    cuda_texts: Mapping[str, str] = field(default_factory=dict)
    """CUDA C++ by name of each `evokernel.cuda.Module` at the top of the file."""

    @property
    def tensors(self) -> list[str]:
        """The names of the tensors."""
        return [name for name, value in self.arguments.items() if isinstance(value, torch.Tensor)]


def record_call(module: Path, function: str, script: Path, *, folders: Iterable[Path] = ()) -> KernelCall:
    """Run a script in the sandbox, without a GPU, until it calls the function.

    It sees its own folder, that of the module, and `folders`. Raises `TaskError` if it does not come to that call, or
    an argument cannot stand in a task.
    """
    if importlib.util.find_spec("triton") is None:
        raise TaskError("triton is not installed for this Python: pip install triton")
    module, script = module.resolve(), script.resolve()
    request = {"script": str(script), "module": str(module), "function": function}
    seen = (script.parent, module.parent, *(each.resolve() for each in folders))
    answered = ask_sandbox("evokernel.scaffold.extract.call_recorder", request, seen, timeout_s=_LIMIT_S)
    if answered.timed_out:
        raise TaskError(
            f"{script.name} did not call {function} within {_LIMIT_S:g} s; kernels before that call run in Triton's "
            "interpreter, which is slow: write a script that makes this call alone"
        )
    told = answered.answer or {"failure": answered.error}
    if "failure" in told:
        raise TaskError(
            f"{script.name} did not come to a call of {function} of {module.name}: {told['failure']}. It is run "
            "without a GPU and without network, and sees its own folder and that of the module"
        )
    return _read(module, function, told, answered.blob)


def ask_sandbox(
    program: str, request: Mapping[str, Any], folders: Iterable[Path], *, timeout_s: float
) -> CompileAnswer:
    """Return the answer of a module's `answer`, which runs in a sandboxed process that sees these folders."""
    theirs = list(folders)
    seen = dict.fromkeys(map(str, (Path(__file__).parents[3], *theirs)))
    toolbox = CompilerPrograms(programs={_PROGRAM: program}, preload=("torch",), folders=tuple(seen))
    pool = CompilePool(detect_sandbox().reading(theirs), toolbox)
    try:
        return pool(_PROGRAM, dict(request), timeout_s=timeout_s)
    finally:
        pool.host.close()


def _read(module: Path, function: str, told: Mapping[str, Any], blob: bytes) -> KernelCall:
    arguments, begin = dict[str, Any](), 0
    for name, found in told["arguments"]:
        if "other" in found:
            raise TaskError(
                f"the argument {name!r} of {function} is a {found['other']}; expected tensors, numbers, texts or None: "
                "wrap the call in a function that takes these"
            )
        if "value" in found:
            arguments[name] = found["value"]
            continue
        end = begin + found["tensor"]["bytes"]
        arguments[name] = _tensor(name, found["tensor"], blob[begin:end])
        begin = end
    tuned = {}
    for kernel, each in told["tuned"].items():
        if each["unusual"]:
            raise TaskError(
                f"the configurations of {kernel} set {', '.join(each['unusual'])}; expected parameters of the kernel, "
                "num_warps and num_stages"
            )
        tuned[kernel] = tuple(each["configs"])
    return KernelCall(module, function, arguments, tuned, told["cuda_texts"])


def _tensor(name: str, found: Mapping[str, Any], raw: bytes) -> torch.Tensor:
    if found["dtype"] not in DTYPES:
        raise TaskError(f"the argument {name!r} is {found['dtype']}; expected one of {', '.join(DTYPES)}")
    dtype, shape = torch_dtype(found["dtype"]), tuple(found["shape"])
    made = torch.empty_strided(shape, found["strides"], dtype=dtype)
    if len(raw) == math.prod(shape) * DTYPES[found["dtype"]] > 0:
        return made.copy_(torch.frombuffer(bytearray(raw), dtype=dtype).reshape(shape))
    return made.zero_()
