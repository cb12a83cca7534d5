"""The system's C++ compiler and disassembler: found once; a message names a missing one."""

import hashlib
import os
import platform
import re
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from evokernel.errors import LanguageError
from evokernel.languages.toolchain import run_plain

_ASK_LIMIT_S = 20.0
_ASK_MEMORY_BYTES = 4 << 30
_HINT = "install g++ (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++) or set CXX"


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler."""

    argv: tuple[str, ...]
    """Its path, with the arguments that CXX names."""
    family: str
    """`gcc` or `clang`."""
    version: str
    """Its version number."""

    @property
    def label(self) -> str:
        """Family and version."""
        return f"{'g++' if self.family == 'gcc' else 'clang++'} {self.version}"

    def diagnostics(self) -> tuple[str, ...]:
        """Return flags that keep messages short and plain: errors only, at most three."""
        common = ("-w", "-ftemplate-backtrace-limit=4")
        if self.family == "clang":
            return (*common, "-ferror-limit=3", "-fno-color-diagnostics")
        return (*common, "-fmax-errors=3", "-fdiagnostics-color=never", "-fdiagnostics-urls=never")

    def static_sanitizers(self) -> tuple[str, ...]:
        """Return flags that put the sanitizer runtimes into the executable."""
        return ("-static-libsan",) if self.family == "clang" else ("-static-libasan", "-static-libubsan")


def find_compiler() -> Compiler:
    """Return the compiler named by the environment variable CXX, else g++, else clang++.

    Raises `LanguageError` if there is none, or CXX names something else than a C++ compiler.
    """
    wanted = os.environ.get("CXX", "").strip()
    choices = [shlex.split(wanted)] if wanted else [["g++"], ["clang++"]]
    for argv in choices:
        path = shutil.which(argv[0])
        if path is not None:
            return _identify((path, *argv[1:]))
    if wanted:
        raise LanguageError(f"CXX={wanted!r} is not a program on this machine: {_HINT}")
    raise LanguageError(f"no C++ compiler found (looked for g++ and clang++): {_HINT}")


def find_objdump() -> str:
    """Return the path of objdump, which disassembles machine code. Raises `LanguageError` if it is missing."""
    path = shutil.which("objdump")
    if path is None:
        raise LanguageError("objdump not found: install binutils (it comes with g++; Debian: apt install binutils)")
    return path


def cpu_digest() -> str:
    """Return 8 hex digits over the processor's model and instruction sets, which -march=native depends on."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    wanted = re.compile(r"^(model name|flags|Features|CPU implementer|CPU part)[ \t]*:(.*)", re.MULTILINE)
    facts = {name: value.lstrip() for name, value in wanted.findall(text)}
    described = platform.machine() + repr(sorted(facts.items()))
    return hashlib.sha256(described.encode()).hexdigest()[:8]


def _identify(argv: tuple[str, ...]) -> Compiler:
    with tempfile.TemporaryDirectory(prefix="evokernel-") as folder:
        answer = run_plain(
            [*argv, "--version"], workdir=Path(folder), timeout_s=_ASK_LIMIT_S, memory_bytes=_ASK_MEMORY_BYTES
        )
    version = re.search(r"\b\d+\.\d+(?:\.\d+)?", re.sub(r"\([^()]*\)", "", answer.stdout))
    named = re.search(r"g\+\+|gcc|c\+\+|clang", answer.stdout.partition("\n")[0], re.IGNORECASE)
    if not answer.ok or version is None or named is None:
        raise LanguageError(f"{' '.join(argv)} does not answer --version like a C++ compiler: {_HINT}")
    family = "clang" if "clang" in answer.stdout.lower() else "gcc"
    return Compiler(argv, family, version.group())
