"""Text of a reply: cleaning, fenced blocks, the lines IDEA, PREDICTED and TITLE, and joined halves."""

import re
from dataclasses import dataclass

from operators.quoting import one_line

IDEA_CHARACTERS = 400
REPLY_CHARACTERS = 1 << 20
_OPEN = re.compile(r"^(?P<indent>[ \t]*)(?P<marks>`{3,}(?!`)|~{3,}(?!~))(?P<info>[^`\n]*)$")
_NUMBER = re.compile(r"(?P<number>\d{1,6}(?:\.\d{1,6})?)\s*(?P<unit>%|[x×X])?")
_REFUSAL = re.compile(
    r"\b(?:I(?:'m| am) (?:sorry|unable|not able)|I (?:can(?:no|')t|will not|won't|must decline)|cannot (?:help|assist)"
    r"|as an AI)\b",
    re.IGNORECASE,
)
_LEAST_OVERLAP, _MOST_OVERLAP = 16, 4000
_RESTART = 40


class UnreadableReply(ValueError):
    """Error of a reply without anything usable; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block."""

    tag: str
    """The word behind its opening."""
    text: str
    """The text inside."""
    closed: bool
    """True where the reply closes it."""


def tidy(reply: str) -> str:
    """Return a reply with line ends as `\n`, without characters that cannot be stored and without hidden thoughts.

    Raises `UnreadableReply` if nothing is left, or far too much.
    """
    text = reply.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    text = text.encode("utf-8", "replace").decode("utf-8").lstrip("\ufeff")
    thoughts, closed, rest = text.rpartition("</think>")
    if closed and ("<think>" in thoughts or "```" not in thoughts):
        text = rest
    elif text.lstrip().startswith("<think>"):
        raise UnreadableReply("the reply ends while the model is still thinking")
    if not text.strip():
        raise UnreadableReply("the reply is empty")
    if len(text) > REPLY_CHARACTERS:
        raise UnreadableReply(f"the reply has {len(text)} characters, and more than {REPLY_CHARACTERS} are not read")
    return text


def split(text: str) -> tuple[list[Fence], str]:
    """Return the fenced blocks of a tidy reply, and the text outside of them."""
    blocks: list[Fence] = []
    outside: list[str] = []
    inside: list[str] = []
    opening: re.Match[str] | None = None
    for line in text.split("\n"):
        if opening is None:
            opening = _OPEN.match(line)
            if opening is None:
                outside.append(line)
        elif _closes(line, opening["marks"]):
            blocks.append(_block(opening, inside, closed=True))
            inside, opening = [], None
        else:
            inside.append(line)
    if opening is not None:
        blocks.append(_block(opening, inside, closed=False))
    return blocks, "\n".join(outside)


def _closes(line: str, marks: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(marks) and set(bare) == {marks[0]}


def _block(opening: re.Match[str], lines: list[str], *, closed: bool) -> Fence:
    indent = opening["indent"]  # a fence inside a list is indented as a whole
    tag = "".join(opening["info"].split(maxsplit=1)[:1])
    return Fence(tag.lower(), "\n".join(line.removeprefix(indent) for line in lines) + "\n", closed)


def ends_open(reply: str) -> bool:
    """Say whether a reply ends inside a fenced block, or inside a SEARCH/REPLACE block."""
    blocks, _ = split(reply.replace("\r\n", "\n"))
    edits = [line.strip() for line in reply.split("\n") if line.strip().startswith(("<<<<<<<", ">>>>>>>"))]
    return bool(blocks and not blocks[-1].closed) or bool(edits and edits[-1].startswith("<"))


def labelled(text: str, label: str) -> str:
    """Return the text behind a label such as IDEA at the beginning of a line, or nothing."""
    match = re.search(rf"^[ \t>*_#-]*{label}[*_]*[ \t]*[::][*_]*(?P<rest>[^\n]*)", text, re.MULTILINE | re.IGNORECASE)
    return match["rest"].strip(" \t*_`") if match else ""


def without_labels(text: str) -> str:
    """Return the text without the lines TITLE, PREDICTED and IDEA."""
    labels = re.compile(r"^[ \t>*_#-]*(?:TITLE|PREDICTED|IDEA)[*_]*[ \t]*[::].*$", re.IGNORECASE)
    return "\n".join(line for line in text.split("\n") if not labels.match(line)).strip()


def read_idea(outside: str) -> str:
    """Return the reason in a reply, in one line: its IDEA, else its first words."""
    reason = labelled(outside, "IDEA")
    if not reason:
        reason = next((line for line in without_labels(outside).split("\n") if len(line.split()) > 2), "")
    return one_line(reason.lstrip("#>*- "), IDEA_CHARACTERS) or "no reason was given"


def read_prediction(text: str) -> float | None:
    """Return the speed-up that a reply expects: 1.15 for `PREDICTED: 1.15x` and for `15%`; None without one."""
    match = _NUMBER.search(labelled(text, "PREDICTED"))
    if match is None:
        return None
    number = float(match["number"])
    value = 1 + number / 100 if match["unit"] == "%" else number
    return value if 0.01 <= value <= 1000 else None


def refusal(text: str) -> str:
    """Return the line in which a model declines, or nothing."""
    line = next((line for line in text.split("\n")[:20] if _REFUSAL.search(line)), "")
    return one_line(line, IDEA_CHARACTERS)


def join(first: str, more: str) -> str:
    """Return a reply that was cut off with its continuation, without the part that the latter repeats."""
    first, more = first.replace("\r\n", "\n"), more.replace("\r\n", "\n")
    blocks, _ = split(first)
    if blocks and not blocks[-1].closed:
        head, _, rest = more.lstrip("\n").partition("\n")
        if _OPEN.match(head):  # the fence was opened anew
            more = rest
        begun = blocks[-1].text.lstrip()[:_RESTART]
        start = first.rfind(begun)
        if start >= 0 and len(begun) == _RESTART and more.lstrip().startswith(begun):  # the block was begun anew
            return first[:start] + more.lstrip()
    last = first.rpartition("\n")[2]
    if len(last.strip()) > 2 and more.startswith(last):
        return first + more[len(last) :]
    for size in range(min(len(first), len(more), _MOST_OVERLAP), _LEAST_OVERLAP - 1, -1):
        if first.endswith(more[:size]):
            return first + more[size:]
    return first + more
