"""Meaning of single instructions by processor family: x86-64 as objdump prints it (AT&T), and AArch64."""

import re
from dataclasses import dataclass
from pathlib import Path

from evokernel.errors import LanguageError
from evokernel.languages.cpp.disassembly import Instruction

_X86_FLOAT = re.compile(
    r"^v?(?:add|sub|mul|div|min|max|sqrt|rcp\w*|rsqrt\w*|hadd|hsub|addsub|dp|dpbf16|fn?m(?:add|sub)(?:add|sub)?\d*"
    r"|cmp\w*|round|rndscale|scalef|getexp|getmant|range|reduce)(?P<kind>[ps][sdh])$"
)
_X86_INTEGER = re.compile(r"^v?p(?:add|sub|mul|madd|min|max|abs|avg|sad|dp)\w*$")
_X86_REGISTER = re.compile(r"%(?P<kind>[xyz])mm\d")
_X86_STACK = re.compile(r"-?(?:0x[0-9a-f]+)?\(%(?P<base>rsp|rbp)\)")
_X86_BITS = {"x": 128, "y": 256, "z": 512}
_ARM_FLOAT = re.compile(
    r"^(?:f(?:add|sub|mul|mulx|div|min|max|minnm|maxnm|sqrt|ml[as]|nml[as]|madd|msub|nmadd|nmsub|addp"
    r"|rec\w+|rsqrt\w+|abd|cm\w+|mad|msb|nmad|nmsb|scale)|bfdot|bfmmla)$"
)
_ARM_INTEGER = re.compile(r"^(?:add|sub|mul|ml[as]|[us]min|[us]max|abs|[us]abd|[us]dot)$")
_ARM_NEON = re.compile(r"\bv\d+\.(?P<count>\d+)(?P<kind>[bhsd])")
_ARM_STACK = re.compile(r"\[sp(?:, #-?\w+)?\]")
_ARM_FRAME = re.compile(r"\[(?:sp|x29)(?:, #-?\w+)?\]")
_ARM_SVE = re.compile(r"\bz\d+\.(?P<kind>[bhsd])")
_ARM_BITS = {"b": 8, "h": 16, "s": 32, "d": 64}
_SVE_LENGTH = Path("/proc/sys/abi/sve_default_vector_length")
_SCALAR_BITS = {"s": 32, "d": 64, "h": 16}


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The arithmetic of one instruction."""

    vector_bits: int
    """Vector width in bits; 0 for one number at a time."""
    lanes: int
    """Results at once."""


class X86:
    """x86-64."""

    def is_jump(self, instruction: Instruction) -> bool:
        """Say whether it is a jump: direct or indirect, conditional or not."""
        return instruction.mnemonic.startswith("j") or instruction.mnemonic.startswith("loop")

    def ends_block(self, instruction: Instruction) -> bool:
        """Say whether control never goes on to the next instruction."""
        return instruction.mnemonic in ("jmp", "jmpq", "ret", "retq", "ud2", "hlt")

    def is_call(self, instruction: Instruction) -> bool:
        """Say whether it is a call."""
        return instruction.mnemonic in ("call", "callq")

    def is_indirect(self, instruction: Instruction) -> bool:
        """Say whether it is a call or jump to a computed address."""
        return "*" in instruction.operands and (self.is_call(instruction) or self.is_jump(instruction))

    def float_work(self, instruction: Instruction) -> Arithmetic | None:
        """Return its floating-point arithmetic, or None."""
        match = _X86_FLOAT.match(instruction.mnemonic)
        if match is None:
            return None
        if match["kind"].startswith("s"):
            return Arithmetic(0, 1)
        bits = self._width(instruction)
        return Arithmetic(bits, max(1, bits // _SCALAR_BITS[match["kind"][1]]))

    def integer_work(self, instruction: Instruction) -> Arithmetic | None:
        """Return its integer arithmetic on vectors, or None."""
        bits = self._width(instruction) if _X86_INTEGER.match(instruction.mnemonic) else 0
        return Arithmetic(bits, bits // 32) if bits else None

    def is_fma(self, instruction: Instruction) -> bool:
        """Say whether it is a fused multiply-add."""
        return bool(re.match(r"^vfn?m(?:add|sub)", instruction.mnemonic))

    def is_gather(self, instruction: Instruction) -> bool:
        """Say whether it is a gathering load or a scattering store."""
        return "gather" in instruction.mnemonic or "scatter" in instruction.mnemonic

    def touches_stack(self, instruction: Instruction, *, frame_pointer: bool) -> bool:
        """Say whether it loads from or stores to a fixed place on the stack."""
        if instruction.mnemonic.startswith("lea"):
            return False
        match = _X86_STACK.search(instruction.operands)
        return match is not None and (match["base"] == "rsp" or frame_pointer)

    def sets_frame_pointer(self, instruction: Instruction) -> bool:
        """Say whether it sets up the frame pointer."""
        return instruction.mnemonic.startswith("mov") and instruction.operands == "%rsp,%rbp"

    def frame_bytes(self, instruction: Instruction) -> int:
        """Return the bytes of stack that it reserves."""
        match = re.match(r"^\$0x([0-9a-f]+),%rsp$", instruction.operands)
        if match is None or not instruction.mnemonic.startswith(("sub", "add")):
            return 0
        value = int(match[1], 16)
        negative = bool(value >> 63)  # `add $-128` is shorter than `sub $128`, and is used for it
        if instruction.mnemonic.startswith("add") is not negative:
            return 0
        return (1 << 64) - value if negative else value

    def _width(self, instruction: Instruction) -> int:
        return max((_X86_BITS[kind] for kind in _X86_REGISTER.findall(instruction.operands)), default=0)


class Arm64:
    """AArch64. `sve_bits` is the length of a scalable vector on this machine."""

    def __init__(self, sve_bits: int = 128) -> None:
        self.sve_bits = sve_bits

    def is_jump(self, instruction: Instruction) -> bool:
        """Say whether it is a jump: direct or indirect, conditional or not."""
        return bool(re.match(r"^(?:b|br|b\.\w+|cbn?z|tbn?z)$", instruction.mnemonic))

    def ends_block(self, instruction: Instruction) -> bool:
        """Say whether control never goes on to the next instruction."""
        return instruction.mnemonic in ("b", "br", "ret", "udf", "brk")

    def is_call(self, instruction: Instruction) -> bool:
        """Say whether it is a call."""
        return instruction.mnemonic in ("bl", "blr")

    def is_indirect(self, instruction: Instruction) -> bool:
        """Say whether it is a call or jump to a computed address."""
        return instruction.mnemonic in ("blr", "br")

    def float_work(self, instruction: Instruction) -> Arithmetic | None:
        """Return its floating-point arithmetic, or None."""
        if not _ARM_FLOAT.match(instruction.mnemonic):
            return None
        return self._vector(instruction) or Arithmetic(0, 1)

    def integer_work(self, instruction: Instruction) -> Arithmetic | None:
        """Return its integer arithmetic on vectors, or None."""
        return self._vector(instruction) if _ARM_INTEGER.match(instruction.mnemonic) else None

    def is_fma(self, instruction: Instruction) -> bool:
        """Say whether it is a fused multiply-add."""
        return bool(re.match(r"^f(?:n?ml[as]|n?madd|n?msub|n?mad|n?msb)$", instruction.mnemonic))

    def is_gather(self, instruction: Instruction) -> bool:
        """Say whether it is a scalable gathering load or scattering store: a vector is among its addresses."""
        memory = instruction.operands.partition("[")[2]
        return bool(re.match(r"^(?:ld|st)", instruction.mnemonic) and re.search(r"\bz\d+\.", memory))

    def touches_stack(self, instruction: Instruction, *, frame_pointer: bool) -> bool:
        """Say whether it loads from or stores to a fixed place on the stack."""
        pattern = _ARM_FRAME if frame_pointer else _ARM_STACK
        return bool(re.match(r"^(?:ld|st)", instruction.mnemonic) and pattern.search(instruction.operands))

    def sets_frame_pointer(self, instruction: Instruction) -> bool:
        """Say whether it sets up the frame pointer."""
        return instruction.mnemonic == "mov" and instruction.operands == "x29, sp"

    def frame_bytes(self, instruction: Instruction) -> int:
        """Return the bytes of stack that it reserves."""
        match = re.search(r"^sp, sp, #(0x[0-9a-f]+|\d+)|\[sp, #-(\d+)\]!$", instruction.operands)
        if match is None or (match[1] and instruction.mnemonic != "sub"):
            return 0
        return int(match[1] or match[2], 0)

    def _vector(self, instruction: Instruction) -> Arithmetic | None:
        neon = _ARM_NEON.search(instruction.operands)
        if neon is not None:
            return Arithmetic(int(neon["count"]) * _ARM_BITS[neon["kind"]], int(neon["count"]))
        sve = _ARM_SVE.search(instruction.operands)
        return Arithmetic(self.sve_bits, self.sve_bits // _ARM_BITS[sve["kind"]]) if sve is not None else None


Isa = X86 | Arm64


def isa_of(machine: str) -> Isa:
    """Return the instruction set of a processor family, by its name from `platform.machine()`.

    Raises `LanguageError` if it is neither x86-64 nor AArch64.
    """
    if machine in ("x86_64", "amd64"):
        return X86()
    if machine in ("aarch64", "arm64"):
        return Arm64(int(_SVE_LENGTH.read_text()) * 8 if _SVE_LENGTH.is_file() else 128)
    raise LanguageError(f"machine code of {machine!r} cannot be read: expected x86_64 or aarch64")
