"""JSON of a self-test, with the fields of docs/json.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evokernel.records.evaluation_document import evaluation_document, fields_document
from evokernel.self_test.attack import SelfTest, Trial, TrialOutcome
from evokernel.self_test.exhibits import CLASSES

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Score:
    """Score of a judge against cheats."""

    due: int
    """Number of cheats that had to be caught."""
    caught: int
    """Number of those that were."""
    stages: Mapping[str, int]
    """Number of caught cheats by stage."""

    @property
    def rate(self) -> float | None:
        """Share of cheats that were caught, 0 to 1; None where none had to be."""
        return self.caught / self.due if self.due else None


def score(trials: tuple[Trial, ...]) -> Score:
    """Return the score of trials; known holes and cheats without gain are in neither number."""
    stages: dict[str, int] = {}
    for trial in trials:
        if trial.ending is TrialOutcome.CAUGHT and trial.exhibit.stops:
            stages[trial.evaluation.stage.value] = stages.get(trial.evaluation.stage.value, 0) + 1
    caught = sum(stages.values())
    return Score(caught + sum(trial.ending is TrialOutcome.ACCEPTED for trial in trials), caught, stages)


def by_class(found: SelfTest) -> dict[str, tuple[Trial, ...]]:
    """Return the trials of cheats, by class."""
    tried = {name: tuple(trial for trial in found.trials if trial.exhibit.family == name) for name in CLASSES}
    return {name: trials for name, trials in tried.items() if trials}


def document(found: SelfTest) -> dict[str, Any]:
    """Return the document of `judge --self-test --json`."""
    cheats = [trial for trial in found.trials if not trial.exhibit.honest]
    whole = score(tuple(cheats))
    return {
        "format": FORMAT,
        "task": found.task,
        "kernel": found.kernel.id,
        "language": found.kernel.language,
        "ok": found.ok,
        "due": whole.due,
        "caught": whole.caught,
        "catch_rate": whole.rate,
        "classes": {name: _score(score(trials)) for name, trials in by_class(found).items()},
        "cheats": [_trial(trial) for trial in cheats],
        "harmless": [_trial(trial) for trial in found.trials if trial.exhibit.honest],
        "left_out": dict(found.left_out),
        "mode": found.judged.key.mode.value,
        **fields_document(found.identity, "device", "environment", "sandbox"),
    }


def _score(given: Score) -> dict[str, Any]:
    return {"due": given.due, "caught": given.caught, "catch_rate": given.rate, "stages": dict(given.stages)}


def _trial(trial: Trial) -> dict[str, Any]:
    exhibit, judged = trial.exhibit, evaluation_document(trial.evaluation, "status", "stage", "feedback", "speedup")
    return {
        "name": exhibit.name,
        "class": exhibit.family or None,
        "title": exhibit.title,
        "tries": exhibit.tries or None,
        "due_stages": [stage.value for stage in exhibit.stops],
        "hole": exhibit.hole or None,
        "ending": trial.ending.value,
        **judged,
        "speedup": judged["speedup"]["value"] if judged["speedup"] else None,
        "candidate": trial.candidate.id,
    }
