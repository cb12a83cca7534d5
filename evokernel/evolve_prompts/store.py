"""Store of an evolution of prompts: settings, texts and scores beside the calls of the model that edits.

The file is a `Store` with two tables more. Each trial has a store of its own, beside it.
"""

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from itertools import starmap
from pathlib import Path
from typing import Any

from archive.store import Store
from evokernel.errors import RunMismatch, StoreError
from evokernel.evolve_prompts.records import PromptText, PromptTrial

_TABLES = (
    "CREATE TABLE IF NOT EXISTS prompt_texts(number INTEGER PRIMARY KEY, text TEXT NOT NULL, parent INTEGER NOT NULL, "
    "task TEXT NOT NULL, idea TEXT NOT NULL, refusal TEXT NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS prompt_trials(prompt INTEGER NOT NULL, task TEXT NOT NULL, gain REAL NOT NULL, "
    '"right" INTEGER NOT NULL, asks INTEGER NOT NULL, calls INTEGER NOT NULL, dollars REAL NOT NULL, '
    "PRIMARY KEY(prompt, task)) STRICT",
)
_SETTINGS, _DECISION = "prompt_evolution", "prompt_decision"


@dataclass(frozen=True, slots=True)
class EarlierPrompts:
    """What a file holds of an evolution."""

    kernels: Mapping[str, str]
    """The kernels that it began with, by the path of their store."""
    decided: bool
    """True where it has ended."""


def earlier_prompts(path: Path) -> EarlierPrompts:
    """Return what a file holds; nothing where there is none yet. Raises `StoreError` where it holds something else."""
    if not path.exists():
        return EarlierPrompts({}, decided=False)
    with Store.open(path, write=False) as store:
        _refuse_run(store)
        settings = json.loads(store.meta(_SETTINGS) or "{}")
        return EarlierPrompts(settings.get("kernels", {}), decided=store.meta(_DECISION) is not None)


def _refuse_run(store: Store) -> None:
    if store.meta("config") is not None or store.last_seq():
        raise StoreError(
            f"{store.database.path} holds a run, and an evolution of prompts needs a file of its own: name another"
        )


class PromptStore:
    """An open evolution. Every write is one transaction; every method may raise `StoreError`.

    Args:
        store: open for writing.
        settings: what makes it this evolution, as JSON values.

    Raises:
        RunMismatch: the file holds another evolution.
        StoreError: it holds a run.
    """

    def __init__(self, store: Store, settings: Mapping[str, Any]) -> None:
        self.calls = store.calls
        self._store = store
        self._database = store.database
        self._begin(dict(settings))

    @property
    def trials_folder(self) -> Path:
        """The folder of the trials' stores and prompts."""
        path = self._database.path
        return path.with_name(f"{path.stem}-trials")

    @property
    def decision(self) -> int | None:
        """Number of the text that the held-out tasks chose; None before."""
        found = self._store.meta(_DECISION)
        return None if found is None else int(found)

    def decide(self, number: int) -> None:
        """Note the text that the held-out tasks chose."""
        self._store.set_meta(_DECISION, str(number))

    def texts(self) -> dict[int, PromptText]:
        """Return all texts by number."""
        rows = self._database.rows("SELECT * FROM prompt_texts ORDER BY number")
        return {text.number: text for text in starmap(PromptText, rows)}

    def add_text(self, text: PromptText) -> None:
        """Store a new text."""
        self._database.execute("INSERT INTO prompt_texts VALUES (?, ?, ?, ?, ?, ?)", astuple(text))

    def lineage(self, number: int) -> list[PromptText]:
        """Return a text and those it was made from, the original first."""
        texts = self.texts()
        found: list[PromptText] = []
        while number:
            found.insert(0, texts[number])
            number = texts[number].parent
        return found

    def trials(self) -> dict[tuple[int, str], PromptTrial]:
        """Return all trials by the number of the text and the name of the task."""
        found = [PromptTrial(*row) for row in self._database.rows("SELECT * FROM prompt_trials ORDER BY rowid")]
        return {(trial.prompt, trial.task): trial for trial in found}

    def add_trial(self, trial: PromptTrial) -> None:
        """Store the score of a trial."""
        self._database.execute("INSERT INTO prompt_trials VALUES (?, ?, ?, ?, ?, ?, ?)", astuple(trial))

    def _begin(self, settings: dict[str, Any]) -> None:
        path, stored = self._database.path, self._store.meta(_SETTINGS)
        if stored is None:
            _refuse_run(self._store)
            with self._database.transaction():
                for table in _TABLES:
                    self._database.execute(table)
                self._store.set_meta(_SETTINGS, json.dumps(settings))
            return
        before = json.loads(stored)
        for name in settings:
            if settings[name] != before.get(name):
                raise RunMismatch(
                    f"{path} holds an evolution with {name} {before.get(name)}, and this one has {settings[name]}: "
                    "give the same as before, or name another store with --store"
                )
