"""`evokernel judge --self-test`: the verdicts on cheats made for a task."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from evokernel.cli.display.tables import put, sheet, table
from evokernel.cli.display.text import BAD, DIM, GOOD, STRONG, WARN, clean, one_line, say, stderr, stdout
from evokernel.cli.display.word_table import WordTable
from evokernel.cli.options import EXISTING_FILE, FOLDER, json_option, judge_set_option, task_option

if TYPE_CHECKING:
    from evokernel.self_test.attack import SelfTest, Trial

WRONG_EXIT = 1


@click.command()
@task_option
@click.option("--self-test", is_flag=True, help="Attack the judge with kernels that cheat.")
@click.option(
    "--kernel",
    type=EXISTING_FILE,
    metavar="FILE",
    help="The right kernel to make cheats from; the task's seed if left out.",
)
@click.option(
    "--language",
    type=click.Choice(["cpp", "triton", "cuda"]),
    help="The language of the cheats: cpp on a processor, triton or cuda on a GPU; cpp first if left out.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Only this cheat; may be given several times.")
@click.option(
    "--out",
    type=FOLDER,
    metavar="FOLDER",
    help="Also write the kernels there that were made, to look at or for `evokernel evaluate`.",
)
@judge_set_option
@json_option
@click.pass_context
def command(  # noqa: PLR0913 - one for each option
    context: click.Context,
    /,
    *,
    task_spec: str,
    self_test: bool,
    kernel: Path | None,
    language: str | None,
    only: tuple[str, ...],
    out: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Test the judge on a task: kernels that cheat are made from a right one, and judged as in a search.

    Some forty cheats are made anew for the task's own signature in C++, for processors, and eight in Triton and in
    CUDA C++, for a GPU. The exit code is 0 where nothing was accepted that must not be and no harmless kernel was
    rejected, 1 otherwise, 2 where this could not be tried. docs/worker-mode.md says more.
    """
    from evokernel.config.load import judge_settings
    from evokernel.self_test.attack import attack, choose_kernel
    from evokernel.self_test.document import document

    if not self_test:
        raise click.UsageError("say --self-test; one kernel is judged by: evokernel evaluate FILE --task T")
    settings = judge_settings(overrides)
    chosen = choose_kernel(task_spec, kernel, language=language)
    say("judging a right kernel, then those that cheat: minutes")
    with stderr().status("judging a right kernel", spinner="line", refresh_per_second=2) as status:
        found = attack(
            task_spec,
            chosen,
            settings=settings,
            only=only,
            on_judged=lambda done, of: status.update(f"judged {done} of {of} kernels"),
        )
    if out is not None:
        _write(found, out)
    if as_json:
        click.echo(json.dumps(document(found), indent=2))
    else:
        _show(found)
    context.exit(0 if found.ok else WRONG_EXIT)


def _write(found: "SelfTest", folder: Path) -> None:
    from evokernel.config.run import SUFFIXES
    from evokernel.errors import ConfigError

    suffix = next(suffix for suffix, language in SUFFIXES.items() if language == found.kernel.language)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for trial in found.trials:
            (folder / f"{trial.exhibit.name}{suffix}").write_text(trial.candidate.source, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the kernels to {folder}: {error}") from None


def _show(found: "SelfTest") -> None:
    from evokernel.self_test.attack import TrialOutcome

    holes = found.with_ending(TrialOutcome.HOLE)
    put(
        stdout(),
        _heading(found),
        _trials(found),
        _classes(found),
        *map(_complaint, found.with_ending(TrialOutcome.ACCEPTED, TrialOutcome.REJECTED, TrialOutcome.NOT_TRIED)),
        _notes("known holes, not counted", {each.exhibit.name: each.exhibit.hole for each in holes}),
        _notes("not made for this task", found.left_out),
        sheet(
            {
                "mode": found.judged.key.mode.value,
                "sandbox": one_line(found.identity.sandbox),
                "device": one_line(found.identity.device),
                "environment": one_line(found.identity.environment),
                "made from": found.kernel.id,
            }
        ),
    )


def _heading(found: "SelfTest") -> Text:
    from evokernel.self_test.attack import TrialOutcome
    from evokernel.self_test.document import score

    whole, passed = score(found.trials), len(found.with_ending(TrialOutcome.PASSED))
    harmless = sum(trial.exhibit.honest for trial in found.trials)
    share = "" if whole.rate is None else f" ({whole.rate:.1%})"
    beside = f", {passed} of {harmless} harmless kernels passed" if harmless else ""
    return Text.assemble(
        (clean(found.task), STRONG),
        (f"  {whole.caught} of {whole.due} cheats caught{share}", GOOD if whole.caught == whole.due else BAD),
        (beside, GOOD if passed == harmless else BAD),
    )


def _trials(found: "SelfTest") -> WordTable:
    made = table("class", "a kernel that", "", "at", "because")
    for trial in found.trials:
        made.add_row(
            Text(trial.exhibit.family or "harmless", style=DIM),
            Text(trial.exhibit.title),
            _ending(trial),
            _stage(trial),
            Text(trial.evaluation.status.value, style=DIM),
        )
    return made


def _ending(trial: "Trial") -> Text:
    from evokernel.self_test.attack import BAD_ENDINGS, TrialOutcome

    usual = {TrialOutcome.HOLE: WARN, TrialOutcome.NO_GAIN: DIM}
    return Text(trial.ending.value, style=BAD if trial.ending in BAD_ENDINGS else usual.get(trial.ending, GOOD))


def _stage(trial: "Trial") -> Text:
    from evokernel.self_test.attack import TrialOutcome

    stage = trial.evaluation.stage.value
    if trial.ending is TrialOutcome.CAUGHT and not trial.in_time and trial.exhibit.stops:
        return Text(f"{stage} (due at {' or '.join(trial.exhibit.stops)})", style=WARN)
    return Text(stage)


def _classes(found: "SelfTest") -> WordTable:
    from evokernel.self_test.document import by_class, score
    from evokernel.self_test.exhibits import CLASSES

    made = table("class", "", "caught", "rate", "at", right=(2, 3))
    for name, trials in by_class(found).items():
        given = score(trials)
        rate = "-" if given.rate is None else f"{given.rate:.0%}"
        where = ", ".join(f"{stage} {count}" for stage, count in given.stages.items())
        made.add_row(name, Text(CLASSES[name], style=DIM), f"{given.caught} of {given.due}", rate, where)
    return made


def _complaint(trial: "Trial") -> Text:
    from evokernel.self_test.attack import TrialOutcome

    exhibit = trial.exhibit
    if trial.ending is TrialOutcome.ACCEPTED:
        mend = f"\n{exhibit.mend}" if exhibit.mend else ""
        said = f"accepted: {exhibit.name}, which {exhibit.title}: {exhibit.tries}{mend}"
    else:
        said = f"{trial.ending.value}: {exhibit.name} ({exhibit.title}): {trial.evaluation.feedback}"
    return Text(clean(said), style=BAD)


def _notes(heading: str, notes: Mapping[str, str]) -> WordTable | None:
    if not notes:
        return None
    made = table(heading, "why")
    for name, why in notes.items():
        made.add_row(name, Text(why, style=DIM))
    return made
