"""`evokernel export`: a kernel to take home."""

from pathlib import Path

import click
from rich.text import Text

from evokernel.cli.locate import candidate_id, open_store, store_option
from evokernel.cli.tables import put, sheet, workloads
from evokernel.cli.text import GOOD, STRONG, clean, interval, stdout, times

_TRIED = "kernel.py built it and got the right result, in a process of its own without evokernel"
_UNTRIED = "kernel.py is the text that was judged; the other files were not run: see README.md"


@click.command()
@click.argument("place", required=False, type=click.Path(path_type=Path), metavar="[STORE|CONFIG]")
@click.option(
    "--id", "name", default="", metavar="ID", help="A candidate, or the beginning of its id; default: the best."
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Folder to write to; kernel-ID here if left out."
)
@store_option
def command(place: Path | None, name: str, out: Path | None, store: Path | None) -> None:
    """Write the best kernel, or another, as files that work without evokernel.

    It is first judged anew on held-out inputs, in fresh processes; a kernel that does not hold is not exported.
    """
    from evokernel.export import export

    if place is not None and store is not None:
        raise click.UsageError("name the store once: as an argument or with --store")
    with open_store(place or store) as opened:
        wanted = candidate_id(opened, name or "best")
        made = export(opened, wanted, out=out or Path(f"kernel-{wanted[:8]}"))
    put(
        stdout(),
        Text.assemble(("exported ", GOOD), (made.candidate, STRONG), f" to {clean(str(made.folder))}"),
        sheet(
            {
                "speed-up": f"{times(made.speedup.value)} ({interval(made.speedup)}), anew, right on held-out inputs",
                "files": ", ".join(made.files),
                "tried": _TRIED if made.tried else _UNTRIED,
                "mode": f"{made.evaluation.key.mode.value}, {clean(made.evaluation.sandbox)}",
            }
        ),
        workloads(made.evaluation),
    )
