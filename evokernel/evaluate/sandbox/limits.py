"""Limits of a worker process."""

from dataclasses import dataclass

from evokernel.evaluate.sandbox.levels import Sandbox, SandboxLevel

STDERR_LIMIT_BYTES = 64 * 1024
STACK_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What one worker may use. `cpus` are the cores it may run on; empty leaves it free.

    `memory_bytes` None leaves the address space open: the CUDA driver reserves far more than it uses.
    """

    memory_bytes: int | None = 4 << 30
    cpu_s: int = 600
    threads: int = 1
    cpus: tuple[int, ...] = ()
    files: int = 64
    file_bytes: int = STDERR_LIMIT_BYTES

    def rlimits(self, sandbox: Sandbox) -> dict[str, int]:
        """Return the resource limits by the kernel's names."""
        limits = {
            "CPU": self.cpu_s,
            "FSIZE": self.file_bytes,
            "NOFILE": self.files,
            "CORE": 0,
            "STACK": STACK_BYTES,
        }
        if self.memory_bytes is not None:
            limits["AS"] = self.memory_bytes
        if sandbox.as_root:
            limits["NPROC"] = self.threads
        elif sandbox.level is SandboxLevel.FULL:
            # counted together in one user namespace: bubblewrap, zygote, all workers
            limits["NPROC"] = 32 + self.threads
        return limits
