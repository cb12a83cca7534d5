"""C++ for the processor at hand: the system's compiler, native instructions, one shared object per candidate."""

import hashlib
import os
import platform
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from evokernel.languages.cpp import guide, static_check
from evokernel.languages.cpp.checked_main import SANITIZE, checked_main
from evokernel.languages.cpp.compilers import cpu_digest, find_compiler, find_objdump
from evokernel.languages.cpp.disassembly import read_disassembly
from evokernel.languages.cpp.elf import read_shared_object
from evokernel.languages.cpp.isa import isa_of
from evokernel.languages.cpp.messages import digest_errors
from evokernel.languages.cpp.profile import HotLoopProfile, profile
from evokernel.languages.toolchain import CompilerRunner
from evokernel.records.build import BuildFailure, Built
from evokernel.records.candidate import Candidate
from evokernel.source.numbers import likely_sizes
from evokernel.task import Task

ARTIFACT_LIMIT_BYTES = 64 << 20
CODE_LIMIT_BYTES = 512 << 10
_LISTING_LIMIT_BYTES = 64 << 20
_FLAGS = ("-std=c++20", "-O3", "-march=native", "-fno-semantic-interposition", "-shared", "-fPIC")
_REPEATABLE = ("-frandom-seed=evokernel", "-Wl,--build-id=none", "-Wl,-z,defs", "-Wl,-z,now")
# gold links the sanitizers' runtimes in half the time of bfd; newer systems come without it
_LINKERS = (("-fuse-ld=gold",), ()) if platform.machine() == "x86_64" else ((),)
_ENTRY = "run"
_UNROLL = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+GCC[ \t]+unroll\b[^\n]*", re.MULTILINE)
# through a file: a listing is often longer than the output that a runner keeps; without a listing the build fails
_LISTING = '"$@" || exit; "$0" -d -w -j .text --no-show-raw-insn kernel.so > kernel.lst; exit 0'
# the same messages and temporary files everywhere; a source that asks for dates gets those of 1970
_ENVIRONMENT = ("/usr/bin/env", "LC_ALL=C", "TMPDIR=.", "SOURCE_DATE_EPOCH=0")


class CppLanguage:
    """C++20, compiled by the system's g++ or clang++ (`CXX` chooses another) for this very processor."""

    name = "cpp"
    suffix = ".cpp"
    syntax = "cpp"
    static_check = staticmethod(static_check.static_check)

    def __init__(
        self, *, run: CompilerRunner, threads: int = 1, compile_timeout_s: float = 30.0, memory_bytes: int = 2 << 30
    ) -> None:
        """Find the tools.

        Args:
            threads: threads a kernel may use; above 1 OpenMP is on.
            compile_timeout_s: the longest one compiler call may take, in s.
            memory_bytes: address space of one compiler process.

        Raises:
            LanguageError: compiler or objdump are missing, or this machine's code cannot be read.
        """
        self._run = run
        self._threads = threads
        self._timeout_s = compile_timeout_s
        self._memory_bytes = memory_bytes
        self._compiler = find_compiler()
        self._objdump = find_objdump()
        self._isa = isa_of(platform.machine())
        self._flags = (*_FLAGS, "-fopenmp") if threads > 1 else _FLAGS
        self._lock = threading.Lock()
        self._sanitizers: bool | None = None
        self._linker: tuple[str, ...] = ()
        self._mains: dict[str, bytes] = {}
        self.environment = f"{self._compiler.label} {' '.join(self._flags)} cpu {cpu_digest()}"

    def warm(self) -> None:
        """Start nothing: a C++ compiler is a program that starts in milliseconds."""

    def program_hash(self, source: str) -> str:
        """Return a hash over the whole text: `__LINE__` and `#x` depend on comments and layout."""
        return Candidate(source, self.name).id

    def guide(self, task: Task) -> str:
        """Return the signature of `run` for a task and the contract around it."""
        return guide.guide(task, threads=self._threads, flags=f"{self._compiler.label} {' '.join(self._flags)}")

    def build(
        self, source: str, task: Task | None = None, *, hidden: Sequence[Mapping[str, int | float]] = ()
    ) -> Built | BuildFailure:
        """Compile a shared object and measure its machine code; the same for all shapes.

        Raises `LanguageError` if a tool could not be started.
        """
        with _workdir({"kernel.cpp": source}) as folder:
            start = time.perf_counter()
            made = self._compile(folder, (*self._flags, *_REPEATABLE), ["kernel.cpp"], "kernel.so", listing=True)
            compile_ms = (time.perf_counter() - start) * 1e3
            return made if isinstance(made, BuildFailure) else self._measure(folder, made, compile_ms)

    def hot_loop(self, source: str) -> str:
        """Return the instructions of a source's hot loop, one a line; nothing where it does not build."""
        with _workdir({"kernel.cpp": source}) as folder:
            made = self._compile(folder, (*self._flags, *_REPEATABLE), ["kernel.cpp"], "kernel.so", listing=True)
            found = made if isinstance(made, BuildFailure) else self._profile(folder)
        return "" if isinstance(found, BuildFailure) else "\n".join(f"{i.mnemonic} {i.operands}" for i in found.code)

    @property
    def sanitizers(self) -> bool:
        """Say whether the compiler can link the sanitizers; tried once."""
        with self._lock:
            if self._sanitizers is None:
                self._sanitizers = self._try_sanitizers()
            return bool(self._sanitizers)

    def _try_sanitizers(self) -> bool | None:
        """Choose the first linker that links the sanitizers; return None where the machine was too busy to say."""
        for linker in _LINKERS:
            self._linker = linker
            with _workdir({"kernel.cpp": "int main() { return 0; }\n"}) as folder:
                made = self._compile(folder, self._checked_flags(), ["kernel.cpp"], "probe")
            if isinstance(made, bytes):
                return True
            if made.timed_out:
                return None
        return False

    def build_checked(self, source: str, task: Task) -> bytes | BuildFailure | None:
        """Compile an executable that runs one job (see `checked_job`) under address and undefined-behaviour sanitizers.

        Returns None where the compiler has no sanitizers.
        """
        if not self.sanitizers:
            return None
        # Unrolling hides nothing from a sanitizer, and multiplies the instrumented code: builds take tens of seconds.
        main = self._checked_main(checked_main(task.signature))
        if isinstance(main, BuildFailure):
            return main
        files: dict[str, str | bytes] = {"kernel.cpp": _UNROLL.sub("", source), "main.o": main}
        with _workdir(files) as folder:
            return self._compile(folder, self._checked_flags(), list(files), "checked")

    def _checked_main(self, text: str) -> bytes | BuildFailure:
        """Return the object file of a task's `checked_main`, which all candidates share."""
        with self._lock:
            if text not in self._mains:
                with _workdir({"main.cpp": text}) as folder:
                    made = self._compile(folder, (*self._checked_flags(), "-c"), ["main.cpp"], "main.o")
                if isinstance(made, BuildFailure):
                    return made
                self._mains[text] = made
            return self._mains[text]

    def _checked_flags(self) -> tuple[str, ...]:
        threads = ("-fopenmp",) if self._threads > 1 else ()
        return (*SANITIZE, *self._compiler.static_sanitizers(), *self._linker, *threads)

    def _compile(
        self, folder: Path, flags: Sequence[str], sources: Sequence[str], output: str, *, listing: bool = False
    ) -> bytes | BuildFailure:
        hide = f"-ffile-prefix-map={folder}=."
        argv = [*self._compiler.argv, *flags, *self._compiler.diagnostics(), hide, *sources, "-o", output]
        if listing:  # in the same confined call: starting a sandbox takes longer than reading the code
            argv = ["/bin/sh", "-c", _LISTING, self._objdump, *argv]
        done = self._run(
            [*_ENVIRONMENT, *argv], workdir=folder, timeout_s=self._timeout_s, memory_bytes=self._memory_bytes
        )
        if done.timed_out:
            return BuildFailure(
                f"compiling took more than {self._timeout_s:g} s (evaluation.compile_timeout_s) and was stopped",
                timed_out=True,
            )
        if not done.ok:
            ended = f"the compiler was killed by signal {done.signal}\n" if done.signal is not None else ""
            return BuildFailure(ended + digest_errors(done.stderr))
        image = _read(folder / output, ARTIFACT_LIMIT_BYTES)
        if image is None:
            return BuildFailure(f"the compiled program is larger than {ARTIFACT_LIMIT_BYTES >> 20} MiB")
        return image

    def _measure(self, folder: Path, image: bytes, compile_ms: float) -> Built | BuildFailure:
        try:
            compiled = read_shared_object(image)
        except ValueError as error:
            return BuildFailure(f"the compiled program cannot be read: {error}")
        if _ENTRY not in compiled.exports:
            return BuildFailure('the source defines no visible function `extern "C" void run(...)`')
        if compiled.text_bytes > CODE_LIMIT_BYTES:
            return BuildFailure(f"{compiled.text_bytes} bytes of machine code; the limit is {CODE_LIMIT_BYTES}")
        found = self._profile(folder)
        if isinstance(found, BuildFailure):
            return found
        numbers = likely_sizes((*found.numbers, *compiled.numbers))
        descriptor = {
            "vector_bits": float(found.vector_bits),
            "spills": float(found.spills),
            "code_bytes": float(compiled.code_bytes),
        }
        metrics = {
            "hot_loop_depth": float(found.loop_depth),
            "hot_loop_instructions": float(found.loop_instructions),
            "hot_loop_fma": float(found.loop_fma),
            "hot_loop_gathers": float(found.loop_gathers),
            "hot_loop_calls": float(found.loop_calls),
            "frame_bytes": float(found.frame_bytes),
            "artifact_bytes": float(len(image)),
            "compile_ms": compile_ms,
        }
        return Built(image, hashlib.sha256(image).hexdigest(), descriptor, metrics, numbers)

    def _profile(self, folder: Path) -> HotLoopProfile | BuildFailure:
        text = _read(folder / "kernel.lst", _LISTING_LIMIT_BYTES)
        if not text:
            return BuildFailure("the machine code could not be disassembled")
        try:
            return profile(read_disassembly(text.decode(errors="replace")), self._isa, entry=_ENTRY)
        except ValueError as error:
            return BuildFailure(str(error))


@contextmanager
def _workdir(files: Mapping[str, str | bytes]) -> Iterator[Path]:
    """Make a fresh folder with the given files; their times are fixed, since a source can ask for them."""
    with tempfile.TemporaryDirectory(prefix="evokernel-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for file_name, content in files.items():
            data = content if isinstance(content, bytes) else content.encode(errors="surrogatepass")
            (folder / file_name).write_bytes(data)
            os.utime(folder / file_name, (0, 0))
        yield folder


def _read(path: Path, limit_bytes: int) -> bytes | None:
    """Return a file's bytes, or None where it is missing, larger than the limit, or a link."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            content = file.read(limit_bytes + 1)
    except OSError:
        return None
    return content if len(content) <= limit_bytes else None
