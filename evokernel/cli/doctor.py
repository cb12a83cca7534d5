"""`evokernel doctor`: what this machine offers, and what is missing."""

import asyncio
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from evokernel.cli.display.text import BAD, DIM, GOOD, WARN, clean, stdout
from evokernel.cli.locate import RUNS
from evokernel.cli.options import PATH, api_base_option, refuse_blank
from evokernel.config.models import ModelConfig
from evokernel.errors import ConfigError


@click.command(
    epilog="Exit codes: 0 a search can run, or the model answers; 1 something is missing, or it does not answer at "
    "present; 2 an error, such as a wrong key."
)
@click.option("--runs", type=PATH, default=RUNS, show_default=True, help="Where stores are written.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    callback=refuse_blank,
    help="Ask only this model one word; may be repeated.",
)
@api_base_option
@click.option(
    "--ray", is_flag=False, flag_value="auto", metavar="[ADDRESS]", help="Look only at the nodes of this Ray cluster."
)
@click.pass_context
def command(context: click.Context, runs: Path, models: tuple[str, ...], api_base: str | None, ray: str | None) -> None:
    """Look at everything a search needs, and say what to do about what is missing."""
    if models:
        context.exit(_ask(models, api_base))
    if api_base is not None:
        raise ConfigError("--api-base is the address of the models that --model names; add --model")
    from evokernel.doctor.finding import FindingLevel

    if ray:
        from evokernel.doctor.cluster import examine_cluster

        findings = examine_cluster(ray)
    else:
        from evokernel.doctor.machine import examine

        findings = examine(runs)
    styles = {FindingLevel.OK: GOOD, FindingLevel.WARNING: WARN, FindingLevel.MISSING: BAD}
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True)
    made.add_column(style=DIM, no_wrap=True)
    made.add_column(overflow="fold")
    missing = 0
    for finding in findings:
        missing += finding.state is FindingLevel.MISSING
        text = Text(clean(finding.found))
        if finding.advice:
            text.append(
                f"\n{clean(finding.advice)}", style=DIM if finding.state is FindingLevel.OK else styles[finding.state]
            )
        made.add_row(Text(finding.state.value, style=styles[finding.state]), finding.name, text)
    stdout().print(made)
    click.echo(f"\n{missing} missing: no search can run yet" if missing else "\nready")
    context.exit(1 if missing else 0)


def _ask(models: tuple[str, ...], api_base: str | None) -> int:
    """Ask each model one word and print its answer; return the exit code. Raises `ConfigError`."""
    from evokernel.llm.trial_call import try_models

    named = dict.fromkeys(models)
    trials = asyncio.run(try_models([ModelConfig(name=model, model=model, api_base=api_base) for model in named]))
    for trial in trials:
        click.echo(f"{trial}; {trial.price_line}")
    return int(any(trial.trouble for trial in trials))
