import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from evokernel.errors import HarnessError, WorkerDied, WorkerTimeout
from evokernel.evaluate.memory.arena import EndFencedArena, FencedArena, HostArena
from evokernel.evaluate.sandbox.levels import SandboxLevel, detect_sandbox
from evokernel.evaluate.sandbox.limits import WorkerLimits
from evokernel.evaluate.worker_mode.cpu_pool import LoadFailed, WorkerPool
from evokernel.evaluate.worker_mode.trampoline import build_trampoline
from tests.evaluate.kernels import SCALARS, SETS, SIGNATURE, N, build_all, load, poison, run, unwritten
from tests.evaluate.ordinary_user import run_as_user
from tests.support.processes import descendants


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("worker")


@pytest.fixture(scope="module")
def artifacts(folder):
    return build_all(folder)


@pytest.fixture(scope="module")
def trampoline(folder):
    return build_trampoline(SIGNATURE, folder)


@pytest.fixture(scope="module", params=list(SandboxLevel))
def pool(request, trampoline):
    sandbox = detect_sandbox(request.param)
    if sandbox.level is not request.param:
        pytest.skip(f"this machine does not allow level {request.param}: {sandbox.describe()}")
    with WorkerPool(trampoline, sandbox=sandbox, limits=WorkerLimits(memory_bytes=256 << 20)) as pool:
        yield pool


@pytest.fixture(scope="module")
def full_pool(trampoline):
    with WorkerPool(trampoline, sandbox=detect_sandbox()) as pool:
        yield pool


@pytest.fixture
def arena():
    with HostArena.for_signature(SIGNATURE, {"N": N}, sets=SETS) as arena:
        for index in range(SETS):
            arena.view(index, "a")[...] = index + 1
            arena.view(index, "s")[...] = 0.5
            poison(arena, index)
        yield arena


def assert_next_is_fine(pool, artifacts, arena):
    assert (run(pool, artifacts, "good", arena) == 3).all()


def test_a_good_candidate_computes_in_consecutive_sets_and_is_timed(pool, artifacts, arena):
    with load(pool, artifacts, "good", arena) as worker:
        elapsed_ns = worker.call("w", first_set=3, calls=2, timeout_s=60)
        assert elapsed_ns > 0
        assert (arena.view(3, "c") == 10.5).all()
        assert (arena.view(0, "c") == 3).all()
        assert unwritten(arena, 1, "c") == N
        assert worker.threads() == 1
    assert arena.broken_guards() == ()


def test_one_worker_serves_several_arenas_and_many_batches(pool, artifacts, arena):
    with (
        HostArena.for_signature(SIGNATURE, {"N": 5}, sets=1) as small,
        load(pool, artifacts, "good", arena) as worker,
    ):
        small.view(0, "a")[...] = 1
        worker.attach("small", small, {"N": 5, "f": 1.0})
        for _ in range(5):
            worker.prepare("small", first_set=0, calls=1, warm_set=0, timeout_s=60)
            worker.go(timeout_s=60)
            worker.prepare("w", first_set=0, calls=SETS, timeout_s=60)
            worker.go(timeout_s=60)
        assert (small.view(0, "c") == 1).all()
        assert (arena.view(2, "c") == 8).all()


@pytest.mark.parametrize("reached", ["reads_before", "reads_behind", "reads_behind_with_a_handler"])
def test_a_worker_that_leaves_its_buffers_meets_a_page_without_access(pool, artifacts, reached):
    for kind in (FencedArena, EndFencedArena):
        with kind.for_signature(SIGNATURE, {"N": N}, sets=2) as fenced:
            fenced.view(1, "a")[...] = 2
            fenced.view(1, "s")[...] = 0.5
            with load(pool, artifacts, "good", fenced) as worker:
                worker.attach("w", fenced, SCALARS)  # in place of itself
                worker.call("w", first_set=1, calls=1, timeout_s=60)
            assert (fenced.view(1, "c") == 5.5).all()
            with load(pool, artifacts, reached, fenced) as worker:
                if (kind is FencedArena) == (reached == "reads_before"):
                    with pytest.raises(WorkerDied) as caught:
                        worker.call("w", first_set=1, calls=1, timeout_s=60)
                    assert caught.value.signal == signal.SIGSEGV
                else:
                    worker.call("w", first_set=1, calls=1, timeout_s=60)


@pytest.mark.skipif(tuple(map(int, os.uname().release.split(".")[:2])) < (6, 10), reason="needs mseal of Linux 6.10")
def test_a_worker_cannot_open_its_fences(pool, artifacts):
    with (
        EndFencedArena.for_signature(SIGNATURE, {"N": N}, sets=1) as fenced,
        load(pool, artifacts, "opens_what_is_behind", fenced) as worker,
    ):
        worker.attach("w", fenced, SCALARS)  # in place of itself: the fences of the first one stay
        worker.call("w", first_set=0, calls=1, timeout_s=60)
        assert fenced.view(0, "c")[:3].tolist() == [-1, -1, -1]


def test_page_faults_of_a_batch_are_counted(pool, artifacts, arena):
    with load(pool, artifacts, "touches_pages", arena) as worker:
        worker.call("w", first_set=0, calls=2, timeout_s=60)
        assert 200 <= worker.faults < 400
    with load(pool, artifacts, "good", arena) as worker:
        for _ in range(2):
            worker.call("w", first_set=0, calls=2, timeout_s=60)
        assert worker.faults < 20


def test_a_worker_is_not_charged_for_others_on_its_core(arena, artifacts, trampoline):
    core = (min(os.sched_getaffinity(0)),)
    limits = WorkerLimits(cpus=core)
    others = [
        subprocess.Popen(
            [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {core}); print(flush=True)\nwhile True: pass"],
            stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    try:
        for other in others:
            assert other.stdout.read(1) == b"\n"
        with (
            WorkerPool(trampoline, sandbox=detect_sandbox(), limits=limits) as pool,
            load(pool, artifacts, "busy", arena) as worker,
        ):
            began = time.monotonic_ns()
            spent_ns = worker.call("w", first_set=0, calls=2, timeout_s=60)
            elapsed_ns = time.monotonic_ns() - began
    finally:
        for other in others:
            other.kill()
            other.communicate()
    assert 0 < spent_ns < 0.7 * elapsed_ns


def test_sleeping_counts(pool, artifacts, arena):
    with load(pool, artifacts, "sleepy", arena) as worker:
        assert worker.call("w", first_set=0, calls=1, timeout_s=60) > 20e6


def test_inputs_filled_between_prepare_and_go_are_the_ones_used(pool, artifacts, arena):
    with load(pool, artifacts, "good", arena) as worker:
        worker.prepare("w", first_set=1, calls=1, warm_set=1, timeout_s=60)
        assert (arena.view(1, "c") == 5.5).all()
        arena.view(1, "a")[...] = 40
        poison(arena, 1)
        worker.go(timeout_s=60)
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
    assert unwritten(arena, 2, "c") == N
    assert_next_is_fine(pool, artifacts, arena)


def test_an_endless_loop_is_ended_in_time(pool, artifacts, arena):
    with pytest.raises(WorkerTimeout, match=r"0\.2 s"):
        run(pool, artifacts, "loop", arena, timeout_s=0.2)
    assert_next_is_fine(pool, artifacts, arena)


def test_a_constructor_that_hangs_is_ended_in_time(pool, artifacts, arena):
    with pytest.raises(WorkerTimeout):
        pool.load(artifacts["constructor"], timeout_s=0.2)
    assert_next_is_fine(pool, artifacts, arena)


@pytest.mark.parametrize(("name", "message"), [("no_run", "run"), ("unresolved", "nowhere")])
def test_what_cannot_be_loaded_is_told_in_the_loaders_words(pool, artifacts, name, message):
    with pytest.raises(LoadFailed, match=message) as caught:
        pool.load(artifacts[name], timeout_s=60)
    assert "/proc" not in str(caught.value)
    with pytest.raises(LoadFailed):
        pool.load(b"this is no library", timeout_s=60)


def test_no_process_can_be_started(pool, artifacts, arena):
    if not pool.sandbox.seccomp:
        pytest.skip("no seccomp here")
    assert run(pool, artifacts, "daemons", arena)[0] == 3


def test_no_thread_can_be_started_in_a_single_threaded_worker(pool, artifacts, arena):
    if not pool.sandbox.seccomp:
        pytest.skip("no seccomp here")
    assert run(pool, artifacts, "thread", arena)[0] == 0


@pytest.mark.parametrize("level", list(SandboxLevel))
def test_daemons_are_gone_even_where_nothing_forbids_them(trampoline, artifacts, arena, level):
    sandbox = replace(detect_sandbox(level), seccomp=False)
    with WorkerPool(trampoline, sandbox=sandbox, limits=WorkerLimits(threads=16)) as pool:
        with pytest.raises(WorkerTimeout):
            run(pool, artifacts, "daemons_and_loop", arena, timeout_s=0.2)
        assert run(pool, artifacts, "daemons", arena)[0] == 0
        assert_next_is_fine(pool, artifacts, arena)
        assert _soon(lambda: len(_descendants(pool)) <= 3), _descendants(pool)  # bubblewrap twice and the zygote
        last = _descendants(pool)
    assert _soon(lambda: not any(map(_alive, last)))


def _descendants(pool):
    return descendants(pool.host.pid) | {pool.host.pid}


def _soon(condition):
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_a_worker_with_threads_may_start_them_and_they_are_counted(trampoline, artifacts, arena):
    limits = WorkerLimits(threads=2)
    with (
        WorkerPool(trampoline, sandbox=detect_sandbox(), limits=limits) as pool,
        load(pool, artifacts, "thread", arena) as worker,
    ):
        worker.call("w", first_set=0, calls=1, timeout_s=60)
        assert arena.view(0, "c")[0] == 1
        assert worker.threads() == 2
        if pool.sandbox.as_root:
            worker.call("w", first_set=0, calls=1, timeout_s=60)
            assert arena.view(0, "c")[0] == 0  # a third is one too many


@pytest.mark.parametrize("late", [True, False])
def test_a_thread_that_writes_outputs_when_run_has_returned_ends_the_worker(trampoline, artifacts, arena, late):
    limits, died = WorkerLimits(threads=2), False
    with (
        WorkerPool(trampoline, sandbox=detect_sandbox(), limits=limits) as pool,
        load(pool, artifacts, "late" if late else "busy_helper", arena) as worker,
    ):
        for number in range(30):
            index = number % SETS
            try:
                worker.prepare("w", first_set=index, calls=1, warm_set=0, timeout_s=60, shut=True)
                time.sleep(0.002)
                worker.go(timeout_s=60)
            except WorkerDied as error:
                died = error.signal == signal.SIGSEGV
                break
            assert (arena.view(index, "c") == 2.5 * (index + 1) + 0.5).all()
        if not late:  # outputs can be written again, and in other batches they never were shut
            worker.call("w", first_set=0, calls=SETS, timeout_s=60)
    assert died == late


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
    for level in SandboxLevel:
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
    if pool.sandbox.level is SandboxLevel.RLIMITS:
        pytest.skip("resource limits alone do not guard files")
    assert result == [-1] * 6


def test_privileges_are_gone(pool, artifacts, arena):
    if not pool.sandbox.seccomp:
        pytest.skip("no seccomp here")
    assert run(pool, artifacts, "privileges", arena)[:7].tolist() == [-1] * 7


def test_a_lie_about_being_done_freezes_the_outputs_as_they_are(pool, artifacts, arena):
    with load(pool, artifacts, "early_done", arena) as worker:
        worker.call("w", first_set=0, calls=1, timeout_s=60)
        left = unwritten(arena, 0, "c")
        time.sleep(0.1)
        assert unwritten(arena, 0, "c") == left >= N - 1


def test_nothing_runs_ahead_between_prepare_and_go(pool, artifacts, arena):
    with load(pool, artifacts, "peek", arena) as worker:
        worker.prepare("w", first_set=0, calls=1, warm_set=0, timeout_s=60)
        arena.view(0, "a")[...] = 77
        poison(arena, 0)
        time.sleep(0.05)
        assert unwritten(arena, 0, "c") == N


@pytest.mark.parametrize("name", ["nonsense", "nested"])
def test_an_answer_out_of_turn_is_the_end(pool, artifacts, arena, name):
    with pytest.raises(WorkerDied, match="out of turn"):
        run(pool, artifacts, name, arena)


def test_hanging_up_is_dying(pool, artifacts, arena):
    with pytest.raises(WorkerDied, match="closed its channel"):
        run(pool, artifacts, "hang_up", arena)
    assert_next_is_fine(pool, artifacts, arena)


def test_a_talkative_kernel_loses_its_text_only(pool, artifacts, arena):
    with load(pool, artifacts, "chatter", arena) as worker:
        worker.call("w", first_set=0, calls=1, timeout_s=60)
        assert len(worker.stderr()) <= 2000
    assert arena.view(0, "c")[0] == 7


def test_an_arena_beyond_the_memory_limit_is_told(trampoline, artifacts):
    limits = WorkerLimits(memory_bytes=256 << 20)
    with (
        HostArena.for_signature(SIGNATURE, {"N": 48 << 20}, sets=1) as big,
        WorkerPool(trampoline, sandbox=detect_sandbox(), limits=limits) as pool,
        pool.load(artifacts["good"], timeout_s=60) as worker,
        pytest.raises(WorkerDied, match="memory limit"),
    ):
        worker.attach("big", big, SCALARS)


def test_two_workers_live_side_by_side(pool, artifacts, arena):
    with load(pool, artifacts, "good", arena) as one, load(pool, artifacts, "null", arena) as two:
        for worker in (one, two, one):
            worker.call("w", first_set=0, calls=1, timeout_s=60)


def test_what_was_prepared_can_be_given_up(pool, artifacts, arena):
    with load(pool, artifacts, "good", arena) as worker:
        worker.abandon()
        worker.prepare("w", first_set=0, calls=1, timeout_s=60)
        poison(arena, 0)
        worker.abandon()
        worker.call("w", first_set=1, calls=1, timeout_s=60)
        assert unwritten(arena, 0, "c") == N
        assert unwritten(arena, 1, "c") == 0
    worker.abandon()


def test_misuse_of_the_handshake_is_told(full_pool, artifacts, arena):
    worker = load(full_pool, artifacts, "good", arena)
    with pytest.raises(HarnessError, match="without prepare"):
        worker.go(timeout_s=60)
    worker.prepare("w", first_set=0, calls=1, timeout_s=60)
    with pytest.raises(HarnessError, match="between prepare and go"):
        worker.attach("again", arena, SCALARS)
    worker.close()
    worker.close()
    with pytest.raises(HarnessError, match="closed"):
        worker.prepare("w", first_set=0, calls=1, timeout_s=60)


def test_a_dead_zygote_is_replaced(trampoline, artifacts, arena):
    with WorkerPool(trampoline, sandbox=detect_sandbox()) as pool:
        assert_next_is_fine(pool, artifacts, arena)
        for pid in _descendants(pool):
            with contextlib.suppress(ProcessLookupError):  # it may have gone with its parent
                os.kill(pid, signal.SIGKILL)
        poison(arena, 0)
        assert_next_is_fine(pool, artifacts, arena)


def test_the_pool_outlives_the_thread_that_started_it(trampoline, artifacts, arena):
    pool = WorkerPool(trampoline, sandbox=detect_sandbox())
    starter = threading.Thread(target=pool.__enter__)
    starter.start()
    starter.join()
    number = pool.host.pid
    with pool:
        assert_next_is_fine(pool, artifacts, arena)
        assert number


@pytest.mark.parametrize("level", list(SandboxLevel))
def test_nothing_survives_a_killed_judge(trampoline, folder, artifacts, level):
    (folder / "loop.so").write_bytes(artifacts["loop"])
    text = f"""
import sys
from pathlib import Path
from tests.evaluate.kernels import *
from evokernel.evaluate.memory.arena import EndFencedArena, FencedArena, HostArena
from evokernel.evaluate.sandbox.levels import SandboxLevel, detect_sandbox
from evokernel.evaluate.worker_mode.cpu_pool import WorkerPool
from evokernel.evaluate.worker_mode.trampoline import build_trampoline
arena = HostArena.for_signature(SIGNATURE, {{"N": N}}, sets=SETS)
pool = WorkerPool(build_trampoline(SIGNATURE, Path({str(folder)!r})), sandbox=detect_sandbox(SandboxLevel("{level}")))
pool.__enter__()
workers = [load(pool, {{"loop": Path({str(folder)!r}, "loop.so").read_bytes()}}, "loop", arena) for _ in range(2)]
workers[0].prepare("w", first_set=0, calls=1, timeout_s=60)
print(*[worker._pid for worker in workers], pool.host.pid, flush=True)
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


def test_candidates_share_a_zygote_so_that_none_waits_for_an_interpreter(full_pool, artifacts, arena):
    assert_next_is_fine(full_pool, artifacts, arena)
    before, number = _descendants(full_pool), full_pool.host.pid
    for _ in range(5):
        assert_next_is_fine(full_pool, artifacts, arena)
    assert full_pool.host.pid == number
    assert _soon(lambda: _descendants(full_pool) <= before)


USER_SCRIPT = """
import os
from pathlib import Path
from tests.evaluate.kernels import *
from evokernel.errors import WorkerTimeout
from evokernel.evaluate.memory.arena import EndFencedArena, FencedArena, HostArena
from evokernel.evaluate.sandbox.run_once import run_confined
from evokernel.evaluate.sandbox.levels import SandboxLevel, detect_sandbox
from evokernel.evaluate.worker_mode.cpu_pool import WorkerPool
from evokernel.evaluate.worker_mode.trampoline import build_trampoline
for level in SandboxLevel:
    sandbox = detect_sandbox(level)
    print(level, sandbox.level, sandbox.as_root, os.getuid())
    with WorkerPool(build_trampoline(SIGNATURE, Path({folder!r})), sandbox=sandbox) as pool:
        with HostArena.for_signature(SIGNATURE, {{"N": N}}, sets=SETS) as arena:
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
            if level is not SandboxLevel.RLIMITS:
                assert tool.stdout == "12345\\n", tool
                assert run(pool, read, "read_file", arena)[:6].tolist() == [-1] * 6
print("all well")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_an_ordinary_user_is_protected_at_all_levels(folder, trampoline, artifacts):
    home = Path(f"/tmp/evk-user-{os.getpid()}")
    home.mkdir(mode=0o755)
    for name in ("good", "loop", "read_file", "privileges"):
        (home / f"{name}.so").write_bytes(artifacts[name])
        (home / f"{name}.so").chmod(0o644)
    subprocess.run(["cp", trampoline.path, home], check=True)
    try:
        done = run_as_user(USER_SCRIPT.format(folder=str(home)), timeout_s=300)
    finally:
        subprocess.run(["rm", "-rf", home], check=True)
    assert "all well" in done.stdout, done.stdout + done.stderr
    assert "True" not in done.stdout


def test_the_judge_sees_what_the_kernel_saw(full_pool, artifacts, arena):
    arena.view(0, "a").copy_(torch.randn(N, generator=torch.Generator().manual_seed(3)))
    expected = arena.view(0, "a") * 2.5 + 0.5
    torch.testing.assert_close(run(full_pool, artifacts, "good", arena), expected)
