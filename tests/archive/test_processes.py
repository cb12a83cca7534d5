"""Several processes at one store: locks, kills, the inbox."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from archive.store import Store, set_aside
from evokernel.errors import StoreLocked
from tests.archive.records import good, propose, result

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]


def start(code, *arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


WRITER = """
    import sys
    from tests.archive.records import good, propose
    from archive.store import Store
    with Store.open(sys.argv[1], write=True) as store:
        store.session_start()
        for lease in store.open_leases():
            store.commit(lease.step, good(lease.step))
        for step in range(store.next_step(), 10**9):
            propose(store, step)
            print("p", step, flush=True)
            store.commit(step, good(step))
            print("c", step, flush=True)
"""

HOLDER = """
    import sys, time
    from archive.store import Store
    with Store.open(sys.argv[1], write=True):
        print("open", flush=True)
        time.sleep(60)
"""


def test_no_acknowledged_row_is_lost_when_the_writer_is_killed(path):
    rng = random.Random(3)
    proposed, committed = set[int](), set[int]()
    for _ in range(8):
        with start(WRITER, path) as writer:
            lines = [writer.stdout.readline() for _ in range(rng.randint(10, 40))]  # however slow the machine is
            time.sleep(rng.uniform(0.0, 0.05))
            writer.kill()
            for line in (*lines, *writer.stdout.read().splitlines()):
                match line.split():  # the last line may be torn
                    case [kind, step] if step.isdigit():
                        (proposed if kind[0] == "p" else committed).add(int(step))
        with Store.open(path, write=True) as store:
            assert store.verify() == []
            steps = {fact.step for fact in store.facts()}
            assert committed <= steps
            leased = {lease.step for lease in store.open_leases()}
            assert proposed <= steps | leased
            assert len(leased) <= 1
            assert store.missing_steps() == []
    assert len(committed) > 20


def test_two_engines_cannot_write_one_store(path):
    with start(HOLDER, path) as holder:
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StoreLocked, match=f"process {holder.pid}"):
            Store.open(path, write=True)
        with pytest.raises(StoreLocked):
            set_aside(path)
        Store.open(path, write=False).close()
        Store.inbox_put(path, "hint", {})
        holder.kill()
        holder.wait()
        with Store.open(path, write=True) as store:
            assert len(store.take_inbox()) == 1


def test_one_process_cannot_open_a_store_twice_for_writing(path):
    with Store.open(path, write=True), pytest.raises(StoreLocked):
        Store.open(path, write=True)
    Store.open(path, write=True).close()


def test_a_forked_orphan_does_not_keep_the_lock(path):
    store = Store.open(path, write=True)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"!")
        time.sleep(60)
        os._exit(0)
    try:
        os.read(reading, 1)
        store.close()
        Store.open(path, write=True).close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_ten_processes_fill_the_inbox_while_the_engine_writes(path):
    code = """
        import sys
        from archive.store import Store
        for n in range(10):
            Store.inbox_put(sys.argv[1], "hint", {"from": int(sys.argv[2]), "n": n}, author=sys.argv[2])
    """
    with Store.open(path, write=True) as store:
        result(store, 1)
        writers = [start(code, path, number) for number in range(10)]
        taken, step = [], 2
        while any(writer.poll() is None for writer in writers):
            propose(store, step)
            taken += store.take_inbox()
            store.commit(step, good(step))
            step += 1
        taken += store.take_inbox()
        assert [writer.wait() for writer in writers] == [0] * 10
        for writer in writers:
            writer.stdout.close()
        for number in range(10):
            assert [entry.payload["n"] for entry in taken if entry.author == str(number)] == list(range(10))
        assert [entry.id for entry in taken] == sorted(entry.id for entry in taken)
        assert [fact for fact in store.facts() if fact in taken] == taken
        assert store.verify() == []


def test_the_inbox_takes_from_threads_too(store, path):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: Store.inbox_put(path, "pin", n), range(20)))
    assert sorted(entry.payload for entry in store.take_inbox()) == list(range(20))
