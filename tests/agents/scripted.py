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

    def files(self, origin: Origin) -> Mapping[str, str]:
        return FILES

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
