import asyncio
from dataclasses import replace
from typing import Any

import numpy as np

from evokernel.records.candidate import Candidate
from evokernel.records.fitness import Elite, Fitness
from evokernel.records.focus import Focus, focus_in_words
from evokernel.records.step import Context, Sibling
from evokernel.source.tunables import read_tunables, skeleton_hash, with_values
from evokernel.tasks import load_task
from operators.rewrites.focus import FOCUS_OF
from operators.rules.blend import Blend
from operators.rules.rewrite import LIBRARIES, Rewrite
from operators.rules.tune import Tune
from tests.support.engine import TASK
from tests.support.fakes import TOY, toy_speed

GRID = "\n".join(f"int {n} = 0;  // tune: 0 1 2 3 4 5 6 7" for n in "ABCDEF") + "\n"


def elite(source: str, fitness: float = 0.0) -> Elite:
    candidate = Candidate(source, "cpp")
    return Elite(candidate, Fitness(fitness, fitness), {}, 1, "p", skeleton_hash(source))


def context(*parents: Elite, siblings: tuple[Sibling, ...] = (), step: int = 1) -> Context:
    return Context(
        step=step,
        seed=0,
        island="one",
        task=TASK,
        language="cpp",
        threads=1,
        parents=parents,
        siblings=siblings,
        known=frozenset(parent.candidate.id for parent in parents),
        tried=frozenset(),
        credit={},
        device_sheet={},
    )


def test_tune_beats_blind_search_because_it_looks_at_the_siblings() -> None:
    def fitness(values: dict[str, int]) -> float:
        return -sum((values[name] - 5) ** 2 for name in "ABC") / 10.0 - abs(values["D"] - 2) / 5.0

    source, tune = GRID, Tune()
    siblings = [Sibling(read_tunables(source).values, fitness(read_tunables(source).values))]
    known = {Candidate(source, "cpp").id}
    for step in range(60):
        asked = replace(context(elite(source)), step=step, siblings=tuple(siblings), known=frozenset(known))
        draft = asyncio.run(tune.propose(asked))
        assert draft is not None
        values = read_tunables(draft.source).values
        known.add(Candidate(draft.source, "cpp").id)
        siblings.append(Sibling(values, fitness(values)))
    rng = np.random.default_rng(0)
    blind = [max(fitness({n: int(rng.integers(8)) for n in "ABCDEF"}) for _ in range(60)) for _ in range(20)]
    assert max(s.fitness for s in siblings if s.fitness is not None) > np.quantile(blind, 0.9)


def test_tune_respects_constraints_and_never_repeats() -> None:
    tune, seen, siblings = Tune(), {Candidate(TOY, "cpp").id}, list[Any]()
    for step in range(100):
        asked = replace(context(elite(TOY)), step=step, known=frozenset(seen), siblings=tuple(siblings))
        draft = asyncio.run(tune.propose(asked))
        if draft is None:
            break
        space = read_tunables(draft.source)
        assert space.allows(space.values)
        name = Candidate(draft.source, "cpp").id
        assert name not in seen
        seen.add(name)
        speed = toy_speed(draft.source)
        siblings.append(Sibling(space.values, speed))
    assert len(seen) == len(list(read_tunables(TOY).points()))


def test_blend_takes_every_value_from_a_parent() -> None:
    first, second = elite(TOY), elite(with_values(TOY, {"A": 8, "B": 6}))
    for step in range(20):
        draft = asyncio.run(Blend().propose(context(first, second, step=step)))
        assert draft is not None
        assert read_tunables(draft.source).values in ({"A": 1, "B": 6}, {"A": 8, "B": 3})
        assert draft.parents == (first.candidate.id, second.candidate.id)


def test_blend_does_not_repeat_machine_code() -> None:
    first, second = elite(TOY), elite(with_values(TOY, {"A": 8, "B": 6}))
    siblings = tuple(
        Sibling(read_tunables(each.candidate.source).values, 0.0, code="same", known_code=each is second)
        for each in (first, second)
    )
    assert asyncio.run(Blend().propose(context(first, second))) is not None
    assert asyncio.run(Blend().propose(context(first, second, siblings=siblings))) is None


def test_blend_leaves_a_value_that_only_its_own_source_has() -> None:
    first, second = elite(TOY), elite(with_values(TOY, {"A": 99}))
    assert asyncio.run(Blend().propose(context(first, second))) is None


def test_no_rule_sets_a_tunable_in_protected_text() -> None:
    a_line = next(line for line in TOY.splitlines() if "A = 1;" in line)
    source = TOY.replace(a_line, f"// EVOLVE-BLOCK-START\n{a_line}\n// EVOLVE-BLOCK-END")
    first, second = elite(source), elite(with_values(source, {"A": 8, "B": 6}))
    for step in range(20):
        for draft in (
            asyncio.run(Blend().propose(context(first, second, step=step))),
            asyncio.run(Tune().propose(context(first, step=step))),
        ):
            assert draft is None or read_tunables(draft.source).values["B"] == 3
    assert asyncio.run(Tune().propose(context(first))) is not None


def test_blend_of_twins_has_nothing_to_offer() -> None:
    assert asyncio.run(Blend().propose(context(elite(TOY), elite(TOY)))) is None


def test_every_rewrite_belongs_to_a_class_of_transformations() -> None:
    names = {name for library in LIBRARIES.values() for name in library.by_name}
    assert names == FOCUS_OF.keys()
    assert set(FOCUS_OF.values()) == set(Focus)


def test_rewrite_keeps_to_the_classes_in_focus() -> None:
    source = load_task("gemm").seeds["cpp"].read_text(encoding="utf-8")

    def kinds(*focus: Focus) -> set[str]:
        """Return the kinds of all that is proposed on one parent."""
        tried, found = set[str](), set[str]()
        while True:
            asked = replace(context(elite(source)), tried=frozenset(tried), focus=focus, step=len(tried))
            draft = asyncio.run(Rewrite().propose(asked))
            if draft is None:
                return found
            tried.add(draft.rationale)
            found.add(draft.rationale.partition(":")[0])

    usual, loops, memory = kinds(), kinds(Focus.LOOPS), kinds(Focus.MEMORY)
    assert loops
    assert memory
    assert loops == {kind for kind in usual if FOCUS_OF[kind] is Focus.LOOPS}
    assert kinds(Focus.LOOPS, Focus.MEMORY) == loops | memory < usual


def test_changes_without_effect_wait_for_the_others() -> None:
    first = context(elite(load_task("gemm").seeds["cpp"].read_text(encoding="utf-8")))

    def drawn(idle: dict[str, int]) -> list[str]:
        """Return the rationales of all that is proposed on the parent, in order."""
        found = list[str]()
        while draft := asyncio.run(Rewrite().propose(replace(first, tried=frozenset(found), idle=idle))):
            found.append(draft.rationale)
        return found

    usual = drawn({})
    barren = usual[: len(usual) // 2]
    later = drawn(dict.fromkeys(barren, 40))
    assert sorted(later) == sorted(usual)
    assert set(later[len(later) - len(barren) :]) == set(barren)


def test_a_model_is_told_the_focus_in_the_order_of_the_classes() -> None:
    (line,) = focus_in_words([Focus.LOOPS, Focus.TILING])
    assert line.index("tiles and blocks") < line.index("loops (")
    assert "arithmetic" not in line
    assert focus_in_words(()) == ()
