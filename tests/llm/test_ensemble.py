import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from evokernel.errors import BudgetSpent, ConfigError, ModelError, ModelsUnavailable
from evokernel.llm.ensemble import ALIKE, EnsembleSettings
from evokernel.llm.ledger import SpendingLimits
from evokernel.llm.transport import (
    HopelessModel,
    HopelessRequest,
    Price,
    RateLimited,
    TemporaryFailure,
    TransportReply,
    prompt_bound_tokens,
)
from evokernel.llm.waiting import Clock
from evokernel.records.llm import CallStatus, ModelRequest, Reply
from evokernel.testing.call_log import MemoryLog
from tests.llm.making import Actor, Ensemble, model, request

YES = TransportReply("yes", prompt_tokens=10, completion_tokens=5)
DOLLAR_A_TOKEN = Price(1.0, 1.0)
KEY = "sk-0123456789abcdef"


def ask(ensemble: Ensemble, *requests: ModelRequest) -> list[Reply]:
    """Ask one after the other."""

    async def scenario() -> list[Reply]:
        return [await ensemble.models.complete(each) for each in requests or (request(),)]

    return asyncio.run(scenario())


def statuses(ensemble: Ensemble) -> list[CallStatus]:
    assert isinstance(ensemble.log, MemoryLog)
    return [stored.result.status if stored.result else CallStatus.OPEN for stored in ensemble.log.calls]


def calls(ensemble: Ensemble) -> MemoryLog:
    assert isinstance(ensemble.log, MemoryLog)
    return ensemble.log


def test_the_model_that_a_request_names_is_asked_first_and_named_in_the_reply() -> None:
    named = TransportReply("yes", prompt_tokens=10, completion_tokens=5, model="provider/good-2026")
    ensemble = Ensemble((model("good", weight=0.01), Actor(named)), (model("other", weight=100), Actor(YES)))
    asked = [replace(request(step), model="good") for step in range(20)]
    assert {(reply.model, reply.usage.model) for reply in ask(ensemble, *asked)} == {("good", "provider/good-2026")}
    assert {(reply.model, reply.reused) for reply in ask(ensemble, asked[0])} == {("good", True)}
    lost = Ensemble((model("good"), Actor(HopelessModel("gone"))), (model("other"), Actor(YES)))
    assert [reply.model for reply in ask(lost, *asked[:2])] == ["other", "other"]


def test_a_call_is_written_down_before_it_is_made_and_after() -> None:
    seen: list[CallStatus] = []

    async def look() -> TransportReply:
        seen.extend(statuses(ensemble))
        return YES

    ensemble = Ensemble((model(max_tokens=100, parameters={"top_p": 0.9}), Actor(look)), price=DOLLAR_A_TOKEN)
    (reply,) = ask(ensemble)
    assert seen == [CallStatus.OPEN]
    assert (reply.text, reply.reused, reply.usage.cost_usd) == ("yes", False, 15.0)
    (stored,) = calls(ensemble).calls
    assert stored.call.parameters == {"max_tokens": 100, "temperature": 0.5, "top_p": 0.9}
    assert stored.call.reserved_tokens == prompt_bound_tokens(request().messages) + 100
    assert stored.result is not None
    assert stored.result.usage == reply.usage


def test_the_settings_of_a_model_decide_over_those_of_an_operator() -> None:
    actor = Actor()
    ensemble = Ensemble((model(temperature=1.0, max_tokens=50), actor))
    asked = ModelRequest(request().origin, 0, "code", request().messages, temperature=0.2, max_tokens=80)
    ask(ensemble, asked)
    assert actor.sent[0][1] == {"max_tokens": 50, "temperature": 1.0}


def test_what_was_answered_for_a_step_is_never_paid_again() -> None:
    first = Ensemble((model(), Actor()), price=DOLLAR_A_TOKEN)
    (paid,) = ask(first)
    actor = Actor(TransportReply("another"))
    again = Ensemble((model("two"), actor), log=first.log, price=DOLLAR_A_TOKEN)
    (reply,) = ask(again)
    assert reply == Reply(paid.text, paid.usage, paid.status, reused=True, model="one")
    assert actor.sent == []
    assert len(calls(again).calls) == 1


def test_what_an_earlier_run_was_told_costs_nothing_and_is_a_call_of_this_run() -> None:
    earlier = Ensemble((model(), Actor(YES, TransportReply("second", prompt_tokens=3, completion_tokens=4))))
    ask(earlier, request(1), request(2))
    actor = Actor(TransportReply("new", prompt_tokens=1, completion_tokens=1))
    later = Ensemble((model(), actor), older=[calls(earlier)], price=DOLLAR_A_TOKEN)
    replies = ask(later, request(7), request(8), request(9))
    assert [reply.text for reply in replies] == ["yes", "second", "new"]  # sampling stays sampling
    assert [reply.reused for reply in replies] == [True, True, False]
    assert [reply.usage.cost_usd for reply in replies] == [0.0, 0.0, 2.0]
    assert replies[0].usage.prompt_tokens == 10
    assert [stored.call.sample for stored in calls(later).calls] == [0, 1, 2]
    assert calls(later).spending().cost_usd == 2.0


def test_equal_questions_asked_at_once_are_different_samples() -> None:
    async def scenario() -> None:
        await asyncio.gather(*(ensemble.models.complete(request(step)) for step in range(12)))

    ensemble = Ensemble((model(), Actor()))
    asyncio.run(scenario())
    assert sorted(stored.call.sample for stored in calls(ensemble).calls) == list(range(12))


def test_every_attempt_is_a_call_and_all_are_the_same_sample() -> None:
    ensemble = Ensemble((model(), Actor(TemporaryFailure("500"), RateLimited("429"), YES)))
    (reply,) = ask(ensemble)
    assert reply.text == "yes"
    assert statuses(ensemble) == [CallStatus.FAILED, CallStatus.FAILED, CallStatus.OK]
    assert {stored.call.sample for stored in calls(ensemble).calls} == {0}


def test_what_a_provider_may_charge_for_counts_with_what_was_reserved() -> None:
    troubles = (TemporaryFailure("500"), TemporaryFailure("no reply", True), RateLimited("429"), TransportReply("ok"))
    ensemble = Ensemble((model(max_tokens=100), Actor(*troubles)), price=DOLLAR_A_TOKEN)
    ask(ensemble)
    worst = prompt_bound_tokens(request().messages) + 100.0
    costs = [stored.result.usage.cost_usd for stored in calls(ensemble).calls if stored.result]
    assert costs == [0.0, worst, 0.0, worst]
    assert calls(ensemble).spending().tokens == 2 * worst


def test_models_are_drawn_by_weight_and_the_same_way_every_time() -> None:
    def drawn() -> list[str]:
        ensemble = Ensemble((model("often", weight=3), Actor()), (model("seldom"), Actor()))
        return [reply.usage.model for reply in ask(ensemble, *(request(step) for step in range(200)))]

    first = drawn()
    assert first == drawn()
    assert 120 < Counter(first)["often"] < 180


def test_role_and_island_decide_who_may_answer() -> None:
    seats = ((model("coder", roles=("code",)), Actor()), (model("thinker", roles=("think",)), Actor()))
    ensemble = Ensemble(*seats, rules=EnsembleSettings(islands={"north": ("thinker",), "south": ()}))
    (reply,) = ask(ensemble, request(role="think"))
    assert reply.usage.model == "thinker"
    with pytest.raises(ModelsUnavailable, match=r"role 'code'.*'north'") as caught:
        ask(ensemble, request(2))
    assert caught.value.final


def test_a_model_with_a_wrong_key_is_out_for_good_and_others_take_over_at_once() -> None:
    bad, good = Actor(HopelessModel("401")), Actor()
    ensemble = Ensemble((model("bad", weight=1000), bad), (model("good", weight=0.001), good))
    replies = ask(ensemble, *(request(step) for step in range(10)))
    assert {reply.usage.model for reply in replies} == {"good"}
    assert len(bad.sent) == 1
    assert ensemble.time.now == 1000.0  # nobody waited
    assert ensemble.told == ["model bad is not asked any more: 401"]


def test_where_every_model_is_out_that_is_final() -> None:
    ensemble = Ensemble((model(), Actor(HopelessModel("the key is wrong"))))
    for _ in range(2):
        with pytest.raises(ModelsUnavailable, match="the key is wrong") as caught:
            ask(ensemble)
        assert caught.value.final
    assert len(calls(ensemble).calls) == 1


def test_a_request_that_a_model_cannot_answer_goes_to_another_and_the_model_stays() -> None:
    narrow, wide = Actor(HopelessRequest("too long"), YES), Actor()
    ensemble = Ensemble((model("narrow", weight=1000), narrow), (model("wide", weight=0.001), wide))
    replies = ask(ensemble, request(1), request(2))
    assert [reply.usage.model for reply in replies] == ["wide", "narrow"]


@pytest.mark.parametrize(("others", "refused"), [(0, ALIKE), (1, 15)])
def test_a_model_with_the_same_fault_ten_times_in_a_row_is_asked_no_more(others: int, refused: int) -> None:
    faults = [HopelessRequest("exit code 1")] * (ALIKE - 1) + [HopelessRequest("exit code 2")] * others
    broken = Actor(*faults, HopelessRequest("exit code 1"))
    ensemble = Ensemble((model("broken"), broken), (model("sound"), Actor(YES)))
    replies = ask(ensemble, *(replace(request(step), model="broken") for step in range(15)))
    assert [reply.model for reply in replies] == ["sound"] * 15
    assert len(broken.sent) == refused
    said = f"model broken is not asked any more: {ALIKE} requests in a row ended with the same fault, exit code 1"
    assert ensemble.told == [said] * (not others)


def test_a_request_that_nobody_can_answer_fails_and_nothing_else_does() -> None:
    ensemble = Ensemble((model(), Actor(HopelessRequest("too long"), YES)))
    with pytest.raises(ModelError, match="one: too long") as caught:
        ask(ensemble)
    assert not isinstance(caught.value, ModelsUnavailable)
    assert ask(ensemble)[0].text == "yes"


def test_a_model_that_fails_too_often_rests_and_another_takes_over() -> None:
    bad, good = Actor(TemporaryFailure("500")), Actor()
    ensemble = Ensemble((model("bad", weight=1000, retries=2), bad), (model("good", weight=0.001), good))
    (reply, second) = ask(ensemble, request(1), request(2))
    assert reply.usage.model == second.usage.model == "good"
    assert len(bad.sent) == 3
    assert ensemble.told == ["model bad is left alone for 15 s: failed 3 times in a row, last with: 500"]


def test_rests_grow_and_an_answer_ends_them() -> None:
    trouble = TemporaryFailure("500")
    deeds = (trouble, trouble, trouble, trouble, YES, trouble, trouble, YES)
    ensemble = Ensemble((model(retries=1), Actor(*deeds)))
    ask(ensemble, request(1), request(2))
    rests = [text.split(" for ")[1].split(":")[0] for text in ensemble.told]
    assert rests == ["15 s", "30 s", "15 s"]


def test_where_no_model_answers_for_minutes_that_is_said_and_is_not_final() -> None:
    ensemble = Ensemble((model(retries=1), Actor(TemporaryFailure("500"))), rules=EnsembleSettings(patience_s=100))
    with pytest.raises(ModelsUnavailable, match="one") as caught:
        ask(ensemble)
    assert not caught.value.final
    assert ensemble.time.now <= 1100.0


def test_a_long_pause_that_the_provider_asks_for_is_spent_with_another_model() -> None:
    busy, free = Actor(RateLimited("429", 3600.0), YES), Actor()
    ensemble = Ensemble((model("busy", weight=1000), busy), (model("free", weight=0.001), free))
    replies = ask(ensemble, request(1), request(2))
    assert [reply.usage.model for reply in replies] == ["free", "free"]
    ensemble.time.now += 3601
    assert ask(ensemble, request(3))[0].usage.model == "busy"


def test_a_short_pause_is_waited_for_by_everybody() -> None:
    moments = []

    async def answer() -> TransportReply:
        moments.append(ensemble.time.now)
        return YES

    async def scenario() -> None:
        await asyncio.gather(*(ensemble.models.complete(request(step)) for step in range(4)))

    ensemble = Ensemble((model(concurrency=1), Actor(RateLimited("429", 20.0), answer)))
    asyncio.run(scenario())
    assert moments == [1020.0] * 4


def test_a_stop_wakes_who_waits_and_lets_finish_what_is_under_way() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()

        async def slow() -> TransportReply:
            await gate.wait()
            return YES

        ensemble = Ensemble((model(concurrency=1), Actor(slow)))
        tasks = [asyncio.ensure_future(ensemble.models.complete(request(step))) for step in range(3)]
        for _ in range(5):
            await asyncio.sleep(0)
        ensemble.models.stop_new_calls()
        gate.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results[0], Reply)
        assert all(isinstance(each, ModelsUnavailable) and not each.final for each in results[1:])
        with pytest.raises(ModelsUnavailable):
            await ensemble.models.complete(request(9))
        assert (await ensemble.models.complete(request(0))).reused
        assert statuses(ensemble) == [CallStatus.OK]

    asyncio.run(scenario())


class Forever(Clock):
    """A clock that stands still."""

    def now_s(self) -> float:
        return 0.0

    async def sleep_s(self, seconds: float) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize("trouble", [TemporaryFailure("500"), RateLimited("429", 30.0)])
def test_a_stop_ends_pauses_between_attempts(trouble: Exception) -> None:
    async def scenario() -> None:
        ensemble = Ensemble((model(), Actor(trouble)), clock=Forever())
        task = asyncio.ensure_future(ensemble.models.complete(request()))
        while not calls(ensemble).calls:
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
        ensemble.models.stop_new_calls()
        with pytest.raises(ModelsUnavailable):
            await task
        await ensemble.models.close()

    asyncio.run(scenario())


def test_a_call_that_is_given_up_is_closed_and_counts_with_what_was_reserved() -> None:
    async def scenario() -> None:
        async def slow() -> TransportReply:
            await asyncio.Event().wait()
            return YES

        ensemble = Ensemble((model(max_tokens=100), Actor(slow)), price=DOLLAR_A_TOKEN)
        task = asyncio.ensure_future(ensemble.models.complete(request()))
        while not calls(ensemble).calls:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert statuses(ensemble) == [CallStatus.FAILED]
        assert calls(ensemble).spending().cost_usd == calls(ensemble).calls[0].call.reserved_usd

    asyncio.run(scenario())


def test_an_empty_reply_and_a_refusal_are_given_as_what_they_are() -> None:
    ensemble = Ensemble((model(), Actor(TransportReply(" \n"), TransportReply("I will not", CallStatus.REFUSED))))
    empty, refused = ask(ensemble, request(1), request(2))
    assert (empty.status, refused.status) == (CallStatus.EMPTY, CallStatus.REFUSED)


def test_a_reply_of_more_than_2_mb_is_cut_and_counts_as_truncated() -> None:
    ensemble = Ensemble((model(), Actor(TransportReply("é" * 1_500_000))))
    (reply,) = ask(ensemble)
    assert reply.truncated
    assert len(reply.text) == 1_000_000


def test_keys_reach_neither_the_record_nor_anybody() -> None:
    deeds = (TemporaryFailure(f"who is {KEY}?"), HopelessRequest(f"not {KEY}"), TransportReply(f"you are {KEY}"))
    settings = {"user": KEY, KEY: [KEY]}
    actor = Actor(*deeds)
    ensemble = Ensemble((model(parameters=settings, retries=1), actor), secrets=[KEY])
    with pytest.raises(ModelError, match=r"not \[key\]"):
        ask(ensemble, request(1, text=f"my key is {KEY}"))
    (reply,) = ask(ensemble, request(2))
    assert reply.text == "you are [key]"
    assert KEY not in repr(calls(ensemble).calls)
    assert KEY not in repr(actor.sent)
    assert "who is [key]?" in repr(calls(ensemble).calls)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (SpendingLimits(dollars=400), r"^budget of \$400 used: \$15\.00 spent, the next call could cost \$392\.00$"),
        (SpendingLimits(tokens=400), "^budget of 400 tokens used: 15 spent, the next call could take 392$"),
        (SpendingLimits(calls=1), "^budget of 1 call used$"),
    ],
)
def test_a_call_that_could_cost_more_than_is_left_is_not_made(limits: SpendingLimits, words: str) -> None:
    actor = Actor()
    ensemble = Ensemble((model(max_tokens=300), actor), rules=EnsembleSettings(limits=limits), price=DOLLAR_A_TOKEN)
    ask(ensemble, request(1))
    with pytest.raises(BudgetSpent, match=words):
        ask(ensemble, request(2))
    assert len(actor.sent) == 1


def test_where_only_calls_under_way_are_in_the_way_the_next_one_waits_for_them() -> None:
    async def scenario() -> None:
        limits = SpendingLimits(dollars=prompt_bound_tokens(request().messages) + 100 + 3 * 15)
        actor = Actor()
        ensemble = Ensemble((model(max_tokens=100), actor), rules=EnsembleSettings(limits=limits), price=DOLLAR_A_TOKEN)
        await asyncio.gather(*(ensemble.models.complete(request(step)) for step in range(4)))
        assert len(actor.sent) == 4
        assert actor.most == 1
        with pytest.raises(BudgetSpent):
            await ensemble.models.complete(request(9))

    asyncio.run(scenario())


def test_a_call_that_was_open_when_its_engine_was_killed_stays_paid_for() -> None:
    log = MemoryLog()
    first = Ensemble((model(max_tokens=100), Actor()), log=log, price=DOLLAR_A_TOKEN)
    ask(first)
    log.begin(log.calls[0].call)
    worst = log.calls[0].call.reserved_usd
    limits = SpendingLimits(dollars=2 * worst)
    again = Ensemble(
        (model(max_tokens=100), Actor()), log=log, rules=EnsembleSettings(limits=limits), price=DOLLAR_A_TOKEN
    )
    with pytest.raises(BudgetSpent):
        ask(again, request(2))


@pytest.mark.parametrize("name", ["api_key", "max_tokens", "n", "stream"])
def test_parameters_cannot_hold_what_decides_the_cost_or_is_secret(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Ensemble((model(parameters={name: 1}), Actor()))
