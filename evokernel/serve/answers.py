"""HTTP responses with security headers."""

import gzip
import re
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

METHODS = ("GET", "HEAD")
_ALWAYS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Connection": "close",
}
_NOTHING = "default-src 'none'"
_GZIP = re.compile(r"(?:^|,)\s*gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*(?:,|$))[0-9.]+\s*)?(?:,|$)", re.IGNORECASE)
_WORDS = {
    HTTPStatus.UNAUTHORIZED: "open the address that `evokernel serve` has printed: it has the token in it",
    HTTPStatus.NOT_FOUND: "there is nothing here, or nothing yet",
    HTTPStatus.MISDIRECTED_REQUEST: "this server is not known by that name; use the address that it has printed",
    HTTPStatus.METHOD_NOT_ALLOWED: "this server only answers GET and HEAD",
    HTTPStatus.SERVICE_UNAVAILABLE: "too many pages are open, or the store is busy",
}
_MORE = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"},
    HTTPStatus.METHOD_NOT_ALLOWED: {"Allow": ", ".join(METHODS)},
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": "5"},
}


def safe_headers(*, policy: str = _NOTHING, **more: str) -> dict[str, str]:
    """Return the headers of a response; further ones are named with _ for -."""
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return {**_ALWAYS, "Content-Security-Policy": f"{policy}; frame-ancestors 'none'", **named}


def refusal(code: HTTPStatus) -> Response:
    """Return a refusal that repeats nothing of the request."""
    return PlainTextResponse(_WORDS.get(code, code.phrase.lower()) + "\n", code, safe_headers() | _MORE.get(code, {}))


def moved(to: str) -> Response:
    """Return a redirect to a relative path."""
    return Response(status_code=HTTPStatus.SEE_OTHER, headers=safe_headers(Location=to))


def packed(body: bytes, *, kind: str, policy: str = _NOTHING, version: str = "") -> Response:
    """Return a response of gzip-compressed bytes; an empty version gives no header."""
    more = {"X_Version": version} if version else {}
    headers = safe_headers(policy=policy, Content_Type=kind, Vary="Accept-Encoding", Content_Encoding="gzip", **more)
    return Response(body, headers=headers)


def readable(answer: Response, request: Request) -> Response:
    """Return a response, decompressed where the request does not accept gzip."""
    if "content-encoding" not in answer.headers or any(map(_GZIP.search, request.headers.getlist("accept-encoding"))):
        return answer
    left_out = ("content-encoding", "content-length")
    kept = {name: value for name, value in answer.headers.items() if name not in left_out}
    return Response(gzip.decompress(bytes(answer.body)), headers=kept)
