"""`evokernel export`: a kernel to take home, or what a run can teach."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from evokernel.cli.display.tables import put, sheet, workloads
from evokernel.cli.display.text import DIM, GOOD, STRONG, clean, interval, say, stderr, stdout, times
from evokernel.cli.locate import open_store
from evokernel.cli.options import PATH, number, store_option
from evokernel.cli.training import check_training, export_training, training_options
from evokernel.records.timing import Speedup, microseconds
from evokernel.report.best import best_kernel, candidate_id

if TYPE_CHECKING:
    from archive.store import Store
    from evokernel.export.patch import KernelPatch

_LOADING = "loading the task and its tool chain"
_TRIED = "kernel.py built it and got the right result, in a process of its own without evokernel"
_UNTRIED = "kernel.py is the text that was judged; the other files were not run: see README.md"


@click.command(
    epilog="Exit codes: 0 written, or the rows are sound; 1 with --check, some are not; 2 an error, said on stderr."
)
@click.argument("places", nargs=-1, type=PATH, metavar="[STORE|CONFIG]...")
@click.option(
    "--id",
    "name",
    default="",
    metavar="ID",
    help="A candidate, or the beginning of its id; default: the best, or what "
    "clearly leads the search since that was measured anew.",
)
@click.option("--out", type=PATH, metavar="DIR", help="Folder to write to; kernel_ID here if left out.")
@click.option(
    "--backward",
    type=PATH,
    metavar="STORE|CONFIG",
    help="The search on NAME_backward (init --training): its best kernel gives the gradients.",
)
@click.option("--per-workload", is_flag=True, help="Also take the fastest kernel of each workload along, for op.py.")
@click.option(
    "--sizes",
    type=click.IntRange(min=0),
    default=16,
    show_default=True,
    metavar="N",
    help="Judge the kernels beside torch at N sizes between the workloads, too: op.py answers there by what was "
    "measured. 0 leaves all other sizes to torch.",
)
@click.option(
    "--accept-from",
    type=number(0),
    default=1.0,
    show_default=True,
    metavar="X",
    help="The least speed-up over torch: op.py leaves a place to torch where the interval begins below.",
)
@click.option(
    "--patch",
    is_flag=True,
    help="Of a task of `evokernel extract`: also write a diff that has your function call the kernel.",
)
@click.option("--apply", is_flag=True, help="With --patch: change your file, beside writing the diff.")
@store_option
@training_options
@click.pass_context
def command(
    context: click.Context,
    /,
    places: tuple[Path, ...],
    name: str,
    out: Path | None,
    backward: Path | None,
    per_workload: bool,
    store: Path | None,
    **asked: Any,
) -> None:
    """Write the best kernel, or another, as files that work without evokernel.

    It is first judged anew on held-out inputs, in fresh processes; a kernel that does not hold is not exported. Beside
    the kernel lies op.py, an operator of PyTorch that calls it where it is faster, and torch everywhere else. Between
    the workloads it asks a tree, which is fitted to the speed-ups at drawn sizes. A kernel that is nowhere faster than
    torch is not exported.

    With --backward two kernels become one operator with gradients, compared with autograd in fp64, and forward +
    backward are timed beside torch.

    With --patch the function that `evokernel extract` took the task from calls the kernel where it was judged, and
    does what it did everywhere else: as a diff, and with --apply in your file (docs/own_kernels.md).

    With --training what one or more runs can teach is written instead: tables of kernels, answers, preferences, fixes
    and trajectories, and the prompts and replies of models; --check says whether such rows are what their stores say
    (docs/training-data.md).
    """
    training, check, sample = (asked.pop(name) for name in ("training", "check", "sample"))
    patch, apply = asked.pop("patch"), asked.pop("apply")
    choice = {"per_workload": per_workload, **{each: asked.pop(each) for each in _OF_DISPATCH}}
    _refuse_mixed(context, training=training is not None, check=check is not None)
    stores: list[Path | None] = [*places, *([store] if store is not None else [])]
    stores = stores or [None]
    if check is not None:
        context.exit(0 if check_training(check, stores, sample=sample) else 1)
    if training is not None:
        return export_training(training, stores, asked)
    if len(stores) > 1:
        raise click.UsageError(
            "name one store, as an argument or with --store (--id names a kernel); only --training takes several"
        )
    if apply and not patch:
        raise click.UsageError("--apply belongs to --patch")
    if backward is not None:
        if per_workload or patch:
            raise click.UsageError(f"--{'patch' if patch else 'per-workload'} and --backward do not go together")
        for each in _OF_DISPATCH:
            if context.get_parameter_source(each) is click.core.ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--{each.replace('_', '-')} and --backward do not go together")
        return _pair(stores[0], backward, name, out=out)
    return _kernel(stores[0], name, choice, out=out, patch=patch, apply=apply)


_OF_DISPATCH = ("sizes", "accept_from")
_OF_KERNELS = ("name", "out", "per_workload", *_OF_DISPATCH, "backward", "patch", "apply")
_OF_TRAINING = (
    "min_speedup", "operators", "models", "holdout_passed", "discount", "form", "parquet", "test_tasks", "balance",
    "min_rationale", "difficulty", "steps",
)  # fmt: skip


def _refuse_mixed(context: click.Context, *, training: bool, check: bool) -> None:
    """Raise `UsageError` where an option was given that would be ignored."""
    if training and check:
        raise click.UsageError("--training writes and --check reads: give one of them")
    if not check and context.params.get("sample"):
        raise click.UsageError("--sample belongs to --check")
    ignored = (*(_OF_KERNELS if training or check else ()), *(() if training else _OF_TRAINING))
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name in ignored and source is click.core.ParameterSource.COMMANDLINE:
            where = "an export of a kernel" if option.name in _OF_KERNELS else "--training"
            where += "; --training DIR names the folder itself" * (training and option.name == "out")
            raise click.UsageError(f"{option.opts[0]} belongs to {where}")


def _wanted(store: "Store", name: str) -> str:
    """Return the id of the kernel to export, and say so where it is not the one that `best` shows."""
    if name:
        return candidate_id(store, name)
    best = best_kernel(store)
    if best.to_export != best.candidate.id and best.contender_speedup is not None:
        leads = f"{best.to_export} leads the search with {times(best.contender_speedup.value)} and is taken if it holds"
        other = f"{best.candidate.id}, which was measured anew at {times(best.speedup.value)}"
        stderr().print(Text(f"{leads}; `--id best` takes {other}"))
    return best.to_export


def _pair(place: Path | None, back: Path, name: str, *, out: Path | None) -> None:
    say(_LOADING)
    from evokernel.export.gradients.export_pair import export_pair
    from evokernel.export.gradients.pair_texts import span

    with open_store(place) as forward, open_store(back) as backward:
        wanted = _wanted(forward, name), _wanted(backward, "")
        folder = out or Path(f"kernel_{wanted[0][:8]}_{wanted[1][:8]}")
        made = export_pair(forward, backward, wanted, out=folder, notify=say)
    facts = {
        "forward": f"{made.forward.candidate}  {times(made.forward.speedup.value)} ({interval(made.forward.speedup)})",
        "backward": f"{made.backward.candidate}  {times(made.backward.speedup.value)} "
        f"({interval(made.backward.speedup)})",
        "checked": made.checked,
    }
    for workload, found in made.figures.items():
        parts = [f"{microseconds(found['us']['kernels'])} forward + backward"]
        parts += [f"{span(Speedup(*found[key]))} of {key}'s" for key in ("torch", "torch.compile") if key in found]
        facts[workload] = ", ".join(parts) + (f"; no torch.compile: {found['missing']}" if found["missing"] else "")
    heading = Text.assemble(("exported ", GOOD), (made.name, STRONG), f" with gradients to {clean(str(made.folder))}")
    put(stdout(), heading, sheet({key: clean(text) for key, text in facts.items()}))


def _kernel(
    place: Path | None, name: str, choice: Mapping[str, Any], *, out: Path | None, patch: bool, apply: bool
) -> None:
    say(_LOADING)
    from evokernel.export.export_kernel import export
    from evokernel.export.patch import patch_of_run

    with open_store(place) as opened:
        wanted = _wanted(opened, name)
        patched = patch_of_run(opened, wanted) if patch else None
        made = export(opened, wanted, out=out or Path(f"kernel_{wanted[:8]}"), notify=say, **choice)
    put(
        stdout(),
        Text.assemble(("exported ", GOOD), (made.candidate, STRONG), f" to {clean(str(made.folder))}"),
        sheet(
            {
                "speed-up": f"{times(made.speedup.value)} ({interval(made.speedup)}), anew, right on held-out inputs",
                "files": ", ".join(made.files),
                "tried": _TRIED if made.tried else _UNTRIED,
                "mode": f"{made.evaluation.key.mode.value}{made.evaluation.mark}, {clean(made.evaluation.sandbox)}",
            }
        ),
        workloads(made.evaluation),
        *([Text.assemble("no op.py: ", clean(made.no_operator))] if made.no_operator else ()),
        *([Text.assemble("torch answers on all other sizes. ", clean(made.no_dispatch))] if made.no_dispatch else ()),
        *(
            Text.assemble(f"{where}: ", (who, STRONG), f", {speed}")
            for where, who, speed in (made.dispatch.rows() if made.dispatch else ())
        ),
        *(Text.assemble("also ", (name, STRONG), ", which leads on some workload") for name in made.others),
        *(
            Text.assemble((name, STRONG), " leads on some workload, but ", clean(why))
            for name, why in made.left_out.items()
        ),
        None if patched is None else _patched(patched, made.folder, apply=apply),
    )


def _patched(patch: "KernelPatch", folder: Path, *, apply: bool) -> Text:
    """Write the diff, apply it where that is asked for, and say what was done."""
    from evokernel.export.export_kernel import NotExported

    file, place = folder / f"{patch.function}.patch", patch.file.parent
    try:
        file.write_text(patch.diff, encoding="utf-8", newline="")
    except OSError as error:
        raise NotExported(f"cannot write {file}: {error}") from None
    if apply:
        patch.apply()
        changed = ", ".join(str(path) for path in patch.texts) or "nothing: it is as it would be"
        return Text.assemble(("patched ", GOOD), clean(changed), (f"  {clean(str(file))} says how", DIM))
    how = f"cd {place} && patch -p1 < {file.resolve()}"
    return Text.assemble(("patch ", GOOD), clean(f"{file}: look at it, then --apply, or:  {how}"))
