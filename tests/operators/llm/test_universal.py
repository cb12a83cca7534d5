"""What `universal` is told depends on the state of its parent."""

from dataclasses import replace

import pytest

from evokernel.records.evaluation import Status
from evokernel.records.llm import InsightKind
from evokernel.records.step import Attempt, Context, ContextNeed, LookKind
from operators.llm.operator import TemplateOperator
from operators.llm.parent_state import PLATEAU, parent_state
from operators.llm.templates import load_templates
from tests.operators.llm.specimen import for_operator, gpu

SIGNS = {
    "the broken kernel": "### The broken kernel",
    "other kernels": "## Other good kernels",
    "machine facts": "Compiled code:",
    "tried": "## Already tried",
}
"""By what a prompt can hold, the words by which it is known."""


def context(state: str) -> Context:
    base = for_operator(gpu(), "universal", parents=1, wants=frozenset({ContextNeed.STATE}))
    lessons = tuple(known for known in base.insights if known.insight.kind is InsightKind.LESSON)
    match state:
        case "failure":
            return replace(base, broken=gpu().broken, parents=(), insights=lessons)
        case "plateau":
            lost = Attempt("mutate: wider", base.parents[0].candidate.id, -0.1, Status.OK)
            return replace(base, attempts=(lost,) * PLATEAU)
        case "bottleneck":
            return replace(base, attempts=())
    return replace(base, attempts=(), insights=lessons)


@pytest.mark.parametrize(
    ("state", "held"),
    [
        ("failure", {"the broken kernel"}),
        ("plateau", {"other kernels", "tried"}),
        ("bottleneck", {"machine facts", "tried"}),
        ("unprofiled", {"tried"}),
    ],
)
def test_the_state_of_the_parent_decides_what_a_prompt_holds(state: str, held: set[str]) -> None:
    given = context(state)
    assert parent_state(given) == state
    universal = TemplateOperator(load_templates()["universal"], prompt_tokens=100_000)
    text = universal.prompt(given).messages[1].text
    assert {name for name, sign in SIGNS.items() if sign in text} == held
    assert "LOOK:" not in text
    offered = universal.prompt(replace(given, looks=(LookKind.PROFILE, LookKind.DIFF))).messages[1].text
    assert "LOOK: one of these: profile, diff" in offered
