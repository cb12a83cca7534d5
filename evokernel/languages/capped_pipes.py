"""Output of a process: the first part is kept, the rest is read and dropped."""

import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from typing import Any

OUTPUT_LIMIT_BYTES = 256 * 1024
_BLOCK_BYTES = 65536
_BLOCKS_AT_ONCE = 64  # a writer that never pauses must not keep us from the clock


class CappedPipes:
    """Both pipes of a process, read together with other files that a selector watches.

    Raises `ValueError` where the process was started without them.
    """

    def __init__(self, process: subprocess.Popen[bytes], selector: selectors.BaseSelector, *, limit_bytes: int) -> None:
        if process.stdout is None or process.stderr is None:
            raise ValueError("a process was started without pipes for its output")
        self._selector = selector
        self._limit_bytes = limit_bytes
        self._kept = {pipe.fileno(): bytearray() for pipe in (process.stdout, process.stderr)}
        for pipe in self._kept:
            os.set_blocking(pipe, False)
            selector.register(pipe, selectors.EVENT_READ)

    def wait(self, deadline: float) -> Sequence[Any] | None:
        """Read the next output; return the selector's other files that can be read, or None at the deadline.

        The deadline is a time of the monotonic clock. A pipe at its end leaves the selector.
        """
        events = self._selector.select(max(0.0, deadline - time.monotonic()))
        if not events or time.monotonic() > deadline:
            return None
        others = []
        for key, _ in events:
            if key.fd not in self._kept:
                others.append(key.fileobj)
            elif not self._drain(key.fd):
                self._selector.unregister(key.fd)
        return others

    def texts(self) -> tuple[str, str]:
        """Return stdout and stderr, the rest of the pipes included."""
        for pipe in self._kept:
            self._drain(pipe)
        stdout, stderr = (kept.decode(errors="replace") for kept in self._kept.values())
        return stdout, stderr

    def _drain(self, pipe: int) -> bool:
        """Read the output so far, keep it up to the limit; return False at the end of the pipe."""
        kept = self._kept[pipe]
        for _ in range(_BLOCKS_AT_ONCE):
            try:
                block = os.read(pipe, _BLOCK_BYTES)
            except BlockingIOError:
                return True
            if not block:
                return False
            kept += block[: max(0, self._limit_bytes - len(kept))]
        return True
