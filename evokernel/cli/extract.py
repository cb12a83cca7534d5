"""`evokernel extract`: from a kernel in Triton or CUDA C++ to a task, a seed, an expert to beat and a config."""

from functools import partial
from pathlib import Path

import click
from rich.text import Text

from evokernel.cli.display.tables import put, sheet
from evokernel.cli.display.text import DIM, GOOD, WARN, clean, stdout
from evokernel.cli.init import admission_text, project_heading
from evokernel.cli.options import EXISTING_FILE, cuda_include_option, force_option, out_option, shapes_option

UNFIT_EXIT = 1


@click.command(epilog="Exit codes: 0 done; 1 the task cannot judge kernels; 2 an error, said on stderr.")
@click.argument("place", metavar="FILE.py:FUNCTION|FILE.cu")
@click.option(
    "--call",
    "script",
    type=EXISTING_FILE,
    metavar="SCRIPT.py",
    help="Calls FUNCTION; its first call is recorded. With --launch that file itself if left out.",
)
@click.option(
    "--reference",
    required=True,
    metavar="FILE.py:FUNCTION",
    help="The same in PyTorch, with the same arguments: what is right.",
)
@click.option("--entry", default="", metavar="NAME", help="With FILE.cu: the kernel in it.")
@click.option(
    "--launch",
    default="",
    metavar="FILE.py[:FUNCTION]",
    help="With FILE.cu: the function that launches it by evokernel.cuda; `launch` if not named.",
)
@cuda_include_option
@shapes_option
@click.option(
    "--config",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Which of the configurations of triton.autotune seed and expert begin with, counted from 0.",
)
@out_option
@force_option
def command(  # noqa: PLR0913 - one for each option
    place: str,
    script: Path | None,
    reference: str,
    entry: str,
    launch: str,
    cuda_include: tuple[str, ...],
    shapes: tuple[str, ...],
    config: int,
    out: Path | None,
    force: bool,
) -> None:
    """Write a task, a seed, an expert and a config for a function that launches kernels, in Triton or CUDA C++.

    The script of --call is run in the sandbox, without a GPU, until it calls FUNCTION. Its kernels become the seed of
    a search and the baseline `expert`. The configurations of triton.autotune become tunables, of CUDA C++ the numbers
    that are macros in it and stand at the top of FILE.py.

    Before anything is written the seed is compiled for sm_90. In Triton it is compared with the reference in Triton's
    interpreter; where there is a GPU the judge judges it, in CUDA C++, too.

    `evokernel export STORE --patch` writes a winner back behind the function's signature (docs/own_kernels.md).
    """
    of_cuda = Path(place).suffix == ".cu"
    if of_cuda and not (entry and launch):
        raise click.UsageError(f"{place}: give --entry KERNEL and --launch FILE.py[:FUNCTION], which launches it")
    if of_cuda and config:
        raise click.UsageError("--config is for kernels with triton.autotune")
    if not of_cuda and (entry or launch or cuda_include):
        raise click.UsageError(
            f"--entry, --launch and --cuda-include are for a file in CUDA C++, FILE.cu; got {place!r}"
        )
    from evokernel.scaffold.extract.extract_project import extract_cuda_project, extract_project

    if of_cuda:
        extracted = partial(
            extract_cuda_project, Path(place), entry=entry, launch=launch, script=script, headers=cuda_include
        )
    elif script is not None:
        extracted = partial(extract_project, place, script=script, config=config)
    else:
        raise click.UsageError("give --call SCRIPT.py, a script that calls the function")
    click.echo("recording the call, and checking the kernel: half a minute, sometimes more", err=True)
    project = extracted(reference=reference, out=out, force=force, shapes=shapes)
    (seed,) = project.seeds
    workloads = project.task.workloads["cuda"]
    facts = {
        "computes": project.task.description,
        "search": ", ".join(workload.name for workload in workloads.search),
        "holdout": ", ".join(workload.name for workload in workloads.holdout),
        "note": "; ".join(project.remarks),
    }
    right = "built for sm_90, and equal to the reference within rounding"
    told = (f"built for sm_90. {seed.remark}", WARN) if seed.remark else (right, GOOD)
    put(
        stdout(),
        project_heading(project),
        sheet(facts),
        Text.assemble((f"{seed.file.name}  {clean(told[0])}", told[1])),
        admission_text(project),
        Text(f"look through the task file, then:  evokernel evolve {project.files[2]}", style=DIM),
    )
    click.get_current_context().exit(UNFIT_EXIT if project.unfit else 0)
