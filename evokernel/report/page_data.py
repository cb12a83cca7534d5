"""Data of the report page: one JSON value with texts safe to show."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from archive.lineage import further_parents
from archive.store import Store
from archive.views.candidate_tables import measured_finally
from archive.views.failures import Failures, failures_of, nothing_of
from evokernel.records.candidate import EVERYWHERE
from evokernel.records.evaluation import Evaluation
from evokernel.records.evaluation_document import fields_document, speedup_document
from evokernel.records.timing import combined_speedup
from evokernel.report.best import BestKernel, verdicts_of
from evokernel.report.documents import status_document
from evokernel.report.exchanges import exchanges_of
from evokernel.report.lineage import LineageStep, story
from evokernel.report.niches import NicheMap, niche_maps
from evokernel.report.points import Point, lanes, leads, points_of
from evokernel.report.provenance import Provenance
from evokernel.report.safe_text import clean, one_line, reason
from evokernel.report.source_diff import SourceDiff, changes, shown_lines
from evokernel.report.status import RunStatus, read_status
from evokernel.report.verdicts import MeasurementKind

ALL_RATIONALES = 2_000_000
"""Limit of the rationales of all candidates together, in characters; each is cut to its part."""
RATIONALE, SHORTEST_RATIONALE = 300, 60
NAME, TEXT, FEEDBACK, LONGEST = 80, 2000, 1500, 20_000
CHAPTERS = 200


def report_document(store: Store, *, version: str) -> dict[str, Any]:
    """Return the data of the page: plain values, finite numbers, texts without steering characters.

    `version` is that of evokernel, which the page names.
    """
    with store.database.snapshot():  # a running search writes between the queries
        return _document(store, version)


def _document(store: Store, version: str) -> dict[str, Any]:
    status, points = read_status(store), points_of(store)
    islands = [row.name for row in status.islands]
    document = {
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": version,
        "title": one_line(status.run.title),
        "status": status_document(status),
        "target": shlex.quote(str(status.run.path)),
        "answer": _answer(store, status.best) if status.best else None,
        "candidates": columns_of(points),
        "further_parents": _further_parents(store, points),
        "finals": _finals(store),
        "exchanges": [
            {"kind": each.kind.value, "text": one_line(each.text, width=FEEDBACK), "step": each.step, **each.spent}
            for each in exchanges_of(store)
        ],
        "leads": [{"island": "", "points": leads(points)}]
        + [{"island": name, "points": leads(points, island=name)} for name in islands],
        "story": _story(store, status),
        "niches": [_niche_map(found) for found in niche_maps(store, points)],
        "failures": [_failures(found) for found in failures_of(store)],
        "nothing": [
            {"operator": n.operator, "reason": one_line(n.reason, width=FEEDBACK), "count": n.count}
            for n in nothing_of(store)
        ],
    }
    harmless_document: dict[str, Any] = harmless(document)
    return harmless_document


def harmless(value: Any) -> Any:
    """Return a JSON value with texts cleaned and cut to `LONGEST`, and None for a number that is not finite."""
    if isinstance(value, str):
        return clean(value[:LONGEST])
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {one_line(str(key)[:TEXT]): harmless(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [harmless(each) for each in value]
    return value


def _further_parents(store: Store, points: Sequence[Point]) -> dict[str, list[int]]:
    """Return the edges but those from first parents, by column; child and parent are positions of points."""
    place = {point.candidate: position for position, point in enumerate(points)}
    edges = [edge for edge in further_parents(store) if edge[0] in place and edge[1] in place]
    return {
        "child": [place[child] for child, _, _ in edges],
        "parent": [place[parent] for _, parent, _ in edges],
        "inspired": [int(kind == "inspiration") for _, _, kind in edges],
    }


def _finals(store: Store) -> dict[str, Any]:
    """Return the speed-up of each final measurement that holds, by the beginning of the candidate's id."""
    found = {name: verdicts_of(store, store.candidate(name).program_hash) for name in measured_finally(store)}
    timed = {name[:10]: verdicts.of_kind(MeasurementKind.FINAL) for name, verdicts in found.items()}
    return {name: speedup_document(combined_speedup(each.timings)) for name, each in timed.items() if each}


def _answer(store: Store, best: BestKernel) -> dict[str, Any]:
    lines, cut = shown_lines(best.candidate.source)
    return {"ceiling": _ceiling(best.evaluation), "panel": bool(best.evaluation.panel), "lines": lines, "cut": cut}


def _ceiling(evaluation: Evaluation) -> float | None:
    """Return the speed-up of a kernel at the floor; None where a workload has no known floor."""
    total = sum(timing.weight for timing in evaluation.timings)
    logs = [t.weight * math.log(t.baseline_us / t.floor_us) for t in evaluation.timings if t.floor_us]
    return math.exp(sum(logs) / total) if len(logs) == len(evaluation.timings) and total > 0 else None


def columns_of(points: Sequence[Point]) -> dict[str, Any]:
    """Return the candidates by column; names and rationales are indices into lists of distinct texts."""
    place = {point.candidate: position for position, point in enumerate(points)}
    width = rationale_width(len(points))
    operators, islands, models, statuses, rationales, structures = (_Names() for _ in range(6))
    return {
        "id": [point.candidate[:10] for point in points],
        "step": [point.step for point in points],
        "operator": [operators.number(one_line(point.operator, width=NAME)) for point in points],
        "island": [islands.number(_island(point.island)) for point in points],
        "model": [models.number(one_line(point.model, width=NAME)) for point in points],
        "status": [statuses.number(point.status) for point in points],
        "why": [
            rationales.number(one_line(reason(point.operator, point.rationale[:TEXT]), width=width)) for point in points
        ],
        "structure": [structures.number(point.skeleton) for point in points],
        "parent": [place.get(point.parent, -1) for point in points],
        "predicted": [_short(point.predicted) for point in points],
        "speedup": [_short(point.speedup) for point in points],
        "low": [_short(point.low) for point in points],
        "evaluations": [point.evaluations for point in points],
        "hours": [round(point.hours, 5) for point in points],
        "dollars": [round(point.dollars, 4) for point in points],
        "lane": [round(lane, 1) for lane in lanes(points)],
        "names": {
            "operator": operators.texts,
            "island": islands.texts,
            "model": models.texts,
            "status": statuses.texts,
            "why": rationales.texts,
        },
    }


def rationale_width(candidates: int) -> int:
    """Return the length limit of a rationale, in characters, for this number of candidates."""
    return min(RATIONALE, max(SHORTEST_RATIONALE, ALL_RATIONALES // max(candidates, 1)))


def _island(name: str) -> str:
    return "no island" if name == EVERYWHERE else one_line(name, width=NAME)


def _short(value: float | None) -> float | None:
    return (
        None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
    )  # a page rounds to two digits: 1.1249 is no 1.13


class _Names:
    """Indices of texts, in the order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def texts(self) -> list[str]:
        return list(self._numbers)


def _story(store: Store, status: RunStatus) -> dict[str, Any]:
    if status.best is None:
        return {"chapters": [], "left_out": 0}
    lineage = story(store, status.best.candidate.id)
    shown = lineage[-CHAPTERS:]
    sources = {step.candidate: store.candidate(step.candidate).candidate.source for step in shown}
    chapters = []
    for step in shown:
        before = sources.get(step.parents[0]) if step.parents else None
        chapters.append(_chapter(step, changes(before, sources[step.candidate]) if before is not None else None))
    return {"chapters": chapters, "left_out": len(lineage) - len(shown)}


def _chapter(step: LineageStep, changed: SourceDiff | None) -> dict[str, Any]:
    return {
        **fields_document(step, "candidate", "step"),
        "operator": one_line(step.operator, width=NAME),
        "island": _island(step.island),
        "why": clean(reason(step.operator, step.rationale[:TEXT])),
        "parents": list(step.parents),
        "inspirations": list(step.inspirations),
        **fields_document(step, "origin", "mode", "speedup", "gain", "predicted", "status", "holdout"),
        **provenance_data(step.making),
        "diff": None if changed is None else asdict(changed),
    }


def _niche_map(found: NicheMap) -> dict[str, Any]:
    return {
        "islands": list(found.islands),
        "axes": [{"name": name, "edges": list(edges)} for name, edges in found.axes.items()],
        "cells": [{"at": list(at), "tried": cell.tried, "best": cell.best} for at, cell in sorted(found.cells.items())],
    }


def _failures(found: Failures) -> dict[str, Any]:
    return {
        **fields_document(found, "stage", "status", "count"),
        "examples": [
            {
                "candidate": example.candidate,
                "operator": one_line(example.operator, width=NAME),
                "island": _island(example.island),
                "feedback": example.feedback[:FEEDBACK],
            }
            for example in found.examples
        ],
    }


def provenance_data(made: Provenance) -> dict[str, Any]:
    """Return the part that models and people had in a proposal, as the page shows it."""
    return {
        "model": one_line(made.model, width=NAME),
        **fields_document(made, "calls", "tokens", "cost_usd", "priced"),
        "insights": [
            {"kind": insight.kind.value, "title": one_line(insight.title, width=RATIONALE), "text": insight.text[:TEXT]}
            for _, insight in made.insights
        ],
        "hints": [one_line(hint.text, width=RATIONALE) for hint in made.hints],
    }
