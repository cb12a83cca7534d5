"""Delivery of messages to a receiver: in a thread of its own, with retries, and never in the way of a search."""

import http.client
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from evokernel.config.notify import NotifyConfig
from evokernel.errors import ConfigError

WAITING = 64
"""Messages that wait at most; the oldest makes room for a further one."""
PAUSES_S = (1.0, 5.0)
"""Pauses before a message is sent once more, in s."""
TIMEOUT_S = 20.0
"""The longest that a command or an address may take, in s."""
_SHOWN = 200


class Delivery:
    """Sends messages to one receiver, in order.

    Args:
        pauses_s: pauses before further attempts, in s.

    Raises:
        ConfigError: a variable that it names is not set, or holds no address.
    """

    def __init__(
        self, config: NotifyConfig, *, environment: Mapping[str, str] = os.environ, pauses_s: Sequence[float] = PAUSES_S
    ) -> None:
        self.config = config
        self._url = _address(config, environment)
        self._token = _variable(config.token, environment) if config.token else ""
        self._pauses_s = pauses_s
        self._waiting = queue.Queue[dict[str, Any] | None](WAITING)
        self._troubles: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._work, name="evokernel-notify", daemon=True)
        self._thread.start()

    def send(self, document: dict[str, Any] | None) -> None:
        """Queue a message, without waiting; the oldest makes room where too many wait."""
        while True:
            try:
                self._waiting.put_nowait(document)
                return
            except queue.Full:
                with suppress(queue.Empty):
                    self._waiting.get_nowait()
                    self._troubles.put(f"{self.name}: the oldest message was dropped, since {WAITING} wait already")

    def troubles(self) -> list[str]:
        """Return the failures since the last look, in words."""
        return [self._troubles.get() for _ in range(self._troubles.qsize())]

    def finish(self) -> None:
        """Take no further message."""
        self.send(None)

    def close(self, *, patience_s: float) -> None:
        """Wait until all messages are sent, at most so long; what waits still is dropped, a command is ended."""
        self._thread.join(patience_s)
        self._ended.set()
        if self._thread.is_alive():
            self._troubles.put(f"{self.name}: not every message was sent in time")
            process = self._process
            if process is not None:
                _end(process)

    @property
    def name(self) -> str:
        """The receiver, without what may be secret."""
        if self.config.command:
            return self.config.command[0]
        url = self.config.url
        return url if url.startswith("$") else urllib.parse.urlsplit(url).hostname or "an address"

    def _work(self) -> None:
        while (document := self._waiting.get()) is not None:
            self._deliver(json.dumps(document).encode())

    def _deliver(self, body: bytes) -> None:
        trouble = ""
        for pause_s in (0.0, *self._pauses_s):
            if self._ended.wait(pause_s):
                return
            trouble = self._run(body) if self.config.command else self._post(body)
            if not trouble:
                return
        self._troubles.put(f"{self.name}: a message was not taken: {trouble}")

    def _run(self, body: bytes) -> str:
        """Run the command; return the trouble, or nothing. What it leaves in the background goes on."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
            given.write(body)
            given.seek(0)
            try:
                process = subprocess.Popen(
                    self.config.command, stdin=given, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
                )
            except OSError as error:
                return str(error.strerror)
            with process:
                self._process = process
                try:
                    process.wait(TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    _end(process)
                    return f"it did not end within {TIMEOUT_S:.0f} s"
                finally:
                    self._process = None
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()[-_SHOWN:]
        return f"exit code {process.returncode}{f': {said}' if said else ''}" if process.returncode else ""

    def _post(self, body: bytes) -> str:
        """Post to the address; return the trouble, or nothing."""
        headers = {"Content-Type": "application/json", "User-Agent": "evokernel"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            request = urllib.request.Request(self._url, body, headers)
            _OPENER.open(request, timeout=TIMEOUT_S).close()
        except urllib.error.HTTPError as error:
            error.close()
            return f"HTTP {error.code}"
        except (ValueError, http.client.InvalidURL):  # their texts hold the token or the address
            return "the address or the token cannot be used"
        except urllib.error.URLError as error:
            return str(error.reason)[:_SHOWN]
        except (OSError, http.client.HTTPException) as error:
            return (str(error) or type(error).__name__)[:_SHOWN]
        return ""


class _StaysThere(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirect: a token is for one host."""

    def redirect_request(self, *details: Any) -> None:
        """Return no request."""


_OPENER = urllib.request.build_opener(_StaysThere)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _address(config: NotifyConfig, environment: Mapping[str, str]) -> str:
    if not config.url.startswith("$"):
        return config.url
    url = _variable(config.url[1:], environment)
    if not url.startswith(("https://", "http://")):
        raise ConfigError(f"notify: the variable {config.url[1:]} must hold an address that begins with https://")
    return url


def _variable(name: str, environment: Mapping[str, str]) -> str:
    value = environment.get(name, "").strip()
    if not value:
        raise ConfigError(f"notify: the environment variable {name} is not set")
    return value
