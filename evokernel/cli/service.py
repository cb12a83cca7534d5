"""`evokernel service`: a systemd unit or a SLURM script that runs the queue."""

import sys
from pathlib import Path

import click

from evokernel.cli.queue import grace_option, queue_option
from evokernel.queue.service import slurm_script, systemd_unit

KINDS = {"systemd": (systemd_unit, ["--wait"]), "slurm": (slurm_script, [])}


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@grace_option
@queue_option
def command(kind: str, grace_s: int, path: Path) -> None:
    """Print a systemd user unit, or a batch script for SLURM, that runs the queue in this folder.

    Both stop it by SIGTERM and give it the grace that it needs to end in order.
    """
    make, options = KINDS[kind]
    queue = path.absolute()
    words = [sys.executable, "-m", "evokernel", "queue", "run", "--queue", str(queue), "--grace", str(grace_s)]
    click.echo(make([*words, *options], folder=Path.cwd(), queue=queue, grace_s=grace_s), nl=False)
