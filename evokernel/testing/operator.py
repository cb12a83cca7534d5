"""Contract of operators."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from evokernel import tasks
from evokernel.languages.cpp.static_check import static_check
from evokernel.protocols import Operator
from evokernel.records.candidate import Candidate
from evokernel.records.fitness import Elite, Fitness
from evokernel.records.step import Context, Draft, Sibling
from evokernel.source.tunables import read_tunables, skeleton_hash, with_values
from evokernel.testing.language import SCALE_TASK
from operators.rewrites.cpp import CPP_REWRITES


def tiled() -> str:
    """Return a C++ kernel with tunables, made by a rewrite."""
    source = (Path(tasks.__file__).parent / "gemm" / "seeds" / "naive.cpp").read_text()
    return CPP_REWRITES.apply(
        source, next(move for move in CPP_REWRITES.moves(source) if move.rewrite == "register_tile")
    )


def elite(source: str, fitness: float = 0.0) -> Elite:
    """Return a C++ source as an elite."""
    candidate = Candidate(source, "cpp")
    return Elite(candidate, Fitness(fitness, fitness), {}, 1, candidate.id, skeleton_hash(candidate.source))


class OperatorContract:
    """Tests for one operator, which takes up to two parents and asks no model; give `operator`."""

    @pytest.fixture
    def operator(self) -> Operator:
        """Return the operator."""
        raise NotImplementedError

    @pytest.fixture
    def parents(self) -> tuple[Elite, ...]:
        """Return the parents of every draft; by default the same kernel with different values."""
        source = tiled()
        values = read_tunables(source).values
        return elite(source), elite(with_values(source, {name: _other(source, name) for name in values}), 0.1)

    @pytest.fixture
    def context(self, parents: tuple[Elite, ...]) -> Context:
        """Return the context of the operator."""
        measured = [read_tunables(parent.candidate.source).values for parent in parents]
        return Context(
            step=3,
            seed=1,
            island="one",
            task=SCALE_TASK,
            language="cpp",
            threads=1,
            parents=parents,
            siblings=(Sibling(measured[0], 0.0), Sibling(measured[1], 0.1)),
            known=frozenset(parent.candidate.id for parent in parents),
            tried=frozenset(),
            credit={},
            device_sheet={},
        )

    def propose(self, operator: Operator, context: Context) -> Draft | None:
        """Return its draft."""
        proposed = asyncio.run(operator.propose(context))
        assert proposed is None or isinstance(proposed, Draft), (
            f"propose returned {proposed!r}: expected a Draft or None"
        )
        return proposed

    def test_it_has_a_name(self, operator: Operator) -> None:
        assert operator.name, "name is empty: `stream(seed, step, name)` draws by it"

    def test_the_same_context_gives_the_same_draft(self, operator: Operator, context: Context) -> None:
        assert self.propose(operator, context) == self.propose(operator, context)

    def test_a_draft_is_new_legal_and_names_its_parents_and_its_reason(
        self, operator: Operator, context: Context
    ) -> None:
        seen = set(context.known)
        for step in range(20):
            draft = self.propose(operator, replace(context, step=step, known=frozenset(seen)))
            if draft is None:
                break
            assert Candidate(draft.source, "cpp").id not in seen, "a draft that `context.known` has"
            illegal = static_check(draft.source)
            assert illegal is None, f"no source that may be judged: {illegal}"
            known = {parent.candidate.id for parent in context.parents}
            assert draft.parents, "the draft names no parents"
            assert set(draft.parents) <= known, "the draft names parents that it was not given"
            kind = draft.rationale.partition(": ")[0]
            assert kind.isidentifier(), f"rationale {draft.rationale!r}: expected `kind: what`, its kind an identifier"
            predicted = draft.predicted_speedup
            assert predicted is None or predicted > 0, (
                f"predicted_speedup is {predicted}: expected more than 0, or None"
            )
            seen.add(Candidate(draft.source, "cpp").id)
        hint = "no draft for these parents: override the fixture `parents` with kernels that it has work on"
        assert len(seen) > len(context.known), hint

    def test_an_exhausted_operator_says_so(self, operator: Operator, context: Context) -> None:
        known, tried = set(context.known), set(context.tried)
        for step in range(2000):
            asked = replace(context, step=step, known=frozenset(known), tried=frozenset(tried))
            draft = self.propose(operator, asked)
            if draft is None:
                return
            known.add(Candidate(draft.source, "cpp").id)
            tried.add(draft.rationale)
        pytest.fail("it never came to an end on one parent")


def _other(source: str, name: str) -> int:
    tunable = next(tunable for tunable in read_tunables(source).tunables if tunable.name == name)
    return min(choice for choice in tunable.choices if choice != tunable.value)
