"""Who runs on which core: a table over the device class and how many cores there are."""

import os
import subprocess
import sys
import time
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.evaluate.device.cores import Cores, busy_machine, busy_s, share_out, too_many_threads


@pytest.mark.parametrize(
    ("count", "threads", "expected"),
    [
        (1, 1, Cores(judge=(0,), runners=(0,), engine=(0,), compilers=(0,))),
        (2, 1, Cores(judge=(0,), runners=(1,), engine=(0,), compilers=(0, 1))),
        (2, 2, Cores(judge=(0, 1), runners=(0, 1), engine=(0, 1), compilers=(0, 1))),
        (4, 1, Cores(judge=(0, 1, 2), runners=(3,), engine=(0, 1, 2), compilers=(0, 1, 2, 3))),
        (4, 3, Cores(judge=(0,), runners=(1, 2, 3), engine=(0,), compilers=(0, 1, 2, 3))),
    ],
)
def test_on_a_processor_the_last_cores_are_timed_on(count: int, threads: int, expected: Cores):
    assert share_out(range(count), device="cpu", threads=threads) == (expected,)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_with_a_gpu_and_few_cores_nobody_is_pinned(count: int):
    every = tuple(range(count))
    assert share_out(every, device="cuda", threads=1) == (Cores(every, every, every, every),)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (4, Cores(judge=(3,), runners=(1, 2), engine=(0,), compilers=(0,))),
        (6, Cores(judge=(5,), runners=(3, 4), engine=(0, 1, 2), compilers=(0, 1, 2))),
    ],
)
def test_with_a_gpu_the_judge_spins_alone_and_no_compiler_delays_a_launch(count: int, expected: Cores):
    assert share_out(range(count), device="cuda", threads=1) == (expected,)


def test_each_of_several_gpus_has_cores_of_its_own():
    first, second = share_out(range(8), device="cuda", threads=1, gpus=(0, 1), machine=2)
    assert first == Cores(judge=(7,), runners=(5, 6), engine=(0, 1), compilers=(0, 1))
    assert second == Cores(judge=(4,), runners=(2, 3), engine=(0, 1), compilers=(0, 1))


def test_with_too_few_cores_for_all_gpus_none_is_better_off_than_the_others():
    every = tuple(range(11))
    assert share_out(every, device="cuda", threads=1, gpus=(0, 1, 2)) == 3 * (Cores(every, every, every, every),)


def test_searches_that_do_not_know_of_each_other_keep_apart_by_the_numbers_of_their_gpus():
    both = share_out(range(16), device="cuda", threads=1, gpus=(0, 1), machine=2)
    assert share_out(range(16), device="cuda", threads=1, gpus=(0,), machine=2) == both[:1]
    assert share_out(range(16), device="cuda", threads=1, gpus=(1,), machine=2) == both[1:]


def test_where_not_every_gpu_of_the_machine_could_have_cores_of_its_own_none_has():
    every = tuple(range(11))
    assert share_out(every, device="cuda", threads=1, gpus=(1,), machine=3) == (Cores(every, every, every, every),)


@pytest.mark.parametrize(
    ("threads", "device", "cores", "said"),
    [
        (2, "cpu", 2, ""),
        (3, "cuda", 2, ""),
        (3, "cpu", 2, "threads is 3, and 2 cores may be used here: threads wait for each other"),
        (2, "cpu", 1, "threads is 2, and 1 core may be used here: threads wait for each other"),
    ],
)
def test_more_threads_than_cores_are_told(threads: int, device: str, cores: int, said: str):
    found = too_many_threads(threads, device=device, cores=cores)
    assert found.startswith(said)
    assert bool(found) == bool(said)


@given(
    cores=st.lists(st.integers(0, 255), min_size=1, max_size=40, unique=True),
    device=st.sampled_from(["cpu", "cuda"]),
    threads=st.integers(1, 48),
    gpus=st.integers(1, 9),
)
def test_everybody_gets_some_of_the_cores_there_are_and_none_lies_idle(
    cores: list[int], device: str, threads: int, gpus: int
):
    shares = share_out(cores, device=device, threads=threads, gpus=range(gpus), machine=gpus)
    assert len(shares) == (1 if device == "cpu" else gpus)
    each = [set(getattr(share, field.name)) for share in shares for field in fields(Cores)]
    assert all(each)
    assert set().union(*each) == set(cores)


@given(cores=st.integers(1, 64), numbers=st.lists(st.integers(0, 15), min_size=1, unique=True), more=st.integers(0, 4))
def test_gpus_share_no_core_with_each_other_or_all_of_them(cores: int, numbers: list[int], more: int):
    machine = max(numbers) + 1 + more
    shares = share_out(range(cores), device="cuda", threads=1, gpus=numbers, machine=machine)
    assert len(shares) == len(numbers)
    if shares[0].may_spin:
        own = [core for share in shares for core in (*share.judge, *share.runners)]
        assert len(set(own)) == len(own) == 3 * len(numbers)
        assert not set(own) & set(shares[0].compilers)
    else:
        assert set(shares) == {shares[0]}


def test_a_machine_is_busy_above_half_its_cores() -> None:
    assert busy_machine(1.0, 2) == ""
    assert "load 1.1 on 2 cores" in busy_machine(1.1, 2)
    assert "load 0.6 on 1 core)" in busy_machine(0.6, 1)


def test_the_work_of_others_on_a_core_is_seen() -> None:
    """A core that a process keeps busy works for the time that passes, up to what others take from that process."""
    core = max(os.sched_getaffinity(0))
    with subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", "while True: pass"]) as worker:
        try:
            before, began = busy_s({core}), time.monotonic()
            while busy_s({core}) - before < 0.5:
                assert time.monotonic() - began < 60
                time.sleep(0.05)
        finally:
            worker.kill()
    assert busy_s(()) == 0
