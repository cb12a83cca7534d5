"""The text of `objdump -d` as functions of instructions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from evokernel.source.numbers import likely_sizes

_FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>[^>]+)>:$")
_INSTRUCTION = re.compile(r"^\s+(?P<address>[0-9a-f]+):\t(?P<text>\S.*)$")
_PREFIX = re.compile(r"^(?:(?:bnd|notrack|lock|rep|repz|repnz|data16|cs|ds|\{\w+\})\s+)+")
_TARGET = re.compile(r"(?:^|[\s,])(?P<address>[0-9a-f]+) <")
_USES_NUMBERS = re.compile(r"(?:c?cm[pn]|te?st|and|sub|add|lea|i?mul|mov|[xe]or)[a-z]*$")
_NUMBER = re.compile(r"[$#](?P<number>-?(?:0x[0-9a-f]+|[0-9]+))(?=[],(\s]|$)")
_OFFSET = re.compile(r"(?P<number>-?0x[0-9a-f]+)\((?!%rip|%rsp|%rbp)")
_REFERENCE = re.compile(r"<(?P<name>[^<>+@]+)(?:@\w+)?(?:[+-]0x[0-9a-f]+)?>")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction."""

    address: int
    """Its address."""
    mnemonic: str
    """Its name without prefixes."""
    operands: str
    """Its operands as printed."""

    @property
    def target(self) -> int | None:
        """The target address of a direct jump or call, or None."""
        match = _TARGET.search(self.operands)
        return int(match["address"], 16) if match else None

    @property
    def reference(self) -> str | None:
        """The function or object that the operands name, or None."""
        match = _REFERENCE.search(self.operands)
        return match["name"] if match else None


def read_disassembly(text: str) -> dict[str, list[Instruction]]:
    """Return the instructions of each function by name, in the order of their addresses."""
    functions: dict[str, list[Instruction]] = {}
    current: list[Instruction] | None = None
    for line in text.split("\n"):  # a name may hold characters that end lines elsewhere
        instruction = _INSTRUCTION.match(line)
        if instruction is not None and current is not None:
            mnemonic, *operands = _PREFIX.sub("", instruction["text"]).split(None, 1)
            current.append(Instruction(int(instruction["address"], 16), mnemonic, "".join(operands).strip()))
            continue
        heading = _FUNCTION.match(line)
        if heading is not None:
            current = functions.setdefault(heading["name"], [])
    return functions


def numbers_in(functions: Mapping[str, list[Instruction]]) -> tuple[int, ...]:
    """Return the likely sizes among the numbers that code compares, adds or multiplies with.

    A compiler has worked out by then what a source writes as a sum or a product.
    """
    found = set[int]()
    for instruction in (each for code in functions.values() for each in code):
        if _USES_NUMBERS.match(instruction.mnemonic):
            pattern = _OFFSET if instruction.mnemonic.startswith("lea") else _NUMBER
            for match in pattern.finditer(instruction.operands):
                number = int(match["number"], 0)
                wraps = next((bits for bits in (32, 64) if 1 << bits - 1 <= number < 1 << bits), 0)
                found |= {number - (1 << wraps), number ^ 1 << wraps - 1} if wraps else {number}
    return likely_sizes(found)
