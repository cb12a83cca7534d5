"""`evokernel tasks`: what can be evolved as it is, and what a task asks for."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from rich.text import Text

from evokernel.cli.completion import complete_tasks
from evokernel.cli.display.tables import put, sheet, table
from evokernel.cli.display.text import BAD, DIM, GOOD, STRONG, clean, one_line, stdout
from evokernel.cli.display.word_table import WordTable

if TYPE_CHECKING:
    from evokernel.task import Task


@click.command(epilog="Exit codes: 0 done; 1 the task cannot judge kernels; 2 an error, said on stderr.")
@click.argument("name", required=False, metavar="[NAME|FILE.py]", shell_complete=complete_tasks)
@click.pass_context
def command(context: click.Context, name: str | None) -> None:
    """List the built-in tasks, or show one: signature, workloads, guide, and whether it can judge kernels."""
    from evokernel.tasks import builtin_tasks, load_task

    if name is None:
        made = table("task", "computes", "languages")
        for known in builtin_tasks():
            task = load_task(known)
            made.add_row(Text(known, style=STRONG), clean(task.description), ", ".join(task.seeds))
        put(stdout(), made, Text("more of one:  evokernel tasks NAME    your own:  evokernel init FILE.py", style=DIM))
        return
    task = load_task(name)
    put(stdout(), _heading(task), _facts(task), *_workloads(task))
    for guide in _guides(task):
        stdout().print(guide, soft_wrap=True)  # its lines are made to be copied, or given to a model
    click.echo("judging honest and empty answers: seconds, or minutes for a large task", err=True)
    admitted, text = _admission(task, name)
    put(stdout(), text)
    context.exit(0 if admitted else 1)


def _heading(task: "Task") -> Text:
    return Text.assemble((clean(task.name), STRONG), (f"  {clean(task.description)}", DIM))


def _facts(task: "Task") -> WordTable:
    precision = task.precision
    exact = ", exact on integers" if precision.exact_on_integers else ""
    return sheet(
        {
            "flops": task.flops,
            "bytes": task.bytes_moved or "each tensor touched once",
            "precision": f"longest sum {precision.reduction}, slack {precision.slack:g}{exact}",
            "baselines": ", ".join(task.baselines) if task.baselines else "reference, which is the reference itself",
            "checked on": ", ".join(task.distributions),
            "seeds": ", ".join(f"{language}: {path}" for language, path in task.seeds.items()),
        }
    )


def _workloads(task: "Task") -> list[WordTable]:
    tables = []
    for device, workloads in task.workloads.items():
        made = table(f"{device} workload", "used for", "sizes", "weight", right=(3,))
        for role, group in (("search", workloads.search), ("holdout", workloads.holdout)):
            for workload in group:
                sizes = ", ".join(f"{dim}={value}" for dim, value in workload.dims.items())
                made.add_row(one_line(workload.name), role, sizes, f"{workload.weight:g}")
        ranges = ", ".join(f"{dim} {low} to {high}" for dim, (low, high) in workloads.probe.items())
        made.add_row(f"{workloads.probes} hidden ones", "probe", ranges, "")
        tables.append(made)
    return tables


def _guides(task: "Task") -> Iterator[Text]:
    """Yield what an author must know, for each device class the task has; where a tool chain is missing, that."""
    from evokernel.config.run import DEVICE_OF
    from evokernel.errors import LanguageError
    from evokernel.evaluate.device.device_class import this_machine
    from evokernel.languages import make_language
    from evokernel.languages.toolchain import forge_plain, run_plain

    for language, device in DEVICE_OF.items():
        if device not in task.workloads:
            continue
        yield Text(f"\n{language} (device class {device})", style=STRONG)
        try:
            limits = this_machine().limits(device)
            made = make_language(language, run=run_plain, forge=forge_plain, device=limits)
            yield Text(made.guide(task.on(device)))
        except LanguageError as error:
            yield Text(clean(str(error)), style=DIM)


def _admission(task: "Task", spec: str) -> tuple[bool, Text]:
    import numpy as np

    from evokernel.errors import TaskError
    from evokernel.evaluate.bench.admission import admit
    from evokernel.evaluate.build.confined_generators import confine_generators

    task = confine_generators(task, spec)
    try:
        found = [f"{device}: {admit(task, device, rng=np.random.default_rng()).message}" for device in task.workloads]
    except TaskError as error:
        return False, Text(f"cannot judge kernels: {clean(str(error))}", style=BAD)
    return True, Text("fit to judge kernels: " + "; ".join(found), style=GOOD)
