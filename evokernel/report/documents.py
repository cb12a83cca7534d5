"""JSON of the options `--json`. Fields of docs/json.md keep their name and meaning; new ones may come."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from archive.file.records import StoredEvaluation
from archive.hidden_checks import StoredCheck
from evokernel.records.candidate import Proposal
from evokernel.records.evaluation import Evaluation
from evokernel.records.evaluation_document import evaluation_document, fields_document, speedup_document
from evokernel.records.timing import Speedup
from evokernel.report.best import BestKernel, OverSeed
from evokernel.report.lineage import CandidateDetails
from evokernel.report.provenance import Provenance
from evokernel.report.recent import RecentEvents
from evokernel.report.status import RunFacts, RunStatus

FORMAT = 1


def best_document(best: BestKernel, run: RunFacts) -> dict[str, Any]:
    """Return the document of `best --json`."""
    key = best.evaluation.key
    return {
        "format": FORMAT,
        "store": str(run.path),
        "task": run.task,
        "candidate": best.candidate.id,
        "language": best.candidate.language,
        "kind": best.kind.value,
        "holdout": best.holdout.value,
        "holdout_speedup": _speedup(best.evaluation.holdout_speedup),
        "mode": key.mode.value,
        "nondeterministic": best.evaluation.nondeterministic,
        "speedup": _speedup(best.speedup),
        "speedup_over_seed": best.over_seed.speedup.value if best.over_seed else None,
        "over_seed": _over_seed(best.over_seed),
        "baselines": _baselines(best.baselines),
        "workloads": _workloads(best.evaluation),
        "floor_share": best.floor_share,
        **fields_document(key, "device", "environment"),
        "sandbox": best.evaluation.sandbox,
        "contender": best.contender,
        "contender_speedup": _speedup(best.contender_speedup),
        **fields_document(best, "contender_leads", "nowhere_faster"),
    }


def status_document(status: RunStatus, recent: RecentEvents | None = None) -> dict[str, Any]:
    """Return the document of `status --json`, with the events since a moment where one is asked for."""
    run = status.run
    return {
        "format": FORMAT,
        "store": str(run.path),
        "run_id": run.run_id,
        "state": status.state.value,
        "forked_from": run.forked_from or None,
        **fields_document(run, "task", "language", "seed"),
        "mode": status.mode.value if status.mode else None,
        **fields_document(run, "device", "environment", "sandbox"),
        **fields_document(status, "results", "correct"),
        "in_flight": status.in_flight + status.left,
        **fields_document(status, "left", "by_status", "by_mode"),
        **fields_document(status.spent, "seconds", "cost_usd"),
        "priced": status.priced,
        **fields_document(status.spent, "calls", "tokens"),
        "insights": status.insights,
        "hints": [fields_document(hint, "seq", "author", "island", "text") for hint in status.hints],
        "hidden_checks": [_hidden_check(each) for each in status.checks],
        "edits": [fields_document(edit, "seq", "key", "old", "new") for edit in status.edits],
        "last_stop": status.last_stop or None,
        "operators": {row.name: fields_document(row, *_OF_OPERATOR) for row in status.operators},
        "models": {row.name: fields_document(row, *_OF_MODEL) for row in status.models},
        "predicted": fields_document(status.predicted, "results", "predicted", "measured", "kept_share"),
        "pairs": [fields_document(row, *_OF_PAIR) | {"model": row.model or None} for row in status.pairs],
        "islands": {
            row.name: {"results": row.results, "correct": row.correct, "best_speedup": row.best, "mode": row.mode}
            for row in status.islands
        },
        "diversity": {name: asdict(each) for name, each in status.diversity.items()},
        "hosts": [asdict(host) for host in status.hosts],
        "front": asdict(status.front) if status.front else None,
        "best": best_document(status.best, run) if status.best else None,
        "since": _recent(recent) if recent else None,
    }


def _hidden_check(added: StoredCheck) -> dict[str, Any]:
    named = {"seq": added.seq, "operator": added.operator, "model": added.model or None, "broke": list(added.broke)}
    return {**added.check.as_message(), **named}


def _recent(recent: RecentEvents) -> dict[str, Any]:
    return {
        "at": recent.since,
        **fields_document(recent.work, "results", "correct"),
        **fields_document(recent.work.spent, "calls", "tokens", "cost_usd"),
        "before": recent.before.speedup if recent.before else None,
        "improvements": [fields_document(each, "at", "candidate", "operator", "speedup") for each in recent.changes],
        "troubles": [{"at": each.at, "kind": each.kind.value, "text": each.text} for each in recent.troubles],
    }


def portrait_document(portrait: CandidateDetails) -> dict[str, Any]:
    """Return the document of `show --json`."""
    stored, verdicts = portrait.stored, portrait.verdicts
    return {
        "format": FORMAT,
        "candidate": stored.candidate.id,
        "language": stored.candidate.language,
        **fields_document(stored, "program_hash", "skeleton"),
        "origin": stored.origin or None,
        "kind": verdicts.kind.value if verdicts.reported else None,
        "holdout": verdicts.holdout.value,
        "speedup": _speedup(portrait.speedup),
        "speedup_over_seed": portrait.over_seed.speedup.value if portrait.over_seed else None,
        "over_seed": _over_seed(portrait.over_seed),
        "proposal": _proposal(portrait.proposal, portrait.making, portrait.gain),
        "evaluations": [_evaluation(stored_evaluation) for stored_evaluation in portrait.evaluations],
        "source": stored.candidate.source,
    }


_OF_OPERATOR = (
    *("results", "correct", "unusable", "validity", "improvements", "best_gain", "insights", "barren"),
    *("calls", "tokens", "cost_usd"),
)
_OF_MODEL = (
    *("calls", "failed", "open", "tokens", "cost_usd"),
    *("results", "correct", "unusable", "validity", "insights"),
)
_OF_PAIR = (
    *("operator", "tries", "correct", "gain", "tokens", "cost_usd", "device_s"),
    *("gain_per_dollar", "gain_per_device_hour"),
)


def _speedup(speedup: Speedup | None) -> dict[str, float | None] | None:
    return None if speedup is None else speedup_document(speedup)


def _baselines(panel: Mapping[str, Speedup]) -> dict[str, dict[str, float]]:
    return {name: {"speedup": s.value, "low": s.low, "high": s.high} for name, s in panel.items()}


def _over_seed(over: OverSeed | None) -> dict[str, Any] | None:
    if over is None:
        return None
    return {"seed": over.candidate, "kind": over.kind.value, "mode": over.mode, **(_speedup(over.speedup) or {})}


def _workloads(evaluation: Evaluation) -> list[dict[str, Any]]:
    workloads = evaluation_document(evaluation, "workloads")["workloads"]
    return [{name: value for name, value in each.items() if name != "floor_share"} for each in workloads]


def _proposal(proposal: Proposal | None, making: Provenance, gain: float | None) -> dict[str, Any] | None:
    if proposal is None:
        return None
    return {
        **fields_document(proposal, "step", "operator", "island"),
        "parents": list(proposal.parents),
        "inspirations": list(proposal.inspirations),
        **fields_document(proposal, "rationale", "predicted_speedup"),
        "gain": gain,
        "model": making.model or None,
        **fields_document(making, "calls", "tokens", "cost_usd", "priced"),
        "insights": [
            {"seq": seq, "kind": insight.kind.value, **fields_document(insight, "title", "predicted_speedup")}
            for seq, insight in making.insights
        ],
        "hints": [hint.text for hint in making.hints],
    }


def _evaluation(stored: StoredEvaluation) -> dict[str, Any]:
    evaluation = stored.evaluation
    return {
        "seq": stored.seq,
        **evaluation_document(
            evaluation, "budget", "mode", "nondeterministic", "status", "stage", "device", "environment"
        ),
        "workloads": _workloads(evaluation),
        "baselines": _baselines(evaluation.panel),
        **evaluation_document(evaluation, "descriptor", "metrics", "feedback", "stopped_early"),
        "origin": stored.origin or None,
    }
