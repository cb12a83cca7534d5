"""ASGI application of a judge: batches of sources in, evaluations out, all of it JSON."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from evokernel.errors import ConfigError, EvokernelError
from evokernel.judging.judge import Judge, JudgeClosed
from evokernel.languages.cpp.guide import entry_signature
from evokernel.records.evaluation import Evaluation
from evokernel.records.evaluation_document import evaluation_document, fields_document
from evokernel.serve.access import AccessPolicy
from evokernel.serve.answers import safe_headers

FORMAT = 1
PATH = "/judge"
_KEYS = ("sources", "fidelity")
_TO_ITS_END = 8
"""How many times as long as it may be a body is read, and thrown away, before the connection is broken."""
_WORDS = {
    HTTPStatus.UNAUTHORIZED: "send the token of the server: Authorization: Bearer TOKEN",
    HTTPStatus.NOT_FOUND: f"there is GET / and POST {PATH}, and nothing else",
    HTTPStatus.METHOD_NOT_ALLOWED: f"this server answers GET / and POST {PATH}",
    HTTPStatus.MISDIRECTED_REQUEST: "this server is not known by that name; use the address that it has printed",
}
_MORE = {HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"}, HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": "5"}}


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits on what clients may ask of a judge."""

    body_bytes: int = 8 << 20
    """Size of the body of a request."""
    body_s: float = 30.0
    """Time for a client to send a body."""
    sources: int = 1024
    """Sources in one request."""
    waiting: int = 4096
    """Sources of all clients without an answer."""


class _Refused(Exception):
    """A request that is answered with a status of failure."""

    def __init__(self, code: HTTPStatus, words: str = "") -> None:
        super().__init__(words)
        self.code = code


def error_answer(code: HTTPStatus, words: str = "") -> Response:
    """Return a refusal as JSON."""
    text = words or _WORDS.get(code, code.phrase.lower())
    return JSONResponse({"error": text}, code, safe_headers() | _MORE.get(code, {}))


class JudgeApplication:
    """ASGI application on one warm judge, whose queue all clients share."""

    def __init__(self, judge: Judge, access: AccessPolicy, *, limits: BatchLimits) -> None:
        self._judge = judge
        self._access = access
        self._limits = limits
        self._facts = {
            "format": FORMAT,
            "task": judge.task.name,
            "description": judge.task.description,
            "language": judge.language,
            "fidelity": judge.fidelity.value,
            "entry": entry_signature(judge.task.signature) if judge.language == "cpp" else None,
            **fields_document(judge.identity, "device", "environment", "sandbox"),
            "limits": {name: getattr(limits, name) for name in ("body_bytes", "sources", "waiting")},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except _Refused as refused:
            answer = error_answer(refused.code, str(refused))
        except ClientDisconnect:
            return
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if not self._access.addresses_us(request.headers.getlist("host")):
            raise _Refused(HTTPStatus.MISDIRECTED_REQUEST)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self._access.admits(token.strip()):
            raise _Refused(HTTPStatus.UNAUTHORIZED)
        match request.method, request.url.path:
            case "GET", "/":
                return JSONResponse(self._facts | {"waiting": self._judge.waiting}, headers=safe_headers())
            case "POST", path if path == PATH:
                return await self._judged(request)
            case _, path if path in ("/", PATH):
                raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED)
        raise _Refused(HTTPStatus.NOT_FOUND)

    async def _judged(self, request: Request) -> Response:
        sources, fidelity = self._batch(await self._body(request))
        if self._judge.waiting + len(sources) > self._limits.waiting:
            raise _Refused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{self._judge.waiting} sources wait already, and at most {self._limits.waiting} may; come again later",
            )
        try:
            asked = [asyncio.wrap_future(self._judge.submit(source, fidelity=fidelity)) for source in sources]
            verdicts = asyncio.gather(*asked)
            verdicts.add_done_callback(_taken_note_of)
            gone = asyncio.ensure_future(request.receive())  # with the body read, only a hang-up can come
            both: set[asyncio.Future[Any]] = {verdicts, gone}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not verdicts.done():
                verdicts.cancel()  # what waits is dropped
                raise ClientDisconnect
            gone.cancel()
            found = [_document(each) for each in verdicts.result()]
        except ConfigError as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
        except JudgeClosed as error:
            raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error
        except EvokernelError as error:
            raise _Refused(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error
        return JSONResponse({"format": FORMAT, "evaluations": found}, headers=safe_headers())

    async def _body(self, request: Request) -> Any:
        """Return the JSON of a body, of which no more is kept than it may be long.

        One that says to be somewhat longer is read to its end: who still sends sees no answer, but a broken connection.
        """
        most, body = self._limits.body_bytes, bytearray()
        too_large = _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {most} bytes")
        said = int(request.headers.get("content-length", "0"))
        if said > _TO_ITS_END * most:
            raise too_large
        try:
            async with asyncio.timeout(self._limits.body_s):
                async for part in request.stream():
                    if said <= most:
                        body += part
                    if len(body) > most:
                        raise too_large
            if said > most:
                raise too_large
        except TimeoutError:
            raise _Refused(HTTPStatus.REQUEST_TIMEOUT, f"no whole body in {self._limits.body_s:g} s") from None
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, f"the body is no JSON: {error}") from None

    def _batch(self, asked: Any) -> tuple[list[str], str]:
        """Return the sources and the fidelity of a request."""
        expected = 'expected {"sources": ["...", ...]}, and "fidelity" if you like'
        if not isinstance(asked, Mapping) or "sources" not in asked or not set(asked) <= set(_KEYS):
            given = f"the keys {', '.join(map(str, asked))}" if isinstance(asked, Mapping) else type(asked).__name__
            raise _Refused(HTTPStatus.BAD_REQUEST, f"{expected}; got {given}")
        sources, fidelity = asked["sources"], asked.get("fidelity", "")
        if not isinstance(fidelity, str):
            raise _Refused(HTTPStatus.BAD_REQUEST, f"fidelity is a text, not {fidelity!r}")
        if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources) or not sources:
            raise _Refused(HTTPStatus.BAD_REQUEST, f"{expected}; sources are a list of at least one text")
        if len(sources) > self._limits.sources:
            words = f"{len(sources)} sources in one request, and at most {self._limits.sources} may be; split them"
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words)
        return sources, fidelity


def _taken_note_of(verdicts: asyncio.Future[Any]) -> None:
    """Read the error of verdicts that nobody waits for any more, so that asyncio does not report it."""
    if not verdicts.cancelled():
        verdicts.exception()


def _document(evaluation: Evaluation) -> dict[str, Any]:
    return {"candidate": evaluation.candidate_id, "ok": evaluation.ok, **evaluation_document(evaluation)}
