import contextlib
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evokernel.errors import HarnessError, WorkerDied, WorkerTimeout
from evokernel.evaluate.arena import Arena
from evokernel.evaluate.baseline import BaselineProcess
from evokernel.evaluate.confined import run_confined  # noqa: F401  used by the script run as somebody else
from evokernel.evaluate.sandbox import Level, detect_sandbox
from evokernel.evaluate.session import LoadFailed, WorkerLimits, WorkerPool
from evokernel.evaluate.trampoline import build_trampoline
from evokernel.task import Role, Scalar, Signature, Tensor

N = 64
SETS = 4
SCALARS = {"N": N, "f": 2.5}
SIGNATURE = Signature(
    (Tensor("a", ("N",)), Tensor("s", ("N",), role=Role.INOUT)),
    (Scalar("N"), Scalar("f", "float32")),
    (Tensor("c", ("N",), role=Role.OUTPUT),),
)
HEAD = r"""
#include <cerrno>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#define RUN extern "C" void run(const float* a, float* s, int64_t n, float f, float* c)
"""
SCALE = "for (int64_t i = 0; i < n; i++) c[i] = a[i] * f + s[i];"
SOURCES = {
    "good": f"RUN {{ {SCALE} }}",
    "null": "RUN {}",
    "loop": "RUN { for (volatile int i = 0;; i = 1); }",
    "segfault": "RUN { *(volatile int*)8 = 1; }",
    "abort": 'RUN { fputs("out of luck\\n", stderr); abort(); }',
    "exit": "RUN { _exit(0); }",
    "throw": "RUN { throw 1; }",
    "longjmp": "static jmp_buf b; static int k; RUN { if (k++ == 0) { if (setjmp(b) == 0) return; } longjmp(b, 1); }",
    "daemons": "static int k; RUN { for (int i = 0; i < 3; i++) { pid_t p = fork(); if (p < 0) k++;"
    " if (p == 0) { setsid(); if (fork() == 0) for (;;) pause(); for (;;) pause(); } } c[0] = k; }",
    "daemons_and_loop": "RUN { for (int i = 0; i < 3; i++) if (fork() == 0) { setsid(); for (;;) pause(); }"
    " for (volatile int i = 0;; i = 1); }",
    "memory": "RUN { char* p = (char*)malloc(100ull << 30); c[0] = p != 0; }",
    "eat": "RUN { for (;;) { char* p = (char*)malloc(64 << 20); memset(p, 1, 64 << 20); } }",
    "write_input": "RUN { ((float*)a)[0] = 1; }",
    "make_input_writable": "RUN { c[0] = mprotect((void*)((uintptr_t)a & ~4095ull), 4096, PROT_READ | PROT_WRITE); }",
    "out_of_bounds": f"RUN {{ {SCALE} c[n] = 0; }}",
    "secret": 'RUN { c[0] = getenv("EVK_TEST_API_KEY") != 0; c[1] = environ[0] ? strncmp(environ[0], "PWD", 3) : 0; }',
    "socket": "RUN { for (int k = 0; k < 3; k++) c[k] = socket((int[]){1, 2, 10}[k], SOCK_STREAM, 0); c[3] = errno; }",
    "read_file": 'RUN { c[0] = open("/etc/hostname", O_RDONLY); c[1] = open("/etc/passwd", O_RDONLY);'
    ' c[2] = open("/evk-left", O_CREAT | O_RDWR, 0600); c[3] = open("/tmp/evk-left", O_CREAT | O_RDWR, 0600);'
    ' c[4] = open("/dev/shm/evk-left", O_CREAT | O_RDWR, 0600); c[5] = open("/proc/1/environ", O_RDONLY); }',
    "thread": "static void* t(void*) { for (;;) sleep(1); }"
    " RUN { pthread_t p; c[0] = pthread_create(&p, 0, t, 0) == 0; }",
    "privileges": "RUN { c[0] = setuid(0); c[1] = unshare(CLONE_NEWUSER); c[2] = kill(-1, 9);"
    ' c[3] = syscall(321, 0, 0, 0); c[4] = execl("/bin/true", "true", nullptr); cpu_set_t m; CPU_ZERO(&m); CPU_SET(0, &m);'
    ' c[5] = sched_setaffinity(0, sizeof m, &m); c[6] = memfd_create("x", 0); }',
    "constructor": "__attribute__((constructor)) static void hang() { for (volatile int i = 0;; i = 1); } RUN {}",
    "no_run": 'extern "C" void walk() {}',
    "unresolved": "extern void nowhere(); RUN { nowhere(); }",
    "early_done": 'RUN { send(3, "done", 4, 0); for (int64_t i = 0; i < n; i++) { usleep(20000); c[i] = 1; } }',
    "nonsense": 'RUN { send(3, "what?", 5, 0); }',
    "hang_up": "RUN { close(3); for (;;) pause(); }",
    "peek": "static volatile const float* in; static volatile float* out;"
    " static void ahead(int) { out[0] = in[0]; }"
    " RUN { if (!in) { in = a; out = c; signal(SIGALRM, ahead); ualarm(1000, 1000); } }",
    "chatter": 'RUN { for (int i = 0; i < 100000; i++) fputs("blah blah\\n", stderr); c[0] = 7; }',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("worker")


@pytest.fixture(scope="module")
def artifacts(folder):
    def build(item):
        name, text = item
        path = folder / f"{name}.so"
        command = ["g++", "-O1", "-shared", "-fPIC", "-w", "-x", "c++", "-", "-o", str(path)]
        subprocess.run(command, input=(HEAD + text).encode(), check=True)
        return name, path.read_bytes()

    with ThreadPoolExecutor(2) as builders:
        return dict(builders.map(build, SOURCES.items()))


@pytest.fixture(scope="module")
def trampoline(folder):
    return build_trampoline(SIGNATURE, folder)


@pytest.fixture(scope="module", params=list(Level))
def pool(request, trampoline):
    sandbox = detect_sandbox(request.param)
    if sandbox.level is not request.param:
        pytest.skip(f"this machine does not allow level {request.param}: {sandbox.describe()}")
    with WorkerPool(trampoline, sandbox=sandbox, limits=WorkerLimits(memory_bytes=512 << 20)) as pool:
        yield pool


@pytest.fixture(scope="module")
def full_pool(trampoline):
    with WorkerPool(trampoline, sandbox=detect_sandbox()) as pool:
        yield pool


@pytest.fixture
def arena():
    with Arena.for_signature(SIGNATURE, {"N": N}, sets=SETS) as arena:
        for index in range(SETS):
            arena.view(index, "a")[...] = index + 1
            arena.view(index, "s")[...] = 0.5
            arena.poison_outputs(index)
        yield arena


def load(pool, artifacts, name, arena, timeout_s=2.0):
    worker = pool.load(artifacts[name], timeout_s=timeout_s)
    worker.attach("w", arena, SCALARS)
    return worker


def run(pool, artifacts, name, arena, timeout_s=2.0):
    """One call on set 0; returns its output."""
    with load(pool, artifacts, name, arena) as worker:
        worker.call("w", first_set=0, calls=1, timeout_s=timeout_s)
    return arena.view(0, "c")


def assert_next_is_fine(pool, artifacts, arena):
    assert (run(pool, artifacts, "good", arena) == 3).all()


def test_a_good_candidate_computes_in_consecutive_sets_and_is_timed(pool, artifacts, arena):
    with load(pool, artifacts, "good", arena) as worker:
        elapsed_ns = worker.call("w", first_set=3, calls=2, timeout_s=2)
        assert 0 < elapsed_ns < 1e9
        assert (arena.view(3, "c") == 10.5).all()
        assert (arena.view(0, "c") == 3).all()
        assert arena.unwritten(1, "c") == N
        assert worker.threads() == 1
    assert arena.broken_guards() == ()


def test_one_worker_serves_several_arenas_and_many_batches(pool, artifacts, arena):
    with (
        Arena.for_signature(SIGNATURE, {"N": 5}, sets=1) as small,
        load(pool, artifacts, "good", arena) as worker,
    ):
        small.view(0, "a")[...] = 1
        worker.attach("small", small, {"N": 5, "f": 1.0})
        for _ in range(5):
            worker.prepare("small", first_set=0, calls=1, warm_set=0, timeout_s=1)
            worker.go(timeout_s=1)
            worker.prepare("w", first_set=0, calls=SETS, timeout_s=1)
            worker.go(timeout_s=1)
        assert (small.view(0, "c") == 1).all()
        assert (arena.view(2, "c") == 8).all()


def test_inputs_filled_between_prepare_and_go_are_the_ones_used(pool, artifacts, arena):
    with load(pool, artifacts, "good", arena) as worker:
        worker.prepare("w", first_set=1, calls=1, warm_set=1, timeout_s=1)
        assert (arena.view(1, "c") == 5.5).all()
        arena.view(1, "a")[...] = 40
        arena.poison_outputs(1)
        worker.go(timeout_s=1)
    assert (arena.view(1, "c") == 100.5).all()


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("segfault", signal.SIGSEGV),
        ("abort", signal.SIGABRT),
        ("throw", signal.SIGABRT),
        ("write_input", signal.SIGSEGV),
        ("eat", signal.SIGSEGV),
    ],
)
def test_a_crash_is_told_by_its_signal_and_harms_nobody(pool, artifacts, arena, name, number):
    with pytest.raises(WorkerDied) as caught:
        run(pool, artifacts, name, arena)
    assert caught.value.signal == number
    assert caught.value.exit_code is None
    assert_next_is_fine(pool, artifacts, arena)


def test_the_last_words_of_a_worker_are_told(pool, artifacts, arena):
    with pytest.raises(WorkerDied, match=r"SIGABRT.*out of luck"):
        run(pool, artifacts, "abort", arena)


def test_exiting_is_dying_even_with_code_0(pool, artifacts, arena):
    with pytest.raises(WorkerDied) as caught:
        run(pool, artifacts, "exit", arena)
    assert (caught.value.signal, caught.value.exit_code) == (None, 0)


def test_a_jump_into_an_earlier_call_wins_nothing(pool, artifacts, arena):
    with load(pool, artifacts, "longjmp", arena) as worker, contextlib.suppress(WorkerDied, WorkerTimeout):
        worker.call("w", first_set=0, calls=3, timeout_s=0.3)
    assert arena.unwritten(2, "c") == N
    assert_next_is_fine(pool, artifacts, arena)


def test_an_endless_loop_is_ended_in_time(pool, artifacts, arena):
    begin = time.monotonic()
    with pytest.raises(WorkerTimeout, match=r"0\.2 s"):
        run(pool, artifacts, "loop", arena, timeout_s=0.2)
    assert time.monotonic() - begin < 1.5
    assert_next_is_fine(pool, artifacts, arena)


def test_a_constructor_that_hangs_is_ended_in_time(pool, artifacts, arena):
    with pytest.raises(WorkerTimeout):
        pool.load(artifacts["constructor"], timeout_s=0.2)
    assert_next_is_fine(pool, artifacts, arena)


@pytest.mark.parametrize(("name", "message"), [("no_run", "run"), ("unresolved", "nowhere")])
def test_what_cannot_be_loaded_is_told_in_the_loaders_words(pool, artifacts, name, message):
    with pytest.raises(LoadFailed, match=message) as caught:
        pool.load(artifacts[name], timeout_s=2)
    assert "/proc" not in str(caught.value)
    with pytest.raises(LoadFailed):
        pool.load(b"this is no library", timeout_s=2)


def test_no_process_can_be_started(pool, artifacts, arena):
    if not pool.sandbox.seccomp:
        pytest.skip("no seccomp here")
    assert run(pool, artifacts, "daemons", arena)[0] == 3


def test_no_thread_can_be_started_in_a_single_threaded_worker(pool, artifacts, arena):
    if not pool.sandbox.seccomp:
        pytest.skip("no seccomp here")
    assert run(pool, artifacts, "thread", arena)[0] == 0


@pytest.mark.parametrize("level", list(Level))
def test_daemons_are_gone_even_where_nothing_forbids_them(trampoline, artifacts, arena, level):
    sandbox = replace(detect_sandbox(level), seccomp=False)
    before = _processes()
    with WorkerPool(trampoline, sandbox=sandbox, limits=WorkerLimits(threads=16)) as pool:
        with pytest.raises(WorkerTimeout):
            run(pool, artifacts, "daemons_and_loop", arena, timeout_s=0.2)
        assert run(pool, artifacts, "daemons", arena)[0] == 0
        assert_next_is_fine(pool, artifacts, arena)
        assert _soon(lambda: len(_descendants(pool)) <= 3), _descendants(pool)  # bubblewrap twice and the zygote
    assert _soon(lambda: _processes() <= before | {os.getpid()})


def _descendants(pool):
    root = pool._process.pid
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(path.parent.name)] = int(fields[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _processes():
    """Our own kind of processes, zombies aside: interpreters that run what is inside a sandbox."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if "inside.zygote" in path.read_text():
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found


def _soon(condition):
    for _ in range(150):
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_a_worker_with_threads_may_start_them_and_they_are_counted(trampoline, artifacts, arena):
    limits = WorkerLimits(threads=2)
    with (
        WorkerPool(trampoline, sandbox=detect_sandbox(), limits=limits) as pool,
        load(pool, artifacts, "thread", arena) as worker,
    ):
        worker.call("w", first_set=0, calls=1, timeout_s=1)
        assert arena.view(0, "c")[0] == 1
        assert worker.threads() == 2
        if pool.sandbox.as_root:
            worker.call("w", first_set=0, calls=1, timeout_s=1)
            assert arena.view(0, "c")[0] == 0  # a third is one too many


def test_a_hundred_gibibytes_are_refused(pool, artifacts, arena):
    assert run(pool, artifacts, "memory", arena)[0] == 0


def test_inputs_cannot_be_made_writable(pool, artifacts, arena):
    assert run(pool, artifacts, "make_input_writable", arena)[0] == -1
    assert (arena.view(0, "a") == 1).all()


def test_an_out_of_bounds_write_is_seen_by_the_guard_bars(pool, artifacts, arena):
    run(pool, artifacts, "out_of_bounds", arena)
    assert arena.broken_guards() == ("c",)


def test_no_secret_reaches_the_worker(trampoline, artifacts, arena, monkeypatch):
    monkeypatch.setenv("EVK_TEST_API_KEY", "top-secret")
    for level in Level:
        with WorkerPool(trampoline, sandbox=detect_sandbox(level)) as pool:
            assert run(pool, artifacts, "secret", arena)[0] == 0


def test_no_socket_opens(pool, artifacts, arena):
    if not pool.sandbox.seccomp:
        pytest.skip("without seccomp sockets are open, as the sandbox says")
    assert run(pool, artifacts, "socket", arena)[:3].tolist() == [-1, -1, -1]


def test_no_file_outside_opens(pool, artifacts, arena):
    result = run(pool, artifacts, "read_file", arena)[:6].tolist()
    Path("/tmp/evk-left").unlink(missing_ok=True)
    Path("/dev/shm/evk-left").unlink(missing_ok=True)
    if pool.sandbox.level is Level.RLIMITS:
        pytest.skip("resource limits alone do not guard files")
    assert result == [-1] * 6


def test_privileges_are_gone(pool, artifacts, arena):
    if not pool.sandbox.seccomp:
        pytest.skip("no seccomp here")
    assert run(pool, artifacts, "privileges", arena)[:7].tolist() == [-1] * 7


def test_a_lie_about_being_done_freezes_the_outputs_as_they_are(pool, artifacts, arena):
    with load(pool, artifacts, "early_done", arena) as worker:
        worker.call("w", first_set=0, calls=1, timeout_s=2)
        left = arena.unwritten(0, "c")
        time.sleep(0.1)
        assert arena.unwritten(0, "c") == left >= N - 1


def test_nothing_runs_ahead_between_prepare_and_go(pool, artifacts, arena):
    with load(pool, artifacts, "peek", arena) as worker:
        worker.prepare("w", first_set=0, calls=1, warm_set=0, timeout_s=1)
        arena.view(0, "a")[...] = 77
        arena.poison_outputs(0)
        time.sleep(0.05)
        assert arena.unwritten(0, "c") == N


def test_an_answer_out_of_turn_is_the_end(pool, artifacts, arena):
    with pytest.raises(WorkerDied, match="out of turn"):
        run(pool, artifacts, "nonsense", arena)


def test_hanging_up_is_dying(pool, artifacts, arena):
    with pytest.raises(WorkerDied, match="closed its channel"):
        run(pool, artifacts, "hang_up", arena)
    assert_next_is_fine(pool, artifacts, arena)


def test_a_talkative_kernel_loses_its_text_only(pool, artifacts, arena):
    with load(pool, artifacts, "chatter", arena) as worker:
        worker.call("w", first_set=0, calls=1, timeout_s=5)
        assert len(worker.stderr()) <= 2000
    assert arena.view(0, "c")[0] == 7


def test_an_arena_beyond_the_memory_limit_is_told(trampoline, artifacts):
    limits = WorkerLimits(memory_bytes=256 << 20)
    with (
        Arena.for_signature(SIGNATURE, {"N": 48 << 20}, sets=1) as big,
        WorkerPool(trampoline, sandbox=detect_sandbox(), limits=limits) as pool,
        pool.load(artifacts["good"], timeout_s=2) as worker,
        pytest.raises(WorkerDied, match="memory limit"),
    ):
        worker.attach("big", big, SCALARS)


def test_two_workers_live_side_by_side(pool, artifacts, arena):
    with load(pool, artifacts, "good", arena) as one, load(pool, artifacts, "null", arena) as two:
        for worker in (one, two, one):
            worker.call("w", first_set=0, calls=1, timeout_s=1)


def test_misuse_of_the_handshake_is_told(full_pool, artifacts, arena):
    worker = load(full_pool, artifacts, "good", arena)
    with pytest.raises(HarnessError, match="without prepare"):
        worker.go(timeout_s=1)
    worker.prepare("w", first_set=0, calls=1, timeout_s=1)
    with pytest.raises(HarnessError, match="between prepare and go"):
        worker.attach("again", arena, SCALARS)
    worker.close()
    worker.close()
    with pytest.raises(HarnessError, match="closed"):
        worker.prepare("w", first_set=0, calls=1, timeout_s=1)


def test_a_dead_zygote_is_replaced(trampoline, artifacts, arena):
    with WorkerPool(trampoline, sandbox=detect_sandbox()) as pool:
        assert_next_is_fine(pool, artifacts, arena)
        for pid in _descendants(pool):
            os.kill(pid, signal.SIGKILL)
        arena.poison_outputs(0)
        assert_next_is_fine(pool, artifacts, arena)


def test_the_pool_outlives_the_thread_that_started_it(trampoline, artifacts, arena):
    pool = WorkerPool(trampoline, sandbox=detect_sandbox())
    starter = threading.Thread(target=pool.__enter__)
    starter.start()
    starter.join()
    number = pool._process.pid
    with pool:
        assert_next_is_fine(pool, artifacts, arena)
        assert number


@pytest.mark.parametrize("level", list(Level))
def test_nothing_survives_a_killed_judge(trampoline, folder, artifacts, level):
    (folder / "loop.so").write_bytes(artifacts["loop"])
    text = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_worker import *
arena = Arena.for_signature(SIGNATURE, {{"N": N}}, sets=SETS)
pool = WorkerPool(build_trampoline(SIGNATURE, Path({str(folder)!r})), sandbox=detect_sandbox(Level("{level}")))
pool.__enter__()
workers = [load(pool, {{"loop": Path({str(folder)!r}, "loop.so").read_bytes()}}, "loop", arena) for _ in range(2)]
workers[0].prepare("w", first_set=0, calls=1, timeout_s=1)
print(*[worker._pid for worker in workers], pool._process.pid, flush=True)
workers[1].call("w", first_set=0, calls=1, timeout_s=60)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, env=environment) as judge:
        pids = judge.stdout.readline().split()
        assert len(pids) == 3
        judge.kill()
    assert _soon(lambda: not any(_alive(pid.decode()) for pid in pids))


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def test_descriptors_do_not_leak(full_pool, artifacts, arena):
    assert_next_is_fine(full_pool, artifacts, arena)
    before = len(os.listdir("/proc/self/fd"))
    for name in ("good", "segfault", "no_run"):
        with contextlib.suppress(WorkerDied, LoadFailed):
            run(full_pool, artifacts, name, arena)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_round_trip_takes_milliseconds(full_pool, artifacts, arena):
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        run(full_pool, artifacts, "good", arena)
        times.append(time.perf_counter() - begin)
    assert statistics.median(times) < 0.1


USER_SCRIPT = """
import os, sys
sys.path[:0] = {paths!r}
from test_worker import *
os.chdir("/")
for level in Level:
    sandbox = detect_sandbox(level)
    print(level, sandbox.level, sandbox.as_root, os.getuid())
    with WorkerPool(build_trampoline(SIGNATURE, Path({folder!r})), sandbox=sandbox) as pool:
        with Arena.for_signature(SIGNATURE, {{"N": N}}, sets=SETS) as arena:
            read = {{n: Path({folder!r}, n + ".so").read_bytes() for n in ("good", "loop", "read_file", "privileges")}}
            arena.view(0, "a")[...] = 1
            assert (run(pool, read, "good", arena) == 2.5).all()
            try:
                run(pool, read, "loop", arena, timeout_s=0.2)
                raise SystemExit("no time-out")
            except WorkerTimeout:
                pass
            assert run(pool, read, "privileges", arena)[:7].tolist() == [-1] * 7
            tool = run_confined(["sh", "-c", "cat /etc/passwd; id -u"], sandbox=sandbox)
            if level is not Level.RLIMITS:
                assert tool.stdout == "12345\\n", tool
                assert run(pool, read, "read_file", arena)[:6].tolist() == [-1] * 6
print("all well")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_an_ordinary_user_is_protected_at_all_levels(folder, trampoline, artifacts):
    bwrap = detect_sandbox().bwrap
    if bwrap is None:
        pytest.skip("needs bubblewrap, to open private folders of the interpreter to an ordinary user")
    home = Path(f"/tmp/evk-user-{os.getpid()}")
    home.mkdir(mode=0o755)
    for name in ("good", "loop", "read_file", "privileges"):
        (home / f"{name}.so").write_bytes(artifacts[name])
        (home / f"{name}.so").chmod(0o644)
    subprocess.run(["cp", trampoline.path, home], check=True)
    script = USER_SCRIPT.format(paths=[str(Path(__file__).parent), *filter(None, sys.path)], folder=str(home))
    interpreter = Path(sys._base_executable).resolve()
    opened = ["--dev-bind", "/", "/"]
    if interpreter.is_relative_to("/root"):
        opened += ["--tmpfs", "/root", "--chmod", "0755", "/root"]
        for parent in list(interpreter.parents)[-3:1:-1]:
            opened += ["--perms", "0755", "--dir", str(parent)]
        opened += ["--ro-bind", str(interpreter.parents[1]), str(interpreter.parents[1])]
    identity = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", "--inh-caps=-all"]
    command = [str(bwrap), *opened, "--cap-add", "ALL", *identity, str(interpreter), "-c", script]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    finally:
        subprocess.run(["rm", "-rf", home], check=True)
    assert "all well" in done.stdout, done.stdout + done.stderr
    assert "True" not in done.stdout


TASK = """
import torch
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

def reference(a, s, N, f):
    return s + 1, a * f + s

def fast(inputs, outputs):
    outputs[0].add_(1)
    torch.add(outputs[0] - 1, inputs["a"], alpha=inputs["f"], out=outputs[1])

def slow(inputs, outputs):
    while True:
        pass

w = (Workload("w", {"N": 64, "f": 2.5}),)
task = Task(
    name="scale",
    reference=reference,
    signature=Signature(
        (Tensor("a", ("N",), "bfloat16"), Tensor("s", ("N",), "bfloat16", role=Role.INOUT)),
        (Scalar("N"), Scalar("f", "float32")),
        (Tensor("c", ("N",), "bfloat16", role=Role.OUTPUT),),
    ),
    workloads={"cpu": WorkloadSet(w, w, {})},
    flops="N",
    baselines={"fast": fast, "slow": slow},
)
"""


def test_baselines_run_on_the_same_buffers_with_the_same_handshake(folder):
    pytest.importorskip("torch")
    path = folder / "scale.py"
    path.write_text(TASK)
    from evokernel.tasks import load_task

    one = 0x3F80  # 1.0 in bfloat16
    signature = load_task(str(path)).signature
    with Arena.for_signature(signature, {"N": N}, sets=2) as arena, BaselineProcess(str(path)) as baseline:
        baseline.attach("w", arena, SCALARS)
        for name in ("fast", "reference"):
            baseline.select(name)
            baseline.prepare("w", first_set=0, calls=2, warm_set=1, timeout_s=20)
            for index in range(2):
                arena.view(index, "a")[...] = one
                arena.view(index, "s")[...] = one
                arena.poison_outputs(index)
            assert baseline.go(timeout_s=20) > 0
            for index in range(2):
                assert (arena.view(index, "s") == 0x4000).all()
                assert (arena.view(index, "c") == 0x4060).all()  # 3.5
        assert baseline.threads() >= 1
        baseline.select("slow")
        with pytest.raises(WorkerTimeout):
            baseline.call("w", first_set=0, calls=1, timeout_s=0.2)
        assert arena.broken_guards() == ()


def test_a_baseline_that_cannot_start_is_our_own_fault(folder):
    with pytest.raises(HarnessError, match="nowhere"):
        BaselineProcess("nowhere/task.py")


def test_numpy_sees_what_the_kernel_saw(full_pool, artifacts, arena):
    generator = np.random.default_rng(3)
    arena.view(0, "a")[...] = generator.standard_normal(N)
    expected = arena.view(0, "a") * np.float32(2.5) + np.float32(0.5)
    np.testing.assert_allclose(run(full_pool, artifacts, "good", arena), expected, rtol=1e-6)
