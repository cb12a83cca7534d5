from dataclasses import replace
from typing import Any, cast

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.grid import GridArchive
from evokernel.protocols import Selector
from evokernel.records.candidate import Candidate
from evokernel.records.fitness import Elite, Fitness
from islands.archipelago import migrate
from islands.elite_selectors import SELECTORS
from islands.island import Island, Population
from islands.parent_selection import ParentSelection
from islands.state import ArchipelagoState
from islands.topology import TOPOLOGIES
from islands.workload_selectors import WORKLOAD_SELECTORS

ALL_SELECTORS = SELECTORS | WORKLOAD_SELECTORS
AXES = {"vector_bits": (128.0, 256.0, 512.0), "spills": (1.0,)}


def elite(name: str, fitness: float, **descriptor: float) -> Elite:
    return Elite(
        Candidate(f"// {name}", "cpp"), Fitness(fitness, fitness), descriptor, int(fitness * 100) + 1, name, "s"
    )


def selector(kind: str, strength: float) -> Selector:
    return cast(Selector, ALL_SELECTORS[kind](strength))


def island(name: str) -> Island:
    return Island(name, {"tune": 1.0}, GridArchive(AXES), selector("rank", 0.5))


def population(*elites: Elite) -> Population:
    made = Population()
    for one in elites:
        island("any").take(one, made)
    return made


descriptors = st.fixed_dictionaries(
    {"vector_bits": st.sampled_from([0.0, 128.0, 256.0, 512.0]), "spills": st.sampled_from([0.0, 1.0, 40.0])}
)


@given(st.lists(st.tuples(st.floats(-5, 5), descriptors), max_size=40))
def test_a_niche_never_gets_worse_and_holds_the_best_it_saw(offers: list[tuple[float, dict[str, float]]]) -> None:
    archive, kept, best = GridArchive(AXES), list[Elite](), dict[Any, float]()
    for index, (fitness, descriptor) in enumerate(offers):
        cell = archive.niche(descriptor)
        taken = archive.add(elite(str(index), fitness, **descriptor), kept)
        assert taken == (cell not in best or fitness > best[cell])
        best[cell] = max(fitness, best.get(cell, float("-inf")))
    assert {archive.niche(e.descriptor): e.fitness.value for e in kept} == best
    assert len(kept) == len(best) <= 8


@pytest.mark.parametrize("kind", sorted(ALL_SELECTORS))
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=12), st.integers(0, 99))
def test_every_selector_returns_one_of_the_elites(kind: str, fitness: list[float], seed: int) -> None:
    elites = [elite(str(index), value) for index, value in enumerate(fitness)]
    assert selector(kind, 0.4).select(elites, {}, np.random.default_rng(seed)) in elites


@pytest.mark.parametrize("kind", sorted(ALL_SELECTORS))
def test_every_selector_prefers_the_fit(kind: str) -> None:
    elites = [elite(str(index), value) for index, value in enumerate([0.0, 1.0, 2.0, 3.0])]
    rng = np.random.default_rng(0)
    chosen = [selector(kind, 0.5).select(elites, {}, rng).fitness.value for _ in range(400)]
    assert chosen.count(3.0) > chosen.count(0.0) * 2


def test_explore_turns_to_what_was_not_a_parent_yet() -> None:
    old, new = elite("old", 1.0), elite("new", 1.0)
    rng = np.random.default_rng(0)
    picks = {old.candidate.id: 20}
    chosen = [selector("explore", 0.2).select([old, new], picks, rng) for _ in range(200)]
    assert chosen.count(new) > 150


@pytest.mark.parametrize(("kind", "edges"), [("ring", 4), ("star", 6), ("full", 12)])
def test_topologies(kind: str, edges: int) -> None:
    graph = TOPOLOGIES[kind](["a", "b", "c", "d"])
    assert graph.number_of_edges() == edges
    assert nx.is_strongly_connected(graph)
    assert not list(nx.selfloop_edges(graph))


@pytest.mark.parametrize("kind", sorted(TOPOLOGIES))
def test_one_island_alone_has_nobody_to_exchange_with(kind: str) -> None:
    assert TOPOLOGIES[kind](["a"]).number_of_edges() == 0


def test_migration_copies_the_best_along_the_edges_only() -> None:
    best = elite("best", 3.0, vector_bits=512.0)
    populations = {
        "a": population(best, elite("weak", 1.0)),
        "b": population(elite("b", 2.0)),
        "c": population(elite("c", 0.5)),
    }
    islands = {name: island(name) for name in populations}
    assert migrate(islands, populations, graph=TOPOLOGIES["ring"](["a", "b", "c"]), count=1) == 2
    assert best in populations["a"].elites
    assert best in populations["b"].elites
    assert best not in populations["c"].elites  # all leave before any arrive
    assert populations["b"].best == 3.0


def test_restart_goes_on_from_the_survivor_alone() -> None:
    stagnant, survivor = population(elite("x", 5.0), elite("y", 1.0, spills=9.0)), elite("z", 2.0)
    stagnant.stale = 99
    island("a").restart(stagnant, survivor=survivor)
    assert stagnant.elites == [survivor]
    assert (stagnant.best, stagnant.stale) == (2.0, 0)


def test_a_parent_whose_children_are_dear_to_judge_is_seldom_one() -> None:
    cheap, slow = elite("cheap", 1.0), replace(elite("slow", 1.2, spills=9.0), checked_s=20.0)
    cheap = replace(cheap, checked_s=0.5)
    state = ArchipelagoState({"a": population(cheap, slow)})
    rng = np.random.default_rng(0)
    chosen = [ParentSelection(island("a"), state, rng).first([cheap, slow]) for _ in range(400)]
    assert 8 < chosen.count(slow) < 80  # the selector alone would take it in two of three steps
    assert ParentSelection(island("a"), state, rng).first([slow]) is slow
