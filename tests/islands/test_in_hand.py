"""Points under way: known from proposal to verdict, whatever the verdict is."""

import pytest

from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Mode, Stage, Status
from evokernel.records.step import Sibling, StepResult
from evokernel.source.tunables import skeleton_hash
from islands.history import History

KEY = EvaluationKey("p", "t", "d", "e", "1", Mode.ARTIFACT, Fidelity.QUICK)
SOURCE = "int TILE = 64;  // tune: 32 64 128\n"
SKELETON = skeleton_hash(SOURCE)
MESSAGE = "the kernel needs 300000 bytes of shared memory for a program; the device has 232448: lower num_stages"


def proposal(source: str = SOURCE) -> Proposal:
    return Proposal(Candidate(source, "triton"), 1, "one", "tune", 0)


def result(status: Status, feedback: str = "") -> StepResult:
    made = proposal()
    evaluation = Evaluation(KEY, made.candidate.id, status, Stage.COMPILE, feedback=feedback)
    return StepResult(2, made, 1, "one", "tune", (), evaluation, program_hash="p", skeleton=SKELETON)


@pytest.mark.parametrize("status", [Status.COMPILE_ERROR, Status.HARNESS_ERROR])
def test_a_point_waits_until_its_verdict(status: Status) -> None:
    history = History()
    history.propose(proposal())
    assert history.in_hand(SKELETON) == ({"TILE": 64},)
    assert history.in_hand("another") == ()
    history.learn(result(status))
    assert history.in_hand(SKELETON) == ()
    assert not history.waiting


def test_malformed_tunables_are_no_point() -> None:
    history = History()
    history.propose(proposal(SOURCE + SOURCE))
    assert not history.waiting


def test_what_the_compiler_says_of_a_point_stays_with_it() -> None:
    history = History()
    history.learn(result(Status.COMPILE_ERROR, MESSAGE))
    shared = {"shared memory": 300000.0}, {"shared memory": 232448.0}
    assert history.siblings[SKELETON] == [Sibling({"TILE": 64}, None, *shared)]
