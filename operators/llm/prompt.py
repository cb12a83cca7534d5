"""A prompt is made of named sections that a template places; under a cap the least useful ones are left out, and said.

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
    """One part of a prompt: what fills the variable `name`, beside other parts with that name.

    `worth` decides what goes first under a cap, the lowest; None stays whatever comes. Among parts of equal worth the
    last goes first. `reference` is the id of the candidate or the seq of the insight that the text is about.
    """

    name: str
    text: str
    worth: int | None = None
    reference: str | int | None = None


@dataclass(frozen=True, slots=True)
class SectionGroup:
    """How the sections of one name stand together.

    `heading` comes before them, `noun` is what one is called where some are left out. `listed`: they are lines of
    somebody else's words, put into one fence.
    """

    heading: str
    noun: str
    listed: bool = False


def place(name: str) -> str:
    """Return what stands for a section in a rendered template until the sections are chosen."""
    return f"\0{name}\0"


def placed(skeleton: str) -> tuple[str, ...]:
    """Return the names of the sections that a rendered template places. Raises `ValueError` for what is none."""
    rest = _PLACE.sub("", skeleton)
    if "\0" in rest:
        raise ValueError("sections can be placed, not changed by a filter")
    return tuple(dict.fromkeys(_PLACE.findall(skeleton)))


def tokens_of(characters: int) -> int:
    """Return about how many tokens so many characters are."""
    return math.ceil(characters / CHARACTERS_PER_TOKEN)


def fill(
    skeleton: str, kept: Sequence[PromptSection], dropped: Sequence[PromptSection], groups: Mapping[str, SectionGroup]
) -> str:
    """Return the prompt: sections in their places, blank lines tidied outside of them."""
    bare = _BLANKS.sub("\n\n", skeleton).strip()
    return _PLACE.sub(lambda match: _joined(match[1], kept, dropped, groups[match[1]]), bare)


def keep(
    skeleton: str, sections: Sequence[PromptSection], groups: Mapping[str, SectionGroup], *, spare_tokens: int
) -> tuple[list[PromptSection], list[PromptSection]]:
    """Return the sections of a prompt that are kept and those left out so that it has at most so many tokens.

    What has no `worth` is kept even where that is more.
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
