"""Facts on a candidate for its panel on the page: source, measurements, and calls of models."""

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from archive.file.records import StoredCandidate, StoredEvaluation
from archive.identity import RunIdentity
from archive.store import Store
from archive.views.candidate_tables import candidate_lines
from evokernel.errors import StoreCorrupt
from evokernel.records.candidate import Proposal
from evokernel.records.evaluation import Fidelity
from evokernel.records.evaluation_document import evaluation_document
from evokernel.records.llm import StoredCall
from evokernel.report.page_data import FEEDBACK, NAME, TEXT, harmless, provenance_data
from evokernel.report.points import lanes
from evokernel.report.provenance import making
from evokernel.report.safe_text import clean, one_line, reason
from evokernel.report.source_diff import shown_lines
from evokernel.report.verdicts import MeasurementKind, ProgramVerdicts

ALL_SOURCES = 300_000_000
"""Limit of the sources of all candidates in a file together, in characters; each is cut to its part."""
SOURCE, SHORTEST_SOURCE = 200_000, 2_000
CALL_TEXT = 100_000
"""Longest message or reply of a model, in characters."""
CALLS, EVALUATIONS = 20, 20
BLOCK = 400_000
"""Size from which a block is packed, in characters of JSON."""
_FIELDS = (
    "mode", "budget", "status", "stage", "speedup", "workloads", "baselines", "descriptor", "metrics", "feedback",
    "stopped_early", "duration_s", "device",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FactsBlock:
    """One kind of facts on candidates that follow each other, packed."""

    kind: str
    """`source`, `facts`, `calls` or `order`."""
    first: int
    """Place of the first candidate in the order of all blocks of the kind, from 0."""
    body: str
    """A JSON list, as raw deflate in base64."""


def candidate_document(store: Store, name: str, *, identity: RunIdentity | None, width: int = SOURCE) -> dict[str, Any]:
    """Return the source, the rationale and the facts of a candidate, given by id or the beginning of one.

    `width` limits the source, in characters. Raises `StoreError` for an unknown candidate.
    """
    stored = store.candidate(name)
    proposal = store.proposal_of(stored.candidate.id)
    lines, cut = shown_lines(stored.candidate.source)
    text = "\n".join(lines)
    return {
        "source": {
            "text": text[:width],
            "cut": cut or len(text) > width,
            "language": one_line(stored.candidate.language, width=NAME),
            "why": clean(reason(proposal.operator, proposal.rationale[:TEXT])) if proposal else "",
        },
        "facts": harmless(_facts(store, stored, proposal, identity)),
    }


def calls_document(store: Store, step: int) -> list[dict[str, Any]]:
    """Return the calls of models for a step: of each its newest usable reply, with the prompt."""
    found = (store.calls.of_step(step, ordinal) for ordinal in range(CALLS))
    return [_call(call) for call in found if call is not None]


def fact_blocks(store: Store, *, calls: bool) -> Iterator[FactsBlock]:
    """Yield the packed facts of every candidate; with `calls` prompts and replies too.

    Kin stand together, which packs four times as small. The last block, `order`, holds their positions on the page.
    """
    lines, identity = candidate_lines(store), store.identity()
    heights = lanes(lines)
    order = sorted(range(len(lines)), key=heights.__getitem__)
    width = min(SOURCE, max(SHORTEST_SOURCE, ALL_SOURCES // max(len(lines), 1)))
    waiting = {kind: _Block(kind) for kind in ("source", "facts", *(["calls"] if calls else []))}
    for line in (lines[position] for position in order):
        try:
            parts = candidate_document(store, line.candidate, identity=identity, width=width)
            if calls:
                parts["calls"] = calls_document(store, line.step) if line.model else []
        except StoreCorrupt as error:  # the facts on the others can be read
            problem = {"problem": one_line(str(error), width=FEEDBACK), "text": "", "why": ""}
            parts = {kind: problem for kind in waiting}
        for kind, block in waiting.items():
            yield from block.add(parts[kind])
    for block in waiting.values():
        yield from block.end()
    yield _packed("order", 0, json.dumps(order))


class _Block:
    """Facts of one kind that wait for enough others."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._first = 0
        self._items: list[str] = []
        self._size = 0

    def add(self, item: Any) -> Iterator[FactsBlock]:
        """Add the facts of one candidate and yield the block where it is full."""
        text = json.dumps(item, separators=(",", ":"), allow_nan=False)
        self._items.append(text)
        self._size += len(text)
        if self._size >= BLOCK:
            yield from self.end()

    def end(self) -> Iterator[FactsBlock]:
        """Yield the block unless it is empty, and begin the next one."""
        if not self._items:
            return
        yield _packed(self._kind, self._first, f"[{','.join(self._items)}]")
        self._first, self._size = self._first + len(self._items), 0
        self._items.clear()


def _packed(kind: str, first: int, text: str) -> FactsBlock:
    return FactsBlock(kind, first, base64.b64encode(zlib.compress(text.encode(), 6, -zlib.MAX_WBITS)).decode())


def _facts(
    store: Store, stored: StoredCandidate, proposal: Proposal | None, identity: RunIdentity | None
) -> dict[str, Any]:
    found = store.evaluations_of(stored.program_hash)
    counting = [each for each in found if identity is None or identity.counts(each.evaluation.key)]
    verdicts = ProgramVerdicts.of([each.evaluation for each in counting])
    return {
        "id": stored.candidate.id,
        "origin": stored.origin,
        "holdout": verdicts.holdout.value,
        **(provenance_data(making(store, proposal)) if proposal else {}),
        "evaluations": [_evaluation(each, verdicts) for each in counting[-EVALUATIONS:]],
    }


def _evaluation(stored: StoredEvaluation, verdicts: ProgramVerdicts) -> dict[str, Any]:
    evaluation = stored.evaluation
    final = evaluation.key.budget is Fidelity.FINAL
    kind = MeasurementKind.FINAL if final else MeasurementKind.SEARCH
    document = evaluation_document(evaluation, *_FIELDS)
    return {
        "seq": stored.seq,
        "kind": kind.value,
        "counts": evaluation in (verdicts.of_kind(kind), verdicts.failure),
        **document,
        "feedback": document["feedback"][:FEEDBACK],
    }


def _call(stored: StoredCall) -> dict[str, Any]:
    call, result = stored.call, stored.result
    return {
        "model": one_line((result.usage.model if result else "") or call.model, width=NAME),
        "role": one_line(call.role, width=NAME),
        "operator": one_line(call.origin.operator, width=NAME),
        "tokens": result.usage.prompt_tokens + result.usage.completion_tokens if result else 0,
        "messages": [{"role": message.role, "text": _said(message.text)} for message in call.messages],
        "reply": _said(result.text) if result else "",
        "status": result.status.value if result else "",
    }


def _said(text: str) -> str:
    return clean(text[:CALL_TEXT]) + ("" if len(text) <= CALL_TEXT else "\n[cut here]")
