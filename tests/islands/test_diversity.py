"""Diversity of islands, and restarts that lose no leader."""

from archive.grid import GridArchive
from evokernel.records.candidate import Candidate
from evokernel.records.diversity import IslandDiversity
from evokernel.records.fitness import Elite, Fitness
from evokernel.records.step import StepResult
from islands.archipelago import Archipelago, ArchipelagoSettings
from islands.diversity import diversity_of
from islands.elite_selectors import RankSelector
from islands.island import Island, Population
from islands.state import ArchipelagoState
from islands.topology import ring


def elite(lines: str, *speeds: float, skeleton: str = "s", spills: float = 0.0) -> Elite:
    mean = sum(speeds) / len(speeds)
    workloads = {f"w{number}": speed for number, speed in enumerate(speeds)}
    source = Candidate("\n".join(lines), "cpp")
    return Elite(source, Fitness(mean, mean), {"spills": spills}, 1, lines, skeleton, workloads=workloads)


def island(name: str) -> Island:
    return Island(name, {"tune": 1.0}, GridArchive({"spills": (1.0,)}), RankSelector(0.5))


def population(*elites: Elite) -> Population:
    made = Population()
    for one in elites:
        island("any").take(one, made)
    return made


def test_diversity_counts_niches_and_structures_and_measures_likeness_and_spread() -> None:
    held = population(
        elite("abcd", 1.0, 0.0), elite("abce", 0.5, 1.0, spills=2.0), elite("wxyz", 0.0, 0.2, skeleton="t")
    )
    assert diversity_of(held) == IslandDiversity(2, 1, 3 / 5, {"w0": 0.25, "w1": 0.5})
    assert diversity_of(Population()) == IslandDiversity(0, 0, None, {})


def told(state: ArchipelagoState) -> list[str]:
    """Return the islands that start again when each has been stagnant for long."""
    islands = [island(name) for name in state.populations]
    rules = ArchipelagoSettings(migrate_every=10**6, reset_after=5)
    archipelago = Archipelago(islands, ring(list(state.populations)), operators={}, seed=0, rules=rules)
    notes = []
    for name in state.populations:
        for seq in range(8):
            notes += archipelago.tell(StepResult(seq, None, seq, name, "tune", (), None), state)
    return [note.text.split()[1] for note in notes]


def test_only_the_weaker_half_starts_again() -> None:
    speeds = {"strong": 3.0, "next": 2.0, "weak": 1.0, "poor": 0.5}
    state = ArchipelagoState({name: population(elite(name, speed)) for name, speed in speeds.items()})
    assert set(told(state)) == {"weak", "poor"}
    assert [state.populations[name].best for name in ("strong", "next")] == [3.0, 2.0]


def test_the_fastest_on_a_workload_is_not_lost_to_a_restart() -> None:
    state = ArchipelagoState(
        {"strong": population(elite("ab", 2.0, 2.0)), "narrow": population(elite("cd", 2.5, -1.0))}
    )
    assert told(state) == []
    island("strong").take(elite("cd", 2.5, -1.0, spills=2.0), state.populations["strong"])  # now held there, too
    assert set(told(state)) == {"narrow"}
