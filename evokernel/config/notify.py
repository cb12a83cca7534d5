"""The part of a config on messages: who is told about a search, and of which events."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from pydantic import Field

from evokernel.config.part import Part
from evokernel.config.places import Location

MessageKind = Literal["best", "end", "fault", "models", "budget"]
KINDS: tuple[MessageKind, ...] = get_args(MessageKind)


class NotifyConfig(Part):
    """One receiver of messages: a command with JSON on its stdin, or an address that JSON is posted to."""

    command: tuple[str, ...] = ()
    """The program and its arguments; this or `url` is needed."""
    url: str = ""
    """The address, https or http; or $NAME for one in an environment variable, which the store does not keep."""
    token: str = ""
    """The environment variable that holds a token for the address; empty for none."""
    on: tuple[MessageKind, ...] = Field(default=KINDS, min_length=1)
    """`best` a new best kernel, `end` the end of a session, `fault` a failure of evokernel or of an operator, `models`
    one that rests, `budget` four fifths of a limit used."""
    gain: float = Field(default=1.0, ge=1)
    """A new best kernel is told where it is this many times as fast as the last one that was told."""

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        """Yield a receiver that has not one way to be reached."""
        url = raw.get("url")
        if bool(raw.get("command")) == bool(url):
            yield (), "a receiver of messages needs one of `command` and `url`"
        if url and isinstance(url, str) and not url.startswith(("https://", "http://", "$")):
            yield ("url",), f"expected https://..., http://... or $NAME, got {url!r}"
        if raw.get("token") and not url:
            yield ("token",), "token goes with `url`; a command has the environment of the search"
