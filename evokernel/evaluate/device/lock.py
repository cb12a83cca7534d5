"""Locks of a GPU for one judge at a time, and of the cores that a search times on; they end with their process.

All programs and users of a machine know them.
"""

import fcntl
import logging
import os
import re
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

from evokernel.errors import HarnessError
from evokernel.evaluate.device.nvml import visible_gpu

logger = logging.getLogger(__name__)

FOLDER = Path("/tmp/evokernel-leases")
"""Not TMPDIR or a folder of the user: all users of a GPU must find the same files."""
_EVERYBODY_MAY_ADD = 0o1777
_EVERYBODY_MAY_LOCK = 0o666
_LOOK_EVERY_S = 0.005
_LOOKED_AT_S = 0.02
"""For how long a core's lock is tried: somebody who only looks at it holds it for microseconds."""
_TIMEOUT_S = 600.0
_SYSTEM = Path("/sys/devices/system/cpu")
_KIND = ("cpu_capacity", "cache/index2/size")
"""What tells fast cores of a machine from slow ones."""
_SHARED = "other searches time their kernels on the cores of this one: times scatter, and all takes longer"


@contextmanager
def device_lease(uuid: str, timeout_s: float, *, folder: Path = FOLDER) -> Iterator[None]:
    """Hold a GPU alone while a candidate is checked and timed there.

    A waiting judge takes a second lock first, which the holder needs as well before it can have the GPU back. So two
    searches share one GPU candidate by candidate, and neither starves. Raises `HarnessError` if another process holds
    it for longer, or the locks cannot be made; the message says more.

    Args:
        uuid: the GPU's, from NVML.
        timeout_s: how long to wait for others, in s.
        folder: the folder of the locks; another one in tests.
    """
    deadline = time.monotonic() + timeout_s
    name = re.sub(r"[^\w-]", "_", uuid)
    with ExitStack() as stack:
        device = _opened(folder, f"{name}.held", stack)
        with ExitStack() as waiting:
            turn = _opened(folder, f"{name}.next", waiting)
            if not (_locked(turn, deadline) and _locked(device, deadline)):
                raise HarnessError(f"the GPU {uuid} has been in use by {_holder(device)} for more than {timeout_s:g} s")
        os.ftruncate(device, 0)
        os.pwrite(device, f"{os.getpid()}\n".encode(), 0)
        yield


def this_device_lease() -> AbstractContextManager[None]:
    """Return the lease of the GPU that this process sees first; it holds nothing where there is none."""
    gpu = visible_gpu()
    return nullcontext() if gpu is None else device_lease(gpu.uuid, _TIMEOUT_S)


@contextmanager
def timed_cores(
    cores: Sequence[int], threads: int, *, folder: Path = FOLDER, system: Path = _SYSTEM
) -> Iterator[tuple[int, ...]]:
    """Yield some cores, those to time on last, which stay where they are unless other searches time on them.

    In place of such a core comes one of the kind of the last, if possible no sibling of one that is taken. The cores
    are held until the context ends. Where too few are left nothing changes, with a warning; and with the same one where
    others time on all that is left for the judge.

    Args:
        cores: those this process may run on.
        threads: how many are timed on at once.
        folder: the folder of the locks; another one in tests.
        system: what the system says of each core; another folder in tests.
    """
    usual = cores[-threads:]
    kinds = {core: [_about(system, core, name) for name in _KIND] for core in cores}
    left = [core for core in reversed(cores) if core in usual or kinds[core] == kinds[cores[-1]]]
    own, taken = list[int](), set[str]()
    with ExitStack() as stack:
        try:
            while left and len(own) < len(usual):
                core = next((each for each in left if _siblings(system, each) not in taken), left[0])
                left.remove(core)
                if _locked(_opened(folder, f"core-{core}.held", stack), time.monotonic() + _LOOKED_AT_S):
                    own.insert(0, core)
                else:
                    taken.add(_siblings(system, core))
        except HarnessError as error:
            logger.warning("%s; searches at the same time may time kernels on one core", error)
        if len(own) == len(usual):
            rest = [core for core in cores if core not in own]
            if rest and taken.issuperset(_siblings(system, core) for core in rest):  # its judge disturbs their clocks
                logger.warning(_SHARED)
            yield (*rest, *own)
            return
    if taken:
        logger.warning(_SHARED)
    yield tuple(cores)


def quiet_cores(cores: Collection[int], own: Collection[int], *, folder: Path = FOLDER) -> Collection[int]:
    """Return the cores that no other search times on at present; all of them where these are less than half.

    Args:
        cores: those to choose among.
        own: cores that this search times on; what it does itself at a time is its own affair.
        folder: the folder of the locks; another one in tests.
    """
    quiet = [core for core in cores if core in own or not _is_held(folder / f"core-{core}.held")]
    return quiet if 2 * len(quiet) >= len(cores) else cores


def _is_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # nobody has made it, or it is of no use to anybody
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _siblings(system: Path, core: int) -> str:
    return _about(system, core, "topology/thread_siblings_list") or str(core)


def _about(system: Path, core: int, name: str) -> str:
    try:
        return (system / f"cpu{core}" / name).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _opened(folder: Path, name: str, stack: ExitStack) -> int:
    """Return the descriptor of a lock, which the stack closes; started programs do not inherit it.

    The file is never removed: unlinking a lock lets two processes hold two files of one name.
    """
    try:
        _make(folder)
        descriptor = _open(folder / name)
    except OSError as error:
        raise HarnessError(
            f"cannot use {folder / name}, which keeps searches apart that share a device: {error.strerror}"
        ) from error
    stack.callback(os.close, descriptor)
    return descriptor


def _make(folder: Path) -> None:
    try:
        folder.mkdir()
        folder.chmod(_EVERYBODY_MAY_ADD)  # mkdir's own mode is narrowed by the umask
    except FileExistsError:
        if not stat.S_ISDIR(folder.lstat().st_mode):  # another user's link may lead anywhere
            raise NotADirectoryError(0, "it is no folder") from None


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # Not with O_CREAT: in a world-writable folder, Linux refuses that for another user's file.
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return os.open(path, flags)
    os.fchmod(descriptor, _EVERYBODY_MAY_LOCK)
    return descriptor


def _locked(descriptor: int, deadline: float) -> bool:
    """Take a lock; say whether that succeeded in time."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_EVERY_S)
        else:
            return True


def _holder(descriptor: int) -> str:
    said = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
    return f"process {said}" if said.isdecimal() else "another process"
