"""`evokernel lineage`: how a candidate came about."""

from pathlib import Path

import click
from rich.text import Text

from evokernel.cli.display.tables import insight_line, made_by, put, table, unless
from evokernel.cli.display.text import BAD, DIM, GOOD, STRONG, one_line, reason, stdout, times
from evokernel.cli.locate import open_store, store_option
from evokernel.report.best import candidate_id
from evokernel.report.lineage import LineageStep, story

NOTEWORTHY = 1.02


@click.command()
@click.argument("name", metavar="ID", default="best")
@store_option
@click.option("--all", "everyone", is_flag=True, help="All ancestors, also those that only inspired.")
def command(name: str, store: Path | None, everyone: bool) -> None:
    """Tell how a candidate came about, from the seed on.

    Each line is one candidate: its speed-up over the fastest baseline as measured in the search, its gain over its
    first parent (with what a model had predicted), and the operator and reason that made it, the model and its cost,
    the insights it was made with and the hints in force. ID is an id, the beginning of one, `best` or `seed`.
    """
    with open_store(store) as opened:
        chapters = story(opened, candidate_id(opened, name), everyone=everyone)
    made = table("candidate", "speed-up", "gain", "operator", "why", right=(1, 2))
    if everyone:
        made = table("candidate", "speed-up", "gain", "operator", "parents", "why", right=(1, 2))
    made.columns[1].no_wrap = True
    for chapter in chapters:
        cells = [
            Text(chapter.candidate[:8], style=STRONG),
            _speedup(chapter, chapters[-1].mode),
            _gain(chapter),
            _operator(chapter),
        ]
        family = [Text(_family(chapter), style=DIM)] if everyone else []
        made.add_row(*cells, *family, _why(chapter))
    put(stdout(), Text(_heading(chapters, everyone), style=DIM), made)


def _heading(chapters: list[LineageStep], everyone: bool) -> str:
    steps = len(chapters) - 1
    others = {chapter.mode for chapter in chapters} - {"", chapters[-1].mode}
    modes = f"{chapters[-1].mode} mode{' unless said' if others else ''}"
    if everyone:
        return f"{chapters[-1].candidate} and its {steps} ancestors, oldest first; {modes}"
    return f"{chapters[-1].candidate}, {steps} generation{'' if steps == 1 else 's'} after its seed; {modes}"


def _speedup(chapter: LineageStep, usual: str) -> Text:
    if chapter.speedup is None or chapter.holdout == "failed":
        status = "holdout failed" if chapter.holdout == "failed" else chapter.status
        return Text(one_line(status), style=BAD)
    return Text(times(chapter.speedup) + unless(usual, chapter.mode))


def _gain(chapter: LineageStep) -> Text:
    said = (f" (said {times(chapter.predicted)})", DIM) if chapter.predicted is not None else ""
    if chapter.gain is None:
        return Text.assemble(("-", DIM), said)
    style = GOOD if chapter.gain >= NOTEWORTHY else BAD if chapter.gain < 1 / NOTEWORTHY else DIM
    return Text.assemble((times(chapter.gain), style), said)


def _why(chapter: LineageStep) -> Text:
    making = chapter.making
    lines = [made_by(making), *(insight_line(seq, insight) for seq, insight in making.insights)]
    lines += [f"hint: {one_line(hint.text, width=160)}" for hint in making.hints]
    why = Text(one_line(reason(chapter.operator, chapter.rationale), width=300))
    return why.append("".join(f"\n{line}" for line in lines if line), style=DIM)


def _operator(chapter: LineageStep) -> Text:
    name = one_line(chapter.operator, width=18)
    return Text.assemble(name, (f" ({one_line(chapter.island, width=18)})", DIM) if chapter.parents else "")


def _family(chapter: LineageStep) -> str:
    inspired = [f"({name[:8]})" for name in chapter.inspirations]
    return " ".join([*(parent[:8] for parent in chapter.parents), *inspired])
