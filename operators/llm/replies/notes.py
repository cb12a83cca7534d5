"""Words to keep out of a reply: a title, what gain is expected, and the text."""

from dataclasses import dataclass

from operators.llm.replies.words import UnreadableReply, labelled, read_prediction, refusal, without_labels
from operators.quoting import middle_cut, one_line

TITLE_CHARACTERS = 160
TEXT_CHARACTERS = 12000


@dataclass(frozen=True, slots=True)
class TitledNote:
    """A title, the text under it, and the expected speed-up where one is given."""

    title: str
    text: str
    predicted_speedup: float | None


def read_note(text: str) -> TitledNote:
    """Return the note that a tidy reply holds; without a TITLE its first line is taken.

    Raises:
        Unread: it declines, or there is nothing under the title.
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
