"""The part of a config on messages: who is told about a search, and of which events."""

from typing import Literal, get_args

from pydantic import Field, model_validator

from evokernel.config.part import Part

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

    @model_validator(mode="after")
    def _one_way(self) -> "NotifyConfig":
        if bool(self.command) == bool(self.url):
            raise ValueError("a receiver of messages needs one of `command` and `url`")
        if self.url and not self.url.startswith(("https://", "http://", "$")):
            raise ValueError(f"url: expected https://..., http://... or $NAME, got {self.url!r}")
        if self.token and not self.url:
            raise ValueError("token goes with `url`; a command has the environment of the search")
        return self
