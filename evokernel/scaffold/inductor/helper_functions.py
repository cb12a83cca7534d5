"""The functions of PyTorch that Inductor's kernels call, copied into a program, with PyTorch's licence."""

import ast
import inspect
import re

import triton
from torch._inductor.runtime import triton_helpers

LICENCE = """\
# Functions from PyTorch, torch/_inductor/runtime/triton_helpers.py:
# Copyright (c) 2016- Facebook, Inc (Adam Paszke), and the other contributors that PyTorch's LICENSE file names.
# Redistribution and use in source and binary forms, with or without modification, are permitted provided that the
# following conditions are met:
# 1. Redistributions of source code must retain the above copyright notice, this list of conditions and the following
#    disclaimer.
# 2. Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the
#    following disclaimer in the documentation and/or other materials provided with the distribution.
# 3. Neither the names of Facebook, Deepmind Technologies, NYU, NEC Laboratories America and IDIAP Research Institute
#    nor the names of its contributors may be used to endorse or promote products derived from this software without
#    specific prior written permission.
# THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND ANY EXPRESS OR IMPLIED WARRANTIES,
# INCLUDING, BUT NOT LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
# DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT OWNER OR CONTRIBUTORS BE LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL,
# SPECIAL, EXEMPLARY, OR CONSEQUENTIAL DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR
# SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER CAUSED AND ON ANY THEORY OF LIABILITY,
# WHETHER IN CONTRACT, STRICT LIABILITY, OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE
# OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE."""

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
