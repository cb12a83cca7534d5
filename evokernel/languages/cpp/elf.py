"""Compiled shared objects in the ELF format: exports, sizes of code."""

from dataclasses import dataclass
from io import BytesIO

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Symbol, SymbolTableSection

from evokernel.source.numbers import MOST_NUMBER, likely_sizes

_DATA = ".rodata"
SYMBOL_LIMIT = 100_000  # a table is read at 15 us a symbol, in the engine


@dataclass(frozen=True, slots=True)
class SharedObject:
    """Facts of a shared object."""

    exports: frozenset[str]
    """Names of the functions that can be looked up after loading."""
    code_bytes: int
    """Size of all functions of the source, in bytes; the linker's own start-up code has no size."""
    text_bytes: int
    """Size of the section `.text`, in bytes."""
    numbers: tuple[int, ...]
    """Likely sizes in its tables and constants; halves above a whole number count as it."""


def read_shared_object(image: bytes) -> SharedObject:
    """Parse an ELF file.

    Raises `ValueError` if it is no ELF file, its tables point outside the file, or it has too many symbols.
    """
    try:
        return _read(image)
    except (ELFError, OverflowError) as error:  # a place beyond what a file can have overflows
        raise ValueError(f"ELF file: {error}") from error


def _read(image: bytes) -> SharedObject:
    exports, code_bytes, text_bytes, symbols, numbers = set[str](), 0, 0, 0, set[int]()
    for section in ELFFile(BytesIO(image)).iter_sections():
        size = section["sh_size"]
        text_bytes += size if section.name == ".text" else 0
        if section.name == _DATA and section["sh_type"] == "SHT_PROGBITS":
            numbers |= _numbers_in(section.data())
        if isinstance(section, SymbolTableSection):
            symbols += section.num_symbols()
            if symbols > SYMBOL_LIMIT:
                raise ELFError(f"more than {SYMBOL_LIMIT} symbols")
            functions = [symbol for symbol in section.iter_symbols() if _is_defined_function(symbol)]
            if section["sh_type"] == "SHT_DYNSYM":
                exports |= {function.name for function in functions}
            else:
                code_bytes += sum(function["st_size"] for function in functions)
    return SharedObject(frozenset(exports), code_bytes, text_bytes, likely_sizes(numbers))


def _numbers_in(data: bytes) -> set[int]:
    """Return what may be sizes among the numbers of 32 and 64 bits, floats among them: a half is a bound of a band."""
    found = set[int]()
    for kind in ("<i4", "<i8", "<f4", "<f8"):
        values = np.frombuffer(data, kind, len(data) // np.dtype(kind).itemsize)
        values = values[(values >= 2) & (values <= MOST_NUMBER)]
        found |= {*np.unique(values[values * 2 % 1 == 0].astype(int)).tolist()}
    return found


def _is_defined_function(symbol: Symbol) -> bool:
    return bool(symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF")
