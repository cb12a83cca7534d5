"""Scripted agents: small Python programs, run as commands in the sandbox."""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evokernel.agents.services import ServiceReference
from evokernel.agents.transport import AgentTransport
from evokernel.config.models import ModelConfig
from evokernel.errors import ConfigError
from evokernel.llm.redact import Redactor
from evokernel.llm.transport import TransportReply
from evokernel.records.llm import Message, ModelRequest, Origin

PYTHON = str(Path(sys.executable).resolve())
"""The sandbox shows this interpreter to every program."""
FILES = {"task.md": "the task", "parents/abc.cpp": "int seed;"}
REQUEST = ModelRequest(Origin(7, "north", "mutate", ("abc",)), 0, "code", (Message("user", "make it fast"),))


class NotedServices:
    """Services without a search: they keep the remarks."""

    def __init__(self) -> None:
        self.remarks: list[tuple[str, dict[str, Any]]] = []
        self.hints: list[str] = []
        self.sources: list[str] = []

    def files(self, origin: Origin) -> Mapping[str, str]:
        return FILES

    async def evaluate(self, source: str, origin: Origin, *, agent: str) -> dict[str, Any]:
        self.sources.append(source)
        if not source:
            raise ConfigError("an empty source")
        return {"candidate": f"{agent} at {origin.step}", "status": "ok", "length": len(source)}

    def lineage(self, candidate: str) -> list[dict[str, Any]]:
        return [{"candidate": candidate}]

    def profile(self, candidate: str) -> dict[str, Any]:
        return {"candidate": candidate}

    def hint(self, text: str, origin: Origin, *, agent: str) -> None:
        self.hints.append(text)

    def remark(self, text: str, *, step: int, **detail: Any) -> None:
        self.remarks.append((text, {"step": step, **detail}))


def agent(folder: Path, script: str, **settings: Any) -> ModelConfig:
    """Return the entry of an agent that runs a script."""
    path = folder / "agent.py"
    path.write_text(script, encoding="utf-8")
    path.chmod(0o644)
    reads = (str(path), *settings.pop("agent_reads", ()))
    return ModelConfig(name="coder", agent=f"{PYTHON} {path}", agent_reads=reads, **{"timeout_s": 60, **settings})


def ask(
    config: ModelConfig,
    *,
    services: NotedServices | None = None,
    environment: Mapping[str, str] | None = None,
    secrets: tuple[str, ...] = (),
) -> TransportReply:
    """Return the answer of an agent to one request."""

    async def scenario() -> TransportReply:
        transport = AgentTransport(
            config,
            redactor=Redactor(secrets),
            services=ServiceReference(services),
            environment=os.environ if environment is None else environment,
        )
        try:
            return await transport.send(REQUEST, {})
        finally:
            await transport.close()

    return asyncio.run(scenario())


CLIENT = """
import json, subprocess
entry = json.load(open("mcp.json"))["mcpServers"]["evokernel"]
tools = subprocess.Popen([entry["command"], *entry["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
numbers = iter(range(1, 1000))
def ask(method, **params):
    number = next(numbers)
    said = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    print(json.dumps(said), file=tools.stdin, flush=True)
    while (found := json.loads(tools.stdout.readline())).get("id") != number:
        pass
    return found["result"]
def call(name, **arguments):
    result = ask("tools/call", name=name, arguments=arguments)
    return result["content"][0]["text"] if result.get("isError") else result["structuredContent"]
ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "scripted", "version": "1"})
print(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}), file=tools.stdin, flush=True)
"""
"""The beginning of an agent that calls tools: `call(name, **arguments)` returns the structured result or the error."""
