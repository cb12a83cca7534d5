"""The functions of PyTorch that Inductor's kernels call, copied into a program, with PyTorch's licence."""

import ast
import inspect
import re
from pathlib import Path

import triton
from torch._inductor.runtime import triton_helpers

LICENCE = (Path(__file__).parents[1] / "templates" / "torch_licence.txt").read_text(encoding="utf-8")

_FREE = frozenset({"libdevice", "math", "tl", "triton"})


def helper_text(kernels: str) -> str:
    """Return the text of all functions of PyTorch that kernels use, and that those use; empty where there are none."""
    constants: dict[str, str] = {}
    functions: dict[str, str] = {}
    wanted = [node.id for node in ast.walk(ast.parse(kernels)) if isinstance(node, ast.Name)]
    known = {name for name in dict.fromkeys(wanted) if _is_helper(name)}
    for name in sorted(known):
        _add(name, constants, functions)
    if not constants and not functions:
        return ""
    parts = ["\n".join(constants.values())] * bool(constants) + list(functions.values())
    return "\n\n\n".join([LICENCE, *parts] if functions else parts)


def import_text(program: str) -> str:
    """Return the lines that import what a program names."""
    lines = ["import math"] if re.search(r"^    .*\bmath\.", program.rpartition("\ndef run")[2], re.M) else []
    lines += ["import torch", "import triton", "import triton.language as tl"]
    for name, line in (
        ("libdevice.", "from triton.language.extra import libdevice"),
        ("tl_math.", "from triton.language import math as tl_math"),
    ):
        if name in program:
            lines.append(line)
    return "\n".join(lines)


def _is_helper(name: str) -> bool:
    value = getattr(triton_helpers, name, None)
    return isinstance(value, triton.JITFunction | triton.language.constexpr) and name not in _FREE


def _add(name: str, constants: dict[str, str], functions: dict[str, str]) -> None:
    if name in constants or name in functions:
        return
    value = getattr(triton_helpers, name)
    if isinstance(value, triton.language.constexpr):
        constants[name] = f"{name} = tl.constexpr({value.value!r})"
        return
    if value.__module__.startswith("triton."):
        constants[name] = f"from {value.__module__} import {name}"
        return
    source = inspect.getsource(value.fn).rstrip()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and node.id != name and _is_helper(node.id):
            _add(node.id, constants, functions)
    functions[name] = re.sub(r"(?<![\w.])math\.", "tl_math.", source)
