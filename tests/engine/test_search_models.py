"""The loop with operators that ask a model: lineage, words, replies of no use, budgets, kills, people."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from archive.hints import hints_in_force
from archive.journal import EmptyStep, InsightEntry, ResultEntry
from archive.store import Store
from evokernel.errors import BudgetSpent, ModelsUnavailable
from evokernel.llm.recordings import RecordedTransport, ReplyRecording, write_recording
from evokernel.protocols import LanguageModel, Operator
from evokernel.records.llm import CallStatus, ModelRequest, Reply
from evokernel.records.step import ContextNeed
from evokernel.testing.scripted import ScriptedTransport
from tests.support.engine import ASKING, Heard, toy_search
from tests.support.fakes import TOY, InstantEvaluator
from tests.support.model_operators import ToyModelOperator
from tests.support.model_search import config_of, facts, mutate, run, same_after_replay, upwards


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "toy.db"


def test_a_reply_becomes_a_judged_candidate_with_its_lineage(path: Path) -> None:
    def script(request: ModelRequest) -> str:
        return "A=8 B=4" if request.origin.step == 2 else upwards(request)

    reason, search, operators = run(path, script, budget={"evaluations": 6})
    assert reason == "budget of 6 evaluations used"
    assert search.account.best_speedup == pytest.approx(1.0)
    told = [fact for fact in facts(path, ResultEntry) if fact.proposal.operator == "mutate"]
    assert told[0].proposal.rationale.startswith("mutate: A=")
    assert told[0].proposal.predicted_speedup == 1.5
    assert told[0].proposal.usage.model == "scripted"
    assert len(told[0].proposal.parents) == 1
    with Store.open(path, write=False) as store:
        calls = list(store.calls.all())
        assert {call.call.origin.step for call in calls} >= {fact.step for fact in told}
        assert store.spent().calls == len(calls)
        assert store.verify() == []
    assert same_after_replay(path, search, operators, budget={"evaluations": 6})


def test_a_reply_of_no_use_is_a_row_with_its_reason_and_the_operator_is_asked_again(path: Path) -> None:
    def script(request: ModelRequest) -> str:
        return "I am sorry" if request.origin.step < 5 else upwards(request)

    _, search, operators = run(path, script, budget={"evaluations": 4})
    no_candidate = [fact.no_candidate for fact in facts(path, EmptyStep)]
    assert {each.reason for each in no_candidate if each.step < 5} == {"no values in the reply"}
    assert not any(each.exhausted for each in no_candidate)
    assert search.account.results == 4
    assert same_after_replay(path, search, operators, budget={"evaluations": 4})


def test_the_same_kernel_twice_is_of_no_use(path: Path) -> None:
    _, search, _ = run(path, lambda request: "A=2 B=2", budget={"evaluations": 9})
    assert search.account.results == 2  # the seed and one
    assert all("known already" in fact.no_candidate.reason for fact in facts(path, EmptyStep))


def test_models_that_say_nothing_of_use_are_asked_no_more(path: Path) -> None:
    heard, replies = Heard(), itertools.cycle(["hello", "A=1 B=1"])  # nothing, and a kernel that is known
    reason, _, _ = run(path, lambda request: next(replies), heard=heard, budget={"evaluations": 500})
    assert reason == "none of the last 40 replies of models gave a new kernel"
    assert any("models are asked no more" in note for note in heard.notes)
    with Store.open(path, write=False) as store:
        assert store.spent().calls <= 40 + ASKING


def test_words_are_kept_and_what_was_made_with_them_is_counted(path: Path) -> None:
    def make(model: LanguageModel) -> dict[str, Operator]:
        return {
            "plan": ToyModelOperator("plan", model, ContextNeed.STRATEGIES),
            "implement": ToyModelOperator("implement", model, ContextNeed.STRATEGY),
        }

    def script(request: ModelRequest) -> str:
        return "strategy: larger tiles" if request.origin.operator == "plan" else upwards(request)

    _, search, operators = run(path, script, make, budget={"evaluations": 8})
    learned = facts(path, InsightEntry)
    assert learned[0].insight.text == "larger tiles"
    implemented = [fact.proposal for fact in facts(path, ResultEntry) if fact.proposal.operator == "implement"]
    assert implemented
    assert all(set(proposal.insights) <= {fact.seq for fact in learned} for proposal in implemented)
    assert all(proposal.insights for proposal in implemented)
    assert any(known.gains for known in search.state.archipelago.history.insights.all.values())
    assert same_after_replay(path, search, operators, budget={"evaluations": 8})


def test_a_failed_kernel_is_given_back_so_many_times_in_a_line(path: Path) -> None:
    def make(model: LanguageModel) -> dict[str, Operator]:
        return {
            "mutate": ToyModelOperator("mutate", model),
            "repair": ToyModelOperator("repair", model, ContextNeed.BROKEN, parents=0),
        }

    def script(request: ModelRequest) -> str:
        step = request.origin.step
        if request.origin.operator == "repair":
            return f"A=16 B={1 + step % 4}" if step < 14 else "A=8 B=4"
        return f"A=16 B={1 + step % 4}" if step < 4 else upwards(request)

    _, search, operators = run(path, script, make, budget={"evaluations": 14}, repairs=2)
    repairs = [fact.proposal for fact in facts(path, ResultEntry) if fact.proposal.operator == "repair"]
    by_id = {fact.proposal.candidate.id: fact.proposal for fact in facts(path, ResultEntry)}

    def depth(proposal: Any) -> int:
        (mended,) = proposal.parents
        return 1 + (depth(by_id[mended]) if by_id[mended].operator == "repair" else 0)

    assert repairs
    assert max(map(depth, repairs)) <= 2
    assert all(context.broken is not None for context in operators["repair"].seen)  # type: ignore[attr-defined]
    assert same_after_replay(path, search, operators, budget={"evaluations": 14}, repairs=2)


def test_who_mends_an_error_sees_how_the_same_one_was_mended_before(path: Path) -> None:
    def make(model: LanguageModel) -> dict[str, Operator]:
        return {
            "mutate": ToyModelOperator("mutate", model),
            "repair": ToyModelOperator("repair", model, ContextNeed.BROKEN, parents=0),
        }

    def script(request: ModelRequest) -> str:
        wrong = request.origin.operator == "mutate" and request.origin.step % 2
        return f"A=16 B={1 + request.origin.step % 6}" if wrong else upwards(request)

    _, search, operators = run(path, script, make, budget={"evaluations": 14})
    seen = operators["repair"].seen  # type: ignore[attr-defined]
    assert not seen[0].fixes
    assert seen[-1].fixes
    sources = {fact.proposal.candidate.source: fact.evaluation.ok for fact in facts(path, ResultEntry)}
    for fix in search.state.archipelago.history.failures.fixes:
        assert (sources[fix.broken], sources[fix.mended]) == (False, True)
    assert same_after_replay(path, search, operators, budget={"evaluations": 14})


def test_a_spent_budget_ends_the_run_with_its_reason(path: Path) -> None:
    def script(request: ModelRequest) -> str:
        if request.origin.step > 4:
            raise BudgetSpent("budget of $5 used: $4.93 spent, the next call could cost $0.12")
        return upwards(request)

    reason, search, _ = run(path, script, rules=("tune",), budget={"evaluations": 50})
    assert reason.startswith("budget of $5 used")
    assert search.account.results >= 2
    with Store.open(path, write=False) as store:
        assert store.open_leases() == []
        left_out = store.missing_steps()
    assert left_out
    _, search, _ = run(path, upwards, rules=("tune",), budget={"evaluations": 50})
    with Store.open(path, write=False) as store:
        assert not set(left_out) & set(store.missing_steps())


def test_rules_go_on_when_the_money_is_used_where_the_budget_says_so(path: Path) -> None:
    def script(request: ModelRequest) -> str:
        raise BudgetSpent("budget of $5 used: $4.93 spent, the next call could cost $0.12")

    heard, budget = Heard(), {"evaluations": 10, "when_spent": "rules"}
    reason, search, _ = run(path, script, heard=heard, rules=("tune",), budget=budget)
    assert reason == "budget of 10 evaluations used"
    assert search.account.results == 10
    assert sum("asked no more, and the rules go on: budget of $5 used" in note for note in heard.notes) == 1


def test_a_search_whose_operators_all_ask_ends_when_the_money_is_used(path: Path) -> None:
    def script(request: ModelRequest) -> str:
        raise BudgetSpent("budget of $5 used")

    reason, _, _ = run(path, script, budget={"evaluations": 10, "when_spent": "rules"})
    assert reason == "budget of $5 used"


def test_without_any_model_that_answers_rules_go_on(path: Path) -> None:
    def script(request: ModelRequest) -> str:
        raise ModelsUnavailable("the key is wrong", final=True)

    heard = Heard()
    reason, search, _ = run(path, script, heard=heard, rules=("tune",), budget={"evaluations": 10})
    assert reason == "budget of 10 evaluations used"
    assert sum("models are asked no more to code for island one: the key is wrong" in n for n in heard.notes) == 1
    assert search.account.results == 10


def test_only_so_many_wait_for_a_model_while_rules_go_on(path: Path) -> None:
    waiting, most = 0, 0

    async def script(request: ModelRequest) -> str:
        nonlocal waiting, most
        waiting, most = waiting + 1, max(most, waiting + 1)
        for _ in range(30):
            await asyncio.sleep(0)
        waiting -= 1
        return upwards(request)

    run(path, script, rules=("tune",), budget={"evaluations": 15})
    assert most == ASKING
    assert {fact.proposal.operator for fact in facts(path, ResultEntry)} == {"seed", "mutate", "tune"}


def test_a_reply_that_was_written_down_is_not_paid_for_again_after_a_crash(path: Path) -> None:
    class Crash(BaseException):
        pass

    class Crashing(ToyModelOperator):
        def read(self, reply, prompt):  # the call is committed by then, the proposal is not
            if prompt.context.step == 3:
                raise Crash
            return super().read(reply, prompt)

    with pytest.raises(Crash):
        run(path, upwards, lambda model: {"mutate": Crashing("mutate", model)}, budget={"evaluations": 8})
    with Store.open(path, write=False) as store:
        paid = {(call.call.origin.step, call.call.ordinal) for call in store.calls.all()}
        assert 3 in {origin.step for origin in store.calls.interrupted()}
    _, search, operators = run(path, upwards, budget={"evaluations": 8})
    with Store.open(path, write=False) as store:
        calls = [(call.call.origin.step, call.call.ordinal) for call in store.calls.all()]
        assert len(calls) == len(set(calls))
        assert store.calls.interrupted() == []
        assert store.verify() == []
    assert (3, 0) in paid
    assert 3 in {fact.step for fact in facts(path, ResultEntry)}
    assert same_after_replay(path, search, operators, budget={"evaluations": 8})


def test_the_first_kernel_can_be_drafted(path: Path) -> None:
    def make(model: LanguageModel) -> dict[str, Operator]:
        return {"draft": ToyModelOperator("draft", model, parents=0), "mutate": ToyModelOperator("mutate", model)}

    _, search, _ = run(path, upwards, make, source="", budget={"evaluations": 6})
    first = facts(path, ResultEntry)[0].proposal
    assert (first.operator, first.parents) == ("draft", ())
    assert search.account.lead is not None


def answer_for(path: Path, reply: str, *, operator: str = "mutate", parent: int = 0) -> None:
    """Hand in an answer about the kernel of a result, counted from the seed's."""
    payload = {
        "operator": operator,
        "island": "one",
        "parents": [facts(path, ResultEntry)[parent].proposal.candidate.id],
        "insights": [],
        "prompt": [["user", "improve it"]],
        "reply": reply,
        "model": "a colleague",
    }
    Store.inbox_put(path, "answer", payload, author="ada")


def test_answers_from_elsewhere_are_judged_as_if_a_model_had_given_them(path: Path) -> None:
    run(path, None, handed_in_only=True)  # the seed alone
    for reply in ("A=8 B=4", "no idea", "strategy: go on"):
        answer_for(path, reply)
    answer_for(path, "A=1 B=1", operator="unknown")
    heard = Heard()
    reason, search, operators = run(path, None, heard=heard, handed_in_only=True)
    assert reason == "everything that was handed in is judged"
    told = [fact.proposal for fact in facts(path, ResultEntry) if fact.proposal.operator == "mutate"]
    assert [proposal.usage.model for proposal in told] == ["a colleague"]
    assert search.account.best_speedup == pytest.approx(1.0)
    assert [fact.no_candidate.reason for fact in facts(path, EmptyStep)] == ["no values in the reply"]
    assert [fact.insight.text for fact in facts(path, InsightEntry)] == ["go on"]
    assert any("was left alone" in note for note in heard.notes)
    assert same_after_replay(path, search, operators)
    before = len(facts(path, ResultEntry))
    run(path, None, handed_in_only=True)
    assert len(facts(path, ResultEntry)) == before
    with Store.open(path, write=False) as store:
        assert {call.result.status for call in store.calls.all() if call.result} == {CallStatus.OK}
        assert store.verify() == []


def test_an_answer_about_a_kernel_that_was_left_behind_is_used(path: Path) -> None:
    run(path, None, handed_in_only=True)  # the seed alone
    for number in range(1030):
        Store.inbox_put(path, "source", {"source": f"{TOY}// {number}\n"})
    run(path, None, handed_in_only=True)
    answer_for(path, "A=8 B=4", parent=100)
    _, search, operators = run(path, None, handed_in_only=True)
    (told,) = [fact.proposal for fact in facts(path, ResultEntry) if fact.proposal.operator == "mutate"]
    assert told.parents[0] not in search.state.archipelago.history.elites
    assert same_after_replay(path, search, operators)


def test_people_steer_by_hints_pins_and_bans(path: Path) -> None:
    run(path, upwards, budget={"evaluations": 6})
    with Store.open(path, write=False) as store:
        best = store.best(1)[0].candidate.candidate.id
        others = [fact.proposal.candidate.id for fact in store.facts() if isinstance(fact, ResultEntry)]
    other = next(name for name in others if name != best)
    Store.inbox_put(path, "hint", {"text": "try B = 4"}, author="ada")
    Store.inbox_put(path, "hint", {"text": "not here", "island": "two"})
    for number in range(10):
        Store.inbox_put(path, "hint", {"text": f"coder: {number}", "island": "one", "agent": "coder"}, author="coder")
    Store.inbox_put(path, "pin", {"candidate": other})
    Store.inbox_put(path, "ban", {"candidate": best})
    Store.inbox_put(path, "pin", {"candidate": "nonsense"})
    heard = Heard()
    _, search, operators = run(path, upwards, heard=heard, budget={"evaluations": 12})
    contexts = operators["mutate"].seen  # type: ignore[attr-defined]
    assert all(context.hints == ("try B = 4",) for context in contexts)
    newest = tuple(f"coder: {number}" for number in range(2, 10))
    assert all(context.agent_hints == newest for context in contexts)
    with Store.open(path, write=False) as store:
        assert [hint.text for hint in hints_in_force(store, island="one")] == ["try B = 4", *newest]
    assert sum(context.parents[0].candidate.id == other for context in contexts) >= len(contexts) / 4
    assert not any(best in {e.candidate.id for e in context.parents} for context in contexts)
    assert any("hint: try B = 4 by ada" in note for note in heard.notes)
    assert any("is not a correct kernel of this run" in note for note in heard.notes)
    assert same_after_replay(path, search, operators, budget={"evaluations": 12})


def test_a_model_that_rests_is_waited_for(path: Path) -> None:
    """Nothing else is to be done meanwhile, and the run must not end."""
    asked = 0

    def script(request: ModelRequest) -> str | Reply:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ModelsUnavailable("overloaded")
        return upwards(request)

    with Store.open(path, write=True) as store:
        model = ScriptedTransport(script, log=store.calls)
        operators = mutate(model)
        config, clock = config_of({"mutate": 1.0}, budget={"evaluations": 3}), itertools.count(0.0, 20.0).__next__
        search = toy_search(store, config, InstantEvaluator(), operators=operators, model=model, clock=clock)
        assert asyncio.run(search.run()) == "budget of 3 evaluations used"
    assert asked > 1


def test_a_recorded_run_is_repeated_kernel_for_kernel(path: Path, tmp_path: Path) -> None:
    def make(model: LanguageModel) -> dict[str, Operator]:
        return {
            "mutate": ToyModelOperator("mutate", model),
            "plan": ToyModelOperator("plan", model, ContextNeed.STRATEGIES),
            "implement": ToyModelOperator("implement", model, ContextNeed.STRATEGY),
        }

    def script(request: ModelRequest) -> str:
        step = request.origin.step
        return f"strategy: number {step}" if request.origin.operator == "plan" else upwards(request)

    run(path, script, make, budget={"evaluations": 12})
    with Store.open(path, write=False) as store:
        titles = {fact.seq: fact.insight.title for fact in store.facts() if isinstance(fact, InsightEntry)}
        assert write_recording(tmp_path / "r.jsonl", store.calls.all(), titles=titles)
    recording = ReplyRecording.load(tmp_path / "r.jsonl")
    player = RecordedTransport(recording, name="recorded", notify=lambda text: None)

    async def replayed_reply(request: ModelRequest) -> str:
        return (await player.send(request, {})).text

    again = tmp_path / "again.db"
    with Store.open(again, write=True) as store:
        model = ScriptedTransport(replayed_reply, log=store.calls)
        operators = make(model)
        config = config_of(dict.fromkeys(operators, 1.0), budget={"evaluations": 12}, seed=99)  # would choose otherwise
        search = toy_search(
            *(store, config, InstantEvaluator()), operators=operators, model=model, replayed=recording.steps()
        )
        asyncio.run(search.run())

    def lines(of: Path) -> set[tuple[Any, ...]]:
        made = [fact.proposal for fact in facts(of, ResultEntry)]
        return {(p.step, p.operator, p.candidate.id, p.parents, len(p.insights)) for p in made}

    assert len(lines(path) & lines(again)) >= 11  # what was in flight at the end may be missing
