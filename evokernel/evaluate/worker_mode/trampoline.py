"""The trusted loop around a kernel: calls `run` over consecutive sets with the right C types, outside Python.

The text depends on the signature alone. It is compiled once and kept; the loop reads its arguments as 64-bit words.
"""

import hashlib
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.errors import HarnessError, LanguageError
from evokernel.task import Scalar, Signature

if TYPE_CHECKING:  # as in sandbox/timed_process.py
    from evokernel.evaluate.memory.arena import Arena

COMPILERS = ("cc", "gcc", "clang", "g++", "c++")
FLAGS = ("-x", "c", "-std=c11", "-O2", "-fPIC", "-shared")
COMPILE_TIMEOUT_S = 60.0

TEMPLATE = Path(__file__).with_suffix(".c").read_text(encoding="utf-8")
C_TYPES = {"int64": ("int64_t", "i"), "float32": ("float", "f"), "float64": ("double", "d")}
PACKING = {"int64": "<q", "float32": "<fxxxx", "float64": "<d"}


class Base(IntEnum):
    """Origin of the second half of an argument."""

    VALUE = 0
    """The value's own 64 bits."""
    INPUTS = 1
    """Offset in the memory of inputs."""
    OUTPUTS = 2
    """Offset in the memory of outputs."""


@dataclass(frozen=True, slots=True)
class Trampoline:
    """A compiled trampoline for one signature."""

    path: Path
    """The shared object."""
    signature: Signature

    def arguments(self, arena: "Arena", scalars: Mapping[str, int | float]) -> list[tuple[int, int]]:
        """Return (base, offset in set 0 or the value's 64 bits) per argument, in calling order.

        Raises `HarnessError` if a scalar is missing.
        """
        return [
            (Base.VALUE, word_of(argument, scalars))
            if isinstance(argument, Scalar)
            else (
                Base.OUTPUTS if arena.buffers[argument.name].writable else Base.INPUTS,
                arena.offset(0, argument.name),
            )
            for argument in self.signature.arguments
        ]


def build_trampoline(signature: Signature, folder: Path) -> Trampoline:
    """Return the trampoline for a signature, compiled on first use and kept in `folder`.

    Raises `LanguageError` if there is no C compiler, or it fails.
    """
    source = trampoline_source(signature)
    path = folder / f"trampoline-{hashlib.sha256(source.encode()).hexdigest()[:16]}.so"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            built = Path(scratch, "trampoline.so")
            _compile(source, built)
            os.replace(built, path)  # a concurrent reader finds all of it or nothing
    return Trampoline(path, signature)


def trampoline_source(signature: Signature) -> str:
    """Return the C text of the trampoline."""
    types, values = [], []
    for index, argument in enumerate(signature.arguments):
        kind, member = C_TYPES[argument.dtype] if isinstance(argument, Scalar) else ("void *", "p")
        types.append(kind)
        values.append(f"a[{index}].{member}")
    filled = {"@TYPES@": ", ".join(types), "@VALUES@": ", ".join(values), "@COUNT@": str(len(types))}
    return re.sub("@[A-Z]+@", lambda found: filled[found[0]], TEMPLATE)


def _compile(source: str, output: Path) -> None:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise LanguageError(f"no C compiler found; install one of: {', '.join(COMPILERS)}")
    command = [compiler, *FLAGS, "-o", str(output), "-", "-lm"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise LanguageError(f"{compiler} failed on the trampoline: {done.stderr[-2000:]}")


def word_of(scalar: Scalar, scalars: Mapping[str, int | float]) -> int:
    """Return the 64 bits of a scalar's value. Raises `HarnessError` if it has none."""
    if scalar.name not in scalars:
        raise HarnessError(f"scalar {scalar.name!r} has no value; given: {', '.join(scalars)}")
    value = scalars[scalar.name]
    packed = struct.pack(PACKING[scalar.dtype], int(value) if scalar.dtype == "int64" else float(value))
    return int(struct.unpack("<Q", packed)[0])
