"""A search whose islands look at each workload."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from archive.store import Store
from evokernel.cli.group import main
from evokernel.engine.search import Search
from evokernel.records.evaluation import Evaluation, EvaluationRequest
from evokernel.records.fitness import Elite
from evokernel.report.status import read_status
from evokernel.source.tunables import read_tunables
from islands.diversity import diversity_of
from tests.support.engine import Heard, replayed, toy_config, toy_search
from tests.support.fakes import InstantEvaluator

ISLANDS = [
    {"name": "one", "operators": {"tune": 1.0, "blend": 0.3}, "selector": {"kind": "lexicase"}},
    {"name": "two", "operators": {"tune": 1.0}, "selector": {"kind": "lexicase", "objective": "code_bytes"}},
]


class TwoWorkloads(InstantEvaluator):
    """Times on two workloads: a large A is fast on the wide one, and slow on the other."""

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        judged = await super().evaluate(request)
        values = read_tunables(request.candidate.source).values
        shifts = {"wide": values["A"] / 4, "narrow": -values["A"] / 4}
        timings = tuple(
            replace(each, workload=name, log_speedup=each.log_speedup + shift)
            for each in judged.timings
            for name, shift in shifts.items()
        )
        return replace(judged, timings=timings, descriptor={**judged.descriptor, "code_bytes": 64.0 * values["B"]})


def run(path: Path, evaluations: int, heard: Heard | None = None) -> Search:
    config = toy_config(budget={"evaluations": evaluations}, islands=ISLANDS, reset_after=None)
    with Store.open(path, write=True) as store:
        search = toy_search(store, config, TwoWorkloads(), heard=heard)
        asyncio.run(search.run())
    return search


def test_each_island_has_a_champion_for_every_workload_and_a_replay_has_them_too(tmp_path: Path) -> None:
    path, heard = tmp_path / "toy.db", Heard()
    run(path, 15)
    search = run(path, 25, heard)
    assert not any("another state" in note for note in heard.notes)
    found = search.state.archipelago
    for population in found.populations.values():
        assert set(population.champions) == {"wide", "narrow"}
        assert population.champions["wide"] != population.champions["narrow"]
    for workload in ("wide", "narrow"):
        fastest = max(each.workloads[workload] for each in found.history.elites.values())
        champions = [each.champions[workload] for each in found.populations.values()]
        assert max(each.workloads[workload] for each in champions) == fastest
    again = replayed(path, toy_config(budget={"evaluations": 25}, islands=ISLANDS, reset_after=None))
    assert again.fingerprint() == search.state.fingerprint()


def test_status_shows_champions_the_front_and_the_diversity_of_each_island(tmp_path: Path) -> None:
    search = run(tmp_path / "toy.db", 25)
    with Store.open(tmp_path / "toy.db", write=False) as store:
        status = read_status(store)
    elites = search.state.archipelago.history.elites
    fastest = {
        name: max(elites.values(), key=lambda e: e.workloads[name]).workloads[name] for name in ("narrow", "wide")
    }
    assert [each.workload for each in status.front.champions] == ["narrow", "wide"]
    for each in status.front.champions:
        assert elites[each.candidate].workloads[each.workload] == pytest.approx(fastest[each.workload])
        assert each.candidate in status.front.candidates
    beaten = [e for e in elites.values() for other in elites.values() if dominates(other, e)]
    assert set(status.front.candidates) == {e.candidate.id for e in elites.values() if e not in beaten}
    assert 0.0 < status.front.hypervolume < 1.0
    for name, population in search.state.archipelago.populations.items():
        assert status.diversity[name] == diversity_of(population)
    printed = CliRunner().invoke(main, ["status", str(tmp_path / "toy.db")], env={"COLUMNS": "160"})
    assert "as measured in the search: " in printed.output
    assert "likeness" in printed.output


def dominates(one: Elite, other: Elite) -> bool:
    pairs = [(one.workloads[name], other.workloads[name]) for name in one.workloads]
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def test_a_selector_may_change_between_sessions(tmp_path: Path) -> None:
    path = tmp_path / "toy.db"
    with Store.open(path, write=True) as store:
        asyncio.run(toy_search(store, toy_config(budget={"evaluations": 9}), TwoWorkloads()).run())
    config, heard = toy_config(budget={"evaluations": 18}, islands=ISLANDS), Heard()
    with Store.open(path, write=True) as store:
        search = toy_search(store, config, TwoWorkloads(), heard=heard)
        asyncio.run(search.run())
    assert search.account.results == 18
    assert replayed(path, config).fingerprint() == search.state.fingerprint()
