"""Wire protocol between engine and judge: a length, a JSON object, and raw bytes for build artifacts."""

import asyncio
import json
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from evokernel.records.evaluation import Stage, Status
from evokernel.records.timing import Limit, Timing, Verdict

_HEAD = struct.Struct("<I")
Message = dict[str, Any]
_FEEDBACK_LINES = 60
HELD_OUT = "failed on held-out inputs"
"""The whole feedback on a failure on held-out workloads."""


@dataclass(frozen=True, slots=True)
class PhaseVerdict:
    """The judge's findings in one phase."""

    status: Status | None
    """None while nothing is wrong."""
    stage: Stage
    """The last stage reached."""
    feedback: str = ""
    """Text for the author, before it is shortened."""
    timings: tuple[Timing, ...] = ()
    """One for each workload and baseline."""
    stopped_early: bool = False
    """Timing ended early, since the candidate is clearly slower than the incumbent."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Numbers with their unit in the name."""
    panel: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    """Speed-up with the ends of its 95 % interval, by baseline."""
    mode: str = ""
    """How the candidate was run; empty for the evaluator's own mode."""
    artifact: str = ""
    """The judge's own hash of the launches on search workloads; empty where it saw none."""
    remarks: str = ""
    """Findings of instruments, lines of text."""

    @property
    def author_text(self) -> str:
        """The text for the author, at most 60 lines; feedback is shortened before remarks are."""
        remarks = self.remarks.split("\n")[:_FEEDBACK_LINES] if self.remarks else []
        return "\n".join([*self.feedback.split("\n")[: _FEEDBACK_LINES - len(remarks)], *remarks]).lstrip("\n")

    def as_message(self) -> Message:
        """Return the verdict as JSON types."""
        return asdict(self)

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> "PhaseVerdict":
        """Return the verdict in a message of `as_message`."""
        read = {
            "status": None if message["status"] is None else Status(message["status"]),
            "stage": Stage(message["stage"]),
            "timings": tuple(map(_timing, message["timings"])),
            "panel": {name: tuple(values) for name, values in message["panel"].items()},
        }
        return cls(**{**message, **read})


def _timing(item: Mapping[str, Any]) -> Timing:
    limit = None if item["limit"] is None else Limit(item["limit"])
    return Timing(**{**item, "verdict": Verdict(item["verdict"]), "limit": limit})


def pack(message: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """Return one frame."""
    text = json.dumps({**message, "blobs": [len(blob) for blob in blobs]}).encode()
    return b"".join((_HEAD.pack(len(text)), text, *blobs))


def receive(connection: socket.socket) -> tuple[Message, list[bytes]]:
    """Read one frame, blocking. Raises `EOFError` when the other end is closed."""
    (length,) = _HEAD.unpack(_exactly(connection, _HEAD.size))
    message: Message = json.loads(_exactly(connection, length))
    return message, [_exactly(connection, size) for size in message.pop("blobs")]


async def receive_async(reader: asyncio.StreamReader) -> Message:
    """Read one frame without blobs. Raises `asyncio.IncompleteReadError` when the other end is closed."""
    (length,) = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    message: Message = json.loads(await reader.readexactly(length))
    del message["blobs"]
    return message


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError("the other end is closed")
        parts += part
    return bytes(parts)
