"""Remarks on a run: what a person wants to read later, and no replay depends on."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class RemarkKind(StrEnum):
    """The subject of a remark."""

    MIGRATION = "migration"
    RESET = "reset"
    FAULT = "fault"
    MODEL_REST = "model_rest"
    DEVICE_CHANGE = "device_change"
    FINAL_REFUSED = "final_refused"
    AGENT_EVENT = "agent_event"
    NOTE = "note"


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
