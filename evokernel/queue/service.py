"""Files that start a queue at boot or in a batch job, and stop it with the grace that a scheduler gives."""

import shlex
from collections.abc import Sequence
from pathlib import Path

SPARE_S = 30
"""Time beyond the grace of a session that a queue has to note its end, in s."""


def systemd_unit(command: Sequence[str], *, folder: Path, queue: Path, grace_s: int) -> str:
    """Return a systemd user unit that runs a command in a folder."""
    return f"""\
# evokernel queue of {_comment(queue)}. Install it, start it, and keep it running while nobody is logged in:
#   evokernel service systemd > ~/.config/systemd/user/evokernel-queue.service
#   systemctl --user daemon-reload && systemctl --user enable --now evokernel-queue
#   loginctl enable-linger
[Unit]
Description=evokernel queue

[Service]
WorkingDirectory={_specifiers(str(folder))}
ExecStart={" ".join(map(_quoted, command))}
# Keys of models, one NAME=VALUE a line; readable by you alone.
EnvironmentFile=-%h/.config/evokernel/environment
# SIGTERM goes to the queue alone, which ends its session in order; what is left then is killed.
KillMode=mixed
TimeoutStopSec={grace_s + SPARE_S}
Restart=on-failure
RestartSec=30
RestartPreventExitStatus=2
SuccessExitStatus=129 130 143

[Install]
WantedBy=default.target
"""


def slurm_script(command: Sequence[str], *, folder: Path, queue: Path, grace_s: int) -> str:
    """Return a batch script for SLURM that runs a command in a folder."""
    return f"""\
#!/bin/bash
# evokernel queue of {_comment(queue)}: evokernel service slurm > queue.sbatch; sbatch queue.sbatch
# Set time, processors and GPUs as your cluster needs them.
#SBATCH --job-name=evokernel-queue
#SBATCH --time=08:00:00
#SBATCH --nodes=1 --ntasks=1 --cpus-per-task=8
##SBATCH --gpus=1
# SIGTERM to this script alone, so long before the end of its time; a job that is requeued goes on.
#SBATCH --signal=B:TERM@{grace_s + SPARE_S}
#SBATCH --requeue
#SBATCH --open-mode=append
cd {shlex.quote(str(folder))} || exit 1
exec {shlex.join(command)}
"""


def _comment(path: Path) -> str:
    return " ".join(str(path).split())


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """Return a word of ExecStart as systemd.service(5) and systemd.syntax(7) have it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_specifiers(escaped)}"'
