"""Inbox entries of people and other programs for a running search, checked."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evokernel.records.candidate import Candidate, Usage
from evokernel.records.llm import Insight, InsightKind, Message, Origin
from islands.archipelago import EVERYWHERE
from islands.history import BY_HAND

LOOK = "look"
"""Kind of an entry that an agent's step makes: a kernel that it had judged, with the verdict."""
REPLY_LIMIT = 2_000_000
"""The longest reply that is read, in characters."""
_LIMIT = 12000
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Submission:
    """A source from outside, with its lineage where it has one."""

    candidate: Candidate
    """The source."""
    operator: str = BY_HAND
    """Name of the operator; `inject` without one."""
    island: str = EVERYWHERE
    """The population that it is for; `*` for all."""
    parents: tuple[str, ...] = ()
    """Ids of its parents."""
    inspirations: tuple[str, ...] = ()
    """Ids of kernels that were shown as ideas."""
    insights: tuple[int, ...] = ()
    """Seqs of the insights that went into it."""
    rationale: str = "inject: by hand"
    """The reason, one line."""
    predicted_speedup: float | None = None
    """Speed-up over the first parent that is expected; None where nothing is said."""
    usage: Usage = field(default_factory=Usage)
    """Its cost."""


@dataclass(frozen=True, slots=True)
class AnsweredPrompt:
    """A reply from elsewhere to a prompt of this run."""

    entry: int
    """Its number in the inbox."""
    operator: str
    """Name of the operator that wrote the prompt."""
    island: str
    """The population that the prompt was for."""
    parents: tuple[str, ...]
    """Ids of the candidates that were selected."""
    insights: tuple[int, ...]
    """Seqs of the insights that the prompt used."""
    prompt: tuple[Message, ...]
    """The turns, in order."""
    reply: str
    """The text."""
    model: str
    """Name of the model that answered; empty where nothing is said."""

    def origin(self, step: int) -> Origin:
        """Return the origin of the reply when it gets a step."""
        return Origin(step, self.island, self.operator, self.parents, self.insights)


def read_answer(entry: int, payload: Mapping[str, Any]) -> AnsweredPrompt:
    """Return the answer in the payload of an inbox entry. Raises `ValueError` for another payload."""
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
    """Return the source in the payload of an inbox entry. Raises `ValueError`, in words, for another payload."""
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


def read_foreign(payload: Mapping[str, Any], *, language: str) -> tuple[Candidate, str]:
    """Return the kernel in another language than ours in a payload, and words on it. Raises `ValueError`."""
    other = _word(payload, "language", language)
    if other == language:
        raise ValueError(f"it is in {language}, as this run's kernels are")
    return read_source(payload, language=other).candidate, _word(payload, "rationale", "")


def read_insight(payload: Mapping[str, Any]) -> tuple[Insight, str]:
    """Return the insight in a payload, and its island. Raises `ValueError` for another payload."""
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


def read_look(payload: Mapping[str, Any]) -> tuple[int, str, float]:
    """Return step, id of the kernel, and time on the device in s of a look; 0 s where an earlier release wrote it.

    Raises `ValueError` if it names no step.
    """
    step, taken_s, verdict = payload.get("step"), payload.get("device_s", 0.0), payload.get("verdict")
    if type(step) is not int:
        raise ValueError("a look names its step")
    name = verdict.get("candidate") if isinstance(verdict, dict) else None
    seconds = float(taken_s) if isinstance(taken_s, int | float) and math.isfinite(taken_s) else 0.0
    return step, str(name or ""), max(0.0, seconds)


def read_text(payload: Mapping[str, Any], name: str) -> str:
    """Return a text that a payload must hold. Raises `ValueError`."""
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
