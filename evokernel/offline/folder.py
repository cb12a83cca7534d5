"""Folders of prompts and answers as files, for people, agents and other machines.

For each prompt there is a file to read, `001-mutate.md`, and a place for the answer, `001-mutate.reply.md`. The
manifest `asked.json` holds the origin and the text of each prompt; the files to read are copies.
"""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evokernel.errors import ConfigError
from evokernel.records.evaluation_document import fields_document
from evokernel.records.llm import Message, Origin

FORMAT = 1
MANIFEST = "asked.json"
REPLY_LIMIT_BYTES = 2_000_000
_ODD = re.compile(r"[^A-Za-z0-9_.]+")
_NUMBERED = re.compile(r"(\d{3,})-.*\.md")
_PLAIN = re.compile(r"\d{3,}-[A-Za-z0-9_.-]+")
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class PromptFile:
    """One prompt in a folder."""

    name: str
    """Stem of its files, for example `001-mutate`."""
    origin: Origin
    """Step, island, operator, parents and insights."""
    messages: tuple[Message, ...]
    repeats: bool = False
    """True where another prompt has the same messages."""
    told: tuple[str, ...] = ()
    """Digests of the answers that were handed in."""

    @property
    def file(self) -> str:
        """The file to read."""
        return f"{self.name}.md"

    @property
    def reply_file(self) -> str:
        """The file for the answer."""
        return f"{self.name}.reply.md"

    def digest(self, reply: str) -> str:
        """Return 16 hex digits over prompt and answer, by which a run recognises an answer."""
        said = json.dumps([[[message.role, message.text] for message in self.messages], reply])
        return hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class FolderManifest:
    """Prompts of one run in a folder."""

    run_id: str
    """Of the run."""
    task: str
    language: str
    seq: int
    """Of the run when the prompts were written."""
    questions: tuple[PromptFile, ...]


def write_questions(
    folder: Path,
    manifest: FolderManifest,
    asked: Sequence[tuple[Origin, tuple[Message, ...], bool]],
    *,
    force: bool = False,
) -> FolderManifest:
    """Write prompts into a folder; return its new manifest. Files of earlier answers that were handed in stay.

    Args:
        folder: made where it does not exist.
        manifest: of the run, without questions.
        asked: for each prompt its origin, its messages, and True where another prompt has the same messages.
        force: discard prompts in the folder whose answers were not handed in.

    Raises:
        ConfigError: the folder holds prompts that are not told yet, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        first = _highest(folder) + 1
        _discard_unanswered(folder, force=force)
        questions = tuple(
            PromptFile(f"{first + place:03}-{_ODD.sub('-', origin.operator)}", origin, messages, repeats)
            for place, (origin, messages, repeats) in enumerate(asked)
        )
        for question in questions:
            (folder / question.file).write_text(_page(question, manifest), encoding="utf-8")
        made = replace(manifest, questions=questions)
        write_manifest(folder, made)
    except OSError as error:
        raise ConfigError(f"cannot write to {folder}: {error.strerror}") from None
    return made


def write_manifest(folder: Path, manifest: FolderManifest) -> None:
    """Write the manifest, whole or not at all. Raises `OSError`."""
    document = {
        "format": FORMAT,
        **fields_document(manifest, "run_id", "task", "language", "seq"),
        "prompts": [_question_document(question) for question in manifest.questions],
    }
    draft = folder / f".{MANIFEST}.new"
    draft.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, folder / MANIFEST)


def read_manifest(folder: Path) -> FolderManifest:
    """Return the manifest of a folder. Raises `ConfigError` where `evokernel ask` did not write it."""
    path = folder / MANIFEST
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; expected a folder of `evokernel ask`") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not what `evokernel ask` wrote: {error}") from None
    try:
        if document["format"] != FORMAT:
            raise ConfigError(f"{path} has format {document['format']!r}, and this evokernel reads format {FORMAT}")
        return FolderManifest(
            run_id=str(document["run_id"]),
            task=str(document["task"]),
            language=str(document["language"]),
            seq=int(document["seq"]),
            questions=tuple(_read_question(each) for each in document["prompts"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path} is not what `evokernel ask` wrote: {type(error).__name__} {error}") from None


def read_reply(folder: Path, question: PromptFile) -> str:
    """Return the answer to a prompt; an empty text without one.

    Raises `ConfigError` if the file is not UTF-8 text, or longer than 2 MB.
    """
    path = folder / question.reply_file
    try:
        with path.open("rb") as file:
            raw = file.read(REPLY_LIMIT_BYTES + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > REPLY_LIMIT_BYTES:
        raise ConfigError(f"{path} is longer than {REPLY_LIMIT_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no UTF-8 text: {error.reason} at byte {error.start}") from None
    return text if text.strip() else ""


def _discard_unanswered(folder: Path, *, force: bool) -> None:
    """Refuse, without `force`, while prompts are not handed in; else remove those without an answer."""
    if not (folder / MANIFEST).exists():
        return
    left = [question for question in read_manifest(folder).questions if not question.told]
    if left and not force:
        raise ConfigError(
            f"{folder} holds {len(left)} prompts that are not answered and told yet, {left[0].file} the first; answer "
            "and `evokernel tell` them, name another folder, or give them up with --force"
        )
    for question in left:
        if not (folder / question.reply_file).exists():
            (folder / question.file).unlink(missing_ok=True)


def _highest(folder: Path) -> int:
    """Return the highest number of a file, so that no new prompt takes the answer to an old one."""
    found = (_NUMBERED.fullmatch(path.name) for path in folder.iterdir())
    return max((int(match[1]) for match in found if match), default=0)


def _page(question: PromptFile, manifest: FolderManifest) -> str:
    another = " Another prompt beside it says the same: have a different idea here." if question.repeats else ""
    head = (
        f"> A prompt of `evokernel ask`: task {manifest.task}, language {manifest.language}, operator "
        f"{question.origin.operator}. Write the answer, and nothing else, to `{question.reply_file}` in this folder; "
        f"how it must look is said below.{another}"
    )
    parts = [f"<!-- {message.role} -->\n\n{message.text.strip()}" for message in question.messages]
    return "\n\n".join([head, *parts]) + "\n"


def _question_document(question: PromptFile) -> dict[str, Any]:
    return {
        **fields_document(question, "name", "file"),
        "reply": question.reply_file,
        **fields_document(question.origin, "operator", "island", "step", "parents", "insights"),
        **fields_document(question, "repeats", "told"),
        "messages": [[message.role, message.text] for message in question.messages],
    }


def _read_question(document: Any) -> PromptFile:
    name = document["name"]
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):  # a manifest may come from anywhere
        raise ValueError(f"{name!r} is no name of a prompt")
    messages = []
    for role, text in document["messages"]:
        if role not in _ROLES or not isinstance(text, str):
            raise ValueError(f"{name} holds a message that is none")
        messages.append(Message(role, text))
    return PromptFile(
        name=name,
        origin=Origin(
            step=int(document["step"]),
            island=str(document["island"]),
            operator=str(document["operator"]),
            parents=tuple(str(parent) for parent in document["parents"]),
            insights=tuple(int(seq) for seq in document["insights"]),
        ),
        messages=tuple(messages),
        repeats=bool(document["repeats"]),
        told=tuple(str(digest) for digest in document["told"]),
    )
