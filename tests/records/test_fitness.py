"""Elites of evaluations."""

from dataclasses import replace

from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluatorIdentity, Fidelity, Mode, Stage, Status
from evokernel.records.fitness import elite_of
from tests.support.stores import make_timing

IDENTITY = EvaluatorIdentity("t" * 16, "a processor", "g++ -O3", "1", Mode.WORKER, {}, "none")


def test_how_long_a_kernel_is_timed_does_not_make_it_a_dearer_parent() -> None:
    candidate = Candidate("// kernel", "cpp")
    key = IDENTITY.key("p", Fidelity.QUICK)
    quick = Evaluation(key, candidate.id, Status.OK, Stage.QUICK, timings=(make_timing("small", 2.0),))
    metrics = [{"check_s": 0.2, "time_s": 1.0}, {"check_s": 0.2, "time_s": 4.0}, {"check_s": 0.2, "twin": 1.0}]
    made = [
        elite_of(candidate, replace(quick, metrics=each), seq=1, program_hash="p", skeleton="s") for each in metrics
    ]
    assert [each and each.checked_s for each in made] == [0.2, 0.2, 0.2]
