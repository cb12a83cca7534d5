"""Workspace of one call of an agent: the files that it finds, and those that it leaves."""

import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from evokernel.errors import ConfigError
from evokernel.llm.transport import LONGEST_REPLY_BYTES, TransportReply

PROMPT, REPLY, OUTPUT, ERRORS, TOOLS = "prompt.md", "reply.md", "stdout.txt", "stderr.txt", "mcp.json"
HOME, SOCKETS = "home", ".evokernel"
START = f"{SOCKETS}/start.json"
_PREFIX, _WORK = "evokernel-agent-", "work"
_LONGEST_SOCKET_PATH = 107
"""Bytes that Linux takes of a unix socket's path."""
MOST_BYTES = 256 << 20
MOST_FILES = 20_000
LARGEST_SETTINGS_BYTES = 64 << 20


class AgentWorkspace:
    """A folder of one call; a context manager that makes and removes it.

    Nothing that an agent leaves is followed or believed: links and everything but plain files count as missing.
    """

    def __init__(self) -> None:
        self._private = Path(tempfile.mkdtemp(prefix=_PREFIX))  # others on this machine cannot look in
        self.folder = self._private / _WORK
        self.folder.mkdir(0o755)
        self.folder.chmod(0o755)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._private, ignore_errors=True)

    def fill(self, prompt: str, files: Mapping[str, str], *, settings: str) -> None:
        """Write the prompt and further files by relative path, and copy a folder of settings into the home.

        Raises `ConfigError` if the folder of settings cannot be copied, or is too large.
        """
        for name, text in {PROMPT: prompt, **files}.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="replace")
        for name in (HOME, SOCKETS):
            (self.folder / name).mkdir()
        if settings:
            copy_settings(Path(settings), self.folder / HOME)

    def hand_over(self, start: Mapping[str, Any]) -> Path:
        """Write a description of the command, keys included, where our program inside alone reads it; return its path.

        A command line would show the keys to every user of this machine.
        """
        path = self.folder / START
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(start, file)
        return path

    def flood(self) -> str:
        """Return which limit on files the agent has passed; empty where it has passed none."""
        for name in (REPLY, OUTPUT, ERRORS):
            if _size(self.folder / name) > LONGEST_REPLY_BYTES:
                return f"{name} is longer than {LONGEST_REPLY_BYTES} bytes"
        total, count = 0, 0
        for folder, _, names in os.walk(self.folder):
            count += len(names) + 1
            total += sum(_size(Path(folder, name)) for name in names)
            if count > MOST_FILES or total > MOST_BYTES:
                return f"its files pass {MOST_BYTES >> 20} MiB or {MOST_FILES} in number"
        return ""

    def read(self, name: str) -> str:
        """Return the text of a plain file in the folder, up to the longest reply; empty where there is none."""
        try:
            handle = os.open(self.folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return ""
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return ""
            return file.read(LONGEST_REPLY_BYTES).decode("utf-8", "replace")


def copy_settings(source: Path, home: Path) -> None:
    """Copy a folder into a home under its own name; links stay links. Raises `ConfigError`."""
    check_settings(source)
    try:
        shutil.copytree(source, home / source.name, symlinks=True)
    except (OSError, shutil.Error) as error:
        raise ConfigError(f"agent_folder {source} cannot be copied: {error}") from None


def check_folders(settings: str) -> None:
    """Raise `ConfigError` where no workspace can be made, or the folder of settings (empty for none) not be copied."""
    try:
        folder = tempfile.gettempdir()
    except OSError as error:
        raise ConfigError(f"agents work in a temporary folder, and there is none: {error}; set TMPDIR to one") from None
    longest = os.path.join(folder, f"{_PREFIX}12345678", _WORK, SOCKETS, "proxy")
    if excess := max(0, len(os.fsencode(longest)) - _LONGEST_SOCKET_PATH):
        raise ConfigError(
            f"the temporary folder {folder} has too long a path for the sockets of agents, by {excess} bytes; set "
            "TMPDIR to a shorter one"
        )
    if settings:
        check_settings(Path(settings))


def check_settings(source: Path) -> None:
    """Raise `ConfigError` where a folder of settings is missing or too large, or holds what cannot be copied."""
    if not source.is_dir():
        raise ConfigError(f"agent_folder {source} is not a folder; name the one with the command's settings")
    size = 0
    for path in (Path(folder, name) for folder, _, names in os.walk(source, onerror=_refuse) for name in names):
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)) or (stat.S_ISREG(mode) and not os.access(path, os.R_OK)):
            raise ConfigError(
                f"agent_folder {source}: {path.relative_to(source)} cannot be copied: only files that you may read "
                "can, not sockets, pipes and the like; remove it, or name a folder with the settings alone"
            )
        size += _size(path)
    if size > LARGEST_SETTINGS_BYTES:
        raise ConfigError(
            f"agent_folder {source} holds {size >> 20} MiB, and at most {LARGEST_SETTINGS_BYTES >> 20} MiB are copied "
            "for each call; name a folder with the settings and the credentials alone"
        )


def _refuse(error: OSError) -> None:
    raise ConfigError(f"agent_folder: {error.filename} cannot be read: {error.strerror}")


def report_of(output: str) -> TransportReply:
    """Return what a command says on stdout: a JSON object with its text in `result`, or the text itself.

    The object may say `total_cost_usd`, and `input_tokens` and `output_tokens` within `usage`.
    """
    try:
        said = json.loads(output)
    except (ValueError, RecursionError):
        return TransportReply(output)
    if not isinstance(said, dict) or not isinstance(said.get("result"), str):
        return TransportReply(output)
    usage = said["usage"] if isinstance(said.get("usage"), dict) else {}
    dollars = said.get("total_cost_usd")
    number = dollars if isinstance(dollars, int | float) and not isinstance(dollars, bool) else -1.0
    return TransportReply(
        text=said["result"],
        cost_usd=float(number) if 0 <= number <= sys.float_info.max else None,
        prompt_tokens=_count(usage.get("input_tokens")),
        completion_tokens=_count(usage.get("output_tokens")),
    )


def _count(tokens: Any) -> int | None:
    usable = isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens < 1 << 40
    return tokens if usable else None


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
