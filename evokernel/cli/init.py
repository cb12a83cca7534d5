"""`evokernel init`: from a PyTorch operation to a task, a plain kernel and a config."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from evokernel.cli.display.tables import put, sheet
from evokernel.cli.display.text import BAD, DIM, GOOD, STRONG, WARN, clean, stdout

if TYPE_CHECKING:
    from evokernel.scaffold.project import Project


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE.py")
@click.option("--name", default="", metavar="FUNCTION|CLASS", help="What to take, where the file has several.")
@click.option(
    "--inputs",
    default="",
    metavar="TEXT",
    help='Example inputs: "x: 1024x1024, w: 1024, eps: 1e-6". Default: get_inputs().',
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder to write to; that of FILE if left out."
)
@click.option("--force", is_flag=True, help="Replace files that are there.")
def command(file: Path, name: str, inputs: str, out: Path | None, force: bool) -> None:
    """Write a task, a plain C++ kernel and a config for a PyTorch function or nn.Module in FILE.py.

    Sizes that may vary are found by running it; the kernel is compiled and compared with it before it is written.
    """
    from evokernel.scaffold.project import init_project

    project = init_project(file, name=name, inputs=inputs, out=out or file.parent, force=force)
    put(stdout(), _heading(project), _facts(project), _seed(project), _admission(project), _next(project))


def _heading(project: "Project") -> Text:
    written = ", ".join(str(path) for path in project.files)
    return Text.assemble(("task ", STRONG), (project.task.name, STRONG), (f"  wrote {clean(written)}", DIM))


def _facts(project: "Project") -> Table:
    layout = project.layout
    workloads = project.task.workloads["cpu"]
    dims = [f"{d.name}={d.example}" + (f" (steps of {d.unit})" if d.unit > 1 else "") for d in layout.dimensions]
    cut = " (smaller than the example, which would take long)" if project.cut else ""
    return sheet(
        {
            "computes": project.task.description,
            "may vary": ", ".join(dims) or "nothing: every size is fixed by the operation",
            "search": ", ".join(workload.name for workload in workloads.search) + cut,
            "holdout": ", ".join(workload.name for workload in workloads.holdout),
            "flops": project.task.flops,
        }
    )


def _seed(project: "Project") -> Text:
    if not project.seedless:
        return Text("kernel   compiled, and equal to the reference within rounding", style=GOOD)
    name = f"{project.task.name}.cpp"
    return Text.assemble(
        (f"no kernel was written: {clean(project.seedless)}.\n", WARN),
        f"Write {name} yourself, beginning with\n\n    #include <cstdint>\n\n    {project.entry} {{\n",
    )


def _admission(project: "Project") -> Text:
    if project.unfit:
        return Text(f"this task cannot judge kernels yet: {clean(project.unfit)}", style=BAD)
    return Text(f"task     fit to judge kernels: {project.admission}", style=GOOD)


def _next(project: "Project") -> Text:
    folder = project.files[0].parent
    first = "look through the task file, then" if not project.seedless else "write the kernel, then"
    return Text(f"{first}:  evokernel evolve {folder / project.task.name}.yaml", style=DIM)
