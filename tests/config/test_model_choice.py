"""Models named on the command line: who decides, what asks them, and what caps them."""

from typing import Any

import pytest
import yaml

from evokernel.config.load import parse_config
from evokernel.config.model_choice import (
    ASKING_SHARES,
    DEFAULT_CALLS,
    DEFAULT_DOLLARS,
    ModelChoice,
    chosen_models,
    with_default_cap,
)
from evokernel.config.run import RunConfig, dump_config
from evokernel.errors import ConfigError

GPT = ModelChoice(("openai/gpt-5",))


def config(**changes: Any) -> RunConfig:
    return RunConfig.model_validate(
        {
            "task": "gemm",
            "budget": {"evaluations": 10},
            "islands": [
                {"name": "one", "operators": {"rewrite": 3, "tune": 1}},
                {"name": "two", "operators": {"tune": 1}},
            ],
            **changes,
        }
    )


def asked(found: RunConfig) -> list[str]:
    return [model.model for model in found.models]


def test_a_model_is_asked_on_every_island_beside_its_rules():
    found, note = chosen_models(config(), ModelChoice(("openai/gpt-5", "hosted_vllm/q"), "http://here/v1"))
    assert not note
    assert [(model.name, model.api_base) for model in found.models] == [
        ("main", "http://here/v1"),
        ("main2", "http://here/v1"),
    ]
    for island in found.islands:
        assert island.choose == "pairs"
        proposers = [share for name, share in island.operators.items() if name != "testing"]  # it makes no kernels
        assert sum(proposers) == pytest.approx(2)
        assert ASKING_SHARES.items() <= island.operators.items()
    assert found.islands[0].operators["rewrite"] == 0.75
    assert found.budget.when_spent == "rules"
    parse_config(yaml.safe_load(dump_config(found)), "what the store holds")


def test_without_a_model_nothing_changes():
    assert chosen_models(config(), ModelChoice()) == (config(), "")


def test_the_variable_names_models_for_a_new_store_only():
    found, note = chosen_models(config(), ModelChoice(), variable="openai/gpt-5, hosted_vllm/q")
    assert asked(found) == ["openai/gpt-5", "hosted_vllm/q"]
    assert note == "models of EVOKERNEL_MODEL: openai/gpt-5, hosted_vllm/q"
    by_rules = dump_config(config())
    assert chosen_models(config(), ModelChoice(), variable="openai/gpt-5", stored=by_rules) == (config(), "")


def test_the_store_goes_on_with_its_models_and_says_that_the_variable_differs():
    before = with_default_cap(chosen_models(config(), GPT)[0], priced=True)
    found, note = chosen_models(config(), ModelChoice(), variable="openai/other", stored=dump_config(before))
    assert found == before
    assert note == "models of this store: openai/gpt-5; EVOKERNEL_MODEL=openai/other is not used"
    more, _ = chosen_models(config(), ModelChoice(dollars=7), stored=dump_config(before))
    assert more.budget.dollars == 7


def test_the_option_wins_over_the_store():
    before = dump_config(chosen_models(config(), GPT)[0])
    found, _ = chosen_models(config(), ModelChoice(("openai/other",)), stored=before)
    assert asked(found) == ["openai/other"]


def test_models_of_the_file_are_left_as_they_are():
    own = config(models=[{"name": "mine", "model": "openai/mine"}])
    assert chosen_models(own, ModelChoice(), variable="openai/gpt-5") == (own, "")
    assert chosen_models(own, ModelChoice(dollars=3))[0].budget.dollars == 3
    with pytest.raises(ConfigError, match="the config names its own models"):
        chosen_models(own, GPT)


@pytest.mark.parametrize("choice", [ModelChoice(dollars=1), ModelChoice(api_base="http://here")])
def test_options_of_models_need_a_model(choice: ModelChoice):
    with pytest.raises(ConfigError, match="add --model"):
        chosen_models(config(), choice)


def test_a_cap_is_there_unless_the_user_gave_one():
    found, _ = chosen_models(config(), GPT)
    assert with_default_cap(found, priced=True).budget.dollars == DEFAULT_DOLLARS
    assert with_default_cap(found, priced=False).budget.calls == DEFAULT_CALLS
    given, _ = chosen_models(config(), ModelChoice(GPT.models, dollars=5))
    assert with_default_cap(given, priced=True).budget.dollars == 5
    assert with_default_cap(given, priced=False).budget.calls is None
