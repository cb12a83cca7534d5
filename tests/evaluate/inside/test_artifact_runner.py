"""Batches of a runner, by what it asks of a driver without a device: the memory they begin with, and what waits."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from evokernel.evaluate.inside.process.bundle import pack
from evokernel.evaluate.sandbox.levels import INSIDE

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

POISON, CUBIN = 0xABCDEF01, "c" * 64
PROGRAM = """
import os, socket, sys, threading, json
folder, *messages = sys.argv[1:]
sys.path.append(folder)
from inside.driver import virtual_memory
from inside.process.shared_flag import SharedFlags
from inside.runner.artifact_runner import _Runner

ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
page = SharedFlags.make()
judge = SharedFlags(page)


def ask(message, *files):
    descriptors = [os.memfd_create("file") for _ in files]
    for descriptor, content in zip(descriptors, files):
        os.write(descriptor, content)
        os.lseek(descriptor, 0, 0)
    socket.send_fds(ours, [message.encode()], descriptors)
    return ours.recv(1 << 16)


def serve():
    virtual_memory.retain_primary_context()
    _Runner(theirs, SharedFlags(page), prelude_bytes=5 << 20, multiprocessors=132, spin=False).serve()


threading.Thread(target=serve, daemon=True).start()
assert ours.recv(9) == b"up"
for message in messages:
    print("---", file=sys.stderr, flush=True)
    content = json.loads(message)
    match content:
        case {"attach": _}:
            assert ask(message, b"", b"") == b"attached"
        case {"load": bundle}:
            assert ask(json.dumps({"load": True}), bytes.fromhex(bundle)) == b"loaded"
        case {"number": number}:
            ours.send(message.encode())
            judge.go = number
            while judge.done < number:
                pass
            assert judge.device_ns == 5e5
"""


def attach(name: str) -> dict[str, Any]:
    buffers = [["x", [8], "float32", "in", 0, 4096], ["y", [8], "float32", "out", 1, 4096]]
    return {"attach": name, "sets": 2, "sizes": [2 << 20] * 2, "strides": [8192] * 2, "buffers": buffers}


def launch(*, programmatic: bool = False) -> dict[str, Any]:
    where: dict[str, Any] = {"grid": [1, 1, 1], "block": [1, 1, 1], "cluster": 1, "shared_bytes": 0}
    names = {"kernel": "k", "cubin": CUBIN, "parameters": [["ptr", ["y", 0]]]}
    return {"launch": {**where, **names, "cooperative": False, "programmatic": programmatic}}


def batch(number: int, arena: str, sets: Sequence[int]) -> dict[str, Any]:
    return {"batch": arena, "number": number, "shape": 0, "sets": sets, "poison": POISON}


def asked_for(folder: Path, steps: Sequence[Mapping[str, Any]], *messages: Mapping[str, Any]) -> list[list[str]]:
    """Return what the driver is asked for by each message, after the runner has loaded a candidate with two buffers."""
    library = folder / "libcuda.so.1"
    source = Path(__file__).with_name("libcuda.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", source, "-o", library], check=True)
    plan = {"shapes": [{"scratch": {"scratch0": 12, "scratch1": 5000}, "steps": steps}], "stateful": False}
    bundle = pack({"plan.json": json.dumps(plan).encode(), f"cubins/{CUBIN}": b"code"})
    before = [attach("search:a:0"), attach("search:b:0"), {"load": bundle.hex()}]
    argv = [sys.executable, "-c", PROGRAM, str(INSIDE.parent), *map(json.dumps, [*before, *messages])]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [part.split("\n")[1:-1] for part in done.stderr.split("---")][4:]


def test_a_batch_begins_with_memory_that_no_earlier_one_has_left(tmp_path: Path) -> None:
    (found,) = asked_for(tmp_path, [launch()], batch(1, "search:a:0", [1, 0]))
    queued = [line.partition(" ")[2] for line in found if line[0].isdigit()]
    assert queued == [
        "fill 1 words with 0",
        f"scrub {132 * 512} threads, 1 attributes",  # shared memory
        "fill 1 words with 0",
        f"scrub {132 * 2048} threads, 1 attributes",  # local memory
        f"fill {(2 << 20) // 4} words with {POISON:x}",  # the whole page of scratch
        f"copy {6 << 20}",
        *["touch 33792 threads, 0 attributes"] * 2,
        *["kernel 1 threads, 0 attributes"] * 2,
    ]
    assert found[-1] == "release lines"


def test_only_the_buffers_of_the_workload_at_hand_are_mapped(tmp_path: Path) -> None:
    first, again, other = asked_for(
        tmp_path, [launch()], *(batch(n, f"search:{name}:0", [0]) for n, name in ((1, "a"), (2, "a"), (3, "b")))
    )
    mappings = [
        [line for line in lines if line.startswith(("map", "unmap", "writable", "read-only"))]
        for lines in (first, again, other)
    ]
    assert [lines[:4] for lines in mappings[:2]] == [["map 1003", "read-only", "map 1004", "writable"], []]
    assert mappings[2] == ["unmap", "unmap", "map 1005", "read-only", "map 1006", "writable"]


def test_what_follows_a_call_waits_for_all_its_launches(tmp_path: Path) -> None:
    steps = [launch(), launch(programmatic=True), launch(programmatic=True), launch()]
    (found,) = asked_for(tmp_path, steps, batch(1, "search:a:0", [0]))
    kernels = [line.split()[0] for line in found if "kernel" in line]
    assert [line.endswith("1 attributes") for line in found if "kernel" in line] == [False, True, True, False]
    (_, end) = (line for line in found if line.startswith("event"))
    assert sorted(end.split()[2:]) == sorted([kernels[0], kernels[1], kernels[3]])
