"""Profile of a program: which of its operations take time that a better kernel could save."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evokernel.errors import TaskError

_CLOSING_S = 300.0
"""Time that a script may take after the last call that is watched, in s."""


@dataclass(frozen=True, slots=True)
class ProfiledOperation:
    """An operation of a program, at all sizes that it was called with. Times are in us, those of a GPU on a GPU."""

    name: str
    """Name of the function, or class of the module."""
    place: str
    """File and line."""
    module: bool
    """A module's forward; else a function."""
    sizes: tuple[str, ...]
    """Types and shapes of its tensors, those with most time first."""
    calls: int
    """Number of calls."""
    total_us: float
    """Time of all calls, other operations in it included."""
    floor_us: float
    """The least that the device needs to read and write its tensors, or for its products."""
    limit: str
    """Limit of the device at the sizes with most time."""
    inner: bool
    """It calls other operations of the list."""
    alike: bool
    """All calls have types, axes and parameters of one task, as far as is seen here."""

    @property
    def saved_us(self) -> float:
        """The most that a kernel could save."""
        return max(0.0, self.total_us - self.floor_us)


@dataclass(frozen=True, slots=True)
class ProgramProfile:
    """A run of a program."""

    device: str
    """The device that it ran on."""
    whole_us: float
    """Time of all its operations, in us."""
    operations: tuple[ProfiledOperation, ...]
    """Those with most to save first."""
    remark: str
    """Reason why the run ended early; else empty."""


def profile_program(script: Path, arguments: Sequence[str] = (), *, limit_s: float = 60.0) -> ProgramProfile:
    """Run a script as it is, outside of any sandbox, and rank its operations. What it prints goes to stderr.

    The least time counts each tensor, parameter and result once; so it is no bound for an operation that does not read
    all of an argument, such as an embedding. Raises `TaskError` if it did not come to a call, or did not end.

    Args:
        script: the file.
        arguments: its command line.
        limit_s: the script is ended at the first call after so many seconds.
    """
    with tempfile.TemporaryDirectory(prefix="evokernel-profile-") as folder:
        answer = Path(folder) / "answer.json"
        program = [sys.executable, "-m", "evokernel.scaffold.capture.script_profiler"]
        try:
            done = subprocess.run(
                [*program, str(answer), str(limit_s), str(script.resolve()), *arguments],
                stdout=2,  # stdout is for what this program has to say
                env={"KINETO_LOG_LEVEL": "99", **os.environ},  # torch's profiler says when it starts and stops
                timeout=limit_s + _CLOSING_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TaskError(
                f"{script.name} did not end, and called no operation after {limit_s:g} s: write a script that runs a "
                "few steps"
            ) from None
        if not answer.exists():
            raise TaskError(f"{script.name} ended its process with {done.returncode} before it could be profiled")
        told = json.loads(answer.read_text(encoding="utf-8"))
    if not told["operations"]:
        why = f": {told['remark']}" if told["remark"] else ". torch.compile and CUDA graphs call none: run without them"
        raise TaskError(f"{script.name} called no function of its folder and no module with tensors{why}")
    return ProgramProfile(told["device"], told["whole_us"], _ranked(told["operations"]), told["remark"])


def _ranked(rows: Sequence[dict[str, object]]) -> tuple[ProfiledOperation, ...]:
    found: dict[tuple[str, str], list[dict[str, object]]] = {}
    for row in rows:
        found.setdefault((str(row["name"]), str(row["place"])), []).append(row)
    made = [_operation(each) for each in found.values()]
    return tuple(sorted(made, key=lambda each: -each.saved_us))


def _operation(rows: list[dict[str, object]]) -> ProfiledOperation:
    def total(row: dict[str, object], name: str) -> float:
        return float(str(row[name])) * int(str(row["calls"]))

    rows = sorted(rows, key=lambda row: -total(row, "us"))
    return ProfiledOperation(
        name=str(rows[0]["name"]),
        place=str(rows[0]["place"]),
        module=bool(rows[0]["module"]),
        sizes=tuple(str(row["sizes"]) for row in rows),
        calls=sum(int(str(row["calls"])) for row in rows),
        total_us=sum(total(row, "us") for row in rows),
        floor_us=sum(total(row, "floor_us") for row in rows),
        limit=str(rows[0]["limit"]),
        inner=any(bool(row["inner"]) for row in rows),
        alike=len({str(row["form"]) for row in rows}) == 1,
    )
