"""An endpoint on 127.0.0.1 that speaks the chat-completions protocol, and misbehaves on request."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

Behaviour = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Takes one request and lets the endpoint's next behaviour answer it."""

    protocol_version = "HTTP/1.1"
    server: "Server"
    asked: dict[str, Any]

    def do_POST(self) -> None:
        self.asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.endpoint.next(self)(self)

    def log_message(self, format: str, *args: Any) -> None:
        return

    def give(self, body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """A server that knows whose it is and says nothing of clients that went away."""

    daemon_threads = True
    endpoint: "Endpoint"

    def handle_error(self, request: Any, client_address: Any) -> None:
        return


@dataclass
class Endpoint:
    """What was asked so far, and how the next requests are answered; the last behaviour answers all that follow."""

    behaviours: Sequence[Behaviour]
    port: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def next(self, handler: Handler) -> Behaviour:
        with self._lock:
            self.asked.append(handler.asked)
            self.keys.append(handler.headers.get("Authorization", ""))
            return self.behaviours[min(len(self.asked), len(self.behaviours)) - 1]


@contextmanager
def endpoint(*behaviours: Behaviour) -> Iterator[Endpoint]:
    """Listen on a free port until the block ends."""
    server = Server(("127.0.0.1", 0), Handler)
    served = Endpoint(behaviours, server.server_address[1])
    server.endpoint = served
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        served.release.set()
        server.shutdown()
        thread.join()
        server.server_close()


def completion(text: Any, *, finish: str = "stop", usage: Any = USAGE, **message: Any) -> dict[str, Any]:
    """Return a reply as the protocol has it."""
    said = {"role": "assistant", "content": text, **message}
    choice = {"index": 0, "finish_reason": finish, "message": said}
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}
    return body if usage is None else {**body, "usage": usage}


def says(text: Any, **settings: Any) -> Behaviour:
    return lambda handler: handler.give(json.dumps(completion(text, **settings)).encode())


def raw(body: bytes, **settings: Any) -> Behaviour:
    return lambda handler: handler.give(body, **settings)


def error(status: int, message: str = "no", *, code: str = "", **headers: str) -> Behaviour:
    body = json.dumps({"error": {"message": message, "type": "error", "code": code}}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.give(body, status=status, headers=named)


def echoes_key(status: int = 200) -> Behaviour:
    """Answer with what the request was authorised by."""

    def behave(handler: Handler) -> None:
        text = f"you are {handler.headers['Authorization']}, are you not"
        (says(text) if status == 200 else error(status, text))(handler)

    return behave


def hangs(handler: Handler) -> None:
    handler.server.endpoint.release.wait(30)
    handler.close_connection = True


def resets(handler: Handler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    handler.connection.close()
    handler.close_connection = True


def breaks_off(handler: Handler) -> None:
    """Promise more than is sent."""
    body = json.dumps(completion("a long reply")).encode()
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2])
    handler.close_connection = True
