"""One word from each model before a search: who answers, who never will, and what that costs."""

import asyncio

import pytest

from evokernel.config.models import ModelConfig, PriceConfig
from evokernel.errors import ConfigError, ModelsUnavailable, may_pass
from evokernel.llm.trial_call import TrialCall, try_models
from tests.llm.endpoint import Behaviour, endpoint, error, hangs, raw, resets, says

pytestmark = pytest.mark.heavy
PRICE = PriceConfig(prompt_usd_per_mtok=1.0, completion_usd_per_mtok=10.0)


def tried(behaviour: Behaviour, **settings: object) -> TrialCall:
    with endpoint(behaviour) as served:
        config = ModelConfig.model_validate(
            {"name": "main", "model": "hosted_vllm/one", "api_base": served.url, "timeout_s": 300, **settings}
        )
        (trial,) = asyncio.run(try_models([config]))
        assert len(served.asked) == 1
        return trial


def test_a_model_that_answers_is_shown_with_its_cost():
    trial = tried(says("ready"), price=PRICE)
    assert str(trial).startswith("main (hosted_vllm/one) answers, ")
    assert str(trial).endswith(" s, $0.00006")
    assert trial.price_line == "$1 a million tokens of prompt, $10 of reply"
    assert trial.calls_for(1.0) == 21


@pytest.mark.parametrize("behaviour", [says(""), says("rea", finish="length"), says("no", usage=None)])
def test_any_answer_is_one_and_an_unknown_cost_is_never_zero(behaviour: Behaviour):
    trial = tried(behaviour)
    assert not trial.trouble
    assert str(trial).endswith("cost unknown")
    assert trial.price_line == "price unknown"
    assert trial.calls_for(1.0) is None


@pytest.mark.parametrize("status", [401, 403, 404, 400])
def test_a_model_that_will_never_answer_ends_the_command_with_advice(status: int):
    with pytest.raises(ConfigError, match=r"model 'main' \(hosted_vllm/one at http.*cannot be asked. Check its key"):
        tried(error(status, "that is wrong"))


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (error(429, "slow down", retry_after="20"), "it asks for a wait of 20 s"),
        (error(500, "oh dear"), "oh dear"),
        (raw(b"<html>"), "answer at present"),
        (resets, "answer at present"),
    ],
)
def test_a_failure_that_may_pass_is_a_line(behaviour: Behaviour, said: str):
    trial = tried(behaviour)
    assert said in str(trial)
    assert "does not answer at present" in str(trial)


def test_silence_is_a_line_once_the_time_is_over():
    assert "no reply within 1 s" in str(tried(hangs, timeout_s=1))


def test_nobody_at_the_address_ends_the_command_by_an_error_that_may_pass():
    away = ModelConfig(name="main", model="hosted_vllm/one", api_base="http://127.0.0.1:9/v1")
    with pytest.raises(ModelsUnavailable, match="its address") as caught:
        asyncio.run(try_models([away]))
    assert may_pass(caught.value)


def test_of_two_models_the_fault_that_lasts_is_told():
    away = ModelConfig(name="away", model="hosted_vllm/one", api_base="http://127.0.0.1:9/v1")
    with endpoint(error(401, "wrong key")) as served, pytest.raises(ConfigError, match="wrong key"):
        asyncio.run(try_models([away, ModelConfig(name="main", model="hosted_vllm/one", api_base=served.url)]))


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="Set OPENAI_API_KEY"):
        asyncio.run(try_models([ModelConfig(name="main", model="openai/gpt-4o")]))


def test_recordings_are_not_asked():
    assert asyncio.run(try_models([ModelConfig(name="old", replay="somewhere.jsonl")])) == []
