"""Prompts of named sections that a template places; under a cap the least useful ones are left out, with a note.

Tokens are estimated as characters / 3: source code has about 3 to 3.5 characters a token with the usual vocabularies,
so the estimate errs towards too many.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operators.quoting import fence

CHARACTERS_PER_TOKEN = 3
_BLANKS = re.compile(r"\n{3,}")
_PLACE = re.compile("\0([a-z_]+)\0")


@dataclass(frozen=True, slots=True)
class PromptSection:
    """One part of a prompt.

    A cap drops the lowest `worth` first; among parts of equal worth it drops the last first.
    """

    name: str
    """The variable of the template that it fills, beside other parts with that name."""
    text: str
    """Its text."""
    worth: int | None = None
    """Rank against a cap; None for a part that always stays."""
    reference: str | int | None = None
    """Id of the candidate, or seq of the insight, that the text is about."""


@dataclass(frozen=True, slots=True)
class SectionGroup:
    """Form of the sections of one name."""

    heading: str
    """The line before them."""
    noun: str
    """The word for one of them, where some are left out."""
    listed: bool = False
    """True for lines of foreign words, which share one fence."""


def place(name: str) -> str:
    """Return the mark of a section in a rendered template, which `fill` replaces."""
    return f"\0{name}\0"


def placed(skeleton: str) -> tuple[str, ...]:
    """Return the names of the sections that a rendered template places. Raises `ValueError` for a changed mark."""
    rest = _PLACE.sub("", skeleton)
    if "\0" in rest:
        raise ValueError("sections can be placed, not changed by a filter")
    return tuple(dict.fromkeys(_PLACE.findall(skeleton)))


def tokens_of(characters: int) -> int:
    """Return the estimated number of tokens of so many characters."""
    return math.ceil(characters / CHARACTERS_PER_TOKEN)


def fill(
    skeleton: str, kept: Sequence[PromptSection], dropped: Sequence[PromptSection], groups: Mapping[str, SectionGroup]
) -> str:
    """Return the prompt: sections in their places, blank lines outside of them reduced."""
    bare = _BLANKS.sub("\n\n", skeleton).strip()
    return _PLACE.sub(lambda match: _joined(match[1], kept, dropped, groups[match[1]]), bare)


def keep(
    skeleton: str, sections: Sequence[PromptSection], groups: Mapping[str, SectionGroup], *, spare_tokens: int
) -> tuple[list[PromptSection], list[PromptSection]]:
    """Return the kept sections and the dropped ones of a prompt with at most so many tokens.

    Sections without a `worth` are kept even where they are more.
    """
    used = set(placed(skeleton))
    kept = [section for section in sections if section.name in used]
    dropped: list[PromptSection] = []
    while tokens_of(len(fill(skeleton, kept, dropped, groups))) > spare_tokens:
        droppable = [(section.worth, -index) for index, section in enumerate(kept) if section.worth is not None]
        if not droppable:
            break
        _, index = min(droppable)
        dropped.append(kept.pop(-index))
    return kept, dropped


def _joined(name: str, kept: Sequence[PromptSection], dropped: Sequence[PromptSection], group: SectionGroup) -> str:
    texts = [section.text for section in kept if section.name == name]
    left_out = sum(section.name == name for section in dropped)
    parts = [group.heading] if group.heading else []
    parts += [fence("\n".join(texts))] if group.listed and texts else texts
    if left_out:
        plural = "s" if left_out > 1 else ""
        parts.append(f"({left_out} {'more ' if texts else ''}{group.noun}{plural} left out for length.)")
    return "\n\n".join(parts)
