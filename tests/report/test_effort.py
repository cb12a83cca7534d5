"""What operators and models gave and cost, and how a proposal was made."""

import math
from pathlib import Path

import pytest

from archive.fork import fork
from archive.hints import hints_in_force
from archive.store import Store
from archive.views.effort import best_gains
from evokernel.records.candidate import Usage
from evokernel.records.evaluation import Fidelity
from evokernel.records.llm import CallStatus, Insight, InsightKind
from evokernel.report.lineage import portrait, story
from evokernel.report.status import RunStatus, read_status
from tests.support.stores import StoreBuilder

PLAN = Insight(InsightKind.STRATEGY, "pack b", "Pack B into panels.", predicted_speedup=2.0)


@pytest.fixture
def asked(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A run in which two models were asked; return its store, and ids by name."""
    with StoreBuilder(tmp_path / "a.db") as builder:
        seed = builder.seed(speedup=1.0)
        builder.call(operator="plan", model="large", cost_usd=0.5)
        plan = builder.insight(PLAN)
        hint = builder.say("hint", {"text": "use panels of 8", "island": "builders"})
        builder.call(status=CallStatus.FAILED, cost_usd=0.0)
        builder.call(text="code")
        good = builder.add(
            "// good\n",
            speedup=3.0,
            parents=(seed,),
            operator="mutate",
            rationale="mutate: packed",
            usage=Usage("small", 200, 100, 0.25),
            predicted_speedup=2.0,
            insights=(plan,),
        )
        builder.call()
        wrong = builder.add("// wrong\n", speedup=None, parents=(good,), operator="mutate")
        builder.call(status=CallStatus.TRUNCATED)
        builder.nothing("unusable: no code", exhausted=False)
        builder.nothing("nothing left", operator="rewrite")
        builder.add("// ruled\n", speedup=3.3, parents=(good,), operator="rewrite")
        builder.add("// old\n", speedup=1.5, parents=(seed,), operator="older", usage=Usage("gone", 10, 5, 0.125))
        builder.call(status=None, operator="draft")
        assert hint
    return tmp_path / "a.db", {"seed": seed, "good": good, "wrong": wrong}


def status_of(path: Path) -> RunStatus:
    with Store.open(path, write=False) as store:
        return read_status(store)


def test_operators(asked: tuple[Path, dict[str, str]]) -> None:
    rows = {row.name: row for row in status_of(asked[0]).operators}
    mutate, plan, draft = rows["mutate"], rows["plan"], rows["draft"]
    assert (mutate.results, mutate.correct, mutate.unusable, mutate.barren) == (2, 1, 1, 0)
    assert mutate.validity == pytest.approx(1 / 3)
    assert (mutate.calls, mutate.tokens, mutate.cost_usd) == (4, 1200, 0.75)
    assert mutate.best_gain == pytest.approx(3.0)
    assert (plan.insights, plan.results, plan.barren, plan.validity, plan.cost_usd) == (1, 0, 0, None, 0.5)
    assert (draft.calls, draft.tokens, draft.cost_usd, draft.best_gain) == (1, 1000, 1.0, None)
    assert (rows["rewrite"].barren, rows["rewrite"].validity, rows["rewrite"].calls) == (1, 1.0, 0)
    assert rows["rewrite"].best_gain == pytest.approx(1.1)
    assert (rows["older"].tokens, rows["older"].cost_usd) == (15, 0.125)


def test_models(asked: tuple[Path, dict[str, str]]) -> None:
    rows = {row.name: row for row in status_of(asked[0]).models}
    assert set(rows) == {"small", "large", "gone"}
    small = rows["small"]
    assert (small.calls, small.failed, small.open, small.tokens, small.cost_usd) == (5, 1, 1, 2200, 1.75)
    assert (small.results, small.correct, small.unusable, small.insights) == (2, 1, 1, 0)
    assert small.validity == pytest.approx(1 / 3)
    assert (rows["large"].calls, rows["large"].insights, rows["large"].validity) == (1, 1, None)
    assert (rows["gone"].calls, rows["gone"].results, rows["gone"].cost_usd) == (0, 1, 0.125)


def test_what_rows_cost_is_what_the_run_spent(asked: tuple[Path, dict[str, str]]) -> None:
    status = status_of(asked[0])
    for rows in (status.operators, status.models):
        assert sum(row.cost_usd for row in rows) == status.spent.cost_usd == 2.375
        assert sum(row.tokens for row in rows) == status.spent.tokens == 2515
        assert sum(row.calls for row in rows) == status.spent.calls == 6
    steps = sum(row.results + row.insights + row.barren + row.unusable for row in status.operators)
    assert (steps, status.insights) == (status.spent.steps, 1)


def test_a_fork_owes_nothing_for_what_it_brought(asked: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    path, ids = asked
    fork(path, tmp_path / "b.db", candidate=ids["good"])
    status = status_of(tmp_path / "b.db")
    assert {row.name: (row.results, row.cost_usd) for row in status.models} == {"small": (1, 0.0)}
    assert {row.name: row.cost_usd for row in status.operators} == {"seed": 0.0, "mutate": 0.0}


def test_gains_are_those_the_story_tells(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        seed = builder.seed(speedup=1.0)
        first = builder.add("// first\n", speedup=2.0, parents=(seed,))
        lucky = builder.add("// lucky\n", speedup=9.0, parents=(first,))
        store, candidate = builder.store, builder.store.candidate(lucky).candidate
        store.add_evaluation(builder.evaluation(candidate, speedup=5.0, budget=Fidelity.PRECISE))
        store.add_evaluation(builder.evaluation(candidate, speedup=8.0))  # the longer measurement speaks
        assert best_gains(store)["rewrite"] == pytest.approx(2.5)
        assert story(store, lucky)[-1].gain == pytest.approx(2.5)
        builder.final(lucky, speedup=None)
        assert best_gains(store)["rewrite"] == pytest.approx(2.0)


def test_a_proposal_knows_what_it_was_made_with(asked: tuple[Path, dict[str, str]]) -> None:
    path, ids = asked
    with Store.open(path, write=False) as store:
        found, chapters = portrait(store, ids["good"]), story(store, ids["good"])
    made = found.making
    assert (made.model, made.calls, made.tokens, made.cost_usd) == ("small", 2, 600, 0.25)
    assert [insight for _, insight in made.insights] == [PLAN]
    assert [hint.text for hint in made.hints] == ["use panels of 8"]
    assert found.gain == pytest.approx(3.0)
    assert (chapters[1].making, chapters[1].predicted) == (made, 2.0)
    assert (chapters[0].making.model, chapters[0].making.hints, chapters[0].predicted) == ("", (), None)


def test_a_step_that_nobody_answered_is_no_reply_that_cannot_be_used(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.nothing("not asked: budget of $1 used", exhausted=False)
        builder.call(status=CallStatus.FAILED)
        builder.nothing("not answered: no model", exhausted=False)
        for status in (CallStatus.REFUSED, CallStatus.EMPTY, CallStatus.OK):
            builder.call(status=status)
            builder.nothing("unusable", exhausted=False)
        (row,) = read_status(builder.store).operators
    assert (row.name, row.barren, row.unusable, row.validity) == ("mutate", 2, 3, 0.0)


def test_who_answers_without_a_name_is_counted_too(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.call(model="", cost_usd=0.0)
        made = builder.add("// made\n", speedup=1.0, operator="mutate")
        (row,) = read_status(builder.store).models
        assert portrait(builder.store, made).making.model == "unnamed"
    assert (row.name, row.calls, row.results) == ("unnamed", 1, 1)


def test_hints_are_in_force_from_their_seq_on(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        first = builder.say("hint", {"text": "one"})
        builder.say("hint", {"text": "two", "island": "tuners"})
        builder.say("hint", "no object")
        builder.say("hint", {"text": " "})
        builder.say("pin", {"candidate": "0", "text": "not a hint"})
        last = builder.say("hint", {"text": " three "}, author="you")
        builder.store.inbox_put(tmp_path / "a.db", "hint", {"text": "waits"})

        def texts(until: int | None = None, island: str | None = None) -> list[str]:
            return [hint.text for hint in hints_in_force(builder.store, until=until, island=island)]

        assert texts() == ["one", "two", "three"]
        assert texts(island="builders") == ["one", "three"]
        assert texts(island="tuners") == texts()
        assert texts(until=first - 1) == []
        assert texts(until=last - 1) == ["one", "two"]
        *_, hint = hints_in_force(builder.store)
        assert (hint.seq, hint.author, hint.island) == (last, "you", "*")


def test_pairs_of_operator_and_model_tell_what_was_gained_for_what(asked: tuple[Path, dict[str, str]]) -> None:
    rows = {(row.operator, row.model): row for row in status_of(asked[0]).pairs}
    assert set(rows) == {("plan", "large"), ("mutate", "small"), ("rewrite", ""), ("older", "gone")}
    mutate, rule = rows["mutate", "small"], rows["rewrite", ""]
    assert (mutate.tries, mutate.correct, mutate.tokens) == (3, 1, 1200)
    assert mutate.gain == pytest.approx(math.log(3))
    assert mutate.gain_per_dollar == pytest.approx(math.log(3) / mutate.cost_usd)
    assert (rule.tries, rule.cost_usd, rule.gain_per_dollar) == (2, 0, None)
    assert rule.gain_per_device_hour == pytest.approx(3600 * math.log(1.1) / rule.device_s)


def test_predicted_gains_are_held_against_measured_ones(asked: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    found = status_of(asked[0]).predicted
    assert (found.results, found.kept_share) == (1, pytest.approx(math.log(3) / math.log(2)))
    with StoreBuilder(tmp_path / "b.db") as builder:
        seed = builder.seed(speedup=1.0)
        builder.call()
        for number, speedup in enumerate((2.0, 0.5, None)):
            usage = Usage("small", 200, 100, 0.0)
            builder.add(
                f"// {number}\n",
                speedup=speedup,
                parents=(seed,),
                usage=usage,
                operator="mutate",
                predicted_speedup=4.0,
            )
    found = status_of(tmp_path / "b.db").predicted
    assert (found.results, found.kept_share) == (3, pytest.approx(1 / 6))


def test_the_gain_of_a_repair_is_over_the_parent_of_what_failed(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        seed = builder.seed(speedup=1.0)
        broken = builder.add("// broken\n", speedup=None, parents=(seed,), operator="mutate")
        again = builder.add("// again\n", speedup=None, parents=(broken,), operator="repair")
        builder.call(operator="repair")
        builder.add("// mended\n", speedup=2.0, parents=(again,), operator="repair")
    (mended,) = [row for row in status_of(tmp_path / "a.db").pairs if (row.operator, row.model) == ("repair", "small")]
    assert (mended.correct, mended.gain) == (1, pytest.approx(math.log(2)))
