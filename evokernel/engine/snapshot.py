"""A disposable copy of the state of a search, so that a long run is gone on with in a second.

The store stays the only truth: an image that does not fit the config, the task or this code is left alone, and so is
one that cannot be read or that does not give the state it was taken of; then every fact is replayed, as without it.
"""

import hashlib
import json
import logging
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zstandard

from archive.account import RunAccount
from archive.journal import ResultEntry
from archive.store import Store
from evokernel.config.run import BudgetConfig, RunConfig, dump_config
from evokernel.engine.inbox import AnsweredPrompt, Submission
from evokernel.engine.state import SearchState
from evokernel.errors import StoreError
from evokernel.records.evaluation import EvaluatorIdentity
from islands.image import ArchipelagoSnapshot

if TYPE_CHECKING:
    from pydantic import TypeAdapter

logger = logging.getLogger(__name__)

SHAPING = (
    "engine/state",
    "engine/snapshot",
    "engine/inbox",
    "records/fitness",
    "records/leader",
    "records/step",
    "source/tunables",
)
"""Modules that a state depends on, beside the islands."""
UNLIMITED = BudgetConfig(evaluations=1)
"""In the place of any budget: none of them shapes the state."""
EVERY = 5000
"""Facts after which another image is taken: replaying so many takes a second."""


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """What `SearchState` holds, after the fact `seq`."""

    seq: int
    archipelago: ArchipelagoSnapshot
    standing: RunAccount
    answers: tuple[AnsweredPrompt, ...]
    injected: tuple[Submission, ...]

    def seqs(self) -> set[int]:
        """Return the seqs of all results whose elites are needed to restore this."""
        return self.archipelago.seqs()


class Snapshots:
    """Takes images of a search's state into its store, and restores the state from the latest.

    Args:
        store: of the run; open for writing.
        state: the state; fresh, to be restored.
        config: all of it but the budget shapes the state.
        evaluator: results of another task or device count for nothing.

    `fits` names what shapes a state: the rules, the config, task and device.
    """

    def __init__(self, store: Store, state: SearchState, config: RunConfig, *, evaluator: EvaluatorIdentity) -> None:
        self._store = store
        self._state = state
        self.fits = _fits(config, evaluator)
        self._seq = 0

    def restore(self) -> None:
        """Bring the state to where the latest image was taken, if there is one that fits; else leave it as it is."""
        found = self._store.image(fits=self.fits)
        if found is None:
            return
        blank = image_of(self._state)
        try:
            image, fingerprint = _unpack(found)
            restore(self._state, image, self._store.results(image.seqs()))
            if self._state.fingerprint() != fingerprint:
                raise ValueError("it gives another state than it was taken of")
        except (ValueError, TypeError, LookupError, AttributeError, StoreError, zstandard.ZstdError) as error:
            logger.info("an image of the state is not used: %s", error)
            restore(self._state, blank, {})
        self._seq = self._state.seq

    def take(self, *, at_once: bool = False) -> None:
        """Take an image if enough was committed since the last one; `at_once` if anything much was."""
        if self._state.seq - self._seq >= (EVERY // 10 if at_once else EVERY):
            self._seq = self._state.seq
            try:
                self._store.put_image(_pack(self._state), fits=self.fits, seq=self._state.seq)
            except StoreError as error:  # facts must be stored, this need not: the next commit tells of a full disk
                logger.info("no image of the state was taken: %s", error)


def image_of(state: SearchState) -> StateSnapshot:
    """Return an image of a state."""
    return StateSnapshot(
        state.seq,
        state.archipelago.image(),
        deepcopy(state.standing),
        tuple(state.answers.values()),
        tuple(state.injected.values()),
    )


def restore(state: SearchState, image: StateSnapshot, results: dict[int, ResultEntry]) -> None:
    """Make a state what an image was taken of. Raises `LookupError` where a result is missing."""
    elites = {seq: result.elite() for seq, result in results.items()}
    state.seq = image.seq
    state.archipelago.restore(image.archipelago, find=elites.__getitem__, verdict=lambda seq: results[seq].evaluation)
    state.standing = deepcopy(image.standing)
    state.answers = {answer.entry: answer for answer in image.answers}
    state.injected = {handed_in.candidate.id: handed_in for handed_in in image.injected}


def _fits(config: RunConfig, evaluator: EvaluatorIdentity) -> str:
    shaping = dump_config(config.model_copy(update={"budget": UNLIMITED}))
    parts = (_rules(), evaluator.task_hash, evaluator.device, shaping)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@cache
def _rules() -> str:
    """Return a hash over the code that makes a state of facts: with another, an image may be of another state."""
    package = Path(__file__).parents[1]
    root = package.parent
    files = [*sorted((root / "islands").glob("*.py")), root / "archive" / "account.py"]
    files += [package / f"{name}.py" for name in SHAPING]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


@cache
def _adapter() -> "TypeAdapter[StateSnapshot]":
    from pydantic import TypeAdapter

    return TypeAdapter(StateSnapshot)


def _pack(state: SearchState) -> bytes:
    plain = {"fingerprint": state.fingerprint(), "state": _adapter().dump_python(image_of(state), mode="json")}
    return zstandard.ZstdCompressor().compress(json.dumps(plain).encode())


def _unpack(body: bytes) -> tuple[StateSnapshot, str]:
    plain: dict[str, Any] = json.loads(zstandard.ZstdDecompressor().decompress(body))
    return _adapter().validate_python(plain["state"]), str(plain["fingerprint"])
