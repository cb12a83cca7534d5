"""Runs an agent's command in the sandbox: its input and output are files, and a local port leads to the proxy.

Nothing here is trusted more than the command itself: the proxy decides what is reached, and the judge's process decides
when all this ends.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time

BLOCK_BYTES = 65536
BEGUN = "begun\n"
PAUSE_S = 0.02


def main(path: str) -> None:
    """Run the command that a JSON file describes, and end with its exit code.

    The file holds keys, which a command line would show to everybody; it is removed. `BEGUN` goes to stdout, which the
    command itself never sees, and where the command cannot be started the reason follows.
    """
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    os.unlink(path)
    environment = {**os.environ, **spec["environment"]}
    if spec["proxy"]:
        address = f"http://127.0.0.1:{_lead_to(spec['proxy'])}"
        for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
            environment |= {name: address, name.lower(): address}
    with open(spec["input"], "rb") as said, open(spec["output"], "wb") as out, open(spec["errors"], "wb") as errors:
        sys.stdout.write(BEGUN)
        sys.stdout.flush()
        try:
            child = subprocess.Popen(spec["argv"], stdin=said, stdout=out, stderr=errors, env=environment)
        except OSError as error:
            sys.stdout.write(f"cannot run {spec['argv'][0]}: {error.strerror}")
            sys.stdout.flush()
            os._exit(127)
    code = child.wait()
    os._exit(code if code >= 0 else 128 - code)


def _lead_to(path: str) -> int:
    """Return a port on this network namespace's loopback whose connections lead to a unix socket."""
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(server, path), daemon=True).start()
    return int(server.getsockname()[1])


def _accept(server: socket.socket, path: str) -> None:
    while True:
        try:
            _connect(server.accept()[0], path)
        except (OSError, RuntimeError):  # no descriptor, or no thread, is free until the command lets go of some
            time.sleep(PAUSE_S)


def _connect(inner: socket.socket, path: str) -> None:
    """Lead a connection to a unix socket, or hang up and raise."""
    ends = [inner]
    try:
        outer = socket.socket(socket.AF_UNIX)
        ends.append(outer)
        outer.connect(path)
        for source, target in ((inner, outer), (outer, inner)):
            threading.Thread(target=pump, args=(source, target), daemon=True).start()
    except BaseException:
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # a thread that has begun ends
            end.close()
        raise


def pump(source: socket.socket, target: socket.socket) -> None:
    """Copy all bytes from one socket to another, and pass the end on."""
    with contextlib.suppress(OSError):
        while block := source.recv(BLOCK_BYTES):
            target.sendall(block)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
