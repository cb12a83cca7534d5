"""Reading of an insight from a reply: a title, an expected gain, and the text."""

import re
from dataclasses import dataclass

from operators.llm.replies.words import UnreadableReply, labelled, read_prediction, refusal, without_labels
from operators.quoting import middle_cut, one_line

_TITLE = re.compile(r"^(?=[ \t>*_#-]*TITLE[*_]*[ \t]*[::])", re.MULTILINE | re.IGNORECASE)
TITLE_CHARACTERS = 160
TEXT_CHARACTERS = 12000


@dataclass(frozen=True, slots=True)
class TitledNote:
    """A note as a reply gives it."""

    title: str
    """Its title, or its first line without one."""
    text: str
    """The text under the title."""
    predicted_speedup: float | None
    """The expected speed-up as a factor; None where none is given."""


def read_notes(text: str, *, most: int) -> list[TitledNote]:
    """Return up to so many notes of a tidy reply, each beginning with a TITLE; parts that are no note are left out.

    Raises `UnreadableReply` if there is no note at all.
    """
    parts = _TITLE.split(text) if most > 1 else [text]
    notes, problems = list[TitledNote](), list[UnreadableReply]()
    for part in parts[1:] or parts:  # words before the first title are no note
        try:
            notes.append(read_note(part))
        except UnreadableReply as unread:
            problems.append(unread)
    if not notes:
        raise problems[0]
    return notes[:most]


def read_note(text: str) -> TitledNote:
    """Return the note in a tidy reply; without a TITLE its first line is the title.

    Raises `UnreadableReply` if it declines, or has no text under the title.
    """
    title, body = one_line(labelled(text, "TITLE"), TITLE_CHARACTERS), without_labels(text)
    if not title:
        declined = refusal(text)
        if declined:
            raise UnreadableReply(f"the model declines: {declined}")
        first, _, body = body.partition("\n")
        title, body = one_line(first.strip("#*_ "), TITLE_CHARACTERS), body.strip()
    if not title or not body:
        raise UnreadableReply("the reply has no text under a title" if title else "the reply has no title and no text")
    return TitledNote(title, middle_cut(body, TEXT_CHARACTERS), read_prediction(text))
