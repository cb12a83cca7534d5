"""litellm for real, against an endpoint on loopback that misbehaves."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from evokernel.errors import ConfigError, ModelError, ModelsUnavailable
from evokernel.llm.configured_model import ConfiguredModel
from evokernel.llm.ensemble import ModelEnsemble
from evokernel.llm.litellm_transport import LitellmTransport, listed_price, load_litellm
from evokernel.llm.redact import Redactor, guard_logs
from evokernel.llm.transport import (
    HopelessModel,
    HopelessRequest,
    Price,
    RateLimited,
    TemporaryFailure,
    TransportReply,
)
from evokernel.records.llm import CallStatus, Reply
from evokernel.testing.call_log import MemoryLog
from tests.llm.endpoint import (
    Behaviour,
    Endpoint,
    breaks_off,
    echoes_key,
    endpoint,
    error,
    hangs,
    raw,
    resets,
    says,
)
from tests.llm.making import Time, model, request

pytestmark = pytest.mark.heavy

KEY = "sk-loopback-0123456789"
PARAMETERS = {"max_tokens": 100, "temperature": 0.5}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_KEY", KEY)


def transport(url: str, **settings: Any) -> LitellmTransport:
    return LitellmTransport(model(api_base=url, key="STUB_KEY", **{"timeout_s": 300, **settings}))


def send(behaviour: Behaviour, **settings: Any) -> TransportReply:
    """Make one attempt at an endpoint that behaves like that."""

    async def scenario(url: str) -> TransportReply:
        sender = transport(url, **settings)
        try:
            return await sender.send(request(), PARAMETERS)
        finally:
            await sender.close()

    with endpoint(behaviour) as served:
        try:
            return asyncio.run(scenario(served.url))
        finally:
            assert len(served.asked) == 1  # litellm tries nothing again on its own


def test_what_is_sent_and_what_comes_back() -> None:
    async def scenario(served: Endpoint) -> TransportReply:
        sender = transport(served.url)
        try:
            return await sender.send(request(text="hello"), {**PARAMETERS, "top_p": 0.9})
        finally:
            await sender.close()

    with endpoint(says("hi")) as served:
        assert asyncio.run(scenario(served)) == TransportReply("hi", CallStatus.OK, 10, 5, None)
    (asked,) = served.asked
    assert asked == {
        "model": "stub",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
    }
    assert served.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize(
    ("behaviour", "answer"),
    [
        (says(""), TransportReply("", CallStatus.OK, 10, 5)),
        (says(None), TransportReply("", CallStatus.OK, 10, 5)),
        (says("x", usage=None), TransportReply("x")),
        (says("x", finish="length"), TransportReply("x", CallStatus.TRUNCATED, 10, 5)),
        (says("x", finish="content_filter"), TransportReply("x", CallStatus.REFUSED, 10, 5)),
        (says("x", finish="mystery"), TransportReply("x", CallStatus.OK, 10, 5)),
        (says(None, refusal="I will not"), TransportReply("I will not", CallStatus.REFUSED, 10, 5)),
        (says("x" * 2_500_000), TransportReply("x" * 2_500_000, CallStatus.OK, 10, 5)),
    ],
    ids=["empty", "null", "no usage", "length", "filtered", "unknown finish", "refusal", "2.5 MB"],
)
def test_odd_replies_are_read_as_what_they_are(behaviour: Behaviour, answer: TransportReply) -> None:
    assert send(behaviour) == answer


@pytest.mark.parametrize(
    ("behaviour", "billed"),
    [
        pytest.param(error(500), False, id="500"),
        pytest.param(error(503), False, id="503"),
        pytest.param(resets, True, id="reset"),
        pytest.param(breaks_off, True, id="broken off"),
        pytest.param(raw(b"{not json"), True, id="not json"),
        pytest.param(raw(b"<html>busy</html>", headers={"Content-Type": "text/html"}), True, id="html"),
        pytest.param(raw(b"null"), True, id="null"),
        pytest.param(raw(b"[1, 2]"), True, id="list"),
        pytest.param(raw(b"{}"), True, id="nothing"),
        pytest.param(raw(b'{"choices": []}'), True, id="no choices"),
        pytest.param(raw(b'{"error": {"message": "overloaded"}}'), True, id="error in a 200"),
        pytest.param(says(5), True, id="a number"),
        pytest.param(says("x", usage={"prompt_tokens": "many"}), True, id="wrong usage"),
    ],
)
def test_what_may_pass_is_told_apart_by_whether_it_may_be_charged_for(behaviour: Behaviour, billed: bool) -> None:
    with pytest.raises(TemporaryFailure) as caught:
        send(behaviour)
    assert caught.value.billed is billed
    assert caught.value.__context__ is None  # litellm's own error may hold anything


@pytest.mark.parametrize("provider", ["hosted_vllm", "deepseek", "mistral", "anthropic", "openrouter"])
@pytest.mark.parametrize("behaviour", [resets, breaks_off], ids=["reset", "broken off"])
def test_a_request_whose_connection_broke_is_not_sent_again_by_any_provider(
    behaviour: Behaviour, provider: str
) -> None:
    with pytest.raises(TemporaryFailure) as caught:
        send(behaviour, model=f"{provider}/stub")  # counts what was sent
    assert caught.value.billed


def test_an_endpoint_that_hangs_is_left_after_the_time_out() -> None:
    send(says("first"))  # what the library imports at a first request takes longer than the limit
    with pytest.raises(TemporaryFailure) as caught:
        send(hangs, timeout_s=2)
    assert caught.value.billed


def test_an_endpoint_that_does_not_listen_cannot_charge() -> None:
    async def scenario() -> None:
        sender = transport("http://127.0.0.1:1/v1")
        with pytest.raises(TemporaryFailure) as caught:
            await sender.send(request(), PARAMETERS)
        assert not caught.value.billed
        await sender.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("behaviour", "retry_after_s"),
    [
        (error(429), None),
        (error(429, Retry_After="7"), 7.0),
        (error(429, Retry_After="soon"), None),
        (error(429, Retry_After="-3"), 0.0),
        (error(429, Retry_After="nan"), None),
        (error(429, retry_after_ms="1500"), 1.5),
        (error(503, Retry_After="3"), 3.0),
    ],
    ids=["none", "seconds", "words", "negative", "nan", "milliseconds", "503"],
)
def test_a_rate_limit_says_how_long_to_wait_where_the_provider_does(
    behaviour: Behaviour, retry_after_s: float | None
) -> None:
    with pytest.raises(RateLimited) as caught:
        send(behaviour)
    assert caught.value.retry_after_s == retry_after_s


def test_a_date_to_come_back_at_is_read_against_the_provider_s_own_clock() -> None:
    asked_at = time.time()
    moment = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(asked_at + 3600))
    with pytest.raises(RateLimited) as caught:
        send(error(429, Retry_After=moment))
    passed_s = time.time() - asked_at  # on a busy machine much
    assert caught.value.retry_after_s is not None
    assert 3600 - passed_s - 30 <= caught.value.retry_after_s <= 3600 + 30


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (error(401), HopelessModel),
        (error(402), HopelessModel),
        (error(403), HopelessModel),
        (error(404), HopelessModel),
        (error(429, "check your plan", code="insufficient_quota"), HopelessModel),
        (error(400), HopelessRequest),
        (error(400, "maximum context length", code="context_length_exceeded"), HopelessRequest),
        (error(413), HopelessRequest),
        (error(422), HopelessRequest),
    ],
    ids=["401", "402", "403", "404", "quota", "400", "context", "413", "422"],
)
def test_what_will_never_work_is_told_apart_by_whose_fault_it_is(behaviour: Behaviour, kind: type[ModelError]) -> None:
    with pytest.raises(kind):
        send(behaviour)


def through_models(served: Endpoint, use: Callable[[ModelEnsemble], Any], **settings: Any) -> tuple[Any, MemoryLog]:
    """Use an ensemble of the endpoint alone; return what that gave, and the record."""
    log, clock = MemoryLog(), Time()
    config = model(api_base=served.url, key="STUB_KEY", max_tokens=100, **{"timeout_s": 300, **settings})

    async def scenario() -> Any:
        redactor = Redactor.of_environment(["STUB_KEY"])
        seat = ConfiguredModel.of(config, LitellmTransport(config), price=Price(1e-3, 1e-3), clock=clock)
        models = ModelEnsemble([seat], log=log, redactor=redactor, clock=clock)
        try:
            return await use(models)
        finally:
            await models.close()

    return asyncio.run(scenario()), log


def test_a_search_gets_its_reply_through_every_trouble_and_each_attempt_is_in_the_record() -> None:
    troubles = [error(429), error(429, Retry_After="2"), error(500), resets, breaks_off, raw(b"{not json")]
    with endpoint(*troubles, says("at last")) as served:
        reply, log = through_models(served, lambda models: models.complete(request()), retries=9)
    assert isinstance(reply, Reply)
    assert reply.text == "at last"
    results = [stored.result for stored in log.calls if stored.result]
    assert [result.status for result in results] == [CallStatus.FAILED] * 6 + [CallStatus.OK]
    reserved = log.calls[0].call.reserved_usd
    charged = [result.usage.cost_usd for result in results]
    assert charged[:6] == [0.0, 0.0, 0.0, reserved, reserved, reserved]
    assert charged[6] == pytest.approx(0.015)


def test_a_search_leaves_an_endpoint_that_hangs_and_asks_again() -> None:
    """On a busy machine a reply may come after the limit, too: it is asked again then."""
    with endpoint(hangs, *[says("at last")] * 9) as served:
        reply, log = through_models(served, lambda models: models.complete(request()), retries=9, timeout_s=3)
    assert reply.text == "at last"
    *failed, last = [stored.result for stored in log.calls if stored.result]
    assert last.status is CallStatus.OK
    assert failed
    for result in failed:
        assert (result.status, result.usage.cost_usd) == (CallStatus.FAILED, log.calls[0].call.reserved_usd)


def test_a_reply_of_more_than_2_mb_is_cut_and_the_search_goes_on() -> None:
    with endpoint(says("x" * 2_500_000), says("short")) as served:

        async def use(models: ModelEnsemble) -> list[Reply]:
            return [await models.complete(request(step)) for step in range(2)]

        replies, _ = through_models(served, use)
    assert [len(reply.text) for reply in replies] == [2_000_000, 5]
    assert [reply.truncated for reply in replies] == [True, False]


def test_a_key_that_is_echoed_reaches_neither_replies_nor_errors_nor_the_record_nor_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with endpoint(echoes_key(500), echoes_key(), echoes_key(401)) as served:

        async def use(models: ModelEnsemble) -> tuple[Reply, str]:
            reply = await models.complete(request(1))
            with pytest.raises(ModelsUnavailable) as caught:
                await models.complete(request(2))
            return reply, str(caught.value)

        caplog.set_level(logging.DEBUG)
        load_litellm()
        logging.getLogger("LiteLLM").setLevel(logging.DEBUG)  # as one who looks for a fault would
        undo = guard_logs(Redactor([KEY]))
        try:
            (reply, said), log = through_models(served, use)
        finally:
            undo()
    assert reply.text == "you are Bearer [key], are you not"
    assert "[key]" in said
    assert KEY not in said + repr(log.calls)
    assert KEY not in caplog.text
    assert caplog.text
    assert served.keys[0] == f"Bearer {KEY}"  # the endpoint did hear it


def test_an_endpoint_of_one_s_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    async def scenario(served: Endpoint) -> TransportReply:
        sender = LitellmTransport(model(api_base=served.url))
        try:
            return await sender.send(request(), PARAMETERS)
        finally:
            await sender.close()

    with endpoint(says("hi")) as served:
        assert asyncio.run(scenario(served)).text == "hi"


def test_a_missing_key_and_an_unknown_provider_are_said_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("STUB_KEY")
    with pytest.raises(ConfigError, match=r"'one'.*STUB_KEY"):
        transport("http://127.0.0.1:1/v1")
    with pytest.raises(ConfigError, match=r"'one'.*'nosuch/thing'.*provider/model"):
        LitellmTransport(model(model="nosuch/thing"))


def test_prices_come_from_the_list_or_are_unknown() -> None:
    price = listed_price("openai/gpt-4o")
    assert price is not None
    assert 0 < price.prompt_usd < price.completion_usd < 1e-3
    assert listed_price("hosted_vllm/one-of-ours") is None


def test_a_model_that_has_no_temperature_is_asked_without_one() -> None:
    async def scenario(served: Endpoint) -> list[TransportReply]:
        sender = transport(served.url, model="openai/gpt-5")
        try:
            return await asyncio.gather(*(sender.send(request(), PARAMETERS) for _ in range(2)))
        finally:
            await sender.close()

    with endpoint(says("hi")) as served:
        assert [answer.text for answer in asyncio.run(scenario(served))] == ["hi", "hi"]
    assert len(served.asked) == 2
    assert all("temperature" not in asked and asked["max_completion_tokens"] == 100 for asked in served.asked)


def test_what_a_listed_model_costs_is_taken_from_litellm() -> None:
    answer = send(says("hi"), model="openai/gpt-4o")
    price = listed_price("openai/gpt-4o")
    assert price is not None
    assert answer.cost_usd is not None
    assert 0 < answer.cost_usd <= price.of(10, 5)
