"""Leads standard input and output of a client of tools, in the sandbox, to a unix socket."""

import os
import socket
import threading

BLOCK_BYTES = 65536


def main(path: str) -> None:
    """Copy both ways between stdin and stdout and the socket at `path`, until the other end hangs up."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    threading.Thread(target=_send, args=(connection,), daemon=True).start()
    while block := connection.recv(BLOCK_BYTES):
        view = memoryview(block)
        while view:
            view = view[os.write(1, view) :]


def _send(connection: socket.socket) -> None:
    while block := os.read(0, BLOCK_BYTES):
        connection.sendall(block)
    connection.shutdown(socket.SHUT_WR)
