"""Rows of training data, made of turns. schema.json defines their fields; docs/training-data.md explains them."""

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from archive.store import Store
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity
from evokernel.records.timing import combined_speedup
from evokernel.report.rows import CandidateRow, ProgramMeasurements
from evokernel.training.turns import DISCOUNT, TrainingTurn, discounted, read_turns

FORMAT = 1
KINDS = ("supervised", "preference", "trajectory")
_REFINING = ("refine", "repair")
_LARGEST_FIRST = (Fidelity.FINAL, Fidelity.PRECISE, Fidelity.QUICK)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReplyChoice:
    """Filter of rows; the defaults choose all."""

    min_speedup: float = 0.0
    """Least low end of the interval of the kernel that a row recommends."""
    operators: frozenset[str] = frozenset()
    """Operators of all replies in a row; any if empty."""
    models: frozenset[str] = frozenset()
    """Models of all replies in a row; any if empty."""
    holdout_passed: bool = False
    """Only rows whose recommended kernel passed on held-out workloads."""
    discount: float = DISCOUNT
    """Weight of the next turn's score in a return, 0 to 1."""

    def takes(self, winner: TrainingTurn, turns: Iterable[TrainingTurn]) -> bool:
        """Say whether a row of these turns, which recommends `winner`, is wanted."""
        reported = winner.judged.verdicts.reported
        low = combined_speedup(reported.timings).low if reported and winner.right else 0.0
        return (
            low >= self.min_speedup
            and (not self.holdout_passed or winner.judged.verdicts.holdout.value == "passed")
            and all(_among(turn.judged.result.proposal.operator, self.operators) for turn in turns)
            and all(_among(turn.call.call.model, self.models) for turn in turns)
        )


ALL = ReplyChoice()


def _among(name: str, wanted: frozenset[str]) -> bool:
    return not wanted or name in wanted


def rows_of(store: Store, choice: ReplyChoice = ALL, *, until: int | None = None) -> Iterator[Row]:
    """Yield the rows of a run, supervised ones first; with `until`, as they were at that seq."""
    with store.database.snapshot():
        as_of = store.last_seq() if until is None else until
        turns, run = read_turns(store, until=as_of), _run(store, as_of)
    for turn in turns:
        if turn.right and choice.takes(turn, [turn]):
            yield _row("supervised", run, {**_prompt_and_reply(turn), "facts": _facts(turn)})
    for chosen, rejected, budget in _pairs(turns):
        if choice.takes(chosen, [chosen, rejected]):
            yield _row("preference", run, _preference(chosen, rejected, budget))
    for chain in _chains(turns):
        if choice.takes(max(chain, key=lambda turn: turn.score), chain):
            yield _row("trajectory", run, _trajectory(chain, choice.discount))


def steps_of(row: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the steps of a row, which identify it together with its kind and its run."""
    if row["kind"] == "trajectory":
        return tuple(turn["facts"]["step"] for turn in row["turns"])
    names = ("facts",) if row["kind"] == "supervised" else ("chosen_facts", "rejected_facts")
    return tuple(row[name]["step"] for name in names)


def row_id(row: Mapping[str, Any]) -> str:
    """Return 16 hex digits over all of a row but its id."""
    text = json.dumps({name: value for name, value in row.items() if name != "id"}, sort_keys=True)
    return _sha256(text)[:16]


def _row(kind: str, run: Row, content: Row) -> Row:
    row = {"format": FORMAT, "kind": kind, "id": "", "run": run, **content}
    return {**row, "id": row_id(row)}


def _run(store: Store, as_of_seq: int) -> Row:
    identity = store.identity()
    return {
        "id": store.meta("run_id") or "",
        "task": identity.task if identity else "",
        "task_hash": identity.task_hash if identity else "",
        "language": identity.language if identity else "",
        "device": identity.device if identity else "",
        "as_of_seq": as_of_seq,
    }


def _pairs(turns: list[TrainingTurn]) -> Iterator[tuple[TrainingTurn, TrainingTurn, Fidelity]]:
    """Yield pairs of right answers to one prompt, the faster first beyond doubt, and the budget of both.

    Each answer is paired with at most two, the nearest faster one and the fastest: all pairs of a thousand answers
    would be half a million rows.
    """
    asked: dict[str, list[TrainingTurn]] = defaultdict(list)
    for turn in turns:
        if turn.right:
            asked[prompt_text(turn)].append(turn)
    for answers in asked.values():
        answers.sort(key=lambda turn: (turn.score, turn.judged.result.seq))
        for rejected in answers:
            winners = [(turn, budget) for turn in answers if (budget := _wins(turn, rejected)) is not None]
            for chosen, budget in (*winners[:1], *winners[1:][-1:]):
                yield chosen, rejected, budget


def _wins(one: TrainingTurn, other: TrainingTurn) -> Fidelity | None:
    """Return the budget at which `one` is faster beyond doubt, or None."""
    compared = _compared(one.judged, other.judged)
    if compared is None or not _faster(*(each.evaluation for each in compared)) or not _faster_so_far(one, other):
        return None
    return compared[0].evaluation.key.budget


def _faster(one: Evaluation, other: Evaluation) -> bool:
    return combined_speedup(one.timings).low > combined_speedup(other.timings).high


def _faster_so_far(one: TrainingTurn, other: TrainingTurn) -> bool:
    """Say whether the search evaluations agree: one kernel may have been measured longer because it looked fast."""
    searches = one.judged.verdicts.search, other.judged.verdicts.search
    return searches[0] is not None and searches[1] is not None and _faster(searches[0], searches[1])


def _compared(one: CandidateRow, other: CandidateRow) -> tuple[ProgramMeasurements, ProgramMeasurements] | None:
    """Return the newest evaluations with equal keys, program aside, at the largest common budget."""
    if one.result.program_hash == other.result.program_hash:
        return None
    for budget in _LARGEST_FIRST:
        ours, theirs = _by_terms(one, budget), _by_terms(other, budget)
        shared = [terms for terms in ours if terms in theirs]
        if shared:
            return ours[shared[-1]], theirs[shared[-1]]
    return None


def _by_terms(judged: CandidateRow, budget: Fidelity) -> dict[tuple[str, ...], ProgramMeasurements]:
    fit = [each for each in judged.evaluations if each.evaluation.ok and each.evaluation.key.budget is budget]
    return {tuple(name for name in _key(each.evaluation.key).values())[1:]: each for each in fit}


def _chains(turns: list[TrainingTurn]) -> Iterator[list[TrainingTurn]]:
    """Yield each longest chain of refinements and repairs: two turns or more, each the first parent of the next."""
    made = {turn.judged.candidate_id: turn for turn in turns}
    before: dict[str, TrainingTurn] = {}
    for turn in turns:
        proposal = turn.judged.result.proposal
        if proposal.operator in _REFINING and proposal.parents and proposal.parents[0] in made:
            before[turn.judged.candidate_id] = made[proposal.parents[0]]
    inner = {turn.judged.candidate_id for turn in before.values()}
    for name in before:
        if name not in inner:
            chain = [made[name]]
            while (earlier := before.get(chain[0].judged.candidate_id)) is not None:
                chain.insert(0, earlier)
            yield chain


def _preference(chosen: TrainingTurn, rejected: TrainingTurn, budget: Fidelity) -> Row:
    compared = _compared(chosen.judged, rejected.judged)
    assert compared is not None
    return {
        "prompt": _prompt_and_reply(chosen)["prompt"],
        "chosen": chosen.reply,
        "rejected": rejected.reply,
        "compared": {
            "budget": budget.value,
            "chosen": _evaluation(compared[0].seq, compared[0].evaluation),
            "rejected": _evaluation(compared[1].seq, compared[1].evaluation),
        },
        "chosen_facts": _facts(chosen),
        "rejected_facts": _facts(rejected),
    }


def _trajectory(chain: list[TrainingTurn], discount: float) -> Row:
    returns = discounted([turn.score for turn in chain], discount)
    turns = [
        {**_prompt_and_reply(turn), "score": turn.score, "return": value, "facts": _facts(turn)}
        for turn, value in zip(chain, returns, strict=True)
    ]
    return {"discount": discount, "turns": turns}


def prompt_text(turn: TrainingTurn) -> str:
    """Return the messages of a prompt as the store hashes them."""
    return json.dumps([[message.role, message.text] for message in turn.call.call.messages])


def _prompt_and_reply(turn: TrainingTurn) -> Row:
    messages = turn.call.call.messages
    return {"prompt": [{"role": each.role, "content": each.text} for each in messages], "reply": turn.reply}


def _facts(turn: TrainingTurn) -> Row:
    judged, proposal = turn.judged, turn.judged.result.proposal
    decisive = turn.judged.decisive
    return {
        "step": proposal.step,
        "seq": judged.result.seq,
        "call": turn.call.number,
        "call_key": turn.call.call.key,
        "prompt_sha256": _sha256(prompt_text(turn)),
        "reply_sha256": _sha256(turn.reply),
        "model": turn.call.call.model,
        "operator": proposal.operator,
        "island": proposal.island,
        "parents": [*proposal.parents],
        "insights": [*proposal.insights],
        "rationale": proposal.rationale,
        "predicted_speedup": _number(proposal.predicted_speedup),
        "gain": _number(turn.gain),
        "candidate": judged.candidate_id,
        "source": proposal.candidate.source,
        "status": judged.status.value,
        "stage": decisive.stage.value,
        "holdout": judged.verdicts.holdout.value,
        "feedback": decisive.feedback,
        "evaluation": _evaluation(judged.seq_of(decisive), decisive),
    }


def _evaluation(seq: int, evaluation: Evaluation) -> Row:
    speedup = combined_speedup(evaluation.timings) if evaluation.timings else None
    values = None if speedup is None else {name: _number(getattr(speedup, name)) for name in ("value", "low", "high")}
    return {"seq": seq, "digest": evaluation.key.digest, "key": _key(evaluation.key), "speedup": values}


def _key(key: EvaluationKey) -> dict[str, str]:
    return {name: str(getattr(key, name)) for name in EvaluationKey.__slots__}


def _number(value: float | None) -> float | None:
    """Return the number, or None where JSON cannot hold it."""
    return value if value is not None and math.isfinite(value) else None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
