"""Verdicts of earlier sessions, in whichever mode they were reached."""

from pathlib import Path

import pytest

from evokernel.engine.reuse import stored_verdict
from evokernel.records.evaluation import EvaluatorIdentity, Fidelity, Mode, Status
from tests.stores import DEVICE, IDENTITY, TASK_HASH, StoreBuilder


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
        stored = stored_verdict(builder.store, identity, program_hash=f"p{candidate}", budget=Fidelity.QUICK)
        other = stored_verdict(builder.store, identity, program_hash=f"p{candidate}", budget=Fidelity.PRECISE)
    assert (stored is not None) is found
    assert stored is None or stored.evaluation.key.mode is measured
    assert other is None


def test_a_text_that_was_refused_says_nothing_of_its_twin(tmp_path: Path) -> None:
    identity = EvaluatorIdentity(TASK_HASH, DEVICE, IDENTITY.environment, "1", Mode.WORKER, {}, "none")
    with StoreBuilder(tmp_path / "a.db") as builder:
        found = {
            status: stored_verdict(
                builder.store,
                identity,
                program_hash=f"p{builder.add(f'// {status}', speedup=None, status=status)}",
                budget=Fidelity.QUICK,
            )
            for status in (Status.STATIC_REJECT, Status.COMPILE_ERROR)
        }
    assert found[Status.STATIC_REJECT] is None
    assert found[Status.COMPILE_ERROR] is not None
