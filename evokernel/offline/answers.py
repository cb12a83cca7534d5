"""Answers in a folder: each handed to a run once, through its inbox; and their results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from archive.inbox import answer_digests, taken
from archive.journal import EmptyStep, InsightEntry, ResultEntry
from archive.store import Store
from evokernel.config.run import RunConfig
from evokernel.errors import ConfigError, StoreError
from evokernel.offline.folder import FolderManifest, PromptFile, read_manifest, read_reply, write_manifest
from evokernel.records.timing import Speedup, combined_speedup


@dataclass(frozen=True, slots=True)
class TellReport:
    """Answers of a folder by name, sorted by what was done with them."""

    entries: Mapping[str, int]
    """Answers handed in, with their numbers in the inbox."""
    before: tuple[str, ...]
    """Answers handed in earlier."""
    open: tuple[str, ...]
    """Prompts without an answer."""
    refused: Mapping[str, str]
    """Files that are no answer, with the reason."""


@dataclass(frozen=True, slots=True)
class AnswerFate:
    """Result of one answer in its run."""

    status: str
    """That of the evaluation, or `noted`, `unusable`, `left alone`, `waits`."""
    candidate: str = ""
    """Id; empty for an answer that gave none."""
    speedup: Speedup | None = None
    """Over the fastest baseline; None for a kernel that is not right."""
    text: str = ""
    """Feedback, title of an insight, or reason."""


def tell(path: Path, folder: Path, *, config: RunConfig, model: str = "", author: str = "") -> TellReport:
    """Hand the answers in a folder to a run, and note them in the manifest.

    Args:
        path: the store.
        folder: written by `evokernel ask`, with answers.
        config: that of the run, or of its next session.
        model: name of the model, person or program that answered.
        author: name of the user.

    Raises:
        ConfigError: the folder cannot be used, or the config lacks an operator or an island of a prompt.
        StoreError: the prompts are of another run, or the store cannot be written.
    """
    manifest = read_manifest(folder)
    known = _check(path, manifest, config)
    questions = list(manifest.questions)
    entries: dict[str, int] = {}
    before, unanswered, refused = [], [], {}
    for place, question in enumerate(questions):
        try:
            reply = read_reply(folder, question)
        except ConfigError as error:
            refused[question.name] = str(error)
            continue
        digest = question.digest(reply)
        if not reply:
            unanswered.append(question.name)
        elif digest in known:
            before.append(question.name)
        else:
            payload = answer_payload(question, reply, model=model)
            entries[question.name] = Store.inbox_put(path, "answer", payload, author=author)
            known.add(digest)
        if reply and digest not in question.told:
            questions[place] = replace(question, told=(*question.told, digest))
    _note(folder, replace(manifest, questions=tuple(questions)))
    return TellReport(entries, tuple(before), tuple(unanswered), refused)


def answer_payload(question: PromptFile, reply: str, *, model: str) -> dict[str, object]:
    """Return the entry of the inbox for an answer."""
    origin = question.origin
    return {
        "operator": origin.operator,
        "island": origin.island,
        "parents": list(origin.parents),
        "insights": list(origin.insights),
        "prompt": [[message.role, message.text] for message in question.messages],
        "reply": reply,
        "model": model,
        "digest": question.digest(reply),
    }


def fates(store: Store, entries: Sequence[int], *, after: int) -> dict[int, AnswerFate]:
    """Return the results of answers, by their number in the inbox.

    Args:
        store: open.
        entries: numbers in the inbox.
        after: seq of the run before they were handed in.
    """
    facts = {fact.step: fact for fact in store.facts(after) if isinstance(fact, ResultEntry | EmptyStep | InsightEntry)}
    known, steps = taken(store.database), store.calls.answered()
    found = {}
    for entry in entries:
        if entry not in known:
            found[entry] = AnswerFate("waits", text="no engine has taken it in yet")
        elif entry not in steps:
            found[entry] = AnswerFate(
                "left alone", text="what it is about is not known to this run, or not yet looked at"
            )
        else:
            found[entry] = _fate(facts.get(steps[entry]))
    return found


def _fate(fact: ResultEntry | EmptyStep | InsightEntry | None) -> AnswerFate:
    match fact:
        case ResultEntry(evaluation=evaluation):
            speedup = combined_speedup(evaluation.timings) if evaluation.ok else None
            return AnswerFate(evaluation.status.value, fact.proposal.candidate.id, speedup, evaluation.feedback)
        case InsightEntry(insight=insight):
            return AnswerFate("noted", text=f"{insight.kind}: {insight.title}")
        case EmptyStep(no_candidate=no_candidate):
            return AnswerFate("unusable", text=no_candidate.reason)
    return AnswerFate("waits", text="it was taken in and is not judged yet; the next engine goes on with it")


def _check(path: Path, manifest: FolderManifest, config: RunConfig) -> set[str]:
    """Refuse prompts of another run or config; return the digests of all answers that the run was handed."""
    with Store.open(path, write=False) as store:
        run_id = store.meta("run_id")
        if run_id != manifest.run_id:
            raise StoreError(
                f"these are prompts of run {manifest.run_id}, and {path} holds run {run_id}: what they are about is "
                "not known there"
            )
        if store.last_seq() < manifest.seq:
            raise StoreError(
                f"these prompts were written when the run had {manifest.seq} facts, and {path} has {store.last_seq()}: "
                "it is an older copy of the store"
            )
        known = answer_digests(store.database)
    islands = {island.name: island.operators for island in config.islands}
    for question in manifest.questions:
        island, operator = question.origin.island, question.origin.operator
        if operator not in islands.get(island, {}):
            raise ConfigError(
                f"{question.file} was asked by operator {operator} on island {island}, and the config has no such "
                "operator there; name the config that it was asked with in place of the store"
            )
    return known


def _note(folder: Path, manifest: FolderManifest) -> None:
    try:
        write_manifest(folder, manifest)
    except OSError:
        return  # a read-only medium: the inbox knows the digests
