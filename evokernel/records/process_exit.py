"""Exit of a process: a compiler, a test executable, a tool."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """Exit of a process, in a sandbox or outside. Numbers that were not measured are 0."""

    exit_code: int | None
    """None where a signal ended it."""
    signal: int | None
    """Number of the signal that killed it; None after a plain exit."""
    stdout: str
    """The first part, up to the limit, decoded leniently."""
    stderr: str
    """As `stdout`."""
    timed_out: bool
    """It was killed at its time limit."""
    duration_s: float = field(default=0.0, compare=False)
    """Wall-clock seconds from its start to its end, >= 0."""
    too_large: bool = False
    """It was killed since more memory was in use than its limit on resident memory."""

    @property
    def ok(self) -> bool:
        """Exited with 0 in time."""
        return self.exit_code == 0 and not self.timed_out
