"""How languages start their compilers: in the sandbox."""

from collections.abc import Sequence
from pathlib import Path

from evokernel.config import EvaluationConfig
from evokernel.errors import HarnessError, LanguageError
from evokernel.evaluate.confined import Limits, Paths, run_confined
from evokernel.evaluate.sandbox import Level, Sandbox, detect_sandbox
from evokernel.languages import make_language
from evokernel.languages.toolchain import Completed, Confined
from evokernel.protocols import Language


def confined_runner(sandbox: Sandbox) -> Confined:
    """Return the runner that a language compiles with; its folder is all that a compiler may write."""

    def run(argv: Sequence[str], *, workdir: Path, timeout_s: float, memory_bytes: int) -> Completed:
        workdir.chmod(0o711)  # the supervisor enters it before it takes the identity that owns it
        try:
            done = run_confined(
                argv,
                sandbox=sandbox,
                paths=Paths(writable=(workdir,), folder=workdir),
                limits=Limits(timeout_s=timeout_s, memory_bytes=memory_bytes),
                environment={"HOME": str(workdir), "TMPDIR": str(workdir)},
            )
        except HarnessError as error:
            raise LanguageError(f"cannot run {argv[0]!r} in the sandbox: {error}") from None
        return Completed(done.exit_code, done.signal, done.stdout, done.stderr, done.timed_out)

    return run


def sandbox_for(settings: EvaluationConfig) -> Sandbox:
    """Return the sandbox that the settings ask for, or the strongest below it that works here."""
    return detect_sandbox(None if settings.sandbox == "auto" else Level(settings.sandbox))


def local_language(name: str, settings: EvaluationConfig, *, threads: int = 1) -> Language:
    """Return a language that compiles in this machine's sandbox. Raises `LanguageError` as `make_language` does."""
    run = confined_runner(sandbox_for(settings))
    return make_language(name, run=run, threads=threads, compile_timeout_s=settings.compile_timeout_s)
