"""Recordings: replies of a run in a file that answers in place of a model, without key or network."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evokernel.errors import ConfigError
from evokernel.llm.transport import HopelessRequest, TransportReply
from evokernel.records.llm import CallStatus, Message, ModelCall, ModelCallResult, ModelRequest, StoredCall

FORMAT = "evokernel-recording"
VERSION = 1
_ANSWERED = (CallStatus.OK, CallStatus.TRUNCATED, CallStatus.EMPTY, CallStatus.REFUSED)

Place = tuple[int, str, int]
"""Step, role, and number of the call in its step."""


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """One reply, with the origin of its step."""

    step: int
    """Number of the step."""
    role: str
    """The role that was asked."""
    sample: int
    """Number of the call in its step."""
    prompt: str
    """16 hex digits over the messages that it answered."""
    model: str
    """Name of the model that answered."""
    text: str
    """The reply."""
    status: CallStatus = CallStatus.OK
    """State of its call."""
    prompt_tokens: int = 0
    """Tokens of the prompt when it was recorded."""
    completion_tokens: int = 0
    """Tokens of the reply when it was recorded."""
    operator: str = ""
    """Name of the operator."""
    island: str = ""
    """The population that the step was for."""
    parents: tuple[str, ...] = ()
    """Ids of the candidates that were selected."""
    insights: tuple[str, ...] = ()
    """Titles of the insights that were used."""

    @property
    def place(self) -> Place:
        """Its place in a run."""
        return (self.step, self.role, self.sample)


def prompt_hash(messages: Iterable[Message]) -> str:
    """Return 16 hex digits over the messages; a recording replaces model and parameters."""
    text = json.dumps([[message.role, message.text] for message in messages])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class ReplyRecording:
    """Replies by step, role and number of the call in its step."""

    def __init__(self, replies: Iterable[RecordedReply]) -> None:
        self._replies: dict[Place, RecordedReply] = {reply.place: reply for reply in replies}

    def __len__(self) -> int:
        return len(self._replies)

    def steps(self) -> Mapping[int, RecordedReply]:
        """Return the first reply of each step."""
        return {reply.step: reply for reply in reversed(self._replies.values()) if reply.operator}

    def at(self, place: Place) -> RecordedReply | None:
        """Return the reply at a place, or None."""
        return self._replies.get(place)

    @classmethod
    def load(cls, path: Path) -> "ReplyRecording":
        """Read a recording.

        Raises `ConfigError` if the file cannot be read or is not a recording; the message names the line.
        """
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the recording {path}: {error}") from None
        head = _object(path, 1, lines[0] if lines else "")
        if head.get("format") != FORMAT:
            raise ConfigError(f"{path} is not a recording: its first line should name the format {FORMAT}")
        if head.get("version") != VERSION:
            raise ConfigError(f"{path}: recordings of version {head.get('version')!r} cannot be read, only {VERSION}")
        return cls(_reply(path, number, line) for number, line in enumerate(lines[1:], start=2) if line.strip())


def write_recording(path: Path, calls: Iterable[StoredCall], *, titles: Mapping[int, str] | None = None) -> int:
    """Write every call that was answered, one JSON line each, and return how many. Of several in one place the newest.

    `titles` are those of the run's insights by seq; another run has other seqs. Without replies nothing is written.

    Raises:
        ConfigError: the file cannot be written.
    """
    replies: dict[Place, RecordedReply] = {}
    for stored in sorted(calls, key=lambda each: each.number):
        if stored.result is not None and stored.result.status in _ANSWERED:
            reply = _recorded(stored.call, stored.result, titles or {})
            replies[reply.place] = reply
    if not replies:
        return 0
    head: Mapping[str, Any] = {"format": FORMAT, "version": VERSION}
    bodies = [asdict(replies[place]) for place in sorted(replies)]
    lines = [json.dumps(each, ensure_ascii=False) for each in (head, *bodies)]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the recording {path}: {error.strerror}") from None
    return len(replies)


class RecordedTransport:
    """Answers from a recording. Implements `Transport`.

    A reply costs no money now and keeps its tokens. It also answers a prompt that differs from the recorded one, since
    prompts change with every release; `close` reports the number and the steps of such prompts.
    """

    def __init__(self, recording: ReplyRecording, *, name: str, notify: Callable[[str], None]) -> None:
        self._recording = recording
        self._name = name
        self._notify = notify
        self._asked: set[Place] = set()
        self._differing: set[Place] = set()

    @property
    def drifted(self) -> tuple[int, ...]:
        """Steps whose prompts differ from the recorded ones, ascending."""
        return tuple(sorted({step for step, _, _ in self._differing}))

    async def send(self, request: ModelRequest, parameters: Mapping[str, Any]) -> TransportReply:
        """Return the recorded reply. Raises `HopelessRequest` if the recording has none for this call."""
        place = (request.origin.step, request.role, request.ordinal)
        reply = self._recording.at(place)
        if reply is None:
            raise HopelessRequest(f"the recording has no reply for step {place[0]}, role {place[1]}, call {place[2]}")
        self._asked.add(place)
        if reply.prompt != prompt_hash(request.messages):
            self._differing.add(place)
        return TransportReply(reply.text, reply.status, reply.prompt_tokens, reply.completion_tokens, 0.0, reply.model)

    async def close(self) -> None:
        """Report the prompts that differed."""
        if self._differing:
            steps = ", ".join(map(str, self.drifted))
            self._notify(
                f"{self._name}: {len(self._differing)} of {len(self._asked)} prompts differ from the recorded ones, "
                f"at steps {steps}"
            )
            self._differing.clear()


def _recorded(call: ModelCall, result: ModelCallResult, titles: Mapping[int, str]) -> RecordedReply:
    return RecordedReply(
        step=call.origin.step,
        role=call.role,
        sample=call.ordinal,
        prompt=prompt_hash(call.messages),
        model=result.usage.model or call.model,
        text=result.text,
        status=result.status,
        prompt_tokens=result.usage.prompt_tokens,
        completion_tokens=result.usage.completion_tokens,
        operator=call.origin.operator,
        island=call.origin.island,
        parents=call.origin.parents,
        insights=tuple(titles[seq] for seq in call.origin.insights if seq in titles),
    )


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}, line {number}: expected a JSON object")
    return value


def _reply(path: Path, number: int, line: str) -> RecordedReply:
    fields = _object(path, number, line)
    try:
        lists = {name: tuple(fields.get(name, ())) for name in ("parents", "insights")}
        reply = RecordedReply(**{**fields, **lists, "status": CallStatus(fields.get("status", CallStatus.OK))})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}, line {number}: {error}") from None
    for name in ("step", "sample", "prompt_tokens", "completion_tokens"):
        if not isinstance(getattr(reply, name), int):
            raise ConfigError(f"{path}, line {number}: {name} should be a whole number")
    for name in ("role", "prompt", "model", "text", "operator", "island"):
        if not isinstance(getattr(reply, name), str):
            raise ConfigError(f"{path}, line {number}: {name} should be text")
    return reply
