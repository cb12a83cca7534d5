"""Helpers of the kill tests: a real search as a process group, killed at an instant, and what must hold afterwards."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CONFIG = """
task: {task}
seed: 7
store: {store}
budget: {{evaluations: 100000}}
evaluation: {{quick_ms: 4, precise_ms: 8, final_ms: 10, final_processes: 1}}
islands:
  - {{name: one, operators: {{rewrite: 0.6, tune: 0.4}}}}
  - {{name: two, operators: {{rewrite: 0.5, tune: 0.4, blend: 0.1}}, selector: {{kind: explore, pressure: 0.3}}}}
migration: {{every: 7}}
reset_after: 20
"""


def write_config(folder: Path, task: Path) -> Path:
    """Write the config of a small real search."""
    path = folder / "kill.yaml"
    path.write_text(CONFIG.format(task=task, store=folder / "kill.db"))
    return path


def start(config: Path) -> "subprocess.Popen[bytes]":
    """Start `evokernel evolve` in a process group of its own."""
    command = [sys.executable, "-m", "evokernel", "evolve", str(config)]
    log = (config.parent / "log.txt").open("ab")
    return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env={**os.environ, "COLUMNS": "200"})


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Send SIGKILL to the whole group."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def descendants_marked(mark: str) -> list[str]:
    """Return the command lines of all living processes whose environment or arguments carry a mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = (entry / "environ").read_bytes().decode(errors="replace")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and (mark in arguments or mark in environment):
            found.append(f"{entry.name} {arguments.strip()}")
    return found


def wait_until_none(mark: str, *, seconds: float) -> list[str]:
    """Wait for marked processes to end; return those that are left."""
    end = time.monotonic() + seconds
    while (left := descendants_marked(mark)) and time.monotonic() < end:
        time.sleep(0.02)
    return left
