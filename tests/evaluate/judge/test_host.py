"""The judge host: what it imports while it idles, tried first in a fork."""

import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

HOST = """
import os, socket, sys, time
sys.path.insert(0, sys.argv[3])
from evokernel.evaluate.judge.host import JudgeHost
control = socket.socket(fileno=int(sys.argv[1]))
if JudgeHost(control, os.getppid(), sys.argv[2].split(",")).serve() is not None:
    while os.path.exists(os.path.join(sys.argv[3], "wait")):
        time.sleep(0.01)
    os._exit(5)
"""
MODULES = {
    "harmless": "",
    "threaded": "import threading, time; threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
    "failing": "raise RuntimeError('no')",
}
NOTES = "import os, pathlib; pathlib.Path(__file__).with_suffix('.pids').open('a').write(f'{os.getpid()}\\n')\n"


def imports_of(folder: Path, modules: list[str]) -> list[list[int]]:
    """Let a host fork judges, one and then some at once; return which processes imported each module."""
    for name in modules:
        (folder / f"{name}.py").write_text(NOTES + MODULES[name])
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    arguments = [str(theirs.fileno()), ",".join(modules), str(folder)]
    with (
        ours,
        theirs,
        subprocess.Popen([sys.executable, "-c", HOST, *arguments], pass_fds=[theirs.fileno()]) as host,
    ):
        theirs.close()
        codes = [fork(ours, 1)]
        while probes(host.pid):
            time.sleep(0.02)
        (folder / "wait").touch()
        endings = [asked(ours, number) for number in range(2, 12)]  # one has the descriptor that the probe had
        (folder / "wait").unlink()
        codes += [told(ending) for ending in endings]  # it has imported by then what it ever will
        ours.close()
        assert (host.wait(), codes) == (0, 11 * [5])
    found = [(folder / f"{name}.pids") for name in modules]
    return [[int(line) == host.pid for line in path.read_text().split()] if path.exists() else [] for path in found]


def probes(host: int) -> list[str]:
    return Path(f"/proc/{host}/task/{host}/children").read_text().split()


def fork(control: socket.socket, number: int) -> int | None:
    """Ask for a judge, and return how it ended."""
    return told(asked(control, number))


def asked(control: socket.socket, number: int) -> int:
    """Ask for a judge, and return the pipe that tells how it ended."""
    channel, ending = os.memfd_create("channel"), os.pipe()
    try:
        socket.send_fds(
            control, [json.dumps({"judge": number, "environment": {}}).encode()], [channel, channel, ending[1]]
        )
    finally:
        os.close(channel)
        os.close(ending[1])
    return ending[0]


def told(ending: int) -> int | None:
    """Return how a judge ended, or None where nobody says so."""
    with open(ending, "rb") as status:
        return int(status.read()) if select.select([status], [], [], 60.0)[0] else None


def test_what_judges_will_need_is_imported_once_a_fork_has_tried_it(tmp_path: Path) -> None:
    assert imports_of(tmp_path, ["harmless"]) == [[False, True]]


@pytest.mark.parametrize("name", ["threaded", "failing"])
def test_an_import_that_harms_forks_or_fails_stays_out_of_the_host(tmp_path: Path, name: str) -> None:
    assert imports_of(tmp_path, ["harmless", name]) == [[False], [False]]
