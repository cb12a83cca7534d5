"""`graft` in a search: partners come from other skeletons and islands, and the search knows when nothing is left."""

import asyncio
from pathlib import Path

from archive.journal import EmptyStep, ResultEntry
from archive.store import Store
from evokernel.engine.search import Search
from evokernel.source.regions import read_regions
from tests.support.engine import replayed, toy_config, toy_search
from tests.support.fakes import InstantEvaluator

TOYS = tuple(
    f"// toy {name}\n// region: head\nconstexpr int {name} = 1;  // tune: 1 2\n// endregion\n"
    f'// region: tail\nconstexpr int TAIL = {number};\n// endregion\nextern "C" void run() {{}}\n'
    for number, name in enumerate(("A", "B", "C"))
)
ISLANDS = [
    {"name": "one", "operators": {"graft": 1.0, "tune": 0.2}},
    {"name": "two", "operators": {"graft": 1.0}, "selector": {"kind": "explore"}},
]


def run(path: Path, *, sources: tuple[str, ...] = TOYS, islands: object = ISLANDS) -> tuple[str, Search]:
    config = toy_config(budget={"evaluations": 10_000}, islands=islands, reset_after=None)
    evaluator = InstantEvaluator(lambda source: 0.3 if "int A" in source else 1.0 + len(source) / 1000)
    with Store.open(path, write=True) as store:
        search = toy_search(store, config, evaluator, source=sources[0], others=sources[1:])
        return asyncio.run(search.run()), search


def test_grafts_come_from_other_skeletons_and_end_when_all_is_tried(tmp_path: Path) -> None:
    reason, search = run(tmp_path / "toy.db")
    assert reason == "every operator has tried everything it can"
    with Store.open(tmp_path / "toy.db", write=False) as store:
        facts = list(store.facts())
        assert store.verify() == []
    made = {fact.proposal.candidate.id: fact.proposal for fact in facts if isinstance(fact, ResultEntry)}
    grafted = [proposal for proposal in made.values() if proposal.operator == "graft"]
    assert {proposal.island for proposal in grafted} == {"one", "two"}
    for proposal in grafted:
        first, second = (made[name].candidate.source for name in proposal.parents)
        own, theirs, child = (
            {region.name: region.text for region in read_regions(text)}
            for text in (first, second, proposal.candidate.source)
        )
        named = [name for name in child if name in proposal.rationale.partition(" from ")[0]]
        assert {name: theirs[name] if name in named else own[name] for name in own} == child
        assert proposal.rationale.endswith(f" from {proposal.parents[1][:8]}")
    assert not [fact for fact in facts if isinstance(fact, EmptyStep) and fact.no_candidate.operator == "graft"]
    config = toy_config(budget={"evaluations": 10_000}, islands=ISLANDS, reset_after=None)
    assert replayed(tmp_path / "toy.db", config).fingerprint() == search.state.fingerprint()


def test_without_regions_it_costs_no_step(tmp_path: Path) -> None:
    plain = tuple(source.replace("region", "part") for source in TOYS)
    reason, _ = run(tmp_path / "toy.db", sources=plain)
    assert reason == "every operator has tried everything it can"
    with Store.open(tmp_path / "toy.db", write=False) as store:
        assert not any(isinstance(f, EmptyStep) and f.no_candidate.operator == "graft" for f in store.facts())
        assert {f.proposal.operator for f in store.facts() if isinstance(f, ResultEntry)} == {"seed", "tune"}
