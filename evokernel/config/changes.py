"""Edits of a config between two sessions of one run: those allowed, and those that would make it another run."""

from collections.abc import Mapping, Sequence
from typing import Any

from evokernel.config.run import DESCRIPTORS
from evokernel.errors import RunMismatch

# A replay of the store must give the state the live run had: only what steers future choices may change.
_FREE = (
    "budget",
    "in_flight",
    "store",
    "evaluation.gpus",
    "evaluation.hosts",
    "evaluation.address",
    "evaluation.devices",
    "models",
    "notify",
    "durable",
    "prompts",
    "prompt_tokens",
    "prompt_feedback",
    "prompt_history",
    "replies_from",
    "repairs",
    "plans",
    "plugins",
    "plans_per_call",
    "hypotheses",
    "focus",
)
_FREE_OF_ISLANDS = ("operators", "selector", "choose", "models")


def edits_between(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return (key, old, new) for every setting that changed, by dotted key; None for one that was absent.

    Raises `RunMismatch` if a setting changed that decides what the stored results mean; the message names each.
    """
    changed = [
        (key, old.get(key), new.get(key)) for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)
    ]
    islands = [str(name) for flat in (old, new) for name in flat.get("islands", ())]
    mended = _misspelt(old)
    refused = [
        f"{key}: {before!r} -> {after!r}"
        for key, before, after in changed
        if not may_change(key, islands) and not key.startswith(mended)
    ]
    if refused:
        raise RunMismatch(
            "the config differs from the one this store was made with in settings that cannot change within a run:\n  "
            + "\n  ".join(refused)
            + "\nUndo the edit, or repeat the --set that the run began with; start anew with --fresh (the old store is "
            "kept) or in another store (--store; in Python store=), or `evokernel fork` a candidate into a new store"
        )
    return changed


def _misspelt(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return where islands have an axis of niches that nothing measures, which earlier releases took."""
    measured = frozenset().union(*DESCRIPTORS.values())
    places = (key.rpartition(".") for key in settings if ".niches.axes." in key)
    return tuple(f"{where}." for where, _, axis in places if axis not in measured)


def may_change(key: str, islands: Sequence[str]) -> bool:
    """Say whether a setting, by dotted key, may differ in the next session of a run with these islands."""
    free = (*_FREE, *(f"islands.{name}.{part}" for name in islands for part in _FREE_OF_ISLANDS))
    return f"{key}.".startswith(tuple(f"{each}." for each in free))
