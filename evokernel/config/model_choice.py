"""Models named on the command line: their entries, the operators that ask them, and a cap on what they cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import yaml

from evokernel.config.load import parse_config
from evokernel.config.models import ModelConfig
from evokernel.config.run import RunConfig
from evokernel.errors import ConfigError

VARIABLE = "EVOKERNEL_MODEL"
"""The environment variable that names models, with commas between them, where no option does."""
ASKING_SHARES: Mapping[str, float] = MappingProxyType(
    {"mutate": 0.3, "refine": 0.25, "repair": 0.2, "crossover": 0.15, "draft": 0.1, "testing": 0.05}
)
"""Shares of the operators that ask, beside the rules of each island; a share only counts until gains are known.

That of `testing`, which makes no kernels, counts always: one step of an island in 41.
"""
DEFAULT_DOLLARS = 1.0
"""The cap, in dollars, where nobody gives one and the prices are known."""
DEFAULT_CALLS = 200
"""The cap, in calls, where nobody gives one and a price is not known."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Models for a run, as options of a command name them."""

    models: tuple[str, ...] = ()
    """Names in litellm's spelling, for example openai/gpt-5."""
    api_base: str | None = None
    """The address of an endpoint of the user's own, for all of them."""
    dollars: float | None = None
    """The cap, in dollars."""


def chosen_models(
    config: RunConfig, choice: ModelChoice, *, variable: str = "", stored: str | None = None
) -> tuple[RunConfig, str]:
    """Return the config with the models of an option, of the store or of `EVOKERNEL_MODEL`, and a note for people.

    The option wins over the config, and the config over the store, which wins over the variable. Raises `ConfigError`
    if an option cannot be used without a model, or beside the config's models.

    Args:
        config: the checked config.
        choice: the options of the command.
        variable: the value of `EVOKERNEL_MODEL`.
        stored: the config in the store, as YAML; None in a new one.
    """
    named = choice.models
    if named and config.models:
        names = ", ".join(model.name for model in config.models)
        raise ConfigError(
            f"--model: the config names its own models ({names}); remove them there, or leave --model out"
        )
    note = ""
    if not named and "models" not in config.model_fields_set:
        before = parse_config(yaml.safe_load(stored), "the config in the store") if stored else None
        if before is not None and before.models:
            asked = ", ".join(model.model or model.agent or model.name for model in before.models)
            note = f"models of this store: {asked}" + (f"; {VARIABLE}={variable} is not used" if variable else "")
            return _capped(_as_before(config, before), choice), note
        if before is None:
            named = tuple(filter(None, (name.strip() for name in variable.split(","))))
            note = f"models of {VARIABLE}: {', '.join(named)}" if named else ""
    if named:
        config = _with_models(config, named, api_base=choice.api_base)
    elif choice.api_base is not None:
        raise ConfigError("--api-base is the address of the models that --model names; add --model")
    return _capped(config, choice), note


def with_default_cap(config: RunConfig, *, priced: bool) -> RunConfig:
    """Return the config with a cap on what models cost, where it has none. `priced`: their prices are known."""
    budget = config.budget
    if budget.dollars or budget.tokens or budget.calls:
        return config
    return _with_budget(config, dollars=DEFAULT_DOLLARS) if priced else _with_budget(config, calls=DEFAULT_CALLS)


def _with_models(config: RunConfig, named: Sequence[str], *, api_base: str | None) -> RunConfig:
    models = tuple(
        ModelConfig(name=f"main{place}" if place > 1 else "main", model=model, api_base=api_base)
        for place, model in enumerate(dict.fromkeys(named), start=1)
    )
    islands = tuple(
        island.model_copy(update={"operators": {**_shares(island.operators), **ASKING_SHARES}, "choose": "pairs"})
        for island in config.islands
    )
    return _with_budget(config.model_copy(update={"models": models, "islands": islands}), when_spent="rules")


def _shares(operators: Mapping[str, float]) -> dict[str, float]:
    """Return shares with a sum of 1, so that rules and models begin alike."""
    total = sum(operators.values())
    return {name: share / total for name, share in operators.items()}


def _as_before(config: RunConfig, before: RunConfig) -> RunConfig:
    """Return the config with the models and operators of an earlier session."""
    known = {island.name: island for island in before.islands}
    islands = tuple(
        island.model_copy(update={"operators": known[island.name].operators, "choose": known[island.name].choose})
        if island.name in known
        else island
        for island in config.islands
    )
    missing = {
        name: getattr(before.budget, name)
        for name in ("dollars", "calls", "tokens")
        if getattr(config.budget, name) is None
    }
    steered = config.model_copy(update={"models": before.models, "islands": islands})
    return _with_budget(steered, **missing, when_spent=before.budget.when_spent)


def _capped(config: RunConfig, choice: ModelChoice) -> RunConfig:
    if choice.dollars is None:
        return config
    if not config.models:
        raise ConfigError("--dollars limits what models cost, and none is named; add --model, for example openai/gpt-5")
    return _with_budget(config, dollars=choice.dollars)


def _with_budget(config: RunConfig, **limits: Any) -> RunConfig:
    return config.model_copy(update={"budget": config.budget.model_copy(update=limits)})
