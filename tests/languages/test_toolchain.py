import os
import signal
import time
from pathlib import Path

import pytest

from evokernel.errors import LanguageError
from evokernel.languages.capped_pipes import OUTPUT_LIMIT_BYTES
from evokernel.languages.toolchain import run_plain
from evokernel.records.process_exit import ProcessExit


def shell(script: str, folder: Path, *, timeout_s: float = 20.0, memory_bytes: int = 1 << 30) -> ProcessExit:
    return run_plain(["/bin/sh", "-c", script], workdir=folder, timeout_s=timeout_s, memory_bytes=memory_bytes)


def alive_in(folder: Path) -> list[str]:
    """The processes whose current folder is this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(str(folder)):
                found.append(process.name)
        except OSError:
            continue
    return found


def test_exit_code_and_output(tmp_path: Path):
    done = shell("pwd; echo wrong >&2; exit 3", tmp_path)
    assert done == ProcessExit(3, None, f"{tmp_path}\n", "wrong\n", False)
    assert not done.ok


def test_signal(tmp_path: Path):
    done = shell("kill -SEGV $$", tmp_path)
    assert (done.exit_code, done.signal, done.timed_out) == (None, signal.SIGSEGV, False)


def test_time_limit_ends_all_children(tmp_path: Path):
    start = time.monotonic()
    done = shell("sleep 300 & sleep 300 | cat; echo late", tmp_path, timeout_s=0.2)
    assert done.timed_out
    assert not done.ok
    assert time.monotonic() - start < 200  # it does not wait for the children
    assert _gone(tmp_path)


def test_children_end_with_the_command(tmp_path: Path):
    assert shell("sleep 300 & echo early", tmp_path).stdout == "early\n"
    assert _gone(tmp_path)


def test_endless_output_is_capped_and_timed_out(tmp_path: Path):
    done = shell("yes", tmp_path, timeout_s=0.3)
    assert done.timed_out
    assert len(done.stdout) == OUTPUT_LIMIT_BYTES


def test_output_beyond_the_cap_is_read_and_dropped(tmp_path: Path):
    done = shell("head -c 10485760 /dev/zero | tr '\\0' x >&2", tmp_path)
    assert done.ok
    assert len(done.stderr) == OUTPUT_LIMIT_BYTES


def test_memory_limit(tmp_path: Path):
    assert shell("ulimit -v", tmp_path, memory_bytes=1 << 30).stdout.strip() == str(1 << 20)


def test_environment_is_not_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET_KEY", "x")
    assert "SECRET_KEY" not in shell("env", tmp_path).stdout


def test_missing_command(tmp_path: Path):
    with pytest.raises(LanguageError, match="cannot start '/nowhere/cc'"):
        run_plain(["/nowhere/cc"], workdir=tmp_path, timeout_s=1, memory_bytes=1 << 30)


def _gone(folder: Path) -> bool:
    """Killed processes leave /proc a moment later."""
    deadline = time.monotonic() + 60
    while alive_in(folder) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive_in(folder)
