"""Gives up rights for good, in the process that is about to run untrusted code.

Every call of a compiler starts with this module, `reaper` and `run_program`. They leave out what the standard library
imports slowly: typing, and enum with all that needs it (signal, socket, json, contextlib).
"""

from __future__ import annotations

import ctypes
import os
import resource
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)

SIGKILL = 9
CLONE_NEWNS, CLONE_NEWPID = 0x20000, 0x20000000
NO_SUID, NO_DEVICES, NO_PROGRAMS = 2, 4, 8
SCRATCH_FILES = 16384
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}
SECCOMP_SET_MODE_FILTER = 1
SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4
LANDLOCK_CREATE, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT = 444, 445, 446
LANDLOCK_VERSION_FLAG = 1
LANDLOCK_PATH_BENEATH = 1
CAPABILITY_VERSION_3 = 0x20080522

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ_RIGHTS = EXECUTE | READ_FILE | READ_DIR
DEVICE_RIGHTS = READ_FILE | WRITE_FILE | IOCTL_DEV
# CUDA names its threads and tunes its out-of-memory score there; without truncation it does not start at all.
OWN_PROCESS_RIGHTS = READ_RIGHTS | WRITE_FILE | TRUNCATE
TCP_RIGHTS = 3  # bind and connect
SCOPES = 3  # abstract unix sockets and signals
OWN_PROCESS = 0x7FFFFFFF  # in a filter: the number of the process that installs it; no process has this one
_JUMP_EQUAL = 0x15


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def check(result: int, what: str) -> int:
    """Return a system call's result. Raises `OSError` naming `what` when it is negative."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def prctl(option: int, value: int) -> None:
    """Set a process attribute. Raises `OSError`."""
    check(LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def show_only_own_processes() -> None:
    """Mount a /proc of this process's own PID namespace, for this process and its children. Raises `OSError`."""
    check(LIBC.unshare(CLONE_NEWNS), "unshare")
    _mount("proc", "/proc", NO_SUID | NO_DEVICES | NO_PROGRAMS, None)


def isolate(spec: dict[str, Any]) -> None:
    """Leave the zygote's session, its PID namespace and, where `spec` names some, its cores. Raises `OSError`."""
    import signal

    os.setsid()
    if spec["own_pid_namespace"]:
        show_only_own_processes()
    if spec.get("cpus"):
        os.sched_setaffinity(0, spec["cpus"])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a process that writes too much loses output and goes on


def mount_scratch(path: str, *, size_bytes: int, uid: int | None) -> None:
    """Mount an empty folder in memory, owned by `uid` (None: our user), which ends with this mount namespace.

    Raises `OSError` if it is not allowed, or the mount point does not exist.
    """
    owner = "" if uid is None else f",uid={uid},gid={uid}"
    options = f"size={size_bytes},nr_inodes={SCRATCH_FILES},mode=0700{owner}"
    _mount("tmpfs", path, NO_SUID | NO_DEVICES, options)


def _mount(kind: str, path: str, flags: int, options: str | None) -> None:
    data = None if options is None else options.encode()
    check(LIBC.mount(kind.encode(), path.encode(), kind.encode(), ctypes.c_ulong(flags), data), f"mount of {path}")


def seal(spec: dict[str, Any], uid: int | None) -> None:
    """Apply limits, identity, landlock and seccomp, in the order in which each is still allowed. Raises `OSError`."""
    os.umask(0o022)  # another user id runs the compiler's output
    for name, value in spec["limits"].items():
        _limit(getattr(resource, f"RLIMIT_{name}"), value)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _drop_capabilities()
    prctl(PR_SET_PDEATHSIG, SIGKILL)  # a change of identity clears it, so it comes after
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if spec["landlock"]:
        restrict_files(**spec["landlock"])
    if spec["seccomp"]:
        install_filter(spec["seccomp"])


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def _drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    check(LIBC.capset(header, (ctypes.c_uint32 * 6)()), "capset")


def install_filter(code: bytes) -> None:
    """Install a BPF program for this process and its children. Raises `OSError`."""
    code = _for_this_process(code)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    number = SYS_SECCOMP[os.uname().machine]
    # SPEC_ALLOW: without it older kernels slow a filtered process down (store bypass off), which would skew timings.
    flags = SECCOMP_FILTER_FLAG_SPEC_ALLOW
    check(LIBC.syscall(number, SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(program)), "seccomp")


def _for_this_process(code: bytes) -> bytes:
    """Return a filter with this process's number where it is compared with `OWN_PROCESS`."""
    instructions = [list(each) for each in struct.iter_unpack("<HBBI", code)]
    for instruction in instructions:
        if instruction[0] == _JUMP_EQUAL and instruction[3] == OWN_PROCESS:
            instruction[3] = os.getpid()
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)


def landlock_abi() -> int:
    """Return the kernel's Landlock ABI, 0 where there is none."""
    return max(0, int(LIBC.syscall(LANDLOCK_CREATE, None, 0, LANDLOCK_VERSION_FLAG)))


def restrict_files(read: list[str], write: list[str], devices: list[str]) -> None:
    """Leave only reading below `read`, writing below `write` and driving `devices`; no TCP, no signals out.

    With devices, this process may also write below its own folder in /proc. Raises `OSError` if the kernel refused.
    """
    abi = landlock_abi()
    known = (1 << 13) - 1 | (abi >= 2) << 13 | (abi >= 3) << 14 | (abi >= 5) << 15
    attributes = _Ruleset(known, TCP_RIGHTS, SCOPES)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = check(LIBC.syscall(LANDLOCK_CREATE, ctypes.byref(attributes), size, 0), "landlock_create_ruleset")
    for path in read:
        _allow(ruleset, path, READ_RIGHTS)
    for path in write:
        _allow(ruleset, path, known)
    for path in devices:
        _allow(ruleset, path, DEVICE_RIGHTS & known)
    if devices:
        _allow(ruleset, "/proc/self", OWN_PROCESS_RIGHTS & known)
    check(LIBC.syscall(LANDLOCK_RESTRICT, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return  # a folder that is missing, or out of our user's reach, needs no rule
    if not stat.S_ISDIR(os.fstat(parent).st_mode):
        rights &= FILE_RIGHTS
    rule = _Beneath(rights, parent)
    check(LIBC.syscall(LANDLOCK_ADD_RULE, ruleset, LANDLOCK_PATH_BENEATH, ctypes.byref(rule), 0), "landlock_add_rule")
    os.close(parent)
