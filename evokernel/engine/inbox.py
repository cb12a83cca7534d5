"""What people and other programs hand to a running search through the inbox, checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evokernel.records.candidate import Candidate, Usage
from evokernel.records.llm import Insight, InsightKind, Message, Origin
from islands.archipelago import EVERYWHERE
from islands.history import BY_HAND

REPLY_LIMIT = 2_000_000
"""The longest reply that is looked at, in characters."""
_LIMIT = 12000
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Submission:
    """A source from outside, with its lineage where it has one: an answer to a prompt that was taken elsewhere."""

    candidate: Candidate
    operator: str = BY_HAND
    island: str = EVERYWHERE
    parents: tuple[str, ...] = ()
    inspirations: tuple[str, ...] = ()
    insights: tuple[int, ...] = ()
    rationale: str = "inject: by hand"
    predicted_speedup: float | None = None
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class AnsweredPrompt:
    """A reply that was given elsewhere to a prompt of this run; `entry` is its number in the inbox."""

    entry: int
    operator: str
    island: str
    parents: tuple[str, ...]
    insights: tuple[int, ...]
    prompt: tuple[Message, ...]
    reply: str
    model: str

    def origin(self, step: int) -> Origin:
        """Return what is written down with the reply when a step is given to it."""
        return Origin(step, self.island, self.operator, self.parents, self.insights)


def read_answer(entry: int, payload: Mapping[str, Any]) -> AnsweredPrompt:
    """Return the answer in the payload of an inbox entry. Raises `ValueError` for what is none."""
    prompt = payload.get("prompt")
    if not isinstance(prompt, list) or not all(_is_message(each) for each in prompt):
        raise ValueError("it lacks the prompt it answers")
    return AnsweredPrompt(
        entry=entry,
        operator=read_text(payload, "operator"),
        island=read_text(payload, "island"),
        parents=_names(payload, "parents"),
        insights=_seqs(payload, "insights"),
        prompt=tuple(Message(role, text) for role, text in prompt),
        reply=_word(payload, "reply", "", limit=REPLY_LIMIT),
        model=_word(payload, "model", ""),
    )


def read_source(payload: Mapping[str, Any], *, language: str) -> Submission:
    """Return the source in the payload of an inbox entry. Raises `ValueError`, in words, for what is none."""
    source = payload.get("source")
    if not isinstance(source, str) or not source.strip():
        raise ValueError("it holds no source")
    if payload.get("language", language) != language:
        raise ValueError(f"it is in language {payload['language']!r}, and this run evolves {language}")
    try:
        source.encode()
    except UnicodeEncodeError:
        raise ValueError("it is not text that can be written down") from None
    predicted = payload.get("predicted_speedup")
    return Submission(
        candidate=Candidate(source, language),
        operator=_word(payload, "operator", BY_HAND),
        island=_word(payload, "island", EVERYWHERE),
        parents=_names(payload, "parents"),
        inspirations=_names(payload, "inspirations"),
        insights=_seqs(payload, "insights"),
        rationale=_word(payload, "rationale", "inject: by hand"),
        predicted_speedup=float(predicted) if isinstance(predicted, int | float) else None,
        usage=Usage(model=_word(payload, "model", "")),
    )


def read_insight(payload: Mapping[str, Any]) -> tuple[Insight, str]:
    """Return the insight in a payload, and the island it is for. Raises `ValueError` for what is none."""
    text = payload.get("text")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("it holds no text")
    predicted = payload.get("predicted_speedup")
    insight = Insight(
        kind=InsightKind(str(payload.get("kind"))),
        title=_word(payload, "title", ""),
        text=text[:_LIMIT],
        candidate=_word(payload, "candidate", ""),
        predicted_speedup=float(predicted) if isinstance(predicted, int | float) else None,
        sources=_seqs(payload, "sources"),
    )
    return insight, _word(payload, "island", EVERYWHERE)


def read_text(payload: Mapping[str, Any], name: str) -> str:
    """Return a text that has to be in a payload. Raises `ValueError`."""
    value = payload.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"it lacks {name!r}")
    return value.strip()[:_LIMIT]


def _is_message(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and value[0] in _ROLES and isinstance(value[1], str)


def _seqs(payload: Mapping[str, Any], name: str) -> tuple[int, ...]:
    values = payload.get(name, ())
    return tuple(value for value in values if isinstance(value, int)) if isinstance(values, list | tuple) else ()


def _word(payload: Mapping[str, Any], name: str, other: str, *, limit: int = _LIMIT) -> str:
    value = payload.get(name)
    return value[:limit] if isinstance(value, str) and value else other


def _names(payload: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = payload.get(name, ())
    return tuple(value for value in values if isinstance(value, str)) if isinstance(values, list | tuple) else ()
