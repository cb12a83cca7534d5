"""What islands do for operators that ask a model: choosing by gain, ladders, strangers, insights, repairs."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Mode, Stage, Status
from evokernel.records.fitness import Elite, Fitness
from evokernel.records.llm import Insight, InsightKind, KnownInsight
from evokernel.records.step import ContextNeed, Failure, OperatorRecord, StepResult
from evokernel.records.timing import Timing, Verdict
from evokernel.testing.scripted import ScriptedTransport
from islands.assignment import RUNG, assignment_for, ladder
from islands.failures import KEPT, WARNINGS, FailureLog, error_class
from islands.history import History
from islands.insights import LESSON_TRIALS, STRATEGY_TRIES, Insights
from islands.operator_choosers import CHOOSERS, ByGain
from islands.plan_rank import kept_share, ranked_plans
from tests.support.model_operators import ToyModelOperator

TIMING = Timing("w", "torch", 1.0, 10.0, 20.0, 0.7, 0.01, 10, Verdict.FASTER)


def elite(name: str, fitness: float, skeleton: str = "s") -> Elite:
    return Elite(Candidate(f"// {name}", "cpp"), Fitness(fitness, fitness), {}, 1, name, skeleton)


def failure(name: str, *parents: str, operator: str = "mutate") -> Failure:
    candidate = Candidate(f"// {name}", "cpp")
    key = EvaluationKey(name, "t", "d", "e", "1", Mode.WORKER, Fidelity.QUICK)
    return Failure(candidate, Evaluation(key, candidate.id, Status.NUMERICAL, Stage.SMOKE), operator, name, parents)


# ------------------------------------------------------------------------------------------------ choosing


@pytest.mark.parametrize("kind", CHOOSERS)
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0.01, 10), min_size=1),
    st.dictionaries(
        st.sampled_from("abcdef"), st.builds(OperatorRecord, st.integers(1, 50), st.floats(0, 5), st.floats(0, 10))
    ),
    st.integers(0, 999),
)
def test_every_chooser_orders_all_operators(
    kind: str, shares: dict[str, float], records: dict[str, OperatorRecord], seed: int
) -> None:
    order = CHOOSERS[kind]().order(shares, records, np.random.default_rng(seed))
    assert sorted(order) == sorted(shares)


def first_choices(records: dict[str, OperatorRecord], names: str) -> list[str]:
    shares = dict.fromkeys(names, 1.0)
    return [ByGain().order(shares, records, np.random.default_rng(seed))[0] for seed in range(300)]


def test_what_gains_most_for_its_cost_is_chosen_and_others_now_and_then() -> None:
    records = {
        "cheap": OperatorRecord(40, 2.0, 0.1),
        "dear": OperatorRecord(40, 4.0, 10.0),
        "idle": OperatorRecord(40, 0.0, 0.1),
    }
    chosen = first_choices(records, ["cheap", "dear", "idle"])  # type: ignore[arg-type]
    assert chosen.count("cheap") > 200
    assert {"dear", "idle"} <= set(chosen)


def test_what_was_never_asked_comes_first() -> None:
    records = {"known": OperatorRecord(40, 2.0, 0.1)}
    assert first_choices(records, ["known", "new"]).count("new") > 200  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ parents


@given(st.lists(st.floats(-4, 4), min_size=1, max_size=20), st.integers(2, 5))
def test_a_ladder_ascends_by_clear_steps_to_its_top(values: list[float], length: int) -> None:
    elites = [elite(str(index), value) for index, value in enumerate(values)]
    top = max(elites, key=lambda e: e.fitness.value)
    rungs = ladder(elites, top, length=length)
    if not rungs:
        assert all(value > top.fitness.value - RUNG for value in values)
        return
    heights = [rung.fitness.value for rung in rungs]
    assert rungs[-1] is top
    assert 2 <= len(rungs) <= length
    assert all(after - before >= RUNG - 1e-9 for before, after in itertools.pairwise(heights))


# ------------------------------------------------------------------------------------------------ words


def told(insights: Insights, seq: int, kind: InsightKind, *, candidate: str = "", island: str = "one") -> None:
    insights.add(seq, Insight(kind, f"title {seq}", "text", candidate), island=island)


def plan(seq: int, predicted: float, text: str, *gains: float | None) -> KnownInsight:
    return KnownInsight(seq, "one", Insight(InsightKind.STRATEGY, text, text, "k", predicted), gains)


def test_the_next_plan_is_picked_by_a_rule_that_measured_gains_have_calibrated() -> None:
    bold, safe, other = plan(1, 4.0, "use wide loads"), plan(2, 1.2, "use wide stores"), plan(3, 1.1, "split the sum")
    waiting = [other, safe, bold]
    assert kept_share(waiting) == 1
    assert ranked_plans(waiting, waiting, rule="mean")[0] is bold
    known = [*waiting, plan(4, 3.0, "use wide loads now", None, -0.1, 0.05, 1.0, None)]
    assert 0.15 < kept_share(known) < 0.35
    assert [ranked_plans(waiting, known, rule=rule)[0] for rule in ("mean", "floor", "novel")] == [bold, other, other]


def test_a_surprise_after_a_tiny_prediction_does_not_turn_the_order_by_floor() -> None:
    waiting = [plan(1, 2.0, "use wide loads"), plan(2, 1.02, "split the sum")]
    known = [*waiting, plan(3, 1.01, "unroll the loop", 0.3)]
    assert ranked_plans(waiting, known, rule="floor") == waiting
    lost = [*known, plan(4, 2.5, "use wide stores", None, None, None)]
    assert ranked_plans(waiting, lost, rule="floor") == waiting[::-1]


@pytest.mark.parametrize(("plans", "chosen"), [("newest", 2), ("mean", 1), ("novel", 2)])
def test_the_rule_for_plans_decides_the_assignment(plans: str, chosen: int) -> None:
    history, first = History(), elite("first", 0.5)
    history.elites[first.candidate.id], history.best = first, first
    for seq, predicted in ((1, 2.0), (2, 1.1)):
        idea = Insight(InsightKind.STRATEGY, f"idea {seq}", "text", first.candidate.id, predicted)
        history.insights.add(seq, idea, island="one")
    work = assignment_for(
        ToyModelOperator("implement", ScriptedTransport(lambda request: ""), ContextNeed.STRATEGY),
        first,
        island="one",
        history=history,
        repairable=(),
        rng=np.random.default_rng(0),
        plans=plans,
    )
    assert work is not None
    assert work.insights == (chosen,)


def test_a_lesson_is_told_while_gains_bear_it_out() -> None:
    insights = Insights()
    told(insights, 1, InsightKind.LESSON)
    for _ in range(LESSON_TRIALS - 1):
        insights.used([1], -0.1)
    assert [known.seq for known in insights.for_parent("one", "")] == [1]
    insights.used([1], None)
    assert insights.for_parent("one", "") == []
    insights.used([1], 0.2)
    assert [known.seq for known in insights.for_parent("one", "")] == [1]
    assert insights.for_parent("two", "") == []


def test_a_diagnosis_goes_with_its_kernel_and_the_newest_counts() -> None:
    insights = Insights()
    for seq in (1, 2):
        told(insights, seq, InsightKind.DIAGNOSIS, candidate="k")
    assert [known.seq for known in insights.for_parent("two", "k")] == [2]
    assert insights.for_parent("two", "other") == []


def test_a_strategy_is_open_until_it_gained_or_failed_too_often() -> None:
    insights = Insights()
    for seq in (1, 2, 3):
        told(insights, seq, InsightKind.STRATEGY)
    assert [known.seq for known in insights.open_strategies("one")] == [3, 2, 1]
    insights.used([3], 0.4)
    for _ in range(STRATEGY_TRIES):
        insights.used([2], None)
    assert [known.seq for known in insights.open_strategies("one")] == [1]
    assert [known.seq for known in insights.strategies("one")] == [1, 3]


# ------------------------------------------------------------------------------------------------ failures


def test_a_line_of_repairs_ends_after_so_many_tries() -> None:
    failures = FailureLog()

    def repairable() -> list[Failure]:
        return failures.repairable({"mutate", "repair"}, repairs=2)

    failures.add(failure("first"))
    first = repairable()[0].candidate.id
    failures.begin_repair([first])
    assert repairable() == []
    failures.add(failure("second", first, operator="repair"))
    second = repairable()[0].candidate.id
    assert repairable()[0].tries == 1
    failures.add(failure("third", second, operator="repair"))
    assert [each.candidate.id for each in repairable()] == [second]
    failures.count_try([second])
    assert repairable() == []


def test_failures_of_rules_are_told_and_not_repaired() -> None:
    failures = FailureLog()
    failures.add(failure("by rule", "p", operator="rewrite"))
    assert failures.repairable({"mutate"}, repairs=2) == []
    assert len(failures.warnings(["p"])) == 1


@pytest.mark.parametrize(
    ("said", "other"),
    [
        ("a.cpp:3:5: error: 'foo' was not declared", "k.cpp:90:1: note: x\nk.cpp:91:2: error: 'bar9' was not declared"),
        ("on 40x30: 17 of 1200 elements are wrong", "on 7x9: 2 of 63 elements are wrong\nfirst at 3"),
        ("", ""),
        (
            "k.o: in function run: undefined reference to `foo'\ncollect2: error: ld returned 1 exit status",
            "k.o: in function run: undefined reference to `other'\ncollect2: error: ld returned 1 exit status",
        ),
    ],
)
def test_an_error_has_a_class_that_others_share(said: str, other: str) -> None:
    first, second = (replace(failure("f").evaluation, feedback=text) for text in (said, other))
    assert error_class(first) == error_class(second) != error_class(replace(first, feedback="out of memory"))
    assert error_class(first) != error_class(replace(first, status=Status.DEVICE_FAULT))


def test_a_fix_is_shown_to_those_who_mend_the_same_class_of_error_newest_first() -> None:
    history = History()

    def judge(seq: int, feedback: str, *, parents: tuple[str, ...] = (), right: bool = False) -> str:
        made = elite(f"source {seq}", 0.0) if right else None
        candidate = made.candidate if made else Candidate(f"// source {seq}", "cpp")
        verdict = {"status": Status.OK, "timings": (TIMING,)} if right else {"feedback": feedback}
        evaluation = replace(failure("f").evaluation, **verdict)
        proposal = Proposal(candidate, seq, "one", "repair" if parents else "mutate", 0, parents=parents)
        history.learn(StepResult(seq, proposal, seq, "one", proposal.operator, parents, evaluation, elite=made))
        return candidate.id

    for seq in range(0, 8, 2):
        wrong = judge(seq, f"{seq} of 9 elements are wrong")
        judge(seq + 1, "", parents=(wrong,), right=True)
    judge(20, "", parents=(judge(10, "another error"),), right=True)
    judge(30, "a right child of a right kernel", parents=(judge(31, "", right=True),), right=True)
    again = history.failures.get(judge(40, "5 of 9 elements are wrong"))
    unheard = history.failures.get(judge(41, "never seen"))
    assert again is not None
    assert unheard is not None
    shown = history.failures.fixes_for(again)
    assert [(fix.broken, fix.mended) for fix in shown] == [
        ("// source 6\n", "// source 7\n"),
        ("// source 4\n", "// source 5\n"),
    ]
    assert shown[0].feedback == "6 of 9 elements are wrong"
    assert history.failures.fixes_for(unheard) == ()
    assert len(history.failures.fixes) == 5
    history.bar("source 7")
    assert [fix.mended for fix in history.failures.fixes_for(again)] == ["// source 5\n", "// source 3\n"]


def test_a_change_is_idle_until_it_gives_new_machine_code_and_its_kind_loses_credit() -> None:
    history, parent = History(), elite("parent", 0.0)
    history.elites[parent.candidate.id] = parent

    def judge(seq: int, **metrics: float) -> int:
        made = elite(f"source {seq}", 0.0)
        evaluation = replace(failure("f").evaluation, status=Status.OK, timings=(TIMING,), metrics=metrics)
        change, parents = "restrict: a, b", (parent.candidate.id,)
        proposal = Proposal(made.candidate, seq, "one", "rewrite", 0, parents=parents, rationale=change)
        history.learn(StepResult(seq, proposal, seq, "one", "rewrite", parents, evaluation, elite=made))
        return history.idle[change]

    assert [judge(2), judge(3, twin=1.0), judge(4, twin=1.0)] == [0, 1, 2]
    credit = history.credit["restrict"]
    assert judge(5) == 0
    assert credit == pytest.approx(1 / 5 * 2 / 4)  # none of three was faster, and two had known machine code


def test_a_new_tunable_is_tuned_though_its_first_value_changes_nothing() -> None:
    def trials(source: str) -> tuple[int, int]:
        """Return the tuning trials of a kernel with its parent's machine code, and how often its kind was idle."""
        history, parent, made = History(), elite("parent", 0.0), elite("child", 0.0, skeleton="new")
        history.elites[parent.candidate.id] = replace(parent, candidate=Candidate("int A = 1;  // tune: 1 2\n", "cpp"))
        made = replace(made, candidate=Candidate(source, "cpp"))
        evaluation = replace(failure("f").evaluation, status=Status.OK, timings=(TIMING,), metrics={"twin": 1.0})
        parents = (parent.candidate.id,)
        proposal = Proposal(made.candidate, 1, "one", "rewrite", 0, parents=parents, rationale="hints: b")
        history.learn(StepResult(1, proposal, 1, "one", "rewrite", parents, evaluation, elite=made))
        return len(history.to_tune()), history.without_effect["hints"]

    assert trials("int A = 1;  // tune: 1 2\nint B = 1;  // tune: 1 2\n") == (1, 0)
    assert trials("int A = 1;  // tune: 1 2\n// the same\n") == (0, 1)


@given(st.lists(st.sampled_from("pqr"), max_size=3 * KEPT))
def test_only_so_many_failures_are_kept_and_told_those_of_the_parents_last(parents: list[str]) -> None:
    failures = FailureLog()
    for index, parent in enumerate(parents):
        failures.add(failure(str(index), parent))
    warnings = failures.warnings(["p"])
    own = ["p" in each.parents for each in warnings]
    assert len(warnings) == min(WARNINGS, len(parents))
    assert own == sorted(own)
    assert len(failures.repairable({"mutate"}, repairs=1)) == len(failures.by_id) == min(KEPT, len(parents))


def test_models_are_not_asked_about_what_is_far_behind() -> None:
    history = History(best=elite("best", 0.0))
    assert history.best is not None
    near = history.near([elite("far", -3.0), elite("near", -1.0), history.best])
    assert [e.fitness.value for e in near] == [-1.0, 0.0]
    assert History().near([elite("first", -5.0)]) != []
