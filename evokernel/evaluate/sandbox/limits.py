"""Limits of a worker process."""

from dataclasses import dataclass

from evokernel.evaluate.sandbox.levels import Sandbox, SandboxLevel

STDERR_LIMIT_BYTES = 64 * 1024
STACK_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Limits of one worker."""

    memory_bytes: int | None = 4 << 30
    """Address space; None for no limit, since the CUDA driver reserves far more than it uses."""
    cpu_s: int = 600
    """Processor time."""
    threads: int = 1
    """Threads of the candidate."""
    cpus: tuple[int, ...] = ()
    """Cores it may run on; empty for all."""
    files: int = 64
    """Open descriptors."""
    file_bytes: int = STDERR_LIMIT_BYTES
    """Size of one file."""

    def rlimits(self, sandbox: Sandbox) -> dict[str, int]:
        """Return the resource limits by the kernel's names."""
        limits = {"CPU": self.cpu_s, "FSIZE": self.file_bytes, "NOFILE": self.files, "CORE": 0, "STACK": STACK_BYTES}
        if self.memory_bytes is not None:
            limits["AS"] = self.memory_bytes
        if sandbox.as_root:
            limits["NPROC"] = self.threads
        elif sandbox.level is SandboxLevel.FULL:
            # the kernel counts bubblewrap, zygote and all workers of one user namespace together
            limits["NPROC"] = 32 + self.threads
        return limits
