"""Limits of a GPU for the compilation of kernels, and the residency of a kernel on a multiprocessor."""

from dataclasses import dataclass

WARP = 32
_REGISTER_STEP = 256  # registers are given to a warp in steps of this many
_PARTITIONS = 4  # schedulers of a multiprocessor, each with a quarter of the registers
_RESERVED_SHARED_BYTES = 1024  # taken by the system for each block


@dataclass(frozen=True, slots=True)
class Residency:
    """Blocks of a kernel that a multiprocessor can hold at once, by each resource."""

    registers: int
    """Blocks that the registers allow."""
    shared_memory: int
    """Blocks that the shared memory allows."""
    warps: int
    """Blocks that the resident threads allow."""
    slots: int
    """Blocks that the block slots allow."""

    @property
    def blocks(self) -> int:
        """Blocks that all resources together allow."""
        return min(self.registers, self.shared_memory, self.warps, self.slots)


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """The limits of one model of GPU; by default those of an H100."""

    capability: int = 90
    """Compute capability times 10."""
    shared_bytes: int = 232448
    """The most shared memory that one block may use, in bytes."""
    multiprocessors: int = 132
    """Number of multiprocessors."""
    multiprocessor_shared_bytes: int = 233472
    """Shared memory of a multiprocessor, in bytes."""
    multiprocessor_registers: int = 65536
    """32-bit registers of a multiprocessor."""
    multiprocessor_threads: int = 2048
    """Resident threads of a multiprocessor."""
    multiprocessor_blocks: int = 32
    """Resident blocks of a multiprocessor."""

    def residency(self, *, num_warps: int, registers: int, shared_bytes: int) -> Residency:
        """Return the blocks of a kernel that a multiprocessor can hold at once.

        Args:
            num_warps: warps of one block.
            registers: registers of one thread.
            shared_bytes: shared memory of one block.
        """
        per_warp = -(-max(registers, 1) * WARP // _REGISTER_STEP) * _REGISTER_STEP
        return Residency(
            registers=self.multiprocessor_registers // _PARTITIONS // per_warp * _PARTITIONS // num_warps,
            shared_memory=self.multiprocessor_shared_bytes // (shared_bytes + _RESERVED_SHARED_BYTES),
            warps=self.multiprocessor_threads // WARP // num_warps,
            slots=self.multiprocessor_blocks,
        )
