"""The ids of all that a run has tried."""

from collections.abc import Iterable, Iterator, Set
from typing import Self

import numpy as np

from evokernel.number_set import NumberSet

ID_DIGITS = 16


class Known(Set[str]):
    """A set of ids of 16 hexadecimal digits, to which some can be added; it iterates in their order."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._numbers = NumberSet()
        for name in names:
            self.add(name)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return what `text` was made of. Raises `ValueError` for anything else."""
        found = cls()
        found._numbers = NumberSet(np.frombuffer(bytes.fromhex(text), ">u8"))
        if found.text() != text:
            raise ValueError(f"expected ids of {ID_DIGITS} hexadecimal digits in their order, each once")
        return found

    def text(self) -> str:
        """Return all ids in their order, one after the other."""
        return self._numbers.ordered().astype(">u8").tobytes().hex()

    def add(self, name: str) -> None:
        """Add an id, if it is not there. Raises `ValueError` for what is none."""
        number = _number(name)
        if number is None:
            raise ValueError(f"expected an id of {ID_DIGITS} hexadecimal digits, got {name!r}")
        self._numbers.add(number)

    def __contains__(self, name: object) -> bool:
        number = _number(name)
        return number is not None and number in self._numbers

    def __iter__(self) -> Iterator[str]:
        text = self.text()
        return (text[at : at + ID_DIGITS] for at in range(0, len(text), ID_DIGITS))

    def __len__(self) -> int:
        return len(self._numbers)


def _number(name: object) -> int | None:
    if not isinstance(name, str):
        return None
    try:
        packed = bytes.fromhex(name)
    except ValueError:
        return None
    return int.from_bytes(packed, "big") if packed.hex() == name and 2 * len(packed) == ID_DIGITS else None
