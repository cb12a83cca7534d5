"""Remarks on a run: notes for people, on which no replay depends."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class RemarkKind(StrEnum):
    """The subject of a remark."""

    MIGRATION = "migration"
    """Elites went to other islands."""
    RESET = "reset"
    """An island started again."""
    FAULT = "fault"
    """Our own machinery, or an operator, failed."""
    MODEL_REST = "model_rest"
    """A model is not asked, for a while or for good."""
    DEVICE_CHANGE = "device_change"
    """The run goes on with another choice of devices."""
    HIDDEN_CHECK = "hidden_check"
    """A hidden check was added, or a kernel failed one that was."""
    FINAL_REFUSED = "final_refused"
    """A winner did not hold in its final measurement."""
    AGENT_EVENT = "agent_event"
    """An agent reports its work."""
    NOTE = "note"
    """A person or a program writes a note."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One stored remark."""

    id: int
    """Its number, from 1 on, in the order of writing."""
    at: float
    """Time of writing, in s since 1970."""
    session: int | None
    """The session that wrote it; None outside any."""
    kind: RemarkKind
    """Its subject."""
    text: str
    """One line for people."""
    step: int | None
    """The step that it is about; None where it is about none."""
    candidate: str
    """The id of the candidate that it is about; empty where it is about none."""
    detail: Mapping[str, Any]
    """Further JSON values by name."""
