"""Languages of candidates. A language's module is imported only when it is asked for."""

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from evokernel.errors import LanguageError
from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.header_folders import HeaderFolders
from evokernel.languages.toolchain import CompilerRunner, PythonCompiler
from evokernel.protocols import Language

LANGUAGES: Mapping[str, str] = {
    "cpp": "evokernel.languages.cpp.language:CppLanguage",
    "triton": "evokernel.languages.gpu.triton:TritonLanguage",
    "cuda": "evokernel.languages.gpu.cuda:CudaLanguage",
}
"""By name, the class as `module:Class`."""


def make_language(
    name: str,
    *,
    run: CompilerRunner,
    forge: PythonCompiler | None = None,
    device: DeviceLimits | None = None,
    threads: int = 1,
    compile_timeout_s: float = 30.0,
    memory_bytes: int = 2 << 30,
    headers: HeaderFolders | None = None,
) -> Language:
    """Return a language ready to build; each takes those of the arguments that its constructor names.

    Args:
        name: one of `LANGUAGES`.
        run: starts compilers; the sandbox's runner, or `toolchain.run_plain` for trusted sources.
        forge: runs Python that compiles; the sandbox's warm processes, or `toolchain.forge_plain`.
        device: limits of the GPU that is compiled for; None for an H100.
        threads: threads a candidate may use; above 1 the language enables its threading.
        compile_timeout_s: the longest one compiler call may take, in s.
        memory_bytes: address space of one compiler process.
        headers: folders that `forge` finds headers of CUDA C++ in, beside CUDA's own.

    Raises:
        LanguageError: the name is unknown, or the language's tool chain is missing on this machine.
    """
    if name not in LANGUAGES:
        raise LanguageError(f"unknown language {name!r}: expected one of {', '.join(sorted(LANGUAGES))}")
    factory = _language_class(name)
    offered = {
        "run": run,
        "forge": forge,
        "device": device,
        "threads": threads,
        "compile_timeout_s": compile_timeout_s,
        "memory_bytes": memory_bytes,
        "headers": headers,
    }
    wanted = inspect.signature(factory).parameters
    language: Language = factory(**{key: value for key, value in offered.items() if key in wanted})
    return language


def syntax_of(name: str) -> str:
    """Return the syntax of a language's files, without a search for its tools; nothing for an unknown language."""
    return str(_language_class(name).syntax) if name in LANGUAGES else ""


def complaint_of(name: str, source: str) -> str | None:
    """Return why a source cannot be tried in one of `LANGUAGES`, by its text alone, or None; needs no tools."""
    complaint: str | None = _language_class(name).static_check(source)
    return complaint


def _language_class(name: str) -> Any:
    module, _, attribute = LANGUAGES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
