"""A command that answers prompts: each call in a sandbox and a workspace of its own, with limits on all it does."""

import asyncio
import contextlib
import importlib.util
import json
import shlex
import shutil
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from evokernel.agents.proxy import AgentProxy
from evokernel.agents.services import AgentServices, ServiceReference
from evokernel.agents.workspace import (
    ERRORS,
    HOME,
    OUTPUT,
    PROMPT,
    REPLY,
    SOCKETS,
    TOOLS,
    AgentWorkspace,
    check_folders,
    report_of,
)
from evokernel.config.models import ModelConfig
from evokernel.errors import ConfigError, EvokernelError, install
from evokernel.evaluate.inside.untrusted.agent_program import BEGUN
from evokernel.evaluate.sandbox.levels import CLEAN_PATH, Sandbox, SandboxLevel, detect_sandbox, in_system
from evokernel.evaluate.sandbox.run_once import ProcessLimits, VisiblePaths, run_confined
from evokernel.evaluate.sandbox.seccomp import Children
from evokernel.llm.redact import Redactor
from evokernel.llm.transport import HopelessModel, HopelessRequest, TemporaryFailure, TransportReply
from evokernel.records.llm import ModelRequest
from evokernel.records.process_exit import ProcessExit

if TYPE_CHECKING:
    from evokernel.agents.tools import AgentTools

PROCESSES = 512
DATA_BYTES = 8 << 30
FILE_BYTES = 64 << 20
LOOK_EVERY_S = 0.5
TRANSCRIPT_CHARACTERS = 32_000
_SHOWN = 300
_CERTIFICATES = ("/etc/ssl", "/etc/pki", "/etc/ca-certificates")
_NOTE = Path(__file__).with_name("note.txt").read_text(encoding="utf-8")


class AgentTransport:
    """Runs a command for each attempt. Implements `Transport`.

    The prompt is the command's standard input. Its answer is the file `reply.md`, or what it prints where it ends with
    exit code 0. Raises `ConfigError` if agents cannot run here, or the entry names what is not there.
    """

    def __init__(
        self, config: ModelConfig, *, redactor: Redactor, services: ServiceReference, environment: Mapping[str, str]
    ) -> None:
        self._config = config
        self._redactor = redactor
        self._services = services
        if importlib.util.find_spec("mcp") is None:
            raise ConfigError(
                f"model {config.name!r}: an agent's tools are built with the package mcp, which is not installed: "
                f"{install('mcp')}"
            )
        self._sandbox = with_namespaces(config.name, detect_sandbox())
        self._argv, self._reads = _command(config)
        self._variables = _variables(config, environment)
        check_folders(config.agent_folder)
        self._pool = ThreadPoolExecutor(config.concurrency, thread_name_prefix=f"agent {config.name}")

    async def send(self, request: ModelRequest, parameters: Mapping[str, Any]) -> TransportReply:
        """Return the command's answer.

        Raises:
            HopelessModel: the command cannot be started.
            HopelessRequest: it crashed, was stopped at a limit, or said nothing.
            TemporaryFailure: its workspace or the sandbox failed, before it began.
        """
        services = self._services.current
        proxy = AgentProxy(self._config.agent_hosts)
        async with AsyncExitStack() as stack:
            try:
                files = {} if services is None else services.files(request.origin)
                workspace = stack.enter_context(AgentWorkspace())
                workspace.fill(self._prompt(request, files), files, settings=self._config.agent_folder)
                if self._config.agent_hosts:
                    stack.push_async_callback(proxy.close)
                    await proxy.start(self._socket(workspace, "proxy"))
                tools = None
                if services is not None:
                    tools = await self._serve(services, request, workspace, stack)
                ended, flood = await self._run(workspace)
            except (OSError, EvokernelError) as error:  # raised only before the command begins
                raise TemporaryFailure(f"the command was not started: {error}") from None
            report = report_of(workspace.read(OUTPUT))
            if services is not None and tools is not None:
                self._remark(services, request, workspace, ended=ended, flood=flood, proxy=proxy, tools=tools)
            return self._reply(workspace, report, ended=ended, flood=flood)

    async def close(self) -> None:
        """End the threads; calls under way were cancelled before."""
        self._pool.shutdown(wait=False)

    def _prompt(self, request: ModelRequest, files: Mapping[str, str]) -> str:
        said = "\n\n".join(message.text for message in request.messages)
        listed = f"These files repeat parts of it: {', '.join(f'`{name}`' for name in files)}." if files else ""
        return said + _NOTE.format(
            prompt=PROMPT,
            reply=REPLY,
            files=listed,
            tools=TOOLS,
            evaluations=self._config.agent_evaluations,
            seconds=self._config.timeout_s,
        )

    async def _serve(
        self, services: AgentServices, request: ModelRequest, workspace: AgentWorkspace, stack: AsyncExitStack
    ) -> "AgentTools":
        """Offer the tools of the search to the command: a file for its client, which names a program in the sandbox."""
        from evokernel.agents.tools import AgentTools, ToolServer

        tools = AgentTools(
            services,
            request.origin,
            agent=self._config.name,
            evaluations=self._config.agent_evaluations,
            redactor=self._redactor,
        )
        server, place = ToolServer(tools), self._socket(workspace, "tools")
        stack.push_async_callback(server.close)
        await server.start(place)
        program, *arguments = self._sandbox.program("untrusted.agent_connection", str(place))
        offer = {"mcpServers": {"evokernel": {"command": program, "args": arguments}}}
        (workspace.folder / TOOLS).write_text(json.dumps(offer, indent=2) + "\n", encoding="utf-8")
        return tools

    async def _run(self, workspace: AgentWorkspace) -> tuple[ProcessExit, str]:
        """Run the command to its end or to a limit; return the end, and the limit on files that it passed."""
        folder = workspace.folder
        environment = {
            **self._variables,
            "PATH": ":".join([*_folders_of_programs(self._config.agent_reads), CLEAN_PATH]),
            "HOME": str(folder / HOME),
            "TMPDIR": str(folder),
            "NODE_USE_ENV_PROXY": "1",
        }
        start = {
            "argv": self._argv,
            "environment": environment,
            "proxy": str(self._socket(workspace, "proxy")) if self._config.agent_hosts else "",
            "input": str(folder / PROMPT),
            "output": str(folder / OUTPUT),
            "errors": str(folder / ERRORS),
        }
        start_file = workspace.hand_over(start)
        limits = ProcessLimits(
            timeout_s=self._config.timeout_s,
            memory_bytes=None,  # runtimes of scripts reserve far more than they use
            data_bytes=DATA_BYTES,
            file_bytes=FILE_BYTES,
            processes=PROCESSES,
            files=1024,
        )
        certificates = _CERTIFICATES if self._config.agent_hosts else ()
        reads = [*self._reads, *(Path(path) for path in certificates if Path(path).exists())]
        ours, theirs = socket.socketpair()
        with ours, theirs:
            work = partial(
                run_confined,
                self._sandbox.program("untrusted.agent_program", str(start_file)),
                sandbox=self._sandbox,
                paths=VisiblePaths(read_only=reads, writable=[folder], folder=folder),
                limits=limits,
                children=Children.NETWORKED,
                hold=theirs,
            )
            job = asyncio.get_running_loop().run_in_executor(self._pool, work)
            try:
                return await _watched(job, workspace, ours)
            finally:
                with contextlib.suppress(OSError):
                    ours.shutdown(socket.SHUT_RDWR)
                await asyncio.wait([job])

    def _reply(
        self, workspace: AgentWorkspace, report: TransportReply, *, ended: ProcessExit, flood: str
    ) -> TransportReply:
        # standard output and errors are our own program's: `BEGUN`, and the reason where the command cannot run
        if not ended.stdout.startswith(BEGUN):
            said = ended.stderr.strip()[-_SHOWN:] or _how(ended)
            raise TemporaryFailure(f"the sandbox failed before the command began: {said}")
        if flood:
            raise HopelessRequest(f"it was stopped: {flood}", billed=True)
        text = workspace.read(REPLY)
        if not text.strip():
            text = report.text if ended.exit_code == 0 else ""
        if not text.strip() and (reason := ended.stdout.removeprefix(BEGUN)):
            raise HopelessModel(f"{reason}: the sandbox shows the system's programs and agent_reads")
        if not text.strip():
            self._refuse(workspace, ended)
        return replace(report, text=text)

    def _refuse(self, workspace: AgentWorkspace, ended: ProcessExit) -> NoReturn:
        if ended.timed_out:
            raise HopelessRequest(
                f"it left no {REPLY} within {self._config.timeout_s:g} s and was stopped", billed=True
            )
        last = (workspace.read(ERRORS).strip() or ended.stderr.strip()).splitlines()[-1:]
        said = f"; it said last: {self._redactor.text(last[0])[:_SHOWN]}" if last else ""
        raise HopelessRequest(f"it ended with {_how(ended)} and without an answer{said}", billed=True)

    def _remark(
        self,
        services: AgentServices,
        request: ModelRequest,
        workspace: AgentWorkspace,
        *,
        ended: ProcessExit,
        flood: str,
        proxy: AgentProxy,
        tools: "AgentTools",
    ) -> None:
        """Keep the transcript of a call, and what was refused to it."""
        how = flood or ("stopped at its time limit" if ended.timed_out else f"exit code {ended.exit_code}")
        refused = self._redactor.value(dict(sorted(proxy.refused.items())))
        text = f"{self._config.name}: {ended.duration_s:.1f} s, {how}, {tools.evaluated} evaluations"
        if refused:
            text += f"; refused to reach {', '.join(refused)}: agent_hosts names what it may"
        services.remark(
            text,
            step=request.origin.step,
            agent=self._config.name,
            ordinal=request.ordinal,
            evaluated=tools.evaluated,
            stdout=self._kept(workspace, OUTPUT),
            stderr=self._kept(workspace, ERRORS),
            refused=refused,
            carried_bytes=proxy.carried_bytes,
        )

    def _kept(self, workspace: AgentWorkspace, name: str) -> str:
        return self._redactor.text(workspace.read(name))[-TRANSCRIPT_CHARACTERS:]

    def _socket(self, workspace: AgentWorkspace, name: str) -> Path:
        return workspace.folder / SOCKETS / name


def _how(ended: ProcessExit) -> str:
    return f"signal {ended.signal}" if ended.signal else f"exit code {ended.exit_code}"


async def _watched(
    job: "asyncio.Future[ProcessExit]", workspace: AgentWorkspace, hold: socket.socket
) -> tuple[ProcessExit, str]:
    """Return the end of a command; stop it where it writes too much."""
    flood = ""
    while not (await asyncio.wait([job], timeout=LOOK_EVERY_S))[0]:
        flood = flood or await asyncio.to_thread(workspace.flood)
        if flood:
            hold.shutdown(socket.SHUT_RDWR)
            break
    ended = await job
    return ended, flood or await asyncio.to_thread(workspace.flood)


def with_namespaces(name: str, sandbox: Sandbox) -> Sandbox:
    """Return the sandbox of this machine for an entry. Raises `ConfigError` where it has no namespaces."""
    if sandbox.level is not SandboxLevel.FULL:
        raise ConfigError(
            f"model {name!r}: an agent runs only where namespaces work, and here is {sandbox.describe()}. Install "
            "bubblewrap and allow user namespaces (`evokernel doctor` says what is missing), or remove the entry"
        )
    return sandbox


def _command(config: ModelConfig) -> tuple[list[str], list[Path]]:
    """Return the command with its program's real path, and the paths that it reads. Raises `ConfigError`."""
    try:
        argv = shlex.split(config.agent)
    except ValueError as error:
        raise ConfigError(f"model {config.name!r}: agent: {error}: {config.agent!r}") from None
    found = shutil.which(argv[0]) if argv else None
    if found is None:
        raise ConfigError(f"model {config.name!r}: agent: there is no program {(argv or [''])[0]!r} on PATH")
    reads = [Path(path) for path in config.agent_reads]
    for path in reads:
        if not path.exists():
            raise ConfigError(f"model {config.name!r}: agent_reads: there is no {path}")
    program = Path(found).absolute()
    if not in_system(program) and not any(program.is_relative_to(path) for path in reads):
        program = program.resolve()
        reads.append(program)
    return [str(program), *argv[1:]], reads


def _variables(config: ModelConfig, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the entry names. Raises `ConfigError` for one that is not set."""
    names = [*filter(None, [config.key]), *config.agent_variables]
    for name in names:
        if name not in environment:
            raise ConfigError(f"model {config.name!r}: the environment variable {name} is not set")
    return {name: environment[name] for name in names}


def _folders_of_programs(paths: tuple[str, ...]) -> list[str]:
    folders = [Path(path) / "bin" for path in paths] + [Path(path) for path in paths]
    return [str(folder) for folder in folders if folder.is_dir()]
