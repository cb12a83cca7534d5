"""`tune`: its points are new and allowed, come to an end, spread at first, and heed what waits and what cannot fit."""

import asyncio
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.records.candidate import Candidate
from evokernel.records.step import Sibling
from evokernel.source.tunables import read_tunables
from operators.rules.surrogate import Surrogate, chance_to_fit, levels
from operators.rules.tune import Tune
from tests.operators.rules.test_rules import context, elite

Values = Mapping[str, int]
LIMIT = 64
TILES = "int TILE = 2;  // tune: 1 2 4 8 16 32\nint DEPTH = 1;  // tune: 1 2 3 4 5 6\nint ORDER = 0;  // tune: 0 1 2\n"


def measured(values: Values) -> Sibling:
    return Sibling(values, -sum(math.log(1 + abs(value - 4)) for value in values.values()))


def tiled(values: Values) -> Sibling:
    need = values["TILE"] * values["DEPTH"]
    needs = {"shared memory": float(need)}
    if need > LIMIT:
        return Sibling(values, None, needs, {"shared memory": float(LIMIT)})
    return Sibling(values, -abs(math.log(values["TILE"] / 8)) - abs(values["DEPTH"] - 3), needs)


def search(
    source: str, judge: Callable[[Values], Sibling], *, in_hand: int = 1, most: int = 10**6
) -> list[dict[str, int]]:
    """Return the points that `tune` proposes until it has none, the parent's first."""
    parent, values = elite(source), read_tunables(source).values
    known, siblings, order, waiting = {parent.candidate.id}, [judge(values)], [values], list[dict[str, int]]()
    for step in itertools.count(1):
        asked = replace(
            context(parent),
            step=step,
            known=frozenset(known),
            siblings=tuple(siblings),
            in_hand=tuple(waiting),
        )
        draft = asyncio.run(Tune().propose(asked)) if len(order) < most else None
        if draft is None and not waiting:
            return order
        if draft is not None:
            assert draft == asyncio.run(Tune().propose(asked))
            name = Candidate(draft.source, "cpp").id
            assert name not in known
            known.add(name)
            order.append(read_tunables(draft.source).values)
            waiting.append(order[-1])
        if draft is None or len(waiting) == in_hand:
            siblings.append(judge(waiting.pop(0)))
    raise AssertionError


@st.composite
def sources(draw: st.DrawFn) -> str:
    lines = []
    for name in "ABC"[: draw(st.integers(1, 3))]:
        choices = sorted(draw(st.sets(st.integers(-2, 40), min_size=1, max_size=4)))
        lines.append(f"int {name} = {draw(st.sampled_from(choices))};  // tune: {' '.join(map(str, choices))}")
    if draw(st.booleans()):
        lines.append("// tune-where: A % 2 == 0 or A > 10")
    return "\n".join([*lines, ""])


@settings(deadline=None, max_examples=25)
@given(sources(), st.integers(1, 4), st.sets(st.integers(0, 80)))
def test_every_allowed_point_comes_once_whatever_fails(source: str, in_hand: int, failing: set[int]) -> None:
    space = read_tunables(source)
    bad = [values for index, values in enumerate(space.points()) if index in failing]
    order = search(source, lambda values: Sibling(values, None) if values in bad else measured(values), in_hand=in_hand)
    tried = {tuple(values.values()) for values in order}
    assert len(tried) == len(order)
    assert tried - {tuple(space.values.values())} <= {tuple(values.values()) for values in space.points()}
    assert {tuple(values.values()) for values in space.points()} <= tried


def test_the_first_points_are_in_the_middle_and_spread() -> None:
    source = "".join(f"int {name} = 0;  // tune: 0 1 2 3 4 5 6 7 8\n" for name in "ABC")
    points = np.array([list(values.values()) for values in search(source, measured, most=3)])
    assert (np.abs(points[1] - 4) <= 2).all()
    assert np.abs(points[2] - points[0]).sum() >= 6
    assert np.abs(points[2] - points[1]).sum() >= 6


def test_what_cannot_fit_is_soon_known_and_all_that_fits_is_tried() -> None:
    order = search(TILES, tiled)
    fits = [values for values in read_tunables(TILES).points() if values["TILE"] * values["DEPTH"] <= LIMIT]
    failed = [values for values in order if values not in fits]
    assert len(order) - len(failed) == len(fits)
    assert failed
    assert len(failed) <= (len(list(read_tunables(TILES).points())) - len(fits)) / 3


@pytest.mark.parametrize("in_hand", [1, 3])
@pytest.mark.parametrize(("matters_from", "most"), [(99, 4), (5, 10), (0, 0)])
def test_points_of_known_machine_code_come_last(matters_from: int, most: int, in_hand: int) -> None:
    def code(values: Values) -> str:
        """ORDER changes the code of deep tiles alone, from a depth on."""
        order = values["ORDER"] if values["DEPTH"] >= matters_from else 0
        return f"{values['TILE']} {values['DEPTH']} {order}"

    seen = set[str]()

    def compiled(values: Values) -> Sibling:
        made, known = code(values), code(values) in seen
        seen.add(made)
        fitness = measured({name: values[name] for name in ("TILE", "DEPTH")}).fitness
        return Sibling(values, fitness, code=made, known_code=known)

    order = search(TILES, compiled, in_hand=in_hand)
    assert len(order) < 60 if matters_from == 99 else len(order) > 60
    assert 30 - len({code(values) for values in order[:30]}) <= most


def test_a_limit_that_only_failures_name_rules_nothing_out() -> None:
    def threads(values: Values) -> Sibling:
        if values["DEPTH"] >= 5:
            return Sibling(values, None, {"threads": 2048.0}, {"threads": 1024.0})
        return measured(values)

    assert len(search(TILES, threads)) == len(list(read_tunables(TILES).points()))


def test_the_chance_to_fit_follows_a_product_of_sizes() -> None:
    rng = np.random.default_rng(0)
    sizes = 2.0 ** rng.integers(0, 6, (24, 2))
    position, needs = np.log2(sizes) / 5, sizes.prod(axis=1)
    chance = chance_to_fit(position[:12], needs[:12], position[12:], limit=100.0)
    assert ((chance > 0.5) == (needs[12:] <= 100)).all()


def test_a_point_in_hand_takes_the_promise_from_its_neighbours() -> None:
    positions = [levels(range(9)), levels((1, 2, 4, 8, 16))]
    seen = np.array([[0, 0], [8, 4], [4, 0], [0, 4]])
    log_us = np.array([1.0, 0.4, 0.6, 0.9])
    points = np.array([[7, 3], [0, 2]])

    def promise(*in_hand: list[int]) -> float:
        surrogate = Surrogate(positions, np.random.default_rng(0))
        waiting = np.array(in_hand, dtype=np.intp).reshape(-1, 2)
        gain, _ = surrogate.improvement(seen, log_us, waiting, points)
        return float(gain[0] / gain[1])

    assert promise([7, 4]) < promise()


def test_ordered_values_lie_at_their_logarithms() -> None:
    assert levels((16, 64, 256)).tolist() == [0.0, 0.5, 1.0]
    assert levels((0, 1)).tolist() == [0.0, 1.0]
    assert levels((4, 5, 9)).tolist() == [0.0, 0.5, 1.0]
    assert levels((7,)).tolist() == [0.0]
