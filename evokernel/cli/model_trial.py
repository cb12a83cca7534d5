"""The first lines of a session with models: which ones answer, who asks them, and the most that they may cost."""

import asyncio
import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.display.tables import dollars
from evokernel.cli.options import POSITIVE, api_base_option, refuse_blank
from evokernel.config.model_choice import (
    DEFAULT_CALLS,
    DEFAULT_DOLLARS,
    VARIABLE,
    ModelChoice,
    chosen_models,
    with_default_cap,
)
from evokernel.config.run import RunConfig

if TYPE_CHECKING:
    from evokernel.llm.trial_call import TrialCall


def model_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that name models; it gets them as `choice`."""

    @click.option(
        "--model",
        "models",
        multiple=True,
        metavar="MODEL",
        callback=refuse_blank,
        help=f"Let operators ask this model beside the rules, e.g. openai/gpt-5; may be repeated. Default: {VARIABLE}.",
    )
    @api_base_option
    @click.option(
        "--dollars",
        type=POSITIVE,
        help=f"The most that models may cost. Default: ${DEFAULT_DOLLARS:g}; {DEFAULT_CALLS} calls without a price.",
    )
    @functools.wraps(command)
    def with_choice(
        *args: Any, models: tuple[str, ...], api_base: str | None, dollars: float | None, **others: Any
    ) -> None:
        command(*args, choice=ModelChoice(models, api_base, dollars), **others)

    return with_choice


def with_models(
    config: RunConfig, choice: ModelChoice, *, stored: str | None, session_dollars: float | None = None
) -> RunConfig:
    """Return the config with the models of the command, after each has answered a tiny call.

    Args:
        stored: the config in the store, as YAML; None in a new one.
        session_dollars: a limit of this session, which takes the place of a cap by default.

    Raises:
        ConfigError: a model will never answer, or an option cannot be used.
        ModelsUnavailable: nobody is at the address of one, which may pass.
    """
    own = bool(config.models)
    config, note = chosen_models(config, choice, variable=os.environ.get(VARIABLE, ""), stored=stored)
    if note:
        click.echo(note)
    if not any(model.model for model in config.models):
        return config
    from evokernel.llm.trial_call import try_models  # imports litellm, which takes seconds
    from operators.llm.templates import load_templates

    trials = asyncio.run(try_models(config.models))
    for trial in trials:
        click.echo(trial)
        click.echo(f"  {trial.price_line}")
    if own:
        return config
    templates = load_templates(config.prompts)
    asking = dict.fromkeys(name for island in config.islands for name in island.operators if name in templates)
    asked = f"asked by {', '.join(asking)}, beside the rules"
    if session_dollars is not None:
        click.echo(f"{asked}; at most {dollars(session_dollars)} at the end of this session")
        return config
    config = with_default_cap(config, priced=all(trial.price for trial in trials))
    click.echo(f"{asked}; {_cap(config, trials)}")
    return config


def _cap(config: RunConfig, trials: "list[TrialCall]") -> str:
    budget = config.budget
    parts = [f"at most {budget.calls} calls"] if budget.calls is not None else []
    if budget.dollars is not None:
        counts = [count for trial in trials if (count := trial.calls_for(budget.dollars)) is not None]
        about = f", about {min(counts)} calls" if counts else ""
        parts.append(f"at most {dollars(budget.dollars)}{about}; --dollars changes that")
    return ", ".join(parts)
