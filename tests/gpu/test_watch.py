import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from evokernel.evaluate.device.gpu_conditions import BUSY, NeighbourWatch, Probe, clocks, compute_processes
from evokernel.evaluate.device.nvml import visible_gpu

NEIGHBOUR = """
import torch
a = torch.zeros((4096, 4096), dtype=torch.float16, device="cuda")
torch.matmul(a, a)
torch.cuda.synchronize()
print("up", flush=True)
while True:
    for _ in range(100):
        torch.matmul(a, a)
    torch.cuda.synchronize()
"""


@contextmanager
def neighbour() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        try:
            yield process.pid
        finally:
            process.kill()


def gpu_index() -> int:
    gpu = visible_gpu()
    assert gpu is not None
    return gpu.index


def watch(*ours: int) -> NeighbourWatch:
    return NeighbourWatch(lambda: set(ours))


def test_alone_the_gpu_is_quiet():
    probe = Probe()
    slowdowns = [probe.slowdown() for _ in range(20)]
    print(f"\nidle probes {[round(slowdown, 3) for slowdown in slowdowns]}")
    assert sorted(slowdowns)[-3] < BUSY
    assert watch().wait_until_quiet(5) is None


def test_a_neighbour_at_work_is_noticed_and_waited_for():
    alone = watch()
    with neighbour() as pid:
        print(
            f"\nstrangers {alone.foreign_processes()}, listed {compute_processes(gpu_index())}, own pid {os.getpid()}"
        )
        busy = [alone.is_busy() for _ in range(10)]
        assert sum(busy) >= 8, busy
        note = alone.wait_until_quiet(0.0) or alone.wait_until_quiet(0.0)
        assert note is not None
        assert note.startswith("the GPU is shared with ")
        strangers = alone.foreign_processes()
        if os.getpid() in compute_processes(gpu_index()):  # NVML speaks of our own processes
            assert pid in strangers
            assert f" {pid}" in note
            assert alone.conditions()["other_processes"] == len(strangers)
        else:
            assert strangers == ()
    assert alone.wait_until_quiet(20) is None


def test_clocks_are_read():
    index = gpu_index()
    Probe()
    now = clocks(index)
    print(f"\n{now}")
    assert 100 < now.sm_mhz < 5000
    assert 100 < now.memory_mhz < 20000
    assert watch().conditions()["sm_mhz"] > 100
