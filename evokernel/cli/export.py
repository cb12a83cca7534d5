"""`evokernel export`: a kernel to take home."""

from pathlib import Path

import click
from rich.text import Text

from evokernel.cli.locate import candidate_id, open_store, store_argument
from evokernel.cli.tables import put, sheet, workloads
from evokernel.cli.text import GOOD, STRONG, clean, interval, stdout, times


@click.command()
@store_argument
@click.option("--id", "name", default="", metavar="ID", help="A candidate, or the beginning of its id; default: the best.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Folder to write to.")
def command(store: Path | None, name: str, out: Path) -> None:
    """Write the best kernel, or another, as files that work without evokernel.

    It is first judged anew on held-out inputs, in fresh processes; a kernel that does not hold is not exported.
    """
    from evokernel.export import FILES, export

    with open_store(store) as opened:
        made = export(opened, name=candidate_id(opened, name) if name else "", out=out)
    put(
        stdout(),
        Text.assemble(("exported ", GOOD), (made.candidate, STRONG), f" to {clean(str(made.folder))}"),
        sheet(
            {
                "speed-up": f"{times(made.speedup.value)} ({interval(made.speedup)}), measured anew on held-out inputs",
                "files": ", ".join(FILES),
                "tried": "kernel.py built it and got the right result, in a process of its own without evokernel",
                "mode": f"{made.evaluation.key.mode.value}, {clean(made.evaluation.sandbox)}",
            }
        ),
        workloads(made.evaluation),
    )
