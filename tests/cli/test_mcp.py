"""`evokernel mcp`: the SDK's own client on the real command, and an engine on the same store."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from archive.store import Store
from evokernel.mcp.server import RunTools
from evokernel.records.candidate import Candidate, Proposal
from tests.cli.asked import SEED, asking_config, engage
from tests.cli.conftest import Call

ROOT = str(Path(__file__).parents[2])
FASTER = SEED.replace("int A = 1", "int A = 8").replace("// a toy", "// by an agent")
WRONG = SEED.replace("int A = 1", "int A = 16").replace("// a toy", "// by an agent")
Session = Callable[[Client], Awaitable[None]]


@pytest.fixture
def store(project: Path) -> Path:
    path = project / "toy.db"
    engage(path, asking_config(budget={"evaluations": 3}))
    return path


def connect(store: Path, session: Session) -> None:
    """Start the command, talk to it, and end it; nothing may have been said on stderr."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "evokernel", "mcp", str(store)], env={**os.environ, "PYTHONPATH": ROOT}
    )

    async def talk() -> None:
        with (store.parent / "said").open("w") as said:
            async with Client(stdio_client(command, errlog=said), read_timeout_seconds=300) as client:
                await session(client)

    asyncio.run(talk())
    assert (store.parent / "said").read_text() == ""


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    found = result.structured_content
    return found["result"] if set(found) == {"result"} else found


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return str(result.content[0])


def test_an_agent_proposes_and_hears_the_verdict(store: Path) -> None:
    with Store.open(store, write=False) as opened:
        best = opened.best(1)[0].candidate.candidate.id
    right, wrong = Candidate(FASTER, "cpp").id, Candidate(WRONG, "cpp").id

    async def propose(client: Client) -> None:
        answer = await ask(client, "propose", source=FASTER, rationale="eight at once", parents=["best"])
        assert answer["candidate"] == right
        assert "evokernel evolve" in answer["next"]
        assert (await ask(client, "verdict", id=right))["status"] == "waits"
        again = await ask(client, "propose", source=FASTER, rationale="eight at once")
        assert "proposed before" in again["next"]
        await ask(client, "propose", source=WRONG, rationale="sixteen")

    async def hear(client: Client) -> None:
        verdict = await ask(client, "verdict", id=right)
        assert verdict["status"] == "ok"
        assert verdict["speedup"]["value"] == pytest.approx(verdict["workloads"][0]["speedup"])
        failure = await ask(client, "verdict", id=wrong)
        assert (failure["status"], failure["feedback"], failure["speedup"]) == ("numerical", "wrong", None)
        line = await ask(client, "lineage", id=right)
        assert [chapter["candidate"] for chapter in line][-2:] == [best, right]
        assert line[-1]["rationale"] == "inject: eight at once"

    connect(store, propose)
    engage(store, asking_config(budget={"evaluations": 3}), handed_in_only=True)
    connect(store, hear)


def test_an_agent_looks_at_the_run(store: Path) -> None:
    async def look(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == [
            *("elites", "evaluate", "hint", "lineage", "profile", "propose", "source", "task", "verdict")
        ]
        hints = {name: tool.annotations for name, tool in tools.items()}
        assert {name for name, hint in hints.items() if hint and hint.read_only_hint} == {
            *("elites", "lineage", "profile", "source", "task", "verdict")
        }
        assert all(tool.description for tool in tools.values())
        contract = await ask(client, "task")
        for expected in ("a @ b", 'extern "C" void run(const float* a', "toy device"):
            assert expected in contract
        elites = await ask(client, "elites", n=2)
        assert len(elites) == 2
        assert elites[0]["speedup"] >= elites[1]["speedup"]
        assert "constexpr int A" in await ask(client, "source", id=elites[0]["candidate"])
        assert await ask(client, "source", id="seed") == SEED
        profile = await ask(client, "profile", id="best")
        assert (profile["candidate"], profile["status"]) == (elites[0]["candidate"], "ok")
        listed = [str(each.uri) for each in (await client.list_resources()).resources]
        assert listed == ["evokernel://task"]
        read = await client.read_resource("evokernel://kernels/seed")
        assert getattr(read.contents[0], "text", "") == SEED
        prompt = await client.get_prompt("improve", {"kernel": "seed"})
        assert SEED.strip() in getattr(prompt.messages[0].content, "text", "")
        assert "ffff" in await refused(client, "source", id="ffff")
        assert "ffff" in await refused(client, "verdict", id="ffff")
        assert "1 to 1000000 characters" in await refused(client, "propose", source=" ", rationale="none")
        assert "ffff" in await refused(client, "propose", source="void run() {}", rationale="new", parents=["ffff"])

    connect(store, look)
    with Store.open(store, write=False) as opened:
        assert opened.database.number("SELECT count(*) FROM inbox") == 0


def test_what_an_engine_has_taken_in_is_in_flight(store: Path) -> None:
    run = RunTools(store, None)
    name = run.propose(FASTER, "eight at once")["candidate"]
    with Store.open(store, write=True) as opened:
        opened.take_inbox()
    assert run.verdict(name)["status"] == "in flight"
    with Store.open(store, write=True) as opened:
        proposal = Proposal(Candidate(FASTER, "cpp"), opened.next_step(), "*", "inject", opened.last_seq())
        opened.propose(proposal, program_hash="p", skeleton="s")
    assert run.verdict(name)["status"] == "in flight"


def test_held_out_sizes_are_nobodys_to_work_for(ids: dict[str, str], project: Path) -> None:
    run = RunTools(project / "runs" / "gemm.db", None)
    verdict = run.verdict("best")
    assert (verdict["candidate"], verdict["holdout"]) == (ids["best"], "passed")
    assert [each["name"] for each in verdict["workloads"]] == ["small", "large"]
    assert run.elites(1)[0]["speedup"] == pytest.approx(verdict["speedup"]["value"])
    assert run.verdict(ids["wrong"])["feedback"] == "output differs by 3.5 at [0, 1]"


def test_a_store_without_a_run_is_a_message(project: Path, call: Call) -> None:
    with Store.open(project / "empty.db", write=True):
        pass
    result = call("mcp", project / "empty.db")
    assert result.exit_code == 2
    assert "holds no run yet" in result.stderr


def test_without_the_package_the_command_says_what_to_install(store: Path) -> None:
    """As on a machine without it: an interpreter that finds no module of that name."""
    code = (
        "import sys\n"
        "sys.modules['mcp'] = None\n"
        "from evokernel.cli.group import main\n"
        f"main(['mcp', {str(store)!r}], prog_name='evokernel')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ROOT}
    )
    assert done.returncode == 2
    assert "pip install -e '.[mcp]'" in " ".join(done.stderr.split())


def test_an_agent_waits_for_a_verdict_and_leaves_a_hint(store: Path) -> None:
    async def evaluate(client: Client) -> None:
        waiting = await ask(client, "evaluate", source=FASTER, rationale="eight at once", wait_s=0)
        assert waiting["status"] == "waits"
        assert "kept" in await ask(client, "hint", text="eight is fast", island="one")
        assert "1 to 2000 characters" in await refused(client, "hint", text=" ")

    async def evaluate_again(client: Client) -> None:
        assert (await ask(client, "evaluate", source=FASTER, rationale="eight at once"))["status"] == "ok"

    connect(store, evaluate)
    engage(store, asking_config(budget={"evaluations": 3}), handed_in_only=True)
    connect(store, evaluate_again)
    with Store.open(store, write=False) as opened:
        assert opened.database.number("SELECT count(*) FROM inbox WHERE kind = 'hint' AND taken_seq IS NOT NULL") == 1


def test_the_lines_for_clients_name_the_store_by_its_whole_path(store: Path, call: Call) -> None:
    said = call("mcp", str(store), "--print-config").stdout
    lines = said[said.index("# Claude Desktop") :].partition("\n")[2]
    entry = json.loads(lines)["mcpServers"]["evokernel"]
    assert entry == {"command": sys.executable, "args": ["-m", "evokernel", "mcp", str(store)]}
    assert f"claude mcp add evokernel -- {sys.executable}" in said
    assert "[mcp_servers.evokernel]" in said
    assert call("mcp", str(store.parent / "none.db"), "--print-config").exit_code == 2
