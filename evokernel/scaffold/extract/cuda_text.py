"""Text of a seed in CUDA C++: the user's `.cu` file in a string, and the function that launches its kernel as `run`."""

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from evokernel.cuda import read_source
from evokernel.errors import TaskError
from evokernel.languages.gpu.cuda_static_check import HELPER_IMPORT
from evokernel.scaffold.extract.kernel_text import SeedWriter
from evokernel.scaffold.extract.recorded_call import KernelCall
from evokernel.task import Signature

_WORD = re.compile(r"\w+")
_OTHER_LAUNCHERS = ("cupy", "pycuda", "cuda", "torch.utils.cpp_extension", "numba")
_MOST_THREADS = 1024
_HOW = (
    'Only launches by our helper are recorded, and that needs no GPU: kernels = Module(read_source("{cu}")) '
    "at the top of {file}, with `from evokernel.cuda import Module, read_source`, and in the function "
    "kernels.{entry}[grid, block, shared_bytes](x, out, n); of a C++ or cupy launch copy grid, block and arguments"
)


def check_launch(cu: Path, entry: str, file: Path) -> None:
    """Refuse a kernel or a way to launch it that cannot be recorded.

    Args:
        cu: the CUDA C++ file.
        entry: name of the kernel in it.
        file: Python that launches the kernel.

    Raises:
        TaskError: there is no such kernel, or the file does not launch by `evokernel.cuda.Module`.
    """
    text = _read(cu)
    known = _kernels_in(text)
    if entry not in known:
        raise TaskError(f"{cu} has no __global__ function {entry}; it has: {', '.join(dict.fromkeys(known)) or 'none'}")
    if 'extern "C"' not in text:
        raise TaskError(
            f'{cu} has no extern "C", and a kernel is launched by its plain name: write extern "C" __global__ void '
            f"{entry}(...), for a template a function of that form that calls its body with the types you use"
        )
    imported = set[str]()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    if "evokernel.cuda.Module" in imported:
        return
    seen = sorted(name for name in imported if any(f"{name}.".startswith(f"{each}.") for each in _OTHER_LAUNCHERS))
    means = f"launches with {seen[0]}" if seen else "does not import evokernel.cuda"
    raise TaskError(f"{file} {means}. {_HOW.format(cu=cu.name, file=file.name, entry=entry)}")


def _kernels_in(text: str) -> list[str]:
    """Return the names of all `__global__` functions, past attributes such as `__launch_bounds__(256)`."""
    names = list[str]()
    for part in text.split("__global__")[1:]:
        rest = part
        while True:
            head, opened, rest = rest.partition("(")
            words = _WORD.findall(head)
            if not opened or not words or set(head) & set(";{)"):
                break
            if not (words[-1].startswith("__") and words[-1].endswith("__")):
                names.append(words[-1])
                break
            rest = _after_group(rest)
    return names


def _after_group(text: str) -> str:
    """Return what comes after the parenthesis that closes one that was opened before."""
    depth = 1
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return text[place + 1 :]
    return ""


def _read(file: Path) -> str:
    try:
        return read_source(file)
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"cannot read {file}: {error}") from None


class CudaSeedWriter(SeedWriter):
    """Writes the seed of one call that launches a kernel of a `.cu` file."""

    def __init__(self, call: KernelCall, signature: Signature, order: Sequence[str], *, cu: Path) -> None:
        """Take a recorded call, the task's signature, the task's inputs in its order, and the file."""
        super().__init__(call, signature, order, config=0, tiles=False)
        self._cu = cu

    def text(self) -> str:
        """Return the text. Raises `TaskError` for a form that is not understood."""
        own = _read(self._cu).strip()
        if not any(own in text for text in self._call.cuda_texts.values()):
            raise TaskError(
                f"no Module at the top of {self._call.module.name} has {self._cu.name} as it is; write there: "
                f'kernels = Module(read_source(Path(__file__).with_name("{self._cu.name}")))'
            )
        needed = self._needed(self._host())
        for name, text in self._call.cuda_texts.items():
            if self._defined.get(name) in needed:
                self._embed(name, text)
        helper = self._defined["Module"]
        self._edits.replace(self._edits.begin(helper), self._edits.end(helper), HELPER_IMPORT)
        return super().text()

    def _embed(self, name: str, text: str) -> None:
        """Put a text in the place of the expression that reads it, and make tunables of its numbers."""
        node = self._defined.get(name)
        made = getattr(node, "value", None)
        if not isinstance(made, ast.Call) or getattr(made.func, "id", "") != "Module":
            raise TaskError(f"{self._call.module.name} makes {name} otherwise than by {name} = Module(...) at its top")
        quotes = next((each for each in ('"""', "'''") if each not in text), "")
        if not quotes:
            raise TaskError(f"{self._cu} has three quotation marks in a row of both kinds; a seed is a Python string")
        source = next((keyword for keyword in made.keywords if keyword.arg == "source"), None)
        given = source.value if source else made.args[0]
        self._edits.replace(self._edits.begin(given), self._edits.end(given), f"r{quotes}\n{text.strip()}\n{quotes}")
        empty = ast.Constant("")  # what the expression read is not needed any more
        if source:
            source.value = empty
        else:
            made.args[0] = empty
        for keyword in made.keywords:
            if isinstance(keyword.value, ast.Name):
                self._number_at_top(keyword.value.id)

    def _number_at_top(self, name: str) -> None:
        """Make a tunable of a number at the top: the CUDA text knows it as a macro, and the launch by its name."""
        node = self._defined.get(name)
        value = node.value.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) else None
        if node is None or type(value) is not int or value < 1 or value.bit_count() > 1:
            return
        if b"tune:" in self._edits.raw[self._edits.end(node) : self._edits.line((node.end_lineno or 0) + 1)]:
            return
        least = min(value, 32) if value > 16 else 1  # of threads a warp at least
        near = (value // 4, value // 2, value, value * 2, value * 4)
        self._tunables[name] = (value, tuple(each for each in near if least <= each <= max(value, _MOST_THREADS)))
        del self._defined[name]
