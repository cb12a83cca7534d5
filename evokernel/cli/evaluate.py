"""`evokernel evaluate`: the verdict on one kernel file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from evokernel.cli.display.tables import put, sheet, table, workloads
from evokernel.cli.display.text import (
    BAD,
    DIM,
    GOOD,
    STRONG,
    WARN,
    clean,
    interval,
    one_line,
    say,
    stderr,
    stdout,
    styled_speedup,
)
from evokernel.cli.display.word_table import WordTable
from evokernel.cli.options import EXISTING_FILE, cuda_include_option, json_option, judge_set_option, task_option
from evokernel.records.evaluation import Evaluation, Fidelity
from evokernel.records.evaluation_document import stages_of
from evokernel.records.timing import combined_speedup
from evokernel.report.verdicts import over_baselines

if TYPE_CHECKING:
    from evokernel.config.run import EvaluationConfig
    from evokernel.evaluate.client.compile_kernel import KernelCompilation
    from evokernel.evaluate.client.evaluate_kernel import KernelVerdict
    from evokernel.records.candidate import Candidate

WRONG_EXIT = 1
_STYLES = {"passed": GOOD, "failed": BAD, "skipped": DIM, "not reached": DIM}


@click.command(
    epilog="Exit codes: 0 the kernel is right, or with --compile-only was built; 1 it is wrong, or was not built; 2 it "
    "could not be judged, said on stderr."
)
@click.argument("file", type=EXISTING_FILE, metavar="FILE")
@task_option
@click.option("--final", is_flag=True, help="Also measure it anew, in fresh processes, on the held-out workloads.")
@click.option(
    "--expert",
    type=EXISTING_FILE,
    metavar="FILE",
    help="A right kernel to compare it with, too; it is run unconfined, as the task is.",
)
@cuda_include_option
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads it may use.")
@click.option("--compile-only", is_flag=True, help="Check and build it without running it; a GPU kernel needs no GPU.")
@click.option(
    "--target", default="", metavar="ARCH", help="With --compile-only: the GPU to build for; sm_90 if left out."
)
@judge_set_option
@json_option
def command(  # noqa: PLR0913 - one for each option
    *,
    file: Path,
    task_spec: str,
    final: bool,
    expert: Path | None,
    cuda_include: tuple[str, ...],
    threads: int,
    compile_only: bool,
    target: str,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Judge one kernel FILE as a search would: is it right, and how fast is it?"""
    from evokernel.config.load import judge_settings
    from evokernel.config.run import DEVICE_OF, language_of
    from evokernel.evaluate.client.evaluate_kernel import judge, judgement_document, read_candidate
    from evokernel.evaluate.device.cores import too_many_threads

    context = click.get_current_context()
    if compile_only and (final or expert):
        raise click.UsageError("--compile-only measures nothing; leave out --final and --expert")
    if target and not compile_only:
        raise click.UsageError("--target goes with --compile-only: what is run is built for the GPU it runs on")
    candidate = read_candidate(file)
    if cuda_include and "cuda" not in (candidate.language, language_of(expert or "")):
        raise click.UsageError(f"--cuda-include names headers for CUDA C++, and {file} is in {candidate.language}")
    settings = judge_settings(overrides, expert=str(expert or ""), cuda_include=cuda_include)
    if compile_only:
        built = _compile(candidate, task_spec, settings=settings, threads=threads, target=target)
        _put_compilation(built, task_spec, file, as_json=as_json)
        context.exit(0 if built.ok else WRONG_EXIT)
    budgets = (Fidelity.PRECISE, Fidelity.FINAL) if final else (Fidelity.PRECISE,)
    if crowd := too_many_threads(threads, device=DEVICE_OF[candidate.language]):
        stderr().print(Text(f"warning: {crowd}", style=WARN))
    say("judging the kernel: admission of the task, device, baselines, then its own checks and times; half a minute")
    judgement = judge(candidate, task_spec, budgets=budgets, settings=settings, threads=threads)
    if as_json:
        click.echo(json.dumps(judgement_document(judgement, task=task_spec, file=str(file)), indent=2))
    else:
        _show(judgement, file)
    context.exit(0 if judgement.ok else WRONG_EXIT)


def _compile(
    candidate: "Candidate", task_spec: str, *, settings: "EvaluationConfig", threads: int, target: str
) -> "KernelCompilation":
    from evokernel.evaluate.client.compile_kernel import compile_only

    return compile_only(candidate, task_spec, settings=settings, threads=threads, target=target)


def _put_compilation(found: "KernelCompilation", task_spec: str, file: Path, *, as_json: bool) -> None:
    if as_json:
        from evokernel.evaluate.client.compile_kernel import compilation_document

        click.echo(json.dumps(compilation_document(found, task=task_spec, file=str(file)), indent=2))
        return
    built = found.built
    word = ("  built, not run", GOOD) if built else (f"  not built: {found.stage.value}", BAD)
    numbers = {**built.descriptor, **built.metrics} if built else {}
    put(
        stdout(),
        Text.assemble((clean(str(file)), STRONG), word),
        Text(clean(found.complaint), style=BAD) if found.complaint else None,
        sheet({name.replace("_", " "): f"{value:g}" for name, value in numbers.items()}) if numbers else None,
        sheet({"environment": one_line(found.environment), "candidate": found.candidate.id}),
    )


def _show(judgement: "KernelVerdict", file: Path) -> None:
    last = judgement.last
    put(
        stdout(),
        _heading(judgement, file),
        _stages(last),
        None if last.ok else Text(clean(last.feedback), style=BAD),  # of a right kernel it repeats the tables
        *_tables(judgement),
        *(_panel(evaluation) for evaluation in judgement.evaluations if len(evaluation.panel) > 1),
        *(Text(clean(remarks)) for remarks in _remarks(judgement)),
        _circumstances(judgement),
    )


def _tables(judgement: "KernelVerdict") -> list[WordTable]:
    """Return the times on the search workloads; where there are two measurements, each table says which it is."""

    def heading(evaluation: Evaluation) -> str:
        which = "final" if evaluation.key.budget is Fidelity.FINAL else "search"
        return f"workload ({which})" if len(judgement.evaluations) > 1 else "workload"

    return [workloads(each, floors=True, heading=heading(each)) for each in judgement.evaluations if each.ok]


def _remarks(judgement: "KernelVerdict") -> list[str]:
    """Return the remarks on a right kernel; those of a final measurement are in the tables."""
    found = [each.remarks for each in judgement.evaluations if each.ok and each.key.budget is not Fidelity.FINAL]
    return [remarks for remarks in found if remarks]


def _heading(judgement: "KernelVerdict", file: Path) -> Text:
    last = judgement.last
    if not last.ok:
        return Text.assemble((clean(str(file)), STRONG), ("  wrong: ", BAD), (last.status.value, BAD))
    speedup = combined_speedup(last.timings)
    elsewhere = last.holdout_speedup
    held = f", {elsewhere.value:.2f}x ({interval(elsewhere)}) on held-out ones" if elsewhere else ""
    which = "final: " if last.key.budget is Fidelity.FINAL else ""
    return Text.assemble(
        (clean(str(file)), STRONG), ("  right, ", GOOD), which, styled_speedup(speedup),
        f" ({interval(speedup)}) over the fastest baseline on the search workloads{held}",
    )  # fmt: skip


def _stages(evaluation: Evaluation) -> WordTable:
    made = table("stage", "")
    for stage, word in stages_of(evaluation):
        made.add_row(stage.value, Text(word, style=_STYLES[word]))
    return made


def _panel(evaluation: Evaluation) -> WordTable:
    """Return the speed-up over each baseline on all search workloads, the fastest baseline first."""
    made = table("compared with (final)", "speed-up", "95 % interval", right=(1, 2))
    for name, speedup in over_baselines(evaluation).items():
        made.add_row(one_line(name, width=32), styled_speedup(speedup), interval(speedup))
    return made


def _circumstances(judgement: "KernelVerdict") -> WordTable:
    identity, last = judgement.identity, judgement.last
    described = ", ".join(f"{name} {value:g}" for name, value in last.descriptor.items())
    return sheet(
        {
            "behaviour": described,
            "mode": last.key.mode.value + last.mark,
            "sandbox": one_line(identity.sandbox),
            "device": one_line(identity.device),
            "environment": one_line(identity.environment),
            "candidate": judgement.candidate.id,
        }
    )
