"""Tools of one call of an agent, by the Model Context Protocol over a unix socket; each is limited in number."""

import asyncio
import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any, ParamSpec, TypeVar, cast

import anyio
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, ListToolsResult, TextContent

from evokernel.agents.agent_socket import AgentSocket
from evokernel.agents.services import AgentServices
from evokernel.errors import ConfigError, EvokernelError
from evokernel.llm.redact import Redactor
from evokernel.records.llm import Origin

P = ParamSpec("P")
T = TypeVar("T")
MOST_LOOKS = 200
MOST_CONNECTIONS = 4
LONGEST_MESSAGE_BYTES = 4 << 20
_INSTRUCTIONS = (
    "The judge of this search. `evaluate` proves a kernel right and measures it, a few times a call; your answer "
    "hands in the best one. `lineage` and `profile` say what is known of the kernels in `parents/`."
)


class AgentTools:
    """The tools of one call.

    Args:
        agent: name of the agent's entry.
        evaluations: the most kernels that it may have judged.
        redactor: removes keys from what the search keeps, as from replies: what is judged has none to quote.
    """

    def __init__(
        self, services: AgentServices, origin: Origin, *, agent: str, evaluations: int, redactor: Redactor
    ) -> None:
        self.evaluated = 0
        """Kernels that it had judged."""
        self._services = services
        self._origin = origin
        self._agent = agent
        self._evaluations = evaluations
        self._redactor = redactor
        self._looks = 0
        self._hinted = False

    async def evaluate(self, source: str) -> dict[str, Any]:
        """Judge the whole source of a kernel: is it right, and how fast? Nothing is handed in by this.

        Returns `status` (`ok` for a right one), `feedback`, `speedup` over the fastest baseline with its 95 % interval,
        `workloads`, `metrics`, and how many evaluations are `left`.
        """
        if self.evaluated >= self._evaluations:
            raise ConfigError(f"all {self._evaluations} evaluations of this call are used; write your answer")
        self.evaluated += 1
        found = await self._services.evaluate(self._redactor.text(source), self._origin, agent=self._agent)
        return {**found, "left": self._evaluations - self.evaluated}

    async def lineage(self, candidate: str) -> list[dict[str, Any]]:
        """Return how a kernel came about, from the seed on, by its id or the beginning of one."""
        self._look()
        return self._services.lineage(candidate)

    async def profile(self, candidate: str) -> dict[str, Any]:
        """Return the times, metrics and counters that were measured of a kernel, by its id or the beginning of one."""
        self._look()
        return self._services.profile(candidate)

    async def hint(self, text: str) -> str:
        """Leave one sentence, once, for all later prompts of this population: what you found out, in numbers."""
        if self._hinted:
            raise ConfigError("one hint for each call, and this call has left one")
        self._hinted = True
        self._services.hint(self._redactor.text(text), self._origin, agent=self._agent)
        return "kept"

    def _look(self) -> None:
        self._looks += 1
        if self._looks > MOST_LOOKS:
            raise ConfigError(f"all {MOST_LOOKS} looks of this call are used; write your answer")


class ToolServer(AgentSocket):
    """Serves the tools of one call on a unix socket."""

    def __init__(self, tools: AgentTools) -> None:
        super().__init__(most=MOST_CONNECTIONS, longest_bytes=LONGEST_MESSAGE_BYTES)
        self._tools: MCPServer[Any] = MCPServer("evokernel", instructions=_INSTRUCTIONS, log_level="ERROR")
        for tool in (tools.evaluate, tools.lineage, tools.profile, tools.hint):
            self._tools.add_tool(with_tool_errors(tool))

    async def _turn_away(self, writer: asyncio.StreamWriter) -> None:
        return  # the protocol begins with the client's word

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = cast("anyio.AsyncFile[str]", _Lines(reader, writer))
        with contextlib.suppress(Exception):  # the edge of an agent: what it sends must not end the search
            async with stdio_server(lines, lines) as (incoming, outgoing):
                server = self._protocol()
                await server.run(incoming, outgoing, server.create_initialization_options())

    def _protocol(self) -> Server[Any]:
        async def listed(context: Any, parameters: Any) -> ListToolsResult:
            return ListToolsResult(tools=await self._tools.list_tools())

        async def called(context: Any, parameters: Any) -> Any:
            try:
                return await self._tools.call_tool(parameters.name, parameters.arguments or {})
            except ToolError as error:
                return CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=True)

        return Server("evokernel", instructions=_INSTRUCTIONS, on_list_tools=listed, on_call_tool=called)


class _Lines:
    """A connection as the text files that the protocol's server reads and writes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def __aiter__(self) -> AsyncIterator[str]:
        with contextlib.suppress(OSError, ValueError):  # hung up, or a line beyond the limit
            while line := await self._reader.readline():
                yield line.decode("utf-8", "replace")

    async def write(self, text: str) -> None:
        self._writer.write(text.encode("utf-8", "replace"))

    async def flush(self) -> None:
        """Send what was written."""
        with contextlib.suppress(OSError):
            await self._writer.drain()


def with_tool_errors(tool: Callable[P, T]) -> Callable[P, T]:
    """Return a tool that reports our errors to the agent in words."""
    if inspect.iscoroutinefunction(tool):

        @functools.wraps(tool)
        async def waited(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                return await tool(*args, **kwargs)
            except EvokernelError as error:
                raise ToolError(str(error)) from error

        return waited  # type: ignore[return-value]

    @functools.wraps(tool)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return tool(*args, **kwargs)
        except EvokernelError as error:
            raise ToolError(str(error)) from error

    return wrapped
