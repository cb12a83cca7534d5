import re

import pytest

from evokernel.config.run import BudgetConfig
from evokernel.engine.stoppers import LIMITS, stopper_from
from evokernel.records.run import Progress

START = Progress(0, 0.0, 0.0, 0, 0.0, None)


@pytest.mark.parametrize(
    ("budget", "before", "after", "words"),
    [
        ({"evaluations": 10}, Progress(9, 0, 0, 0, 1, None), Progress(10, 0, 0, 0, 1, None), "10 evaluations"),
        ({"hours": 0.5}, Progress(0, 1799, 0, 0, 1, None), Progress(0, 1800, 0, 0, 1, None), "0.5 h"),
        ({"dollars": 2, "hours": 9}, Progress(0, 0, 1.99, 0, 1, None), Progress(0, 0, 2.0, 0, 1, None), r"\$2"),
        ({"plateau": 5}, Progress(90, 0, 0, 4, 1, None), Progress(90, 0, 0, 5, 1, None), "no better kernel in 5"),
        ({"roofline": 0.8, "hours": 9}, Progress(0, 0, 0, 0, 1, 0.79), Progress(0, 0, 0, 0, 1, 0.8), "80%"),
    ],
)
def test_each_rule_speaks_exactly_at_its_limit(
    budget: dict[str, float], before: Progress, after: Progress, words: str
) -> None:
    stopper = stopper_from(BudgetConfig.model_validate(budget))
    assert stopper.reason(START) is None
    assert stopper.reason(before) is None
    reason = stopper.reason(after)
    assert reason is not None
    assert re.search(words, reason)


def test_the_first_limit_ends_the_run_and_the_nearest_one_tells_what_is_left() -> None:
    stopper = stopper_from(BudgetConfig(evaluations=100, hours=1, plateau=50))
    progress = Progress(50, 2700, 0.0, 3, 1.0, None)
    assert stopper.reason(progress) is None
    assert stopper.remaining(progress) == pytest.approx(0.25)


def test_every_setting_of_a_budget_has_a_limit() -> None:
    assert [*LIMITS, "stoppers", "when_spent"] == list(BudgetConfig.model_fields)
