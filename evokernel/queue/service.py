"""Files that start a queue at boot or in a batch job, and stop it with the grace that a scheduler gives."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from string import Template

SPARE_S = 30
"""Time beyond the grace of a session that a queue has to note its end, in s."""


def systemd_unit(command: Sequence[str], *, folder: Path, queue: Path, grace_s: int) -> str:
    """Return a systemd user unit that runs a command in a folder."""
    return _filled(
        "systemd.service.txt",
        queue=_comment(queue),
        folder=_specifiers(str(folder)),
        command=" ".join(map(_quoted, command)),
        stop_s=grace_s + SPARE_S,
    )


def slurm_script(command: Sequence[str], *, folder: Path, queue: Path, grace_s: int) -> str:
    """Return a batch script for SLURM that runs a command in a folder."""
    return _filled(
        "slurm.sbatch.txt",
        queue=_comment(queue),
        folder=shlex.quote(str(folder)),
        command=shlex.join(command),
        stop_s=grace_s + SPARE_S,
    )


def _filled(template: str, **values: object) -> str:
    return Template(Path(__file__).with_name(template).read_text(encoding="utf-8")).substitute(values)


def _comment(path: Path) -> str:
    return " ".join(str(path).split())


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """Return a word of ExecStart as systemd.service(5) and systemd.syntax(7) have it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_specifiers(escaped)}"'
