import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evokernel.errors import HarnessError, WorkerTimeout
from evokernel.evaluate.bench.baseline_timing import BaselineTimer
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.memory.arena import HostArena
from evokernel.evaluate.memory.heap import NO_SMALL_CACHE
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.worker_mode.baseline_process import BaselineProcess
from tests.evaluate.kernels import poison

N = 64
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


def test_baselines_run_on_the_same_buffers_with_the_same_handshake(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "scale.py"
    path.write_text(TASK)
    from evokernel.tasks import load_task

    signature = load_task(str(path)).signature
    with HostArena.for_signature(signature, {"N": N}, sets=2) as arena, BaselineProcess(str(path)) as baseline:
        baseline.attach("w", arena, {"N": N, "f": 2.5})
        for name in ("fast", "reference"):
            baseline.select(name)
            baseline.prepare("w", first_set=0, calls=2, warm_set=1, timeout_s=60)
            for index in range(2):
                arena.view(index, "a")[...] = 1
                arena.view(index, "s")[...] = 1
                poison(arena, index)
            assert baseline.go(timeout_s=60) > 0
            for index in range(2):
                assert (arena.view(index, "s") == 2).all()
                assert (arena.view(index, "c") == 3.5).all()
        assert baseline.threads() >= 1
        baseline.select("slow")
        with pytest.raises(WorkerTimeout):
            baseline.call("w", first_set=0, calls=1, timeout_s=0.2)
        assert arena.broken_guards() == ()


@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_waking_costs_is_known_for_each_workload(tmp_path, threads):
    path = tmp_path / "scale.py"
    path.write_text(TASK)
    from evokernel.tasks import load_task

    task, rng = load_task(str(path)).on("cpu"), np.random.default_rng(0)
    workload = task.workloads["cpu"].search[0]

    def make_arena(sets):
        return HostArena.for_signature(task.signature, workload.sizes, sets=sets)

    grounds = [
        BoundWorkload(task, workload, kind, rng, make_arena=make_arena)
        for kind in (WorkloadPurpose.SEARCH, WorkloadPurpose.HOLDOUT)
    ]
    with BaselineProcess(str(path), threads=threads) as process:
        side = BaselineTimer(process, batch_s=0.001, first_call_s=60)
        side.anchor(grounds[0], FreshInputs(task, workload, rng), panel=("fast",), most_calls=9, room_bytes=1 << 20)
        costs = [side.wake_ns(ground) for ground in grounds]
    for ground in grounds:
        ground.close()
    assert grounds[0].calls == 9
    assert grounds[0].baseline_us["fast"] > 0
    assert all(0 < cost < 1e9 for cost in costs)
    assert (process.ran_ns > 0) == (costs[0] != costs[1]) == (threads == 1)  # without an account: the least, everywhere


CURSORS = """
from evokernel.task import Role, Signature, Task, Tensor, Workload, WorkloadSet

def reference(cursor, x, **_):
    return cursor + 1, x.gather(0, cursor.long())

def native(inputs, outputs):
    outputs[1].copy_(inputs["x"].gather(0, inputs["cursor"].long()))
    outputs[0].add_(1)

w = (Workload("w", {"N": 4}),)
task = Task(
    name="cursors",
    reference=reference,
    signature=Signature(
        (Tensor("cursor", ("N",), "int32", below="N", role=Role.INOUT), Tensor("x", ("N",))),
        (),
        (Tensor("y", ("N",), role=Role.OUTPUT),),
    ),
    workloads={"cpu": WorkloadSet(search=w, holdout=w, probe={})},
    flops="N",
    baselines={"native": native},
)
"""


def test_an_index_that_each_call_moves_on_does_not_leave_its_tensor(tmp_path):
    path = tmp_path / "cursors.py"
    path.write_text(CURSORS)
    from evokernel.tasks import load_task

    task, rng = load_task(str(path)).on("cpu"), np.random.default_rng(0)
    workload = task.workloads["cpu"].search[0]

    def make_arena(sets):
        return HostArena.for_signature(task.signature, workload.sizes, sets=sets)

    bound = BoundWorkload(task, workload, WorkloadPurpose.SEARCH, rng, make_arena=make_arena)
    with BaselineProcess(str(path)) as process:
        side = BaselineTimer(process, batch_s=0.001, first_call_s=60)
        side.anchor(bound, FreshInputs(task, workload, rng), panel=("native",), most_calls=9, room_bytes=1 << 20)
    assert bound.baseline_us["native"] > 0
    bound.close()


def test_a_baseline_that_cannot_start_is_our_own_fault():
    with pytest.raises(HarnessError, match="nowhere"):
        BaselineProcess("nowhere/task.py")


FAULTS = """
import resource

import torch
from evokernel.task import Role, Signature, Task, Tensor, Workload, WorkloadSet


def reference(a, **_):
    return a + 1


def faults(inputs, outputs):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(12_000_000)  # more than malloc ever keeps by itself
    outputs[0].fill_(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)


w = (Workload("w", {"N": 64}),)
task = Task(
    name="faults",
    reference=reference,
    signature=Signature((Tensor("a", ("N",)),), (), (Tensor("c", ("N",), role=Role.OUTPUT),)),
    workloads={"cpu": WorkloadSet(w, w, {})},
    flops="N",
    baselines={"faults": faults},
)
"""


def most_faults(path):
    from evokernel.tasks import load_task

    signature = load_task(path).signature
    with HostArena.for_signature(signature, {"N": N}, sets=2) as arena, BaselineProcess(path) as baseline:
        baseline.attach("w", arena, {"N": N})
        baseline.select("faults")
        for _ in range(4):
            baseline.call("w", first_set=0, calls=2, timeout_s=60)
        return float(arena.view(1, "c").max())


def test_the_memory_of_temporaries_is_kept_whatever_was_allocated_before(tmp_path):
    path = tmp_path / "faults.py"
    path.write_text(FAULTS)
    assert most_faults(str(path)) < 16


FORKED = """
import os, signal, sys
import torch
from evokernel.errors import HarnessError
from evokernel.evaluate.worker_mode import baseline_process
from tests.evaluate.worker_mode.test_baseline_process import most_faults

baseline_process.fork_spare()
print(most_faults(sys.argv[1]), baseline_process._spares)
baseline_process.fork_spare()
with baseline_process.BaselineProcess(sys.argv[1]) as process:
    os.kill(process.pid, signal.SIGKILL)
    try:
        process.select("faults")
    except HarnessError as error:
        print(error)
baseline_process.fork_spare()
try:
    baseline_process.BaselineProcess("nowhere/task.py")
except HarnessError as error:
    print(error)
"""


def test_a_process_forked_ahead_is_used_first_keeps_its_memory_and_its_end_is_told(tmp_path):
    path = tmp_path / "faults.py"
    path.write_text(FAULTS)
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(path)],  # this process has threads, which a fork would miss
        env={**os.environ, **NO_SMALL_CACHE},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    kept, killed, lost = done.stdout.splitlines()
    faults, spares = kept.split()
    assert float(faults) < 16
    assert spares == "[]"
    assert "ended with -9" in killed
    assert "could not load task 'nowhere/task.py'" in lost
    assert "ended with 1" in lost
