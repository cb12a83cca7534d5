"""Which settings of a run may change between two sessions: what steers future choices and no other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.config.changes import edits_between
from evokernel.config.run import RunConfig, flatten
from evokernel.errors import RunMismatch

Change = tuple[tuple[str | int, ...], Any]
"""Where in the YAML, and what stands there after it was edited."""

BASE: dict[str, Any] = {
    "task": "gemm",
    "device": "cpu",
    "seed": 3,
    "budget": {"evaluations": 5, "hours": 1.0, "dollars": 1.0},
    "models": [{"name": "main.v2", "model": "openai/x"}],
    "islands": [
        {"name": "one", "operators": {"tune": 1, "mutate": 2}, "models": ["main.v2"]},
        {"name": "two.b", "operators": {"rewrite": 1, "tune": 1}, "selector": {"kind": "rank"}},
    ],
}
FREE: list[Change] = [
    (("notify",), [{"command": ["true"], "on": ["end"]}]),
    (("durable",), "power"),
    (("budget", "evaluations"), 9),
    (("budget", "hours"), 0.5),
    (("budget", "tokens"), 10_000),
    (("budget", "plateau"), 7),
    (("in_flight",), 3),
    (("store",), "elsewhere.db"),
    (("evaluation",), {"gpus": 2}),
    (("models", 0, "temperature"), 0.1),
    (("models", 0, "model"), "anthropic/y"),
    (("prompts",), "/prompts"),
    (("prompt_tokens",), 5000),
    (("prompt_feedback",), "times"),
    (("prompt_history",), "best"),
    (("plans_per_call",), 3),
    (("hypotheses",), True),
    (("focus",), ["memory"]),
    (("plans",), "floor"),
    (("plugins",), "/plugins"),
    (("replies_from",), ["/old.db"]),
    (("repairs",), 1),
    (("islands", 0, "operators"), {"tune": 3, "graft": 1}),
    (("islands", 0, "models"), []),
    (("islands", 0, "choose"), "ucb"),
    (("islands", 1, "operators", "tune"), 5),
    (("islands", 1, "selector"), {"kind": "explore", "pressure": 0.9}),
]
FIXED: list[Change] = [
    (("task",), "softmax"),
    (("seed",), 4),
    (("threads",), 2),
    (("seed_sources",), ["/mine.cpp"]),
    (("topology",), "full"),
    (("topology",), {"one": ["two.b"]}),
    (("migration",), {"every": 7}),
    (("reset_after",), 8),
    (("device_usd_per_hour",), 9.0),
    (("constraints",), {"forbid": ["asm"]}),
    (("evaluation",), {"quick_ms": 1}),
    (("evaluation",), {"memory_mib": 512}),
    (("islands", 0, "niches"), {"axes": {"spills": [3]}}),
    (("islands", 1, "name"), "renamed"),
    (("islands",), [BASE["islands"][1], BASE["islands"][0]]),
    (("islands",), [BASE["islands"][0]]),
]


def edited(*changes: Change) -> dict[str, Any]:
    raw = copy.deepcopy(BASE)
    for path, value in changes:
        place: Any = raw
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value
    return flatten(RunConfig.model_validate(raw).on("cpu"))


@given(st.lists(st.sampled_from(FREE), unique_by=lambda change: change[0][:2]))
def test_any_of_the_free_settings_may_change_and_each_difference_is_told_once(changes: list[Change]) -> None:
    before, after = edited(), edited(*changes)
    edits = edits_between(before, after)
    assert {key: new for key, _, new in edits} == {
        key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)
    }
    assert len({key for key, _, _ in edits}) == len(edits)
    assert bool(edits) == bool(changes)
    assert [(key, new, old) for key, old, new in edits] == edits_between(after, before)


@given(st.lists(st.sampled_from(FREE), unique_by=lambda change: change[0][:2]), st.sampled_from(FIXED))
def test_one_of_the_others_is_enough_to_be_refused_by_name(changes: list[Change], fixed: Change) -> None:
    kept = [change for change in changes if change[0][0] not in ("islands", fixed[0][0])]
    with pytest.raises(RunMismatch) as refused:
        edits_between(edited(), edited(*kept, fixed))
    said = str(refused.value)
    assert str(fixed[0][0]) in said
    assert "--fresh" in said
    assert "fork" in said
    named = [line.strip().partition(":")[0] for line in said.splitlines() if " -> " in line]
    assert all(
        str(change[0][0]) == fixed[0][0] or not any(n.startswith(str(change[0][0])) for n in named) for change in kept
    )


def test_an_axis_that_nothing_measures_may_be_put_right() -> None:
    axes = "islands.one.niches.axes."
    old = edited() | {f"{axes}registres": [1.0]}
    assert edits_between(old, edited() | {f"{axes}spills": [1.0]}) == [
        (f"{axes}registres", [1.0], None),
        (f"{axes}spills", [1.0, 16.0], [1.0]),
    ]
    with pytest.raises(RunMismatch):
        edits_between(old, edited() | {"islands.two.b.niches.axes.spills": [1.0]})


def test_every_setting_was_thought_of() -> None:
    assert {str(path[0]) for path, _ in FREE + FIXED} | {"device", "language"} == set(RunConfig.model_fields)
