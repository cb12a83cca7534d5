"""Every field of the state is in snapshot, restore and fingerprint, without a list of fields anywhere."""

import json
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from archive.account import IslandAccount, RunAccount
from evokernel.engine.state import SearchState, from_plain, to_plain
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Mode, Stage, Status
from evokernel.records.fitness import Elite, Fitness
from evokernel.records.hidden_check import HiddenCheck
from evokernel.records.step import Sibling
from islands.island import Population
from islands.references import ResultVerdict
from islands.state import ArchipelagoState

KEY = EvaluationKey("p", "t", "d", "e", "1", Mode.WORKER, Fidelity.QUICK)
SEQS = range(1, 9)
ELITES = {
    seq: Elite(Candidate(f"// {seq}", "cpp"), Fitness(seq / 8, 0.0), {"spills": 1.0}, seq, f"p{seq}", f"s{seq % 3}")
    for seq in SEQS
}
EVALUATIONS = {
    seq: Evaluation(KEY, f"c{seq}", Status.NUMERICAL, Stage.SMOKE, metrics={"check_s": float(seq)}) for seq in SEQS
}
st.register_type_strategy(float, st.floats(allow_nan=False))  # of what is no number no copy is equal
st.register_type_strategy(
    HiddenCheck,
    st.builds(
        HiddenCheck,
        st.dictionaries(st.text(), st.integers()),
        st.dictionaries(st.text(), st.lists(st.text()).map(tuple)),
        st.text(),
    ),
)
st.register_type_strategy(Elite, st.sampled_from(list(ELITES.values())))
st.register_type_strategy(Evaluation, st.sampled_from(list(EVALUATIONS.values())))
st.register_type_strategy(
    ResultVerdict, st.builds(lambda seq: ResultVerdict(seq, EVALUATIONS[seq]), st.sampled_from(SEQS))
)
st.register_type_strategy(
    Sibling, st.builds(Sibling, st.dictionaries(st.text(), st.integers()), st.none() | st.floats(allow_nan=False))
)


class Results:
    def elite(self, seq: int) -> Elite:
        return ELITES[seq]

    def evaluation(self, seq: int) -> Evaluation:
        return EVALUATIONS[seq]


def parts_of(hint: Any) -> Iterator[type]:
    """Yield the state's own classes in a type: dataclasses that can be changed."""
    if is_dataclass(hint) and not hint.__dataclass_params__.frozen:
        yield typing.cast(type, hint)
        for each in typing.get_type_hints(hint).values():
            yield from parts_of(each)
    for argument in typing.get_args(hint):
        yield from parts_of(argument)


def found(cls: type, value: Any) -> Iterator[Any]:
    """Yield what a state holds of a class."""
    if isinstance(value, cls):
        yield value
    if isinstance(value, dict):
        value = list(value.values())
    if is_dataclass(value):
        value = [getattr(value, each.name) for each in fields(value)]
    for each in value if isinstance(value, list) else ():
        yield from found(cls, each)


def restored(state: SearchState) -> SearchState:
    plain, seqs = to_plain(state)
    assert seqs <= set(SEQS)
    return from_plain(json.loads(json.dumps(plain)), Results())


PARTS = list(dict.fromkeys(parts_of(SearchState)))
FIELDS = [(cls, each.name) for cls in PARTS for each in fields(cls) if each.compare]
unhurried = settings(
    suppress_health_check=list(HealthCheck),
    deadline=None,
    max_examples=15,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a whole state is large: making one smaller takes minutes
)


def test_the_parts_are_found() -> None:
    assert {cls.__name__ for cls in PARTS} >= {"SearchState", "ArchipelagoState", "Population", "History", "FailureLog"}


@unhurried
@given(st.from_type(SearchState))
def test_a_state_comes_back_from_its_snapshot(state: SearchState) -> None:
    again = restored(state)
    assert again == state
    assert again.seq == state.seq
    assert again.fingerprint() == state.fingerprint()


@pytest.mark.parametrize(("cls", "name"), FIELDS, ids=[f"{cls.__name__}.{name}" for cls, name in FIELDS])
@unhurried
@given(st.data())
def test_a_field_that_differs_gives_another_snapshot_and_fingerprint(cls: type, name: str, data: st.DataObject) -> None:
    state, other = (
        SearchState(ArchipelagoState({"one": Population()}), RunAccount(populations={"one": IslandAccount()}))
        for _ in range(2)
    )
    part = next(found(cls, other))
    before, hint = getattr(part, name), typing.get_type_hints(cls)[name]
    setattr(part, name, data.draw(st.from_type(hint).filter(lambda drawn: drawn != before)))
    assert restored(other) == other != state
    assert other.fingerprint() != state.fingerprint()
