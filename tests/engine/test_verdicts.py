"""Verdicts of earlier sessions, in whichever mode they were reached."""

import asyncio
from pathlib import Path

import pytest

from archive.store import Store
from evokernel.engine.verdicts import Verdicts
from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.evaluation import EvaluationRequest, EvaluatorIdentity, Fidelity, Mode
from tests.support.fakes import TOY, InstantEvaluator
from tests.support.stores import DEVICE, IDENTITY, TASK_HASH, StoreBuilder


@pytest.mark.parametrize(
    ("own", "measured", "found"),
    [
        (Mode.ARTIFACT, Mode.ARTIFACT, True),
        (Mode.ARTIFACT, Mode.WORKER, True),
        (Mode.WORKER, Mode.WORKER, True),
        (Mode.WORKER, Mode.ARTIFACT, False),
    ],
)
def test_what_could_not_be_recorded_is_not_tried_again(tmp_path: Path, own: Mode, measured: Mode, found: bool) -> None:
    identity = EvaluatorIdentity(TASK_HASH, DEVICE, IDENTITY.environment, "1", own, {}, "none")
    with StoreBuilder(tmp_path / "a.db") as builder:
        candidate = builder.add("// a\n", speedup=2.0, mode=measured)
        verdicts = Verdicts(builder.store, InstantEvaluator(), identity)
        stored = verdicts.stored(candidate, f"p{candidate}", Fidelity.QUICK)
        other = verdicts.stored(candidate, f"p{candidate}", Fidelity.PRECISE)
    assert (stored is not None) is found
    assert stored is None or stored.evaluation.key.mode is measured
    assert other is None


def test_a_verdict_is_only_for_the_text_that_was_judged(tmp_path: Path) -> None:
    evaluator = InstantEvaluator()
    twins = [Candidate(TOY, "cpp"), Candidate(TOY + "// another\n", "cpp")]
    with Store.open(tmp_path / "toy.db", write=True) as store:
        verdicts = Verdicts(store, evaluator, evaluator.identity)
        for step, candidate in enumerate(twins, start=1):
            store.propose(Proposal(candidate, step, "*", "seed", 0), program_hash="toy", skeleton="toy")
            request = EvaluationRequest(candidate, "toy", Fidelity.QUICK)
            evaluation, reused_from = asyncio.run(verdicts.verdict(request))
            assert (evaluation.candidate_id, reused_from) == (candidate.id, None)
            verdicts.keep(evaluation)
    assert [request.candidate for request in evaluator.asked] == twins


@pytest.mark.parametrize("fidelity", list(Fidelity))
def test_the_evaluator_is_asked_only_where_the_store_has_no_verdict(tmp_path: Path, fidelity: Fidelity) -> None:
    evaluator, begun = InstantEvaluator(), list[str]()
    identity = evaluator.identity
    request = EvaluationRequest(Candidate(TOY, "cpp"), "toy", fidelity)
    with Store.open(tmp_path / "toy.db", write=True) as store:
        store.propose(Proposal(request.candidate, 1, "*", "seed", 0), program_hash="toy", skeleton="toy")
        verdicts = Verdicts(store, evaluator, identity)
        first, reused_from = asyncio.run(verdicts.verdict(request, before=lambda: begun.append("one")))
        assert reused_from is None
        verdicts.keep(first)
        again, reused_from = asyncio.run(verdicts.verdict(request, before=lambda: begun.append("two")))
        assert reused_from == store.last_seq()
    assert again == first
    assert evaluator.asked == [request]
    assert begun == ["one"]
