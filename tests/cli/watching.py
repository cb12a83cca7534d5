"""A process of `evokernel watch` on a terminal of its own, or at the end of a pipe, and searches for it to follow."""

import codecs
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[2]
TOY = Path(__file__).parent / "toy_evolve.py"
DEADLINE_S = 300.0


class Watching:
    """A context manager that ends what it started. `output` is all that was read so far."""

    def __init__(self, store: Path, *arguments: str, terminal: bool = True, **variables: str) -> None:
        self._store = store
        self._searches: list[subprocess.Popen[bytes]] = []
        self._end, end = pty.openpty() if terminal else os.pipe()
        if terminal:
            self.resize(width=100, height=30)
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", **variables}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "evokernel", "watch", str(store), *arguments],
            stdin=end if terminal else subprocess.DEVNULL,
            stdout=end,
            stderr=subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
            preexec_fn=(lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if terminal else None,
        )
        os.close(end)
        self.output = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._looked = 0

    def search(self, *, seconds: float, evaluations: int) -> "subprocess.Popen[bytes]":
        """Start a search, or go on with it."""
        command = [sys.executable, str(TOY), str(self._store), str(seconds), str(evaluations)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=self._environment)
        self._searches.append(process)
        return process

    def wait_for(self, *texts: str) -> None:
        """Wait until each of these was shown since the last wait, and what was being drawn is whole.

        A line that stays is printed above the old picture, before the new one is drawn: half of that read, what the old
        one says would be taken for news.
        """
        deadline = time.monotonic() + DEADLINE_S
        while self._drawing() or not all(text in self.output[self._looked :] for text in texts):
            assert time.monotonic() < deadline, f"never shown: {texts} in {self.output[self._looked :][-4000:]}"
            assert self._read(), f"ended before it showed {texts}: {self.output[-4000:]} {self._complaints()}"
        self._looked = len(self.output)

    def resize(self, *, width: int, height: int) -> None:
        """Give the terminal another size."""
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._end, keys.encode())

    def leave(self) -> None:
        """Close the end of the pipe that is read from."""
        os.close(self._end)
        self._end = -1

    def ended(self) -> int:
        """Read to the end and return the exit code; nothing may have been said on stderr."""
        while self._end >= 0 and self._read():
            pass
        code = self.process.wait(DEADLINE_S)
        assert self._complaints() == ""
        return code

    def _drawing(self) -> bool:
        return self.output.count("\x1b[?2026h") != self.output.count("\x1b[?2026l")

    def _read(self) -> bool:
        if not select.select([self._end], [], [], DEADLINE_S)[0]:
            return False
        try:
            found = os.read(self._end, 64)  # however finely it is cut
        except OSError:  # a terminal whose last user has gone
            return False
        self.output += self._decoder.decode(found)
        return bool(found)

    def _complaints(self) -> str:
        assert self.process.stderr is not None
        self.process.kill()
        return self.process.stderr.read().decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        for process in (self.process, *self._searches):
            process.kill()
            process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()
        if self._end >= 0:
            os.close(self._end)
