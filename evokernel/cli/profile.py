"""`evokernel profile`: which operations of a program are worth a search."""

import json
from dataclasses import asdict
from pathlib import Path

import click
from rich.text import Text

from evokernel.cli.display.tables import put, table
from evokernel.cli.display.text import DIM, STRONG, WARN, clean, stdout
from evokernel.cli.options import EXISTING_FILE, POSITIVE, json_option
from evokernel.records.timing import microseconds

_SHOWN = 12
_PROPOSED = 5


@click.command(
    context_settings={"ignore_unknown_options": True}, epilog="Exit codes: 0 done; 2 an error, said on stderr."
)
@click.argument("script", type=EXISTING_FILE, metavar="SCRIPT.py")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
@click.option("--seconds", type=POSITIVE, default=60.0, show_default=True, help="End the script after so many seconds.")
@json_option
def command(script: Path, arguments: tuple[str, ...], seconds: float, as_json: bool) -> None:
    """Run SCRIPT and rank its operations by the time that better kernels could save.

    An operation is a function at the top of SCRIPT or of a file in its folder, or a module; it is given tensors. What
    could be saved is its time less the least that the device needs to move its tensors once, or for its products.
    SCRIPT runs as it is, on its own device and in no sandbox. Options of this command come before SCRIPT.
    """
    from evokernel.scaffold.capture.program_profile import profile_program

    found = profile_program(script, arguments, limit_s=seconds)
    if as_json:
        rows = [{**asdict(each), "saved_us": each.saved_us} for each in found.operations]
        click.echo(json.dumps({"format": 1, **asdict(found), "operations": rows}, indent=2))
        return
    parts = [each for each in found.operations if not each.inner]
    headings = ("could save", "operation", "calls", "time", "a call", "of the limit", "where")
    made = table(*headings, right=(0, 2, 3, 4, 5), drop=(6, 2))
    for each in parts[:_SHOWN]:
        made.add_row(
            Text(f"{min(1.0, each.saved_us / found.whole_us):.0%}", style=STRONG),
            clean(each.name),
            f"{each.calls:,}",
            f"{min(1.0, each.total_us / found.whole_us):.0%}",
            microseconds(each.total_us / each.calls),
            f"{100 * min(1.0, each.floor_us / each.total_us):.2g}% {each.limit}" if each.total_us else "",
            clean(each.place),
        )
    lines = [
        f"evokernel init --from-run {script} --function {each.name}"
        if each.alike
        else f"{each.name}: calls of several kinds, of which one task can have one; evokernel.capture takes one module"
        for each in parts[:_PROPOSED]
    ]
    whole = f"{script.name}  {found.whole_us / 1e6:.3g} s of operations on {found.device}"
    put(
        stdout(),
        Text.assemble(("program ", STRONG), clean(whole)),
        made if parts else None,
        Text("\n").join(Text(clean(line)) for line in lines),
        Text(clean(found.remark), style=WARN) if found.remark else None,
        Text("Shares are of the time of all operations. One that calls others is not listed itself.", style=DIM),
    )
