"""ASGI application: access, lookup and response. A refused request gets one line of plain text."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from evokernel.serve.access import AccessPolicy
from evokernel.serve.answers import METHODS, moved, packed, readable, refusal, safe_headers
from evokernel.serve.site import ServedStores

_LOOK_S = 0.1
_TOKEN_QUERY = re.compile(r"token=([A-Za-z0-9_.~-]{1,200})")


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits on what clients may take of the server."""

    connections: int = 64
    """Open connections."""
    streams: int = 48
    """Event streams among the connections."""
    head_bytes: int = 16_384
    """Size of a request."""
    head_s: float = 10.0
    """Time for a whole request."""
    answer_s: float = 30.0
    """Time for a store to answer a question."""
    send_s: float = 60.0
    """Time for a client to take a response or an event."""
    keepalive_s: float = 15.0
    """Longest silence of an event stream."""


class Application:
    """ASGI application on served stores; `streams` is the number of open event streams."""

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
            answer = await self._answer(Request(scope), stack)
            await answer(scope, receive, send)

    async def _answer(self, request: Request, stack: ExitStack) -> Response:
        path = request.scope["raw_path"].decode("latin-1")  # raw: each path has one spelling here
        query = request.scope["query_string"].decode("latin-1")
        if not self._access.addresses_us(request.headers.getlist("host")):
            return refusal(HTTPStatus.MISDIRECTED_REQUEST)
        if request.method not in METHODS:
            return refusal(HTTPStatus.METHOD_NOT_ALLOWED)
        if (token := _TOKEN_QUERY.fullmatch(query)) is not None:
            return self._set_token_cookie(path, token[1])
        if not self._is_authorized(request):
            return refusal(HTTPStatus.UNAUTHORIZED)
        if not query and (answer := self._site.answer(path)) is not None:
            return readable(answer, request)
        # A foreign page cannot read an answer, but the time of a search could tell it what a source holds.
        foreign = request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if not query and not foreign and (coming := self._site.asked(path)) is not None:
            return readable(await self._panel(coming), request)
        if query or not self._site.feeds_of(path):
            return refusal(HTTPStatus.NOT_FOUND)
        return self._stream(path, request.method, stack)

    async def _panel(self, coming: Future[bytes | None]) -> Response:
        try:
            body = await asyncio.wait_for(asyncio.wrap_future(coming), self._limits.answer_s)
        except TimeoutError:
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE)
        return refusal(HTTPStatus.NOT_FOUND) if body is None else packed(body, kind="application/json")

    def _is_authorized(self, request: Request) -> bool:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        by_cookie = self._access.admits(request.cookies.get(self.cookie))
        return by_cookie or (scheme.lower() == "bearer" and self._access.admits(bearer.strip()))

    def _set_token_cookie(self, path: str, token: str) -> Response:
        """Move the token into a cookie and out of the URL, which browsers show and keep."""
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
        stack.callback(self._end_stream)
        for feed in self._site.feeds_of(path):
            stack.enter_context(feed.watched())
        return StreamingResponse(self._events(path), headers=headers)

    def _end_stream(self) -> None:
        self.streams -= 1

    async def _events(self, path: str) -> AsyncIterator[str]:
        """Yield changes while the client listens, and a comment after each `keepalive_s` of silence."""
        sent, sent_at = None, 0.0
        while not self._ending():
            states = [feed.state for feed in self._site.feeds_of(path)]
            if states != sent:
                sent, sent_at = states, time.monotonic()
                yield f"retry: 2000\ndata: {json.dumps(self._site.event_of(path), separators=(',', ':'))}\n\n"
            elif time.monotonic() > sent_at + self._limits.keepalive_s:
                sent_at = time.monotonic()
                yield ": still here\n\n"
            await asyncio.sleep(_LOOK_S)
