"""Every exception that this project raises on purpose. A bad candidate raises none: it gets an `Evaluation`."""

from typing import Any


class EvokernelError(Exception):
    """Root of all errors; its message says what was expected, what came, and what to do."""


class ConfigError(EvokernelError):
    """A configuration, key or command-line value cannot be used."""


class TaskError(EvokernelError):
    """A task file cannot be loaded, or the task is not fit to judge candidates."""


class LanguageError(EvokernelError):
    """A language is unknown or its tool chain is missing on this machine."""


class StoreError(EvokernelError):
    """The store of a run cannot be opened, read or written."""


class StoreUnavailable(StoreError):
    """The disk, its permissions or another process stand in the way of a store that is whole."""


class SchemaTooNew(StoreError):
    """The store was written by a newer evokernel."""


class StoreLocked(StoreUnavailable):
    """Another engine is writing this store."""


class StoreCorrupt(StoreError):
    """The file is damaged, or is not a store."""


class RunMismatch(StoreError):
    """The store holds a different search: task, seed, tolerance, language or device differ."""


class WorkerError(EvokernelError):
    """A sandboxed process could not do its job."""


class WorkerDied(WorkerError):
    """The worker ended before it answered, by `signal`; None after a plain exit, or where we ended it."""

    def __init__(self, message: str, signal: int | None = None, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.signal = signal
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[type["WorkerDied"], tuple[str, int | None, int | None]]:
        return (type(self), (str(self), self.signal, self.exit_code))


class KilledFromOutside(WorkerDied):
    """A process without host code of a candidate got SIGKILL: from a person, or for want of memory."""


class WorkerTimeout(WorkerError):
    """The worker did not answer in time and was killed with all its children."""


class KernelFault(WorkerError):
    """The candidate failed inside its worker, which said how: an exception of its host code, or a fault on the device.

    `kind` is `host`, `device` or `memory`; `line` is the line of the candidate's source, where it is known.
    """

    def __init__(self, message: str, kind: str, line: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.line = line

    def __reduce__(self) -> tuple[type["KernelFault"], tuple[str, str, int | None]]:
        return (type(self), (str(self), self.kind, self.line))


class HarnessError(EvokernelError):
    """Our own machinery failed; the work is retried and never scored."""


class ModelError(EvokernelError):
    """A call of a model gave nothing that can be used, and trying it again will not help."""


class ModelsUnavailable(ModelError):
    """No model with the role answers at present, or ever again where `final`."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final

    def __reduce__(self) -> tuple[Any, ...]:
        return (_unavailable, (str(self), self.final))


class BudgetSpent(ModelError):
    """The next call could cost more than is left of a budget; the message is the reason to stop."""


def _unavailable(message: str, final: bool) -> ModelsUnavailable:
    return ModelsUnavailable(message, final=final)


def install(extra: str) -> str:
    """Return how to install the packages of an extra, as docs/install.md has it."""
    return f"pip install -e '.[{extra}]' in the clone (docs/install.md has other ways)"


TRY_AGAIN_EXIT = 75
"""Exit code of a search that ended by an error that may pass: EX_TEMPFAIL of sysexits.h."""


def may_pass(error: EvokernelError) -> bool:
    """Say whether an error may be gone at another attempt: it is the machine's fault and not the config's."""
    if isinstance(error, ModelsUnavailable):
        return not error.final
    return isinstance(error, StoreUnavailable | HarnessError | WorkerError)
