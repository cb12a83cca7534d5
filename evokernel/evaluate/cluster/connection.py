"""The way into a Ray cluster, and what Ray changes in the process that joins it."""

import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from evokernel.errors import ConfigError, install

_KNOCK_S = 10.0


def connect(address: str) -> Any:
    """Join the cluster as a driver and return the module `ray`. Raises `ConfigError` where that cannot be."""
    try:
        import ray
    except ImportError:
        raise ConfigError(f"hosts: ray needs Ray on every node: {install('ray')}") from None
    if not ray.is_initialized():
        _knock(address)
        before = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            first = str(error).strip().partition("\n")[0]
            raise ConfigError(
                f"no Ray cluster at {address!r} can be joined ({first}); start one with `ray start --head`, or correct "
                "evaluation.address, or give this machine the cluster's token (docs/cluster.md)"
            ) from None
        finally:
            if before is not None and threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)  # Ray's handler would end this process with its own exit code
        # Whatever is said to `init`, it prints the logs of a lost node to our stdout.
        ray._private.worker.print_to_stdstream = lambda *_, **__: None
    return ray


def _knock(address: str) -> None:
    """Refuse an address where nobody listens: Ray would try for minutes. Raises `ConfigError`."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        return
    try:
        socket.create_connection((host, int(port)), _KNOCK_S).close()
    except OSError as error:
        raise ConfigError(
            f"nothing answers at {address} ({error}): start a cluster there with `ray start --head`, or correct "
            "evaluation.address (docs/cluster.md)"
        ) from None


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end a wait that blocks the event loop, whose own handler only notes it."""
    before = signal.getsignal(signal.SIGINT)
    if before in (None, signal.SIG_IGN) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
