"""Real searches for tests: short ones, and as a process group that is killed at an instant; what must hold then."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

CONFIG = """
task: {task}
seed: 7
store: {store}
budget: {{evaluations: 100000}}
evaluation: {{quick_ms: 4, precise_ms: 8, final_ms: 10, final_processes: 1, compile_timeout_s: 120}}
islands:
  - {{name: one, operators: {{rewrite: 0.6, tune: 0.4}}}}
  - {{name: two, operators: {{rewrite: 0.5, tune: 0.4, blend: 0.1}}, selector: {{kind: explore, pressure: 0.3}}}}
migration: {{every: 7}}
reset_after: 20
"""
_SHORT = {"quick_ms": 20, "precise_ms": 40, "final_ms": 60, "final_processes": 1, "compile_timeout_s": 120}
SHORT_CLOCKS = tuple(word for name, value in _SHORT.items() for word in ("--set", f"evaluation.{name}={value}"))
"""Options of `evolve` with which a search of a built-in task takes less time, and its numbers mean less."""


def write_config(folder: Path, task: Path) -> Path:
    """Write the config of a small real search."""
    path = folder / "kill.yaml"
    path.write_text(CONFIG.format(task=task, store=folder / "kill.db"))
    return path


def start(config: Path) -> "subprocess.Popen[bytes]":
    """Start `evokernel evolve` in a process group of its own."""
    command = [sys.executable, "-m", "evokernel", "evolve", str(config)]
    with (config.parent / "log.txt").open("ab") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True, env={**os.environ, "COLUMNS": "200"}
        )


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Send SIGKILL to the whole group."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def children(*, besides: Collection[str] = ()) -> list[str]:
    """Return the living children of this process but for some, after collecting those that have ended."""
    found = []
    for thread in Path("/proc/self/task").iterdir():
        names = ""
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has just ended
            names = (thread / "children").read_text()
        for name in names.split():
            try:
                if os.waitpid(int(name), os.WNOHANG) == (0, 0):
                    command = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ")
                    found.append(f"{name} {command.decode(errors='replace')}")
            except (ChildProcessError, OSError):
                continue
    return [child for child in found if child not in besides]


def wait_for_no_children(*, besides: Collection[str], seconds: float) -> list[str]:
    """Wait for every child and orphan to end but for some; return those that are left."""
    end = time.monotonic() + seconds
    while (left := children(besides=besides)) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def log_of(config: Path) -> str:
    """Return the end of what the search has printed."""
    return (config.parent / "log.txt").read_text(errors="replace")[-4000:]
