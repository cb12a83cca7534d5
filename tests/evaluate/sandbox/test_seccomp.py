import platform
import re
import struct
from pathlib import Path

import pytest

from evokernel.errors import HarnessError
from evokernel.evaluate.inside.process.seal import OWN_PROCESS
from evokernel.evaluate.sandbox import seccomp
from evokernel.evaluate.sandbox.seccomp import Children

HEADERS = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), r"#define __NR_(\w+) (\d+)"),
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"), r"#define __NR(?:3264)?_(\w+) (\d+)"),
}
ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x50001, 0x50026
X86 = 0xC000003E
TIMER_CREATE = 222
OPEN, READ, PTRACE, CLONE, CLONE3, FORK, SOCKET, EXECVE, IOCTL, TGKILL, KILL_CALL, MEMFD_CREATE = (
    2, 0, 101, 56, 435, 57, 41, 59, 16, 234, 62, 319,
)  # fmt: skip
PRLIMIT, FCNTL, CHMOD, UTIMENSAT, SETXATTR, SECCOMP = 302, 72, 90, 280, 188, 317
MADVISE, PRCTL, SIGACTION, FALLOCATE, FTRUNCATE, REMAP, MBIND = 28, 157, 13, 285, 77, 216, 237
PTHREAD_FLAGS = 0x3D0F00
NEW_USER = 0x10000000


def run_filter(code: bytes, number: int, *arguments: int, architecture: int = X86) -> int:
    """A small BPF machine: what the kernel would answer."""
    words = [0] * 6
    words[: len(arguments)] = arguments
    data = struct.pack("<iIQ6Q", number, architecture, 0, *words)
    program = list(struct.iter_unpack("<HBBI", code))
    position, register = 0, 0
    while True:
        operation, when_true, when_false, value = program[position]
        position += 1
        if operation == 0x20:
            register = struct.unpack_from("<I", data, value)[0]
        elif operation == 0x06:
            return int(value)
        else:
            taken = {0x15: register == value, 0x35: register >= value, 0x45: bool(register & value)}[operation]
            position += when_true if taken else when_false


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_call_numbers_agree_with_the_kernels_headers(machine):
    path, pattern = HEADERS[machine]
    if not path.exists():
        pytest.skip(f"no kernel headers at {path}")
    known = {name: int(number) for name, number in re.findall(pattern, path.read_text())}
    column = seccomp.ARCHITECTURES[machine][0]
    tables = {**seccomp.DENIED, **seccomp.ATTRIBUTES, **seccomp.DENIED_TO_WORKERS, **seccomp.FORKS}
    tables |= {"tgkill": seccomp.TGKILL, "prlimit64": seccomp.PRLIMIT, "fcntl": seccomp.FCNTL}
    tables |= {"madvise": seccomp.MADVISE, "prctl": seccomp.PRCTL, "rt_sigaction": seccomp.SIGACTION}
    tables |= {"clone": seccomp.CLONE, "clone3": seccomp.CLONE3, "ioctl": seccomp.IOCTL}
    ours = {name: numbers[column] for name, numbers in tables.items() if name in known}
    assert len(ours) > 50
    assert ours == {name: known[name] for name in ours}


def test_a_single_threaded_worker_starts_nothing():
    code = seccomp.worker_filter(Children.NONE, machine="x86_64")
    assert run_filter(code, CLONE, PTHREAD_FLAGS) == EPERM
    assert run_filter(code, CLONE, 17) == EPERM
    assert run_filter(code, FORK) == EPERM
    assert run_filter(code, EXECVE) == EPERM
    assert run_filter(code, SOCKET, 1) == EPERM
    assert run_filter(code, KILL_CALL) == EPERM
    assert run_filter(code, CLONE3) == ENOSYS


def test_a_worker_with_threads_starts_threads_only():
    code = seccomp.worker_filter(Children.THREADS, machine="x86_64")
    assert run_filter(code, CLONE, PTHREAD_FLAGS) == ALLOW
    assert run_filter(code, CLONE, 17) == EPERM
    assert run_filter(code, FORK) == EPERM


@pytest.mark.parametrize("build", [seccomp.worker_filter, seccomp.program_filter])
def test_what_runs_a_candidates_code_reaches_no_process_but_itself_and_no_attribute_of_a_file(build):
    code = build(Children.NONE, machine="x86_64")
    for call in (TGKILL, PRLIMIT):
        assert [run_filter(code, call, process) for process in (OWN_PROCESS, 0, 1, 4242)] == [ALLOW] * 2 + [EPERM] * 2
    set_flags, set_owner, set_signal, set_owner_ex, set_lease, notify = 4, 8, 10, 15, 1024, 1026
    assert run_filter(code, FCNTL, 3, set_flags) == ALLOW
    foreign = (set_owner, set_signal, set_owner_ex, set_lease, notify)
    assert {run_filter(code, FCNTL, 3, command) for command in foreign} == {EPERM}
    assert {run_filter(code, call) for call in (CHMOD, UTIMENSAT, SETXATTR)} == {EPERM}


@pytest.mark.parametrize("build", [seccomp.worker_filter, seccomp.program_filter])
def test_what_runs_a_candidates_code_leaves_shared_pages_alone(build):
    code = build(Children.THREADS, machine="x86_64")
    normal, dont_need, remove, free, mergeable, huge, cold, pageout, populate, collapse, unknown = (
        0, 4, 9, 8, 12, 14, 20, 21, 23, 25, 4242,
    )  # fmt: skip
    own, foreign = (normal, dont_need, free, huge, populate), (remove, mergeable, cold, pageout, collapse, unknown)
    assert {run_filter(code, MADVISE, 1 << 40, 4096, advice) for advice in own} == {ALLOW}
    assert {run_filter(code, MADVISE, 1 << 40, 4096, advice) for advice in foreign} == {EPERM}
    assert {run_filter(code, call) for call in (FALLOCATE, FTRUNCATE, REMAP, MBIND)} == {EPERM}
    parents_death, dumpable, name, filtered, speculation, dispatch, core_cookie, merge = 1, 4, 15, 22, 53, 59, 62, 67
    refused = (parents_death, filtered, speculation, dispatch, core_cookie, merge)
    assert {run_filter(code, PRCTL, each) for each in (dumpable, name)} == {ALLOW}
    assert {run_filter(code, PRCTL, each) for each in refused} == {EPERM}
    assert run_filter(code, SECCOMP) == EPERM, "its filter would answer what our code asks Linux"


def test_a_worker_on_a_processor_handles_no_faults_and_a_sanitizers_runtime_does():
    segv, bus, abort = 11, 7, 6
    worker = seccomp.worker_filter(Children.NONE, machine="x86_64")
    assert [run_filter(worker, SIGACTION, each) for each in (segv, bus, abort)] == [EPERM, EPERM, ALLOW]
    for other in (
        seccomp.program_filter(Children.NONE, machine="x86_64"),
        seccomp.worker_filter(Children.THREADS, gpu=True, machine="x86_64"),
    ):
        assert run_filter(other, SIGACTION, segv) == ALLOW


def test_a_program_made_from_a_candidate_may_be_started_and_starts_nothing_else():
    code = seccomp.program_filter(Children.NONE, machine="x86_64")
    assert run_filter(code, EXECVE) == ALLOW
    assert {run_filter(code, call, 17) for call in (FORK, CLONE, KILL_CALL, MEMFD_CREATE)} == {EPERM}
    assert run_filter(code, SOCKET, 1) == EPERM
    assert run_filter(seccomp.program_filter(Children.THREADS, machine="x86_64"), CLONE, PTHREAD_FLAGS) == ALLOW


def test_a_worker_with_a_gpu_may_pass_memory_through_unix_sockets_and_nothing_more():
    code = seccomp.worker_filter(Children.THREADS, gpu=True, machine="x86_64")
    assert [run_filter(code, SOCKET, family) for family in (1, 2, 10, 16)] == [ALLOW] + [EPERM] * 3
    assert run_filter(code, MEMFD_CREATE) == ALLOW
    assert run_filter(code, CLONE, PTHREAD_FLAGS) == ALLOW
    assert {run_filter(code, number) for number in (FORK, EXECVE, KILL_CALL, PTRACE)} == {EPERM}
    assert {**seccomp.DENIED_TO_WORKERS, **seccomp.ATTRIBUTES}.keys() >= seccomp.LIFTED_FOR_GPU
    plain = seccomp.worker_filter(Children.THREADS, machine="x86_64")
    assert {run_filter(plain, number, 1) for number in (SOCKET, MEMFD_CREATE, TIMER_CREATE)} == {EPERM}
    assert run_filter(code, TIMER_CREATE) == ALLOW  # a driver may want one


def test_who_gets_signals_about_a_socket_is_not_changed():
    worker, tool = seccomp.worker_filter(Children.NONE, machine="x86_64"), seccomp.tool_filter(machine="x86_64")
    owners = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP
    assert {run_filter(worker, IOCTL, 3, command) for command in owners} == {EPERM}
    assert {run_filter(tool, IOCTL, 3, command) for command in owners} == {ALLOW}


def test_a_tool_starts_programs_but_no_namespaces_and_speaks_no_network():
    code = seccomp.tool_filter(machine="x86_64")
    assert run_filter(code, CLONE, 17) == ALLOW
    assert run_filter(code, FORK) == ALLOW
    assert run_filter(code, EXECVE) == ALLOW
    assert run_filter(code, CLONE, 17 | NEW_USER) == EPERM
    assert [run_filter(code, SOCKET, family) for family in (1, 2, 10, 16, 40)] == [ALLOW] + [EPERM] * 4


def test_a_tool_that_watches_what_it_starts_may_look_into_it_and_talk_to_it():
    code = seccomp.tool_filter(watches=True, machine="x86_64")
    assert run_filter(code, PTRACE) == ALLOW
    assert {run_filter(code, SOCKET, family) for family in (1, 2, 10)} == {ALLOW}
    assert run_filter(code, CLONE, 17 | NEW_USER) == EPERM
    assert {run_filter(code, seccomp.DENIED[name][0] or READ) for name in ("mount", "setns", "bpf")} == {EPERM}


def test_all_filters_refuse_ptrace_and_typing_into_the_terminal_and_allow_plain_work():
    for code in (seccomp.worker_filter(Children.NONE, machine="x86_64"), seccomp.tool_filter(machine="x86_64")):
        assert run_filter(code, PTRACE) == EPERM
        assert run_filter(code, IOCTL, 0, 0x5412) == EPERM
        assert {run_filter(code, number, OWN_PROCESS) for number in (OPEN, READ, TGKILL)} == {ALLOW}
        assert run_filter(code, IOCTL, 0, 0x5401) == ALLOW


def test_foreign_architectures_and_the_x32_twins_are_killed():
    code = seccomp.tool_filter(machine="x86_64")
    assert run_filter(code, READ, architecture=0x40000003) == KILL
    assert run_filter(code, 0x40000000 | PTRACE) == KILL


def test_an_unknown_architecture_is_named():
    assert not seccomp.supported("riscv64")
    with pytest.raises(HarnessError, match="riscv64"):
        seccomp.tool_filter(machine="riscv64")


@pytest.mark.skipif(platform.machine() not in seccomp.ARCHITECTURES, reason="no call table for this machine")
def test_jumps_fit_their_bytes_here():
    assert len(seccomp.worker_filter(Children.NONE)) % 8 == 0
