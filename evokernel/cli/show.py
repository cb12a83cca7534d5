"""`evokernel show`: one candidate."""

import json
import sys
from pathlib import Path

import click
from rich.text import Text

from archive.file.records import StoredEvaluation
from archive.queries import candidate_of_step
from evokernel.cli.display.tables import (
    code,
    holdout_text,
    insight_line,
    made_by,
    measured_how,
    put,
    sheet,
    table,
    workloads,
)
from evokernel.cli.display.text import BAD, DIM, GOOD, STRONG, clean, interval, one_line, reason, stdout, times
from evokernel.cli.display.word_table import WordTable
from evokernel.cli.locate import open_store
from evokernel.cli.options import json_option, takes_store
from evokernel.records.timing import combined_speedup
from evokernel.report.best import candidate_id
from evokernel.report.documents import portrait_document
from evokernel.report.lineage import CandidateDetails, portrait
from evokernel.report.verdicts import Holdout, MeasurementKind

SHORT = 6
"""A number of fewer digits may be meant as a step."""


@click.command()
@takes_store(name="[ID]")
@click.option("--source", "only_source", is_flag=True, help="Print the source and nothing else.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="List the N fastest right ones in place of one.")
@json_option
def command(name: str, store: Path | None, only_source: bool, top: int | None, as_json: bool) -> None:
    """Show one candidate: where it came from, what was measured, its source.

    ID is an id, the beginning of one, `best` or `seed`.
    """
    if top is not None:
        if name or only_source:
            raise click.UsageError("--top lists several candidates: name no ID, and no --source")
        _list(store, top, as_json=as_json)
        return
    with open_store(store) as opened:
        found = portrait(opened, candidate_id(opened, name or "best"))
        step = candidate_of_step(opened.database, int(name)) if name.isdecimal() else None
    if name.isdecimal() and len(name) < SHORT and step != found.stored.candidate.id:
        made = f"step {name} made {step}" if step else f"no candidate is of step {name}"
        click.echo(f"this is the candidate whose id begins with {name}; {made}", err=True)
    if as_json:
        click.echo(json.dumps(portrait_document(found), indent=2))
    elif only_source:
        _source_alone(found.stored.candidate.source)
    else:
        _show(found)


def _list(store: Path | None, top: int, *, as_json: bool) -> None:
    """Print the fastest candidates, by the numbers of the search, with their final ones where there are some."""
    with open_store(store) as opened:
        found = [portrait(opened, ranked.candidate.candidate.id) for ranked in opened.best(top)]
    if as_json:
        click.echo(json.dumps([portrait_document(each) for each in found], indent=2))
        return
    made = table("candidate", "speed-up", "at least", "anew", "operator", "why", right=(1, 2, 3))
    for each in found:
        searched, proposal = each.verdicts.search, each.proposal
        speedup = combined_speedup(searched.timings) if searched else None
        anew = each.speedup if each.verdicts.kind is MeasurementKind.FINAL else None
        failed = "failed" if each.verdicts.holdout is Holdout.FAILED else "-"
        made.add_row(
            each.stored.candidate.id,
            times(speedup.value) if speedup else "-",
            times(speedup.low) if speedup else "-",
            times(anew.value) if anew else failed,
            one_line(proposal.operator, width=16) if proposal else "-",
            Text(one_line(reason(proposal.operator, proposal.rationale), width=160) if proposal else "", style=DIM),
        )
    put(stdout(), made if found else Text("no correct kernel yet", style=DIM))


def _source_alone(source: str) -> None:
    # A pipe or a file gets every byte; a terminal gets nothing that could steer it.
    click.echo(clean(source) if sys.stdout.isatty() else source, nl=False)


def _show(found: CandidateDetails) -> None:
    candidate, reported = found.stored.candidate, found.verdicts.reported
    failure = found.verdicts.failure
    put(
        stdout(),
        Text.assemble(("candidate ", STRONG), (candidate.id, STRONG), (f"  {one_line(candidate.language)}", DIM)),
        _origin(found),
        _evaluations(found.evaluations) if found.evaluations else None,
        workloads(reported) if reported else None,
        Text(clean(failure.feedback).strip(), style=BAD) if failure and failure.feedback else None,
        code(candidate),
    )


def _origin(found: CandidateDetails) -> WordTable:
    proposal, over = found.proposal, found.over_seed
    rows: dict[str, str | Text] = {}
    if proposal is not None:
        rows = {
            "operator": f"{one_line(proposal.operator)} on island {one_line(proposal.island)}, step {proposal.step}",
            "why": one_line(proposal.rationale),
            "parents": ", ".join(proposal.parents),
            "inspirations": ", ".join(proposal.inspirations),
            "model": made_by(found.making),
            "insights": "\n".join(insight_line(seq, insight) for seq, insight in found.making.insights),
            "hints": "\n".join(one_line(hint.text, width=160) for hint in found.making.hints),
            "gain": "" if found.gain is None else f"{times(found.gain)} over its first parent, in the search",
            "predicted": "" if proposal.predicted_speedup is None else f"{times(proposal.predicted_speedup)} gain",
        }
    if found.speedup is not None:
        value = f"{times(found.speedup.value)} ({interval(found.speedup)})"
        rows["speed-up"] = f"{value} over the fastest baseline, {measured_how(found.verdicts.kind)}"
    if over is not None:
        rows["over seed"] = f"{times(over.speedup.value)} ({interval(over.speedup)}), {measured_how(over.kind)}"
    if found.verdicts.search is not None or found.verdicts.holdout is not Holdout.PENDING:
        rows["holdout"] = holdout_text(found.verdicts.holdout)
    rows["from"] = one_line(found.stored.origin)
    return sheet(rows)


def _evaluations(evaluations: tuple[StoredEvaluation, ...]) -> WordTable:
    made = table("evaluation", "budget", "mode", "status", "reached", "took", right=(0, 5), drop=(5, 4))
    for stored in evaluations:
        evaluation = stored.evaluation
        style = GOOD if evaluation.ok else BAD
        made.add_row(
            str(stored.seq),
            evaluation.key.budget.value,
            evaluation.key.mode.value + evaluation.mark,
            Text(evaluation.status.value, style=style),
            evaluation.stage.value,
            f"{evaluation.duration_s:.2f} s",
        )
    return made
