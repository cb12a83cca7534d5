"""What a GPU can hold: the limits a kernel is compiled against, and how many warps of it fit on a multiprocessor."""

from dataclasses import dataclass

WARP = 32
_REGISTER_STEP = 256  # registers are given to a warp in steps of this many
_PARTITIONS = 4  # schedulers of a multiprocessor, each with a quarter of the registers
_RESERVED_SHARED_BYTES = 1024  # taken by the system for each block


@dataclass(frozen=True, slots=True)
class Residency:
    """How many blocks of a kernel a multiprocessor can hold at once, by what each resource allows."""

    registers: int
    shared_memory: int
    warps: int
    slots: int

    @property
    def blocks(self) -> int:
        """How many there are room for in all."""
        return min(self.registers, self.shared_memory, self.warps, self.slots)


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """The limits of one model of GPU; those of an H100 unless told otherwise.

    `capability` is the compute capability times 10. `shared_bytes` is the most one block may use; the other numbers
    are per multiprocessor.
    """

    capability: int = 90
    shared_bytes: int = 232448
    multiprocessors: int = 132
    multiprocessor_shared_bytes: int = 233472
    multiprocessor_registers: int = 65536
    multiprocessor_threads: int = 2048
    multiprocessor_blocks: int = 32

    def residency(self, *, num_warps: int, registers: int, shared_bytes: int) -> Residency:
        """Return how many blocks of a kernel a multiprocessor can hold at once.

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
