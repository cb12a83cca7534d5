"""Reading of a kernel from a reply: a whole file in a fence or without one, or changes to the kernel shown."""

import heapq
import re
from dataclasses import dataclass

from evokernel.languages import syntax_of
from evokernel.records.candidate import normalise
from evokernel.task import Signature
from operators.llm.replies.entry import entry_problem, parsed
from operators.llm.replies.patches import (
    PatchError,
    apply_edits,
    apply_hunks,
    has_edits,
    has_hunks,
    read_edits,
    read_hunks,
)
from operators.llm.replies.words import Fence, UnreadableReply, refusal, split
from operators.quoting import one_line

_OTHER_TAGS = {"cpp": frozenset({"c++", "cxx", "cc", "c"}), "python": frozenset({"py", "python3"})}
_DIFF_TAGS = frozenset({"diff", "patch", "udiff"})
_BEGINNING = {
    "cpp": re.compile(
        r"^(?:#include|#pragma|#define|//|/\*|extern\b|namespace\b|using\b|template\b|static\b|constexpr\b)"
    ),
    "python": re.compile(r"^(?:import\s|from\s+[\w.]+\s+import|@|def\s|\"\"\"|'''|#|[A-Z_]+\s*=)"),
}
_ANYTHING = re.compile(r"\S")
_SHOWN = 80
_MOST_CUTS = 12
_MOST_BLOCKS = 32

_LEFT_OUT = (
    r"unchanged|unmodified|omitted|elided|remain\w*|rest of|same as|as before|as above|existing|previous|original"
)
_SAYS_LEFT_OUT = re.compile(rf"\b(?:{_LEFT_OUT})\b", re.IGNORECASE)
_MAY_BE_LEFT_OUT = re.compile(rf"\b(?:{_LEFT_OUT}|other|your|keep|continue\w*|implementation|code)\b", re.IGNORECASE)
_REST_OF = re.compile(
    r"[\W_]*(?:the )?(?:rest|remainder|remaining (?:code|part)) (?:of .{0,60})?"
    r"(?:is |are |stays? |remains? )?(?:unchanged|the same|as before|omitted|identical)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_COMMENTS = ("//", "#", "/*")
_ELLIPSES = ("...", "…")


@dataclass(frozen=True, slots=True)
class ReplyExpectation:
    """Expected form of a reply with a kernel."""

    language: str
    """The language of the kernel."""
    signature: Signature
    """The arguments of its entry point."""
    original: str | None
    """The source that changes apply to; None where there is none."""
    whole: bool = True
    """True where a whole file is accepted."""
    edits: bool = True
    """True where changes are accepted."""


def read_kernel(text: str, wanted: ReplyExpectation) -> str:
    """Return the source in a tidy reply, or the original with the changes of the reply.

    Raises `UnreadableReply` if there is none; the message is the exact reason.
    """
    blocks, outside = split(text)
    changes = _changes(text, blocks)
    source = _changed(changes, wanted) if changes is not None else _whole(blocks, outside, wanted)
    source = normalise(source)
    if wanted.original is not None and source == normalise(wanted.original):
        raise UnreadableReply("the kernel in the reply is the one it was to change, unchanged")
    placeholder = _placeholder(source, wanted.original or "")
    if placeholder:
        raise UnreadableReply(
            f"the code is not complete: a line stands for what was left out: {one_line(placeholder, _SHOWN)}"
        )
    problem = entry_problem(source, wanted.language, wanted.signature)
    if problem:
        raise UnreadableReply(f"this is no kernel for this task: {problem}")
    return source


def _changes(text: str, blocks: list[Fence]) -> str | None:
    """Return the text that holds SEARCH/REPLACE blocks or a diff, or None."""
    if has_edits(text):
        return text
    diffs = [block.text for block in blocks if has_hunks(block.text)]
    if diffs:
        return "".join(diffs)
    if any(block.tag in _DIFF_TAGS for block in blocks) and len(blocks) == 1:
        return blocks[0].text
    return text if not blocks and has_hunks(text) else None


def _changed(text: str, wanted: ReplyExpectation) -> str:
    if wanted.original is None or not wanted.edits:
        raise UnreadableReply(
            "the reply holds changes, and a whole file was asked for: there is nothing to apply them to"
        )
    try:
        if has_edits(text):
            return apply_edits(wanted.original, read_edits(_without_fences(text)))
        return apply_hunks(wanted.original, read_hunks(text))
    except PatchError as error:
        raise UnreadableReply(f"the changes cannot be applied, so none was: {error}") from None


def _without_fences(text: str) -> str:
    """Drop the fences between SEARCH and REPLACE marks, which some models put around each part."""
    return re.sub(r"(?m)(^[ \t]*(?:<{5,9} ?SEARCH\b.*|={7}[ \t]*)\n)[ \t]*```[\w+]*[ \t]*\n", r"\1", _closing(text))


def _closing(text: str) -> str:
    return re.sub(r"(?m)^[ \t]*```[ \t]*\n([ \t]*(?:={7}[ \t]*|>{5,9} ?REPLACE\b.*)$)", r"\1", text)


def _whole(blocks: list[Fence], outside: str, wanted: ReplyExpectation) -> str:
    if not wanted.whole:
        raise UnreadableReply("the reply holds no SEARCH/REPLACE blocks and no diff, which were asked for")
    if not blocks:
        return _unfenced(outside, wanted)
    largest = heapq.nlargest(_MOST_BLOCKS, enumerate(blocks), key=lambda item: len(item[1].text))
    return max(largest, key=lambda item: (_rank(item[1], wanted), item[0]))[1].text


def _rank(block: Fence, wanted: ReplyExpectation) -> tuple[bool, bool, bool, int]:
    """Return how likely a block is the kernel: the entry point, something new, the right tag, size."""
    fits = entry_problem(block.text, wanted.language, wanted.signature) is None
    new = wanted.original is None or normalise(block.text) != normalise(wanted.original)
    syntax = syntax_of(wanted.language)
    tagged = block.tag in {wanted.language, syntax, *_OTHER_TAGS.get(syntax, ())}
    return fits, new, tagged, len(block.text)


def _unfenced(text: str, wanted: ReplyExpectation) -> str:
    """Return a source outside of any fence, without the words around it."""
    syntax = syntax_of(wanted.language)
    lines = [line for line in text.split("\n") if not re.match(r"\W*(?:IDEA|PREDICTED)\W*[::]", line)]
    beginning = _BEGINNING.get(syntax, _ANYTHING)
    start = next((index for index, line in enumerate(lines) if beginning.match(line)), None)
    body = lines[start:] if start is not None else []
    if entry_problem("\n".join(body), wanted.language, wanted.signature) is not None:
        declined = refusal(text)
        if declined:
            raise UnreadableReply(f"the model declines: {declined}")
        first = next((line for line in text.split("\n") if line.strip()), "")
        raise UnreadableReply(f"the reply holds no code that defines `run`; it begins with: {one_line(first, _SHOWN)}")
    return "\n".join(_without_tail(body, syntax))


def _without_tail(lines: list[str], syntax: str) -> list[str]:
    """Drop the words that follow a source: behind the last brace, or as far as Python can be read."""
    if syntax == "cpp":
        last = max((index for index, line in enumerate(lines) if line.startswith(("}", "#endif"))), default=None)
        return lines if last is None else lines[: last + 1]
    if syntax != "python":
        return lines
    ends = [index for index in range(len(lines), 0, -1) if index == len(lines) or not lines[index].strip()]
    for end in ends[:_MOST_CUTS]:
        if parsed("\n".join(lines[:end])) is not None:
            return lines[:end]
    return lines


def _placeholder(source: str, original: str) -> str:
    """Return a line that replaces omitted code and is not in the original, or nothing."""
    known = set(original.split("\n"))
    return next((line for line in source.split("\n") if line not in known and _stands_for_code(line[:400])), "")


def _stands_for_code(line: str) -> bool:
    """Say whether a line is an ellipsis alone, or a comment that says in words that something is left out."""
    text = line.strip()
    mark = next((mark for mark in (*_COMMENTS, "*", "--") if text.startswith(mark)), "")
    body = text.removeprefix(mark)
    if body.removesuffix("*/").strip() in _ELLIPSES:
        return True
    if mark not in _COMMENTS:
        return False
    words = list(_WORD.finditer(body))
    if _REST_OF.match(body) or not words:
        return bool(words)
    before, behind = body[: words[0].start()], body[words[-1].end() :]
    return (any(each in before for each in _ELLIPSES) and _MAY_BE_LEFT_OUT.search(body) is not None) or (
        any(each in behind for each in _ELLIPSES) and _SAYS_LEFT_OUT.search(body) is not None
    )
