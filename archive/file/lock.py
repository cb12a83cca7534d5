"""Lock of the one engine that writes a store; the operating system releases it when the engine dies."""

import errno
import fcntl
import os
import weakref
from contextlib import suppress
from pathlib import Path

from evokernel.errors import StoreError, StoreLocked, StoreUnavailable

_LASTING = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL)
"""Errors of a path at which no file can ever be."""
_held: "weakref.WeakSet[EngineLock]" = weakref.WeakSet()


class EngineLock:
    """An exclusive flock on `<store>.lock`, a file that also names its holder.

    The file stays when the lock is released. Whoever takes it makes sure that it still has its name.
    """

    __slots__ = ("__weakref__", "_file", "_store", "path")

    def __init__(self, store: Path) -> None:
        """Take the lock.

        Raises:
            StoreLocked: another engine has it; the message names its process.
            StoreError: the lock file cannot be written.
        """
        self.path = store.with_name(store.name + ".lock")
        self._store = store
        self._file: int | None = None
        self._take()
        _held.add(self)

    def keep(self) -> None:
        """Take the lock again where its file was removed or replaced, so that other engines still find it.

        Raises:
            StoreLocked: another engine was quicker.
            StoreError: the lock file cannot be written.
        """
        if self._file is not None and _is_at(self.path, self._file):
            return
        self.release()
        self._take()

    def _take(self) -> None:
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise unavailable(
                f"cannot write {self.path}: {error.strerror}; "
                "a run needs a folder it may write to, and this file, if it is there, writable",
                error,
            ) from error
        try:
            self._lock(self._file)
            if _is_at(self.path, self._file):
                return
        except BaseException:
            self.release()
            raise
        self.release()  # its last holder removed it between our two calls
        self._take()

    def _lock(self, file: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._sign(file)
        except BlockingIOError:
            holder = os.pread(file, 32, 0).decode("ascii", "replace").strip() or "of unknown id"
            raise StoreLocked(
                f"another evokernel (process {holder}) is writing {self._store}; "
                "wait for it, stop it with SIGINT, or name another store"
            ) from None
        except OSError as error:
            raise StoreUnavailable(
                f"cannot lock {self.path}: {error.strerror}; put the store on a local disk with free space"
            ) from error

    def _sign(self, file: int) -> None:
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        except OSError:  # a full disk
            if not self._store.exists():
                self.remove()
            raise

    def remove(self) -> None:
        """Remove the file, where no store was made beside it, and release the lock."""
        if self._file is not None and _is_at(self.path, self._file):
            self.path.unlink()
        self.release()

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def unavailable(message: str, error: OSError) -> StoreError:
    """Return the error of a path that cannot be written: it may pass, unless no file can ever be there."""
    return (StoreError if error.errno in _LASTING else StoreUnavailable)(message)


def is_locked(store: Path) -> bool:
    """Say whether an engine writes a store. Asked only of a store without sessions, whose engine has no heartbeat."""
    try:
        file = os.open(store.with_name(store.name + ".lock"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(file)
    return False


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreUnavailable(f"cannot look at {path}: {error.strerror}") from error


def _close_in_child() -> None:
    # A forked child shares the lock: an orphan that outlives a killed engine would keep the store locked.
    for lock in list(_held):
        with suppress(OSError):
            lock.release()


os.register_at_fork(after_in_child=_close_in_child)
