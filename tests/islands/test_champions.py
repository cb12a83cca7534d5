"""Champions of an island by workload, and the selectors that look at each workload."""

import random
from collections import Counter

import numpy as np

from archive.grid import GridArchive
from evokernel.protocols import Selector
from evokernel.records.candidate import Candidate
from evokernel.records.fitness import Elite, Fitness
from islands.elite_selectors import RankSelector
from islands.island import Island, Population
from islands.workload_selectors import LexicaseSelector


def elite(name: str, *speeds: float, registers: float = 64.0) -> Elite:
    fitness = Fitness(sum(speeds) / len(speeds), sum(speeds) / len(speeds))
    workloads = {f"w{number}": speed for number, speed in enumerate(speeds)}
    return Elite(Candidate(f"// {name}", "cpp"), fitness, {"registers": registers}, 1, name, "s", workloads=workloads)


def island(selector: Selector) -> Island:
    return Island("one", {"tune": 1.0}, GridArchive({}), selector)


def chosen(elites: list[Elite], objective: str = "") -> Counter[str]:
    selector, rng = LexicaseSelector(0.5, objective), np.random.default_rng(0)
    return Counter(selector.select(elites, {}, rng).program_hash for _ in range(200))


def test_a_champion_stays_a_parent_where_the_selector_looks_at_workloads() -> None:
    population = Population()
    narrow, wide = elite("narrow", 2.0, 0.0), elite("wide", 1.5, 1.5)
    for one in (narrow, wide):
        island(RankSelector(0.5)).take(one, population)
    assert population.elites == [wide]
    assert population.champions == {"w0": narrow, "w1": wide}
    assert island(RankSelector(0.5)).parents(population) == [wide]
    assert island(LexicaseSelector(0.5)).parents(population) == [wide, narrow]


def test_the_next_fastest_that_is_held_takes_the_place_of_a_barred_champion() -> None:
    population = Population()
    for one in (narrow := elite("narrow", 2.0, 0.0), wide := elite("wide", 1.5, 1.5)):
        island(RankSelector(0.5)).take(one, population)
    population.bar(narrow.program_hash)
    assert population.champions == {"w0": wide, "w1": wide}
    population.bar(wide.program_hash)
    assert (population.elites, population.champions) == ([], {})


def test_specialists_are_parents_though_their_mean_is_low() -> None:
    elites = [elite("general", 1.0, 1.0), elite("first", 1.6, 0.0), elite("second", 0.0, 1.6), elite("poor", 0.1, 0.1)]
    found = chosen(elites)
    assert min(found["first"], found["second"]) > 2 * found["poor"]


def test_an_objective_counts_beside_the_workloads() -> None:
    registers = {"fast": 255.0, "next": 200.0, "lean": 32.0}
    elites = [elite(name, 1 - place / 4, registers=used) for place, (name, used) in enumerate(registers.items())]
    assert chosen(elites)["lean"] < chosen(elites, "registers")["lean"]


def test_deap_neither_draws_from_the_global_random_state_nor_follows_it() -> None:
    elites = [elite(str(number), *np.random.default_rng(number).random(4)) for number in range(12)]
    random.seed(1)
    before = random.getstate()
    found = [LexicaseSelector(0.3).select(elites, {}, np.random.default_rng(each)) for each in range(50)]
    assert random.getstate() == before
    random.seed(2)
    again = [LexicaseSelector(0.3).select(elites, {}, np.random.default_rng(each)) for each in range(50)]
    assert [each.candidate.id for each in found] == [each.candidate.id for each in again]
    assert len({each.candidate.id for each in found}) > 1
