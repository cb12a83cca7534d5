"""Runners that start the languages' compilers in the sandbox."""

import errno
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evokernel.config.run import EvaluationConfig
from evokernel.errors import HarnessError, LanguageError
from evokernel.evaluate.build.cache import BuildCache, CachingCompilePool, default_folder
from evokernel.evaluate.build.compile_pool import CompilePool, CompilerPrograms
from evokernel.evaluate.inside.driver.nvrtc import INCLUDE_FOLDERS
from evokernel.evaluate.sandbox.levels import Sandbox, SandboxLevel, detect_sandbox, in_system
from evokernel.evaluate.sandbox.run_once import ProcessLimits, VisiblePaths, run_confined
from evokernel.languages import make_language
from evokernel.languages.cpp.compilers import find_compiler, find_objdump
from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.header_folders import HeaderFolders, header_folders
from evokernel.languages.toolchain import CompilerRunner
from evokernel.protocols import Language
from evokernel.records.process_exit import ProcessExit

TOOLBOXES: Mapping[str, CompilerPrograms] = {
    "triton": CompilerPrograms(
        programs={"triton_build": "inside.untrusted.triton_build"},
        preload=("torch", "triton"),
        warm=("inside.untrusted.triton_warmup",),
    ),
    "cuda": CompilerPrograms(
        programs={"cuda_build": "inside.untrusted.cuda_build"},
        preload=("torch",),
        warm=("inside.untrusted.cuda_build",),
    ),
}
"""Sandboxed Python programs by language."""


ROOM_BYTES = 64 << 20
_NO_ROOM = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))


def confined_runner(sandbox: Sandbox, *, read_only: Sequence[Path] = ()) -> CompilerRunner:
    """Return the runner that a language compiles with; a compiler may write its working folder only.

    `read_only` are paths beside the system's own folders: a tool chain that is installed elsewhere. The runner raises
    `HarnessError` for a command that fails on a full disk, which is not the source's fault.
    """

    def run(argv: Sequence[str], *, workdir: Path, timeout_s: float, memory_bytes: int) -> ProcessExit:
        workdir.chmod(0o711)  # the supervisor enters it before it takes the identity that owns it
        try:
            done = run_confined(
                argv,
                sandbox=sandbox,
                paths=VisiblePaths(read_only=read_only, writable=(workdir,), folder=workdir),
                limits=ProcessLimits(timeout_s=timeout_s, memory_bytes=memory_bytes),
                environment={"HOME": str(workdir), "TMPDIR": str(workdir)},
            )
        except HarnessError as error:
            raise LanguageError(f"cannot run {argv[0]!r} in the sandbox: {error}") from None
        if done.exit_code != 0 and any(words in done.stderr for words in _NO_ROOM):
            refuse_full(workdir.parent)
        return done

    return run


def refuse_full(folder: Path) -> None:
    """Raise `HarnessError` where compilers have no room to write.

    A command's message about a full disk may be the source's own words, so the disk itself is checked.
    """
    disk = os.statvfs(folder)
    try:
        if disk.f_bavail * disk.f_frsize < ROOM_BYTES:  # f_bavail leaves out what only root may use
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, ROOM_BYTES)
    except OSError as error:
        raise HarnessError(
            f"compilers find no room in {folder} ({error.strerror}): free {ROOM_BYTES >> 20} MiB there and run the "
            "same command again, or name another folder with TMPDIR"
        ) from None


def sandbox_for(settings: EvaluationConfig) -> Sandbox:
    """Return the sandbox that the settings ask for, or the strongest below it that works here."""
    return detect_sandbox(None if settings.sandbox == "auto" else SandboxLevel(settings.sandbox))


def local_language(
    name: str, settings: EvaluationConfig, *, threads: int = 1, device: DeviceLimits | None = None
) -> Language:
    """Return a language that compiles in this machine's sandbox, for a GPU with these limits where it needs one.

    Raises `LanguageError` as `make_language` does.
    """
    sandbox = sandbox_for(settings)
    run = confined_runner(sandbox, read_only=_compiler_places() if name == "cpp" else ())
    headers = header_folders(settings.cuda_include) if name == "cuda" else HeaderFolders()
    pool = None
    if name in TOOLBOXES:
        programs = replace(
            TOOLBOXES[name], readable=headers.paths, environment={INCLUDE_FOLDERS: os.pathsep.join(headers.paths)}
        )
        cache = BuildCache(default_folder())
        pool = CachingCompilePool(CompilePool(sandbox, programs), cache, headers=headers.digest)
    return make_language(
        name,
        run=run,
        forge=pool,
        device=device,
        threads=threads,
        compile_timeout_s=settings.compile_timeout_s,
        headers=headers,
    )


def _compiler_places() -> tuple[Path, ...]:
    tools = (find_compiler().argv[0], find_objdump())
    return tuple(dict.fromkeys(place for tool in tools for place in places_of(tool)))


def places_of(tool: str) -> tuple[Path, ...]:
    """Return the folders outside the system's own that a tool needs: its prefix, with lib/ and libexec/ beside bin/.

    A prefix that holds a user's home is not opened to compilers, only the tool's own folder is.
    """
    named = Path(shutil.which(tool) or tool).absolute()
    places = []
    for path in (named, named.resolve()):
        if in_system(path):
            continue
        prefix = path.parent.parent
        places.append(path.parent if Path.home().is_relative_to(prefix) else prefix)
    return tuple(places)
