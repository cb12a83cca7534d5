"""Candidates of the same code share their times, as long as the judge remembers them."""

from evokernel.evaluate.client.duplicate_artifacts import REMEMBERED, DuplicateArtifacts
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import Evaluation, EvaluatorIdentity, Fidelity, Mode, Stage, Status
from tests.support.stores import make_timing

IDENTITY = EvaluatorIdentity("t" * 16, "a processor", "g++ -O3", "1", Mode.WORKER, {}, "none")
CHECKED = PhaseVerdict(None, Stage.CORRECTNESS)


def timed(number: int) -> Evaluation:
    key = IDENTITY.key(f"{number}", Fidelity.QUICK)
    timings = (make_timing("small", 2.0),)
    return Evaluation(key, f"{number}", Status.OK, Stage.QUICK, timings=timings, artifact_hash=f"{number}")


def test_the_oldest_times_are_forgotten_first() -> None:
    duplicates = DuplicateArtifacts(Mode.WORKER)
    for number in range(REMEMBERED + 1):
        duplicates.remember(timed(number))

    def shared(number: int) -> PhaseVerdict | None:
        return duplicates.outcome(f"{number}", Fidelity.QUICK, own="another", checked=CHECKED, metrics={})

    assert shared(0) is None
    for number in (1, REMEMBERED):
        found = shared(number)
        assert found is not None
        assert found.feedback.startswith(f"compiled to the same as {number}, ")
