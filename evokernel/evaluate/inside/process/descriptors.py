"""Takes over the descriptors that a process was forked with, closes all others, and takes requests from one of them."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Any

OUT_OF_THE_WAY = 64
LAST_DESCRIPTOR = 4096
MESSAGE_BYTES = 1 << 18


def keep_only(sources: Sequence[int], targets: Sequence[int]) -> None:
    """Move each source to its target, which started programs do not inherit; close all others but 0, 1 and 2."""
    moved = [fcntl.fcntl(source, fcntl.F_DUPFD, OUT_OF_THE_WAY) for source in sources]
    for source, target in zip(moved, targets, strict=True):
        os.dup2(source, target, inheritable=target <= 2)
    first = 3
    for target in sorted(target for target in targets if target >= first):
        os.closerange(first, target)
        first = target + 1
    os.closerange(first, LAST_DESCRIPTOR)


def requests(channel: socket.socket) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """Yield the messages that come in, with their descriptors (two at most), until the other side closes."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, MESSAGE_BYTES, 2)
        if not message:
            return
        yield json.loads(message), descriptors
