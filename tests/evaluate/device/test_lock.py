"""Real processes that share a lock, end in all ways, and take turns."""

import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from evokernel.errors import HarnessError
from evokernel.evaluate.device.lock import device_lease, quiet_cores, timed_cores

GPU = "GPU-11111111-2222-3333-4444-555555555555"
HOLD = """
import sys
from pathlib import Path
from evokernel.evaluate.device.lock import device_lease
with device_lease(sys.argv[1], 600.0, folder=Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.readline()
"""
TURNS = """
import sys, time
from pathlib import Path
from evokernel.evaluate.device.lock import device_lease
log = Path(sys.argv[2], "log").open("a", buffering=1)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(20):
    with device_lease(sys.argv[1], 600.0, folder=Path(sys.argv[2])):
        log.write(sys.argv[3] + "\\n")
        time.sleep(0.02)
        log.write(sys.argv[3] + "\\n")
"""


@contextmanager
def program(text: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program that has said a line and waits for one."""
    argv = [sys.executable, "-c", text, *arguments]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_one_holds_it_and_the_others_are_told_who(tmp_path: Path):
    with program(HOLD, GPU, str(tmp_path)) as holder:
        said = f"{GPU} has been in use by process {holder.pid} for more than 0.05 s"
        with pytest.raises(HarnessError, match=said), device_lease(GPU, 0.05, folder=tmp_path):
            pass
        with device_lease("GPU-another", 0.05, folder=tmp_path):
            pass
        holder.communicate("\n")
        with device_lease(GPU, 0.05, folder=tmp_path):
            pass


def test_it_ends_with_its_process_however_that_ends(tmp_path: Path):
    with program(HOLD, GPU, str(tmp_path)) as holder:
        holder.send_signal(signal.SIGKILL)
        with device_lease(GPU, 600.0, folder=tmp_path):
            pass


def test_what_the_holder_starts_does_not_hold_it(tmp_path: Path):
    with device_lease(GPU, 1.0, folder=tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with child, device_lease(GPU, 0.05, folder=tmp_path):
        child.communicate(b"\n")


def test_two_take_turns_and_are_never_in_it_together(tmp_path: Path):
    with program(TURNS, GPU, str(tmp_path), "a") as one, program(TURNS, GPU, str(tmp_path), "b") as other:
        for process in (one, other):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        assert (one.wait(600), other.wait(600)) == (0, 0)
    marks = (tmp_path / "log").read_text().split()
    entered, left = marks[::2], marks[1::2]
    assert entered == left
    both = entered[: max(i for i, mark in enumerate(entered) if mark != entered[-1])]
    assert sum(one == other for one, other in pairwise(both)) <= 10  # of about 38 changes


def test_everybody_may_take_part_and_nobody_may_remove(tmp_path: Path):
    folder = tmp_path / "leases"
    with device_lease(GPU, 1.0, folder=folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o666}
        assert len(list(folder.iterdir())) == 2


def test_a_link_in_the_way_is_not_followed(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "leases").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HarnessError, match="it is no folder"), device_lease(GPU, 1.0, folder=tmp_path / "leases"):
        pass
    assert not list((tmp_path / "elsewhere").iterdir())


HOLD_CORES = """
import sys
from pathlib import Path
from evokernel.evaluate.device.lock import timed_cores
with timed_cores(eval(sys.argv[1]), int(sys.argv[2]), folder=Path(sys.argv[3]), system=Path(sys.argv[3])) as cores:
    print(*cores, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("cores", [(0,), (0, 1), (3, 4, 6, 7)])
def test_one_search_alone_times_on_the_last_cores(
    tmp_path: Path, cores: tuple[int, ...], threads: int, caplog: pytest.LogCaptureFixture
):
    with timed_cores(cores, threads, folder=tmp_path, system=tmp_path) as order:
        assert order == cores
    with timed_cores(cores, threads, folder=tmp_path, system=tmp_path) as order:
        assert order == cores
    assert not caplog.records


def test_another_search_times_on_other_cores_for_as_long_as_the_first_lives(tmp_path: Path):
    with program(HOLD_CORES, "(2, 5, 7)", "1", str(tmp_path)) as holder:
        with timed_cores((2, 5, 7), 1, folder=tmp_path, system=tmp_path) as order:
            assert order == (2, 7, 5)
            with timed_cores((2, 5, 7), 1, folder=tmp_path, system=tmp_path) as third:
                assert third == (5, 7, 2)
        with timed_cores((2, 3, 5, 7), 2, folder=tmp_path, system=tmp_path) as order:
            assert order == (2, 7, 3, 5)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with timed_cores((2, 5, 7), 1, folder=tmp_path, system=tmp_path) as order:
            assert order == (2, 5, 7)


def test_where_too_few_cores_are_left_nothing_changes_and_it_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with program(HOLD_CORES, "(0, 1, 2, 3)", "2", str(tmp_path)):
        with timed_cores((1, 2, 3), 2, folder=tmp_path, system=tmp_path) as order:
            assert order == (1, 2, 3)
        assert [record.getMessage().split(":")[0] for record in caplog.records] == [
            "other searches time their kernels on the cores of this one"
        ]
        with timed_cores(
            (1, 2, 3), 1, folder=tmp_path, system=tmp_path
        ) as order:  # that it could not use it does not keep
            assert order == (2, 3, 1)


def test_compilers_keep_off_the_cores_that_others_time_on_where_half_are_left(tmp_path: Path):
    with program(HOLD_CORES, "(0, 1, 2, 3)", "1", str(tmp_path)):
        assert quiet_cores((0, 1, 2, 3), (2,), folder=tmp_path) == [0, 1, 2]
        assert quiet_cores((2, 3), (2,), folder=tmp_path) == [2]
        assert quiet_cores((3,), (), folder=tmp_path) == (3,)
        with timed_cores((0, 1, 2, 3), 2, folder=tmp_path, system=tmp_path) as order:
            assert order == (0, 3, 1, 2)
            assert quiet_cores(order, order[-2:], folder=tmp_path) == [0, 1, 2]
            assert quiet_cores(order, (), folder=tmp_path) == order  # one of four
    assert quiet_cores((0, 1, 2, 3), (), folder=tmp_path) == [0, 1, 2, 3]
    assert quiet_cores((0, 1), (), folder=tmp_path / "nowhere") == [0, 1]


@pytest.mark.parametrize(("cores", "warnings"), [((0, 1), 1), ((0, 1, 2), 0)])
def test_a_search_whose_judge_has_no_core_of_its_own_says_so(
    tmp_path: Path, cores: tuple[int, ...], warnings: int, caplog: pytest.LogCaptureFixture
):
    with timed_cores(cores, 1, folder=tmp_path, system=tmp_path):
        assert not caplog.records
        with timed_cores(cores, 1, folder=tmp_path, system=tmp_path) as order:
            assert order[-1] == cores[-2]
    assert len(caplog.records) == warnings


def test_siblings_of_a_taken_core_come_last_and_slow_cores_never(tmp_path: Path):
    for core in range(6):
        about = tmp_path / f"cpu{core}"
        (about / "topology").mkdir(parents=True)
        (about / "topology" / "thread_siblings_list").write_text(f"{core // 2 * 2}-{core // 2 * 2 + 1}\n")
        (about / "cpu_capacity").write_text("400\n" if core < 2 else "1024\n")
    cores = tuple(range(6))
    with program(HOLD_CORES, str(cores), "1", str(tmp_path)):
        with timed_cores(cores, 1, folder=tmp_path, system=tmp_path) as order:
            assert order == (0, 1, 2, 4, 5, 3)
            with timed_cores(cores, 1, folder=tmp_path, system=tmp_path) as third:
                assert third[-1] in (2, 4)
        with timed_cores((0, 1, 5), 1, folder=tmp_path, system=tmp_path) as order:
            assert order == (0, 1, 5)


def test_without_a_folder_for_locks_a_search_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "leases").write_text("")
    with timed_cores((0, 1), 1, folder=tmp_path / "leases", system=tmp_path) as order:
        assert order == (0, 1)
    assert len(caplog.records) == 1
    assert "searches at the same time may time kernels on one core" in caplog.text
