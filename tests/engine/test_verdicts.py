"""Verdicts of earlier sessions, in whichever mode they were reached."""

import asyncio
from pathlib import Path

import pytest

from archive.store import Store
from evokernel.engine.verdicts import Verdicts
from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.evaluation import EvaluationRequest, EvaluatorIdentity, Fidelity, Mode, Status
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
        stored = verdicts.stored(f"p{candidate}", Fidelity.QUICK)
        other = verdicts.stored(f"p{candidate}", Fidelity.PRECISE)
    assert (stored is not None) is found
    assert stored is None or stored.evaluation.key.mode is measured
    assert other is None


def test_a_text_that_was_refused_says_nothing_of_its_twin(tmp_path: Path) -> None:
    identity = EvaluatorIdentity(TASK_HASH, DEVICE, IDENTITY.environment, "1", Mode.WORKER, {}, "none")
    with StoreBuilder(tmp_path / "a.db") as builder:
        verdicts = Verdicts(builder.store, InstantEvaluator(), identity)
        found = {
            status: verdicts.stored(
                f"p{builder.add(f'// {status}', speedup=None, status=status)}",
                Fidelity.QUICK,
            )
            for status in (Status.STATIC_REJECT, Status.COMPILE_ERROR)
        }
    assert found[Status.STATIC_REJECT] is None
    assert found[Status.COMPILE_ERROR] is not None


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
