"""Builds seccomp deny-lists as raw BPF, for x86_64 and aarch64, without libseccomp.

Most system calls stay allowed; refused are those that reach into other processes, the kernel or new namespaces. The
filter refuses with an error (a program may go on without), and kills only callers in a foreign architecture's ABI.
"""

import platform
import struct
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from evokernel.errors import HarnessError
from evokernel.evaluate.inside.process.seal import OWN_PROCESS

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
X32_BIT = 0x40000000
EPERM, ENOSYS = 1, 38
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
CLONE_THREAD = 0x10000
CLONE_NEW_ANY = 0x7E020000
TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
SOCKET_OWNER = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP: the receiver of a socket's signals
OWN_ADVICE = frozenset({*range(5), 8, 10, 11, *range(14, 20), 22, 23, 102, 103})
"""Advice on memory that changes the caller's own page tables at most, by the numbers of madvise(2).

Refused are those that act on pages which others map, too (MADV_REMOVE, MADV_COLD, MADV_PAGEOUT, MADV_COLLAPSE), that
employ a thread of the kernel (MADV_MERGEABLE), and unknown ones.
"""
FOREIGN_ATTRIBUTES = (1, 22, 53, 59, 62, 67)
"""Attributes that prctl(2) may not set: PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_SPECULATION_CTRL,
PR_SET_SYSCALL_USER_DISPATCH, PR_SCHED_CORE, PR_SET_MEMORY_MERGE.

A filter, or a handler, of a candidate's own could answer in place of Linux when our code closes a page: then none is.
Speculation under control of a process makes the kernel flush what the next one on the core, the baseline, has learned.
"""
FAULT_SIGNALS = (7, 11)
"""SIGBUS and SIGSEGV: a handler could hide that a kernel leaves its buffers."""

Numbers = Mapping[str, tuple[int | None, int | None]]
"""Numbers of system calls on x86_64 and on aarch64, by name; None where the architecture has no such call."""


def _read_table() -> Numbers:
    lines = Path(__file__).with_name("syscalls.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return {name: (_number(x86_64), _number(aarch64)) for name, x86_64, aarch64 in rows}


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


_TABLE = _read_table()


def _calls(names: str) -> Numbers:
    return {name: _TABLE[name] for name in names.split()}


DENIED = _calls("""
    ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_open pidfd_getfd pidfd_send_signal
    bpf userfaultfd perf_event_open add_key request_key keyctl
    mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr open_tree_attr
    unshare setns io_uring_setup io_uring_enter io_uring_register
    kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff
    settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname acct quotactl quotactl_fd syslog
    name_to_handle_at open_by_handle_at fanotify_init mknodat mknod migrate_pages move_pages
    vhangup iopl ioperm modify_ldt uselib
""")

# Landlock guards none of these, and a process may do them to everything that its user owns.
ATTRIBUTES = _calls("""
    chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes futimesat utimensat setxattr lsetxattr
    fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat
""")

# A worker only computes: no programs, no signals but to itself (abort uses tgkill, see `_own_rule`), no memory outside
# its address space limit, and no way off its core.
DENIED_TO_WORKERS = {
    **_calls("seccomp"),  # see FOREIGN_ATTRIBUTES
    # SIGCONT from a timer would wake a stopped worker before its time; and what a timer does as it expires is paid for
    # by whoever runs on the core then: the baseline, if it is set so
    **_calls("timer_create timerfd_create setitimer alarm"),
    **_calls("""
        execve execveat socket socketpair kill tkill rt_sigqueueinfo rt_tgsigqueueinfo memfd_create memfd_secret shmget
        shmat shmctl semget msgget mq_open sched_setaffinity sched_setscheduler sched_setparam sched_setattr setpriority
    """),
    # Pages of a file, which others map, too: freed, moved, written out, or dropped from the cache.
    **_calls("""
        fallocate ftruncate truncate remap_file_pages mbind set_mempolicy_home_node sync syncfs sync_file_range
        fadvise64 readahead
    """),
}
# The CUDA driver needs descriptors of shared memory, and unix sockets (no other family) to pass them. It has not been
# tried without the attributes, nor without calls on files and on the place of memory; a GPU's worker shares no memory
# of the host with anybody.
LIFTED_FOR_GPU = frozenset(
    {
        *("memfd_create", "socket", "socketpair", "timer_create", "timerfd_create", "setitimer", "alarm"),
        *("fallocate", "ftruncate", "mbind"),
        *ATTRIBUTES,
    }
)
# Tools that watch another process need these; harmless in namespaces that hold only the two.
LIFTED_FOR_WATCHING = frozenset(
    {"ptrace", "process_vm_readv", "process_vm_writev", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "kcmp"}
)
STARTING = frozenset({"execve", "execveat"})
FORKS = _calls("fork vfork")
CLONE, CLONE3, SOCKET, SOCKETPAIR, IOCTL = (56, 220), (435, 435), (41, 198), (53, 199), (16, 29)
TGKILL, PRLIMIT, FCNTL, MADVISE, PRCTL, SIGACTION = (234, 131), (302, 261), (72, 25), (28, 233), (157, 167), (13, 134)
# F_SETOWN, F_SETSIG, F_SETOWN_EX: the receiver of a file's signals; F_SETLEASE, F_NOTIFY: who hears of its use
FOREIGN_COMMANDS = (8, 10, 15, 1024, 1026)

LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

Instruction = tuple[int, int, int, int]


class Children(StrEnum):
    """Processes and threads that a filtered process may start."""

    NONE = "none"
    """Neither."""
    THREADS = "threads"
    """Threads only."""
    ANY = "any"
    """Both."""
    WATCHED = "watched"
    """Both; it may also look into its children and talk to them over a network namespace of its own."""
    NETWORKED = "networked"
    """Both; it may also use TCP and UDP within a network namespace of its own."""


def supported(machine: str | None = None) -> bool:
    """Say whether filters can be built for this (or the named) architecture."""
    return (machine or platform.machine()) in ARCHITECTURES


def worker_filter(children: Children, *, gpu: bool = False, machine: str | None = None) -> bytes:
    """Return the filter of a worker: no programs, sockets or foreign signals; threads only if `children` allows them.

    With `gpu` it also allows the calls of the CUDA driver, see `LIFTED_FOR_GPU`. Raises `HarnessError` on an
    architecture without a table of call numbers.
    """
    denied = _denied_to_candidates(LIFTED_FOR_GPU if gpu else frozenset())
    return _build(denied, children, machine or platform.machine(), unix_sockets=gpu, handlers=gpu)


def program_filter(children: Children, *, machine: str | None = None) -> bytes:
    """Return the filter of a program made from a candidate: a worker's, but a shell may start it.

    Raises `HarnessError` on an architecture without a table of call numbers.
    """
    return _build(_denied_to_candidates(STARTING), children, machine or platform.machine(), unix_sockets=False)


def tool_filter(*, watches: bool = False, networked: bool = False, machine: str | None = None) -> bytes:
    """Return the filter of a tool, such as a compiler: it may start programs and use unix sockets, no other family.

    A tool that `watches` its children, such as a profiler, may also use other sockets and reach into a process. A
    `networked` one may use IP beside unix sockets, and nothing else: a virtual machine's sockets know no namespaces.

    Raises:
        HarnessError: on an architecture without a table of call numbers.
    """
    denied = {name: numbers for name, numbers in DENIED.items() if not (watches and name in LIFTED_FOR_WATCHING)}
    families = (AF_UNIX, AF_INET, AF_INET6) if networked else (AF_UNIX,)
    unfiltered = watches and not networked
    return _build(denied, Children.ANY, machine or platform.machine(), unix_sockets=not unfiltered, families=families)


def _denied_to_candidates(lifted: frozenset[str]) -> Numbers:
    found = {**DENIED, **ATTRIBUTES, **DENIED_TO_WORKERS}
    return {name: numbers for name, numbers in found.items() if name not in lifted}


def _build(
    denied: Numbers,
    children: Children,
    machine: str,
    *,
    unix_sockets: bool,
    handlers: bool = True,
    families: tuple[int, ...] = (AF_UNIX,),
) -> bytes:
    if machine not in ARCHITECTURES:
        raise HarnessError(f"no system call table for {machine!r}; known: {', '.join(ARCHITECTURES)}")
    column, architecture = ARCHITECTURES[machine]
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE_OFFSET),
        (JUMP_EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER_OFFSET),
    ]
    if machine == "x86_64":
        code += [(JUMP_AT_LEAST, 0, 1, X32_BIT), (RETURN, 0, 0, KILL)]
    if children is not Children.ANY:
        denied = {**denied, **FORKS}
        own = _on(TGKILL[column], _own_rule()) + _on(PRLIMIT[column], _own_rule())
        own += _on(FCNTL[column], _refused_arguments(1, FOREIGN_COMMANDS))
        own += _on(MADVISE[column], _only_arguments(2, sorted(OWN_ADVICE)))
        own += _on(PRCTL[column], _refused_arguments(0, FOREIGN_ATTRIBUTES))
        if not handlers:  # a sanitizer's runtime needs them
            own += _on(SIGACTION[column], _refused_arguments(0, FAULT_SIGNALS))
    else:
        own = []  # its children have other numbers
    for numbers in denied.values():
        code += _refuse(numbers[column], EPERM)
    # The flags of clone3 lie in memory that a filter cannot read; told ENOSYS, libc falls back to clone.
    code += _refuse(CLONE3[column], ENOSYS)
    code += _on(CLONE[column], _clone_rule(children)) + own
    code += _on(
        IOCTL[column], _refused_arguments(1, (*TERMINAL_INJECTION, *SOCKET_OWNER) if own else TERMINAL_INJECTION)
    )
    if unix_sockets:
        rule = _only_arguments(0, families)
        code += _on(SOCKET[column], rule) + _on(SOCKETPAIR[column], rule)
    code.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _refuse(number: int | None, error: int) -> list[Instruction]:
    return [] if number is None else _on(number, [(RETURN, 0, 0, ERRNO | error)])


def _on(number: int, rule: list[Instruction]) -> list[Instruction]:
    return [(JUMP_EQUAL, 0, len(rule), number), *rule]


def _clone_rule(children: Children) -> list[Instruction]:
    flags = (LOAD, 0, 0, ARGUMENTS_OFFSET)
    allow, refuse = (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERRNO | EPERM)
    if children is Children.NONE:
        return [refuse]
    if children is Children.THREADS:
        return [flags, (JUMP_ANY_BIT, 0, 1, CLONE_THREAD), allow, refuse]
    return [flags, (JUMP_ANY_BIT, 0, 1, CLONE_NEW_ANY), refuse, allow]


def _own_rule() -> list[Instruction]:
    """Restrict a call to this very process, by its number or by 0."""
    code: list[Instruction] = [(LOAD, 0, 0, ARGUMENTS_OFFSET)]
    code += [(JUMP_EQUAL, 2, 0, OWN_PROCESS), (JUMP_EQUAL, 1, 0, 0)]
    return [*code, (RETURN, 0, 0, ERRNO | EPERM), (RETURN, 0, 0, ALLOW)]


def _only_arguments(index: int, values: Iterable[int]) -> list[Instruction]:
    """Allow a call with one of these values as its argument number `index`, from 0, and no other."""
    return _by_argument(index, values, ALLOW, ERRNO | EPERM)


def _refused_arguments(index: int, values: Iterable[int]) -> list[Instruction]:
    """Refuse a call with one of these values as its argument number `index`, from 0."""
    return _by_argument(index, values, ERRNO | EPERM, ALLOW)


def _by_argument(index: int, values: Iterable[int], then: int, otherwise: int) -> list[Instruction]:
    rule: list[Instruction] = [(LOAD, 0, 0, ARGUMENTS_OFFSET + 8 * index)]
    for value in values:
        rule += [(JUMP_EQUAL, 0, 1, value), (RETURN, 0, 0, then)]
    return [*rule, (RETURN, 0, 0, otherwise)]
