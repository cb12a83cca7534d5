"""Reading of hidden checks from a reply: JSON in a fence."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, ValidationError

from evokernel.config.part import Part
from evokernel.records.hidden_check import HiddenCheck
from operators.llm.replies.words import UnreadableReply, refusal, split
from operators.quoting import one_line

MOST_PROPOSED = 4
"""Checks of one reply that are read."""
_REASON_CHARACTERS = 120
_LARGEST = 1 << 40


class _CheckEntry(Part):
    """A check as a reply gives it."""

    sizes: Mapping[str, Annotated[int, Field(ge=0, le=_LARGEST, strict=True)]]
    """Every size, by name."""
    contents: Mapping[str, Sequence[str]] = {}
    """Words by input."""
    reason: str = Field(min_length=1)
    """The fault that it is meant to find."""


class _CheckList(Part):
    """The whole JSON text of a reply."""

    checks: list[_CheckEntry] = Field(min_length=1, max_length=MOST_PROPOSED)
    """The proposals, the most promising first."""


def read_checks(text: str) -> tuple[HiddenCheck, ...]:
    """Return the checks in the last JSON block of a tidy reply.

    Raises `UnreadableReply` if there is none, or it is not of the form that was asked for.
    """
    blocks = [block.text for block in split(text)[0] if block.tag in ("json", "")]
    if not blocks:
        declined = refusal(text)
        raise UnreadableReply(f"the model declines: {declined}" if declined else "the reply has no block of JSON")
    try:
        found = _CheckList.model_validate(json.loads(blocks[-1]))
    except RecursionError:
        raise UnreadableReply("the JSON is nested too deeply") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the JSON"
        raise UnreadableReply(f"the JSON is not as asked for: {place}: {first['msg']}") from None
    except ValueError as error:
        raise UnreadableReply(f"the block is not JSON: {error}") from None
    return tuple(
        HiddenCheck(
            sizes=each.sizes,
            contents={name: tuple(words) for name, words in each.contents.items()},
            reason=one_line(each.reason, _REASON_CHARACTERS),
        )
        for each in found.checks
    )
