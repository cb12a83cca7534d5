"""A recorded call is launched by a process of its own, under a tool, in the sandbox where that works."""

import os
import sys
from pathlib import Path

import pytest

from evokernel.evaluate.inside.runner.replay import FAULT_EXIT
from evokernel.evaluate.instruments.tool_run import RecordedCall, RecordedTensor, ToolRunner, laid_out
from evokernel.evaluate.sandbox.levels import SandboxLevel, detect_sandbox
from evokernel.records.process_exit import ProcessExit
from tests.evaluate.instruments.standins import PLAN, make_driver, make_tool, recorded

PASS_ON = 'while [ "$1" != "--" ]; do shift; done; shift; "$@"'  # what a tool does with the command it is given
PATIENCE_S = 600.0
FULL = detect_sandbox().level is SandboxLevel.FULL


def works(done: ProcessExit) -> bool:
    return "wrote" in done.stdout


@pytest.fixture
def driver(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(make_driver(shelf)))


def run(toolbox: ToolRunner, shelf: Path, script: str, call: RecordedCall | None = None, answers=works) -> ProcessExit:
    tool = make_tool(shelf, "tool", script)("tool")
    assert tool is not None
    return toolbox.run(tool, ("--",), call or recorded(), answers=answers, timeout_s=PATIENCE_S)


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize("box", ["toolbox", "open_toolbox"])
def test_what_was_recorded_is_launched_once(box: str, shelf: Path, request: pytest.FixtureRequest) -> None:
    toolbox = request.getfixturevalue(box)
    done = run(toolbox, shelf, PASS_ON)
    assert done.ok, done.stderr
    assert done.stdout == "before ff; wrote 0 2 ... 510\n"
    assert toolbox.sandboxed == (FULL and box == "toolbox")


@pytest.mark.usefixtures("driver")
def test_what_the_driver_refuses_is_one_line(toolbox: ToolRunner, shelf: Path) -> None:
    call = recorded()
    broken = RecordedCall(call.label, call.plan, {"a" * 64: b"no machine code"}, call.buffers)
    done = run(toolbox, shelf, PASS_ON, broken)
    assert done.exit_code == FAULT_EXIT
    assert done.stderr == "evokernel: CudaLaunchError: CUDA error 200 in cuModuleLoadData: unknown error\n"


def test_a_folder_has_the_whole_call_and_is_gone_afterwards() -> None:
    buffers = [RecordedTensor("x", 3, b"abc"), RecordedTensor("y", 2), RecordedTensor("z", 4, b"defg")]
    mask = os.umask(0o077)
    try:
        with laid_out(RecordedCall("w", PLAN, {"d" * 64: b"code"}, buffers)) as folder:
            assert (folder / "inputs").read_bytes() == b"abcdefg"
            assert (folder / "cubins" / ("d" * 64)).read_bytes() == b"code"
            assert all(path.stat().st_mode & 0o004 for path in (folder, *folder.rglob("*")))
    finally:
        os.umask(mask)
    assert not folder.exists()


@pytest.mark.skipif(not FULL, reason="needs bubblewrap")
def test_a_tool_that_does_not_work_in_the_sandbox_is_run_outside_and_stays_there(
    shelf: Path, toolbox: ToolRunner
) -> None:
    script = 'echo "$$ $HOME" >&2; [ -e /etc/passwd ] && echo wrote'  # the sandbox has no such file
    assert toolbox.sandboxed
    assert works(run(toolbox, shelf, script))
    assert not toolbox.sandboxed
    assert not works(run(toolbox, shelf, "[ ! -e /etc/passwd ] && echo wrote"))


@pytest.mark.skipif(not FULL, reason="needs bubblewrap")
def test_a_tool_that_has_worked_in_the_sandbox_never_leaves_it(shelf: Path, toolbox: ToolRunner) -> None:
    assert works(run(toolbox, shelf, "[ ! -e /etc/passwd ] && echo wrote"))
    assert not works(run(toolbox, shelf, "[ -e /etc/passwd ] && echo wrote"))
    assert toolbox.sandboxed


@pytest.mark.skipif(not FULL, reason="needs bubblewrap")
def test_a_tool_may_talk_to_what_it_starts_and_to_nobody_else(shelf: Path, toolbox: ToolRunner) -> None:
    talk = (
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "client = socket.create_connection(server.getsockname())\n"
        "server.accept()[0].sendall(b'wrote')\n"
        "print(client.recv(9).decode(), open('/dev/shm/name', 'w').write('x'), len(socket.if_nameindex()))\n"
    )
    (shelf / "talk.py").write_text(talk)
    interpreter = sys._base_executable  # type: ignore[attr-defined]
    done = run(toolbox, shelf, f'{interpreter} -IS "$(dirname "$0")/talk.py"')
    assert done.stdout == "wrote 1 1\n", done.stderr
    assert toolbox.sandboxed


def test_a_tool_has_room_for_its_files_and_no_secrets(shelf: Path, toolbox: ToolRunner, monkeypatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    done = run(toolbox, shelf, 'touch "$TMPDIR/lock" "$HOME/settings" && env && echo wrote')
    assert works(done), done.stderr
    assert "s3cret" not in done.stdout


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_tool_gets_the_cores_that_are_named_and_the_caller_keeps_its_own(shelf: Path) -> None:
    before = os.sched_getaffinity(0)
    core = max(before)
    toolbox = ToolRunner(detect_sandbox(), cpus=[core])
    done = run(toolbox, shelf, "grep Cpus_allowed_list /proc/self/status; echo wrote")
    assert f"Cpus_allowed_list:\t{core}\n" in done.stdout
    assert os.sched_getaffinity(0) == before
