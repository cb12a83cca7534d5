"""`evokernel lineage`: how a candidate came about."""

from pathlib import Path

import click
from rich.text import Text

from evokernel.cli.display.tables import insight_line, made_by, put, table, unless
from evokernel.cli.display.text import BAD, DIM, GOOD, STRONG, one_line, reason, stdout, times
from evokernel.cli.locate import open_store
from evokernel.cli.options import takes_store
from evokernel.report.best import candidate_id
from evokernel.report.lineage import LineageStep, story

NOTEWORTHY = 1.02


@click.command()
@takes_store(name="[ID]")
@click.option("--all", "everyone", is_flag=True, help="All ancestors, also those that only inspired.")
def command(name: str, store: Path | None, everyone: bool) -> None:
    """Tell how a candidate came about, from the seed on.

    Each line is one candidate: its speed-up over the fastest baseline as measured in the search, its gain over its
    first parent, what a model had predicted, and the operator and reason that made it, the model and its cost,
    the insights it was made with and the hints in force. ID is an id, the beginning of one, `best` or `seed`.
    """
    with open_store(store) as opened:
        lineage = story(opened, candidate_id(opened, name or "best"), everyone=everyone)
    said, family = any(step.predicted is not None for step in lineage), "parents" if everyone else ""
    made = table("candidate", "speed-up", "gain", "predicted" if said else "", "operator", family, "why",
                 right=(1, 2, 3), drop=(4,))  # fmt: skip
    for step in lineage:
        made.add_row(
            Text(step.candidate[:8], style=STRONG),
            _speedup(step, lineage[-1].mode),
            _gain(step),
            Text("" if step.predicted is None else times(step.predicted), style=DIM),
            _operator(step),
            Text(_family(step), style=DIM) if everyone else "",
            _why(step),
        )
    put(stdout(), Text(_heading(lineage, everyone), style=DIM), made)


def _heading(lineage: list[LineageStep], everyone: bool) -> str:
    steps = len(lineage) - 1
    others = {step.mode for step in lineage} - {"", lineage[-1].mode}
    modes = f"measured in the search, {lineage[-1].mode} mode{' unless said' if others else ''}"
    if everyone:
        return f"{lineage[-1].candidate} and its {steps} ancestor{'s' * (steps != 1)}, oldest first; {modes}"
    return f"{lineage[-1].candidate}, {steps} generation{'' if steps == 1 else 's'} after its seed; {modes}"


def _speedup(step: LineageStep, usual: str) -> Text:
    if step.speedup is None or step.holdout == "failed":
        status = "holdout failed" if step.holdout == "failed" else step.status
        return Text(one_line(status), style=BAD)
    return Text(times(step.speedup) + unless(usual, step.mode))


def _gain(step: LineageStep) -> Text:
    if step.gain is None:
        return Text("-", style=DIM)
    style = GOOD if step.gain >= NOTEWORTHY else BAD if step.gain < 1 / NOTEWORTHY else DIM
    return Text(times(step.gain), style=style)


def _why(step: LineageStep) -> Text:
    making = step.making
    lines = [made_by(making), *(insight_line(seq, insight) for seq, insight in making.insights)]
    lines += [f"hint: {one_line(hint.text, width=160)}" for hint in making.hints]
    why = Text(one_line(reason(step.operator, step.rationale), width=300))
    return why.append("".join(f"\n{line}" for line in lines if line), style=DIM)


def _operator(step: LineageStep) -> Text:
    name = one_line(step.operator, width=18)
    return Text.assemble(name, (f" ({one_line(step.island, width=18)})", DIM) if step.parents else "")


def _family(step: LineageStep) -> str:
    inspired = [f"({name[:8]})" for name in step.inspirations]
    return " ".join([*(parent[:8] for parent in step.parents), *inspired])
