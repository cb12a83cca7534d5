"""The best and the curve, found by bounds, are those that looking at everything would find."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from archive.store import Store
from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Mode, Stage, Status
from evokernel.records.fitness import fitness_of
from evokernel.records.timing import Timing, Verdict

measured = st.tuples(
    st.integers(0, 5),
    st.sampled_from(Fidelity),
    st.sampled_from([Status.OK, Status.OK, Status.OK, Status.OK, Status.NUMERICAL, Status.HARNESS_ERROR]),
    st.integers(-8, 8),
    st.sampled_from([0.01, 0.5]),
)


def evaluation(program, budget, status, speed, error):
    key = EvaluationKey(f"p{program}", "t", "d", "e", "1", Mode.WORKER, budget)
    timings = (Timing("w", "b", 1.0, 1.0, 1.0, speed / 4, error, 10, Verdict.SAME),)
    candidate = Candidate(str(program), "cpp").id
    return Evaluation(key, candidate, status, Stage.QUICK, timings if status is Status.OK else ())


def fitnesses(evaluations):
    by_program: dict[str, Any] = {}
    for one in evaluations:
        if one.status is not Status.HARNESS_ERROR:
            by_program.setdefault(one.candidate_id, []).append(one)
    found = {name: fitness_of(some) for name, some in by_program.items()}
    return {name: fitness for name, fitness in found.items() if fitness is not None}


@settings(max_examples=40, deadline=None)
@given(st.lists(measured, max_size=25), st.integers(1, 4))
def test_the_best_and_the_curve_are_those_of_a_full_look(plan, count):
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "run.db", write=True) as store:
        for program in range(6):
            made = Proposal(Candidate(str(program), "cpp"), program + 1, "main", "tune", 0)
            store.propose(made, program_hash=f"p{program}", skeleton="s")
        evaluations = [evaluation(*one) for one in plan]
        leads = []
        for seq, one in enumerate(evaluations, 1):
            assert store.add_evaluation(one) == seq
            values = [fitness.value for fitness in fitnesses(evaluations[:seq]).values()]
            leads.append(max(values, default=None))
        expected = sorted((fitness.value for fitness in fitnesses(evaluations).values()), reverse=True)[:count]
        assert [ranked.fitness.value for ranked in store.best(count)] == expected
        points, value, position = store.curve(), None, 0
        for seq, lead in enumerate(leads, 1):
            if position < len(points) and points[position].seq == seq:
                value, position = points[position].fitness.value, position + 1
            assert lead is None or value == lead
        assert position == len(points)
