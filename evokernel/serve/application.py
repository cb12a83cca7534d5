"""One request: who asks, what for, and the answer. Whatever is wrong with it is answered in one line of plain text."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from evokernel.serve.access import AccessPolicy
from evokernel.serve.answers import METHODS, moved, readable, refusal, safe_headers
from evokernel.serve.site import ServedStores

_LOOK_S = 0.1
_TOKEN_QUERY = re.compile(r"token=([A-Za-z0-9_.~-]{1,200})")


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How much of this server others may take up.

    `head_s` is the time for a whole request, `send_s` that for an answer or an event to be taken, `keepalive_s` the
    longest silence of a stream of events. `streams` of the `connections` may be such streams.
    """

    connections: int = 64
    streams: int = 48
    head_bytes: int = 16_384
    head_s: float = 10.0
    send_s: float = 60.0
    keepalive_s: float = 15.0


class Application:
    """Answers requests for what is served; `streams` is the number of streams of events that are open."""

    def __init__(
        self, site: ServedStores, access: AccessPolicy, *, cookie: str, limits: ServerLimits, ending: Callable[[], bool]
    ) -> None:
        self.cookie = cookie
        self.streams = 0
        self._site = site
        self._access = access
        self._limits = limits
        self._ending = ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        with ExitStack() as stack:
            answer = self._answer(Request(scope), stack)
            await answer(scope, receive, send)

    def _answer(self, request: Request, stack: ExitStack) -> Response:
        path = request.scope["raw_path"].decode("latin-1")  # as it came: an address has one spelling here
        query = request.scope["query_string"].decode("latin-1")
        if not self._access.addresses_us(request.headers.getlist("host")):
            return refusal(HTTPStatus.MISDIRECTED_REQUEST)
        if request.method not in METHODS:
            return refusal(HTTPStatus.METHOD_NOT_ALLOWED)
        if (token := _TOKEN_QUERY.fullmatch(query)) is not None:
            return self._let_in(path, token[1])
        if not self._is_known(request):
            return refusal(HTTPStatus.UNAUTHORIZED)
        if not query and (answer := self._site.answer(path)) is not None:
            return readable(answer, request)
        if query or not self._site.listened(path):
            return refusal(HTTPStatus.NOT_FOUND)
        return self._stream(path, request.method, stack)

    def _is_known(self, request: Request) -> bool:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        by_cookie = self._access.admits(request.cookies.get(self.cookie))
        return by_cookie or (scheme.lower() == "bearer" and self._access.admits(bearer.strip()))

    def _let_in(self, path: str, token: str) -> Response:
        """Put the token into a cookie and out of the address, which is seen, kept and sent around."""
        if not self._access.admits(token):
            return refusal(HTTPStatus.UNAUTHORIZED)
        if self._site.answer(path) is None:
            return refusal(HTTPStatus.NOT_FOUND)
        response = moved(path.rpartition("/")[2] or ".")
        if self._access.token:
            response.set_cookie(self.cookie, token, httponly=True, samesite="lax")
        return response

    def _stream(self, path: str, method: str, stack: ExitStack) -> Response:
        headers = safe_headers(Content_Type="text/event-stream", X_Accel_Buffering="no")
        if method == "HEAD":
            return Response(headers=headers)
        if self.streams >= self._limits.streams:
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE)
        self.streams += 1
        stack.callback(self._forget_stream)
        for feed in self._site.listened(path):
            stack.enter_context(feed.watched())
        return StreamingResponse(self._events(path), headers=headers)

    def _forget_stream(self) -> None:
        self.streams -= 1

    async def _events(self, path: str) -> AsyncIterator[str]:
        """Say what is new as long as the other side listens, and now and then that we are still here."""
        said, said_at = None, 0.0
        while not self._ending():
            pulses = [feed.pulse for feed in self._site.listened(path)]
            if pulses != said:
                said, said_at = pulses, time.monotonic()
                yield f"retry: 2000\ndata: {json.dumps(self._site.news(path), separators=(',', ':'))}\n\n"
            elif time.monotonic() > said_at + self._limits.keepalive_s:
                said_at = time.monotonic()
                yield ": still here\n\n"
            await asyncio.sleep(_LOOK_S)
