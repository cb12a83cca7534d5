"""Commands as answerers, in the real sandbox: honest ones, and those that crash, hang, flood or look around."""

import asyncio
import contextlib
import os
import socket
import tempfile
from pathlib import Path
from typing import Any, cast

import pytest

from evokernel.agents.services import ServiceReference
from evokernel.agents.transport import AgentTransport, with_namespaces
from evokernel.agents.workspace import AgentWorkspace, report_of
from evokernel.config.models import ModelConfig
from evokernel.errors import ConfigError
from evokernel.evaluate.sandbox.levels import SandboxLevel, detect_sandbox
from evokernel.llm.configured_model import ConfiguredModel
from evokernel.llm.redact import Redactor
from evokernel.llm.transport import HopelessRequest, TemporaryFailure, TransportReply
from evokernel.llm.waiting import Clock
from evokernel.records.llm import Origin
from tests.agents.scripted import CLIENT, PYTHON, REQUEST, NotedServices, agent, ask

HONEST = """
import pathlib, sys
prompt = sys.stdin.read()
assert prompt == pathlib.Path("prompt.md").read_text()
assert "make it fast" in prompt and "parents/abc.cpp" in prompt
print("I work on", pathlib.Path("parents/abc.cpp").read_text(), pathlib.Path("task.md").read_text())
pathlib.Path("reply.md").write_text("the answer")
"""


def test_an_agent_reads_its_prompt_and_its_file_is_the_reply(tmp_path: Path) -> None:
    services = NotedServices()
    reply = ask(agent(tmp_path, HONEST), services=services)
    assert (reply.text, reply.cost_usd) == ("the answer", None)
    ((text, detail),) = services.remarks
    assert "exit code 0" in text
    assert (detail["step"], detail["stdout"]) == (7, "I work on int seed; the task\n")


def test_what_it_prints_is_the_reply_where_it_leaves_no_file(tmp_path: Path) -> None:
    assert ask(agent(tmp_path, "print('from stdout')")).text == "from stdout\n"
    report = {"result": "said", "total_cost_usd": 0.25, "usage": {"input_tokens": 10, "output_tokens": 3}}
    reply = ask(agent(tmp_path, f"import json; print(json.dumps({report}))"))
    assert (reply.text, reply.cost_usd, reply.prompt_tokens, reply.completion_tokens) == ("said", 0.25, 10, 3)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import sys; sys.exit('no credit')", "exit code 1 and without an answer; it said last: no credit"),
        ("print('half an answer'); raise SystemExit(3)", "exit code 3 and without an answer"),
        ("pass", "exit code 0 and without an answer"),
        ("import os; os.symlink('/etc/hostname', 'reply.md')", "without an answer"),
        ("import os; os.mkfifo('reply.md')", "without an answer"),
        ("while True: print('x' * 10000)", "stdout.txt is longer than 2000000 bytes"),
        ("while True: open('reply.md', 'a').write('x' * 100000)", "reply.md is longer than 2000000 bytes"),
    ],
)
def test_a_crash_or_a_flood_costs_only_its_call(tmp_path: Path, script: str, said: str) -> None:
    with pytest.raises(HopelessRequest, match=said) as caught:
        ask(agent(tmp_path, script))
    assert caught.value.billed


def test_what_it_leaves_in_its_folder_is_limited() -> None:
    with AgentWorkspace() as workspace:
        workspace.fill("prompt", {}, settings="")
        assert workspace.flood() == ""
        with (workspace.folder / "large").open("wb") as file:
            file.truncate(300 << 20)
        assert "its files pass 256 MiB" in workspace.flood()
    assert not workspace.folder.exists()


def test_one_that_hangs_is_stopped_with_its_children_and_what_it_left_counts(tmp_path: Path) -> None:
    hang = "import subprocess, sys, time\nsubprocess.Popen(['sleep', '1000'])\ntime.sleep(1000)"
    with pytest.raises(HopelessRequest, match=r"left no reply\.md within 2 s and was stopped"):
        ask(agent(tmp_path, hang, timeout_s=2))
    left = f"open('reply.md', 'w').write('in time')\n{hang}"
    for timeout_s in (6, 30, 120):  # Python starts within that, the first on most machines
        try:
            reply = ask(agent(tmp_path, left, timeout_s=timeout_s))
            break
        except HopelessRequest:
            continue
    else:
        pytest.fail("it wrote no reply within 120 s")
    assert reply.text == "in time"


LOOKS = """
import os, pathlib
for path in {paths!r}:
    try:
        print("READ", path, os.listdir(path) if os.path.isdir(path) else open(path).read())
    except OSError as error:
        print("refused", error.errno)
for path in ("/outside", "/usr/outside", {script!r}):
    try:
        open(path, "w")
        print("WROTE", path)
    except OSError:
        print("refused")
print(sorted(os.environ), os.environ["MINE"], os.listdir(os.path.expanduser("~/settings")))
pathlib.Path(os.path.expanduser("~/settings/token")).write_text("changed")
"""


def test_it_sees_its_workspace_and_what_its_entry_names(tmp_path: Path) -> None:
    settings = tmp_path / "settings"
    settings.mkdir()
    (settings / "token").write_text("own")
    private = tmp_path / "private.txt"
    private.write_text("private")
    looks = LOOKS.format(
        paths=[str(private), str(settings), "/etc/passwd", "/proc/1/environ"], script=str(tmp_path / "agent.py")
    )
    config = agent(tmp_path, looks, agent_folder=str(settings), agent_variables=("MINE",))
    said = ask(config, environment={**os.environ, "MINE": "mine-12345", "OTHER": "other"}).text
    assert "READ" not in said
    assert "WROTE" not in said
    assert "mine-12345 ['token']" in said
    assert "OTHER" not in said
    assert (settings / "token").read_text() == "own"


def test_keys_are_kept_out_of_the_transcript(tmp_path: Path) -> None:
    services, key = NotedServices(), "sk-agent-0123456789"
    config = agent(tmp_path, "import os, sys; sys.exit(os.environ['CODER_KEY'])", key="CODER_KEY")
    with pytest.raises(HopelessRequest, match=r"it said last: \[key\]"):
        ask(config, services=services, environment={"CODER_KEY": key}, secrets=(key,))
    assert key not in repr(services.remarks)


class LookingServices(NotedServices):
    """Keep the command lines of this machine's processes while an agent runs."""

    async def evaluate(self, source: str, origin: Origin, *, agent: str) -> dict[str, Any]:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                self.sources.append(path.read_text(errors="replace"))
        return {"status": "ok"}


def test_keys_stand_on_no_command_line(tmp_path: Path) -> None:
    services, key = LookingServices(), "sk-agent-0123456789"
    script = (
        f"{CLIENT}\nimport os\ncall('evaluate', source='x')\nprint(os.environ['CODER_KEY'], os.listdir('.evokernel'))"
    )
    config = agent(tmp_path, script, key="CODER_KEY")
    said = ask(config, services=services, environment={"CODER_KEY": key}).text
    assert said == f"{key} ['tools']\n"  # the file that handed it over is gone
    assert any("untrusted.agent_program" in line for line in services.sources)
    assert not any(key in line for line in services.sources)


INTERRUPTS = "import os, signal, time\nos.kill(os.getppid(), signal.SIGINT)\ntime.sleep(1000)"


def test_a_paid_answer_counts_where_our_program_inside_breaks(tmp_path: Path) -> None:
    assert ask(agent(tmp_path, f"open('reply.md', 'w').write('paid')\n{INTERRUPTS}")).text == "paid"
    with pytest.raises(
        HopelessRequest, match="signal 2 and without an answer; it said last: KeyboardInterrupt"
    ) as caught:
        ask(agent(tmp_path, INTERRUPTS))
    assert caught.value.billed


def test_what_an_agent_reports_counts_zero_too() -> None:
    config = ModelConfig(name="coder", agent="coder", agent_dollars=0.5)

    def cost_usd(said: str) -> float:
        transport = cast("AgentTransport", None)
        model = ConfiguredModel.of(config, transport, price=None, clock=Clock())
        reply = TransportReply("x", cost_usd=report_of(said).cost_usd)
        return model.usage(reply, REQUEST.messages, {"max_tokens": 10}).cost_usd

    for dollars, counted in (("0", 0.0), ("0.25", 0.25), ("null", 0.5), ("-1", 0.5), ("NaN", 0.5), ("1" * 400, 0.5)):
        assert cost_usd(f'{{"result": "x", "total_cost_usd": {dollars}}}') == counted


def test_what_fails_before_the_command_begins_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, temporary = tmp_path / "settings", Path(tempfile.mkdtemp())
    settings.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    async def scenario() -> list[TemporaryFailure]:
        transport = AgentTransport(
            agent(tmp_path, "print('began')", agent_folder=str(settings)),
            redactor=Redactor(()),
            services=ServiceReference(),
            environment=os.environ,
        )
        failures = list[TemporaryFailure]()
        for spoil in (lambda: os.mkfifo(settings / "pipe"), temporary.rmdir):
            spoil()
            with pytest.raises(TemporaryFailure) as caught:
                await transport.send(REQUEST, {})
            failures.append(caught.value)
        await transport.close()
        return failures

    pipe, folder = asyncio.run(scenario())
    assert "pipe cannot be copied" in str(pipe)
    assert "No such file or directory" in str(folder)
    assert (pipe.billed, folder.billed) == (False, False)


def test_folders_that_cannot_serve_are_said_before_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = agent(tmp_path, "print('fine')", agent_folder=str(tmp_path / "settings"))
    (tmp_path / "settings").mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "settings" / "ipc"))
    with pytest.raises(ConfigError, match="ipc cannot be copied: only files that you may read"):
        ask(config)
    (tmp_path / "settings" / "ipc").unlink()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("d" * 80)))
    with pytest.raises(ConfigError, match=r"too long a path for the sockets of agents, by \d+ bytes; set TMPDIR"):
        ask(config)


def test_an_agent_is_stopped_when_its_search_is(tmp_path: Path) -> None:
    flag = "import time\nprint('began', flush=True)\ntime.sleep(1000)"

    async def scenario() -> None:
        transport = AgentTransport(
            agent(tmp_path, flag, timeout_s=1000),
            redactor=Redactor(()),
            services=ServiceReference(),
            environment=os.environ,
        )
        call = asyncio.create_task(transport.send(REQUEST, {}))
        await asyncio.sleep(0.5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await transport.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_without_namespaces_an_agent_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'coder': an agent runs only where namespaces work.*evokernel doctor"):
        with_namespaces("coder", detect_sandbox(SandboxLevel.RLIMITS))


def test_what_cannot_work_is_said_before_a_search(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no program 'no-such-coder' on PATH"):
        ask(agent(tmp_path, "").model_copy(update={"agent": "no-such-coder --print"}))
    with pytest.raises(ConfigError, match="CODER_KEY is not set"):
        ask(agent(tmp_path, "", key="CODER_KEY"), environment={})
    with pytest.raises(ConfigError, match="agent_reads: there is no"):
        ask(agent(tmp_path, "", agent_reads=(str(tmp_path / "missing"),)))
    with pytest.raises(ConfigError, match="is not a folder"):
        ask(agent(tmp_path, "", agent_folder=str(tmp_path / "agent.py")))
    with pytest.raises(ConfigError, match="quotation"):
        ask(agent(tmp_path, "").model_copy(update={"agent": f"{PYTHON} 'open"}))
