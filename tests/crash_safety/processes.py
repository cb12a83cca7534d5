"""Helpers of the tests that set a store on fire: engines as processes, disks that fill up, stores as they are left."""

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from archive.journal import Fact
from archive.store import Store
from evokernel.errors import TRY_AGAIN_EXIT

ROOT = Path(__file__).parents[2]
OLD_STORES = ROOT / "tests" / "old_stores"
STORE = "run.db"
TOY = ROOT / "tests" / "cli" / "toy_evolve.py"
DEADLINE_S = 1800.0

Process = subprocess.Popen[str]


def environment(**changes: str) -> dict[str, str]:
    """Return the variables of a process that imports what the tests import."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **changes}


def toy(store: Path, evaluations: int, *, seconds: float = 0.02, **variables: str) -> Process:
    """Start an engine on a store: all is real but the kernels and their evaluations, which take so many seconds."""
    command = [sys.executable, str(TOY), str(store), str(seconds), str(evaluations)]
    return subprocess.Popen(
        command, env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(process: Process) -> tuple[int, str, str]:
    """Wait for a process; return its exit code and what it said."""
    with process:
        out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out, err


@contextmanager
def running(process: Process) -> Iterator[Process]:
    """Make sure that a process is gone at the end."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        with process:
            process.communicate()


def evokernel(
    *arguments: object, cwd: Path, timeout_s: float = DEADLINE_S, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "evokernel", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=environment(**variables), capture_output=True, text=True, timeout=timeout_s, check=False
    )


def refusal(*arguments: object, cwd: Path, **variables: Any) -> str:
    """Run the command line, which must refuse in words; return these."""
    done = evokernel(*arguments, cwd=cwd, **variables)
    assert done.returncode in (2, TRY_AGAIN_EXIT), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def wait_for_facts(path: Path, count: int, *, process: Process) -> None:
    """Wait until a store that a process writes holds so many facts."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        if path.exists() and path.stat().st_size:  # it has begun to write
            with Store.open(path, write=False) as store:
                if store.last_seq() >= count:
                    return
        time.sleep(0.02)
    raise AssertionError(f"{path} did not come to {count} facts")


def sound_facts(path: Path) -> list[Fact]:
    """Return the facts of a store, which must be sound; none of an empty file, in which nothing was written yet."""
    if not path.stat().st_size:
        return []
    with Store.open(path, write=False) as store:
        assert store.verify() == []
        return list(store.facts())


@contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[Path]:
    """Mount a disk of its own with so much room; skips where that is not allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=1777", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs to mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def old_store(name: str, folder: Path) -> Path:
    """Unpack a store that an earlier release has written, with its log where it was killed; return its path."""
    path = folder / STORE
    for packed in OLD_STORES.glob(f"{name}.db*.gz"):
        suffix = packed.name.removeprefix(f"{name}.db").removesuffix(".gz")
        path.with_name(path.name + suffix).write_bytes(gzip.decompress(packed.read_bytes()))
    assert path.exists()
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder but locks, and what those who only read leave: shared memory and an empty log."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file()
        and not path.name.endswith((".lock", "-shm"))
        and (path.stat().st_size or not path.name.endswith("-wal"))
    }
