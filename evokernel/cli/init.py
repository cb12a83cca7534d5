"""`evokernel init`: from a PyTorch operation to a task, kernels to start from and a config."""

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from evokernel.cli.display.tables import put, sheet
from evokernel.cli.display.text import BAD, DIM, GOOD, STRONG, WARN, clean, stdout
from evokernel.cli.display.word_table import WordTable
from evokernel.cli.group import OWN_PROCESS
from evokernel.cli.options import EXISTING_FILE, PATH, force_option, out_option, shapes_option
from evokernel.errors import TaskError
from evokernel.evaluate.inside.process.seal import PR_SET_PDEATHSIG, prctl

if TYPE_CHECKING:
    from evokernel.scaffold.gradients.saved_values import SaveChoice
    from evokernel.scaffold.project import Project, ProjectSettings
    from evokernel.task import Tensor


@click.command(epilog="Exit codes: 0 done; 1 the task cannot judge kernels; 2 an error, said on stderr.")
@click.argument("place", type=PATH, metavar="[FILE.py[:NAME]]", required=False)
@click.option("--name", default="", metavar="FUNCTION|CLASS", help="What to take, where the file has several.")
@click.option(
    "--inputs",
    default="",
    metavar="TEXT",
    help='Example inputs: "x: bf16[8192x4096], i: int64[8192] < 4096, o: int32[65] sorted < 4097, m: bool[64], '
    'eps: 1e-6". Default: get_inputs().',
)
@shapes_option
@click.option(
    "--from-run",
    type=EXISTING_FILE,
    metavar="SCRIPT.py",
    help="In place of FILE.py: run this script, and take sizes, types and values from the calls of --function.",
)
@click.option("--function", metavar="NAME", help="With --from-run, a function, or a class of modules.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    help="Workloads for one of both machines only.",
)
@click.option(
    "--cpu-dtype",
    type=click.Choice(["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]),
    help="Type of floating-point numbers in the cpu workloads. Default: that of the example, float32 for shorter ones.",
)
@out_option
@force_option
@click.option("--training", is_flag=True, help="Two projects: the function with what it saves, and its gradients.")
@click.option(
    "--save",
    type=click.Choice(["auto", "inputs", "outputs", "all"]),
    help="With --training, values that forward saves: what sums and products give (auto), nothing beside inputs, "
    "results, or all that autograd saves; the rest is computed again.",
)
def command(
    place: Path | None,
    name: str,
    inputs: str,
    shapes: tuple[str, ...],
    device: str,
    cpu_dtype: str | None,
    out: Path | None,
    **asked: Any,
) -> None:
    """Write a task, kernels to start from and a config for a PyTorch function or nn.Module in FILE.py.

    FILE.py:NAME is the same as FILE.py with --name NAME.

    The task has workloads for a processor and for a GPU. Sizes that may vary are found by running it; kernels are
    built and compared with it before they are written.

    With --training there are two tasks, NAME_forward and NAME_backward, each for a search of its own; `evokernel
    export STORE --backward STORE` joins the winners (docs/tasks.md).

    With --from-run the most frequent sizes of the calls are the first search workloads, weighted by how often they
    came. The script is run in the sandbox, without a GPU.
    """
    # torch's threads wait for each other thousands of times, and take a busy machine's time while they do
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if click.get_current_context().obj == OWN_PROCESS:
        _go_on_in_a_child()
    from evokernel.scaffold.output_folder import check_folder
    from evokernel.scaffold.project import ProjectSettings, init_project

    file, name = _told_apart(place, name) if place else (None, name)
    settings = ProjectSettings(
        devices=("cpu", "cuda") if device == "auto" else (device,),
        cpu_dtype=cpu_dtype or "",
        shapes=shapes,
        tell=_tell,
    )
    force, save = asked["force"], asked["save"]
    if save and not asked["training"]:
        raise click.UsageError("--save belongs to --training")
    if file is not None and asked["function"] is not None:
        raise click.UsageError(
            "--function belongs to --from-run; a function of FILE.py is FILE.py:NAME, or --name NAME"
        )
    if (file is None) == (asked["from_run"] is None) or (asked["from_run"] is None) != (asked["function"] is None):
        raise click.UsageError("expected FILE.py, or --from-run SCRIPT.py --function NAME")
    given = file or asked["from_run"]
    check_folder(out or given.parent)
    click.echo(
        "running the operation at many sizes, to find those that may vary; all takes half a minute, sometimes two",
        err=True,
    )
    if file is None:
        if name or inputs or shapes or asked["training"]:
            raise click.UsageError("--name, --inputs, --shapes and --training belong to FILE.py, not to --from-run")
        _show(_from_run(asked["from_run"], asked["function"], out=out, force=force, settings=settings))
        return
    if asked["training"]:
        click.get_current_context().exit(
            _training(file, name=name, inputs=inputs, out=out, force=force, save=save, settings=settings)
        )
    project = init_project(file, name=name, inputs=inputs, out=out or file.parent, force=force, settings=settings)
    _show(project)


def _go_on_in_a_child() -> None:
    """Go on in a child process; this one ends as the child does, and is stopped (Ctrl-Z) and continued with it.

    torch checks few of the integers that its operations get: some out of order write outside their tensors.

    Raises:
        TaskError: in this process, a signal ended the child.
    """
    if (pid := os.fork()) == 0:
        os.setpgid(0, 0)  # a terminal interrupts the parent alone, as others do that know only that
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        return

    def stop(*_: object) -> None:
        os.kill(pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)  # returns once somebody continues this process
        os.kill(pid, signal.SIGCONT)

    signal.signal(signal.SIGTSTP, stop)
    signal.signal(signal.SIGINT, lambda *_: os.kill(pid, signal.SIGINT))  # the child says so
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code >= 0:
        os._exit(code)
    if -code in (signal.SIGTERM, signal.SIGHUP):  # somebody ended it
        os._exit(128 - code)
    from evokernel.evaluate.sandbox.fork_server import signal_name

    raise TaskError(
        f"{signal_name(-code)} ended the process that ran the operation. SIGKILL may come from a lack of "
        "memory; other signals come from native code, as of torch with integers that it does not check. Expected: an "
        "operation that takes, or refuses with an exception, all inputs that init draws; say what integers hold with "
        '--inputs, as in "rows: int64[8192] < 4096, offsets: int32[65] sorted < 4097". Files that were begun are '
        "written anew with --force"
    )


def _tell(text: str) -> None:
    """Say on stderr what is done next."""
    click.echo(f"  {text}", err=True)


def _told_apart(place: Path, name: str) -> tuple[Path, str]:
    """Return file and name of `FILE.py[:NAME]`, beside the value of --name."""
    text, colon, behind = str(place).partition(".py:")
    file = Path(f"{text}.py") if colon else place
    if not file.is_file():
        raise click.BadParameter(f"{file} is no file", param_hint="FILE.py")
    if colon and name not in ("", behind):
        raise click.UsageError(f"{place} names {behind}, and --name {name}")
    return file, behind or name


def _show(project: "Project") -> None:
    _put(project)
    click.get_current_context().exit(1 if project.unfit else 0)


def _put(project: "Project") -> None:
    put(stdout(), project_heading(project), _facts(project), *_seeds(project), admission_text(project), _next(project))


def _from_run(script: Path, function: str, *, out: Path | None, force: bool, settings: "ProjectSettings") -> "Project":
    from evokernel.scaffold.capture.script_calls import script_calls

    calls, remark = script_calls(script, function)
    if len(calls):
        put(stdout(), Text(clean(str(calls))), *([Text(clean(remark), style=WARN)] if remark else []))
    return calls.init(out or script.parent, force=force, devices=settings.devices, cpu_dtype=settings.cpu_dtype)


def _training(file: Path, *, out: Path | None, save: "SaveChoice | None", **given: Any) -> int:
    """Write both projects, and return the exit code."""
    from evokernel.scaffold.gradients.training_project import init_training

    made = init_training(file, out=out or file.parent, save=save or "auto", **given)
    put(
        stdout(),
        Text.assemble(("training ", STRONG), (f"wrote {clean(str(made.file))}, which equals autograd in fp64", GOOD)),
        sheet(
            {
                "saved": ", ".join(made.saved) or "inputs alone",
                "gradients": ", ".join(made.gradients),
                "fixed": f"{made.fixed}: kernels compute with nothing else (--inputs)" if made.fixed else "",
            }
        ),
    )
    for project in (made.forward, made.backward):
        _put(project)
    stores = " --backward ".join(
        str(project.files[0].parent / "runs" / f"{project.task.name}.db") for project in (made.forward, made.backward)
    )
    put(stdout(), Text(f"when both searches are done:  evokernel export {stores} --out FOLDER", style=DIM))
    return 1 if made.forward.unfit or made.backward.unfit else 0


def project_heading(project: "Project") -> Text:
    """Return the task's name, and the files that were written."""
    written = ", ".join(str(path) for path in project.files)
    return Text.assemble(("task ", STRONG), (project.task.name, STRONG), (f"  wrote {clean(written)}", DIM))


def _steps(units: Sequence[int]) -> str:
    return f" (steps of {' and '.join(map(str, dict.fromkeys(units)))})" if max(units) > 1 else ""


def _facts(project: "Project") -> WordTable:
    from evokernel.scaffold.task_text import constants_text

    layout = project.layout
    dims = [f"{each.name}={each.example}{_steps(each.units)}" for each in layout.dimensions]
    signature = project.task.signature
    stated = " = " in project.task.description  # a long one, as of a module with many weights, is the name alone
    facts = {
        "computes": project.task.description,
        "takes": "" if stated else _tensors_text(signature.inputs),
        "writes": "" if stated else _tensors_text(signature.outputs),
        "may vary": ", ".join(dims) or "nothing: every size is fixed by the operation",
    }
    if fixed := project.task.fixed:
        facts["fixed"] = (
            f"{constants_text(fixed)}: kernels compute with nothing else; for other values "
            f'--inputs "{next(iter(fixed))}: ..."'
        )
    for device, workloads in project.task.workloads.items():
        facts[f"{device} search"] = ", ".join(workload.name for workload in workloads.search)
        facts[f"{device} holdout"] = ", ".join(workload.name for workload in workloads.holdout)
    ranges = {tensor.name: tensor.below for tensor in project.task.signature.inputs if tensor.below is not None}
    facts |= {"integers": ", ".join(f"{name} < {below}" for name, below in ranges.items())} if ranges else {}
    facts |= {"note": "; ".join(project.remarks)} if project.remarks else {}
    return sheet({**facts, "flops": project.task.flops})


def _tensors_text(tensors: "Sequence[Tensor]") -> str:
    return ", ".join(f"{each.name}[{','.join(map(str, each.shape))}]" for each in tensors)


def _seeds(project: "Project") -> Iterator[Text]:
    for seed in project.seeds:
        if seed.remark:
            where = " for sm_90" if seed.language != "cpp" else ""
            yield Text(f"{seed.file.name}  built{where}. {clean(seed.remark)}", style=WARN)
            continue
        if not seed.why:
            yield Text(f"{seed.file.name}  built, and equal to the reference within rounding", style=GOOD)
            continue
        yield Text.assemble(
            (f"{seed.file.name}  is yours to fill in: {clean(seed.why)}.\n", WARN),
            f"It says how, and fails until then:  {seed.entry}",
        )


def admission_text(project: "Project") -> Text:
    """Say that the task can judge kernels, or why it cannot yet."""
    if project.unfit:
        return Text(f"this task cannot judge kernels yet: {clean(project.unfit)}", style=BAD)
    return Text(f"task     fit to judge kernels: {project.admission}", style=GOOD)


def _next(project: "Project") -> Text:
    folder = project.files[0].parent
    started = any(not seed.why for seed in project.seeds)
    first = "look through the task file, then" if started else "fill in a kernel, then"
    return Text(f"{first}:  evokernel evolve {folder / project.task.name}.yaml", style=DIM)
