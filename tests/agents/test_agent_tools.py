"""Tools of agents: called from inside the sandbox, rationed, and in a whole search."""

from pathlib import Path

import pytest

from evokernel.llm.transport import HopelessRequest
from tests.agents.scripted import CLIENT, NotedServices, agent, ask

USES = (
    CLIENT
    + """
print(sorted(tool["name"] for tool in ask("tools/list")["tools"]))
for source in ("int fast;", "", "int faster;"):
    print(call("evaluate", source=source))
print(call("lineage", candidate="abc"), call("profile", candidate="abc"))
print(call("hint", text="use 8"), call("hint", text="use 9"))
print(call("evaluate"))
"""
)


def test_an_agent_calls_its_tools_as_often_as_it_may(tmp_path: Path) -> None:
    services = NotedServices()
    lines = ask(agent(tmp_path, USES, agent_evaluations=2), services=services).text.splitlines()
    assert lines[0] == "['evaluate', 'hint', 'lineage', 'profile']"
    assert lines[1] == "{'candidate': 'coder at 7', 'status': 'ok', 'length': 9, 'left': 1}"
    assert "an empty source" in lines[2]
    assert "all 2 evaluations of this call are used" in lines[3]
    assert lines[4] == "{'result': [{'candidate': 'abc'}]} {'candidate': 'abc'}"
    assert "kept" in lines[5]
    assert "one hint for each call" in lines[5]
    assert "validation error" in lines[6]
    assert services.hints == ["use 8"]
    assert "2 evaluations" in services.remarks[0][0]


SAYS_ITS_KEY = (
    CLIENT
    + """
import os
print(call("evaluate", source="// " + os.environ["CODER_KEY"]))
call("hint", text="mine is " + os.environ["CODER_KEY"])
"""
)


def test_keys_are_kept_out_of_hints_and_of_what_is_judged(tmp_path: Path) -> None:
    services, key = NotedServices(), "sk-agent-0123456789"
    config = agent(tmp_path, SAYS_ITS_KEY, key="CODER_KEY")
    ask(config, services=services, environment={"CODER_KEY": key}, secrets=(key,))
    assert (services.sources, services.hints) == (["// [key]"], ["mine is [key]"])


def test_nonsense_on_the_line_of_tools_costs_only_its_call(tmp_path: Path) -> None:
    floods = f"{CLIENT}\ntools.stdin.write('x' * 9_000_000 + chr(10))\nprint(call('evaluate', source='a'))"
    with pytest.raises(HopelessRequest, match="exit code 1 and without an answer"):
        ask(agent(tmp_path, floods), services=NotedServices())
    assert ask(agent(tmp_path, USES), services=NotedServices()).text
