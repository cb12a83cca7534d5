"""Compiled shared objects in the ELF format: loaded content, exports, sizes of functions."""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _NOBITS, _NOTE, _DYNSYM = 2, 8, 7, 11
_ALLOC = 0x2
_FUNCTION, _UNDEFINED = 2, 0


@dataclass(frozen=True, slots=True)
class ElfSection:
    """One section."""

    name: str
    """Its name."""
    kind: int
    """Its type, as `sh_type`."""
    flags: int
    """Its flags, as `sh_flags`."""
    link: int
    """Index of its string table."""
    size: int
    """Its size in memory, in bytes."""
    data: bytes
    """Its content; empty where the file holds none (.bss)."""


@dataclass(frozen=True, slots=True)
class FunctionSymbol:
    """A function that a symbol table defines."""

    name: str
    """Its name."""
    size_bytes: int
    """Size of its code; 0 for the linker's own start-up code."""
    exported: bool
    """It stands in the dynamic symbol table."""


@dataclass(frozen=True, slots=True)
class SharedObject:
    """A 64-bit little-endian ELF file."""

    sections: tuple[ElfSection, ...]

    @property
    def functions(self) -> tuple[FunctionSymbol, ...]:
        """The functions that any symbol table defines."""
        return tuple(self._functions())

    @property
    def code_bytes(self) -> int:
        """Size of all functions of the source, in bytes."""
        return sum(function.size_bytes for function in self.functions if not function.exported)

    @property
    def loaded_hash(self) -> str:
        """16 hex digits over everything that is loaded: code, constants, data and the names of what it calls.

        Debug data, names of local functions, comments and notes (build ids) are not loaded and do not count.
        """
        digest = hashlib.sha256()
        for section in self.sections:
            if section.flags & _ALLOC and section.kind != _NOTE:
                digest.update(f"{section.name}\0{section.size}\0".encode())
                digest.update(section.data)
        return digest.hexdigest()[:16]

    def exports(self, name: str) -> bool:
        """Say whether a function of that name can be looked up after loading."""
        return any(function.exported and function.name == name for function in self.functions)

    def section_bytes(self, name: str) -> int:
        """Return the size of a section, 0 where there is none."""
        return sum(section.size for section in self.sections if section.name == name)

    def _functions(self) -> Iterator[FunctionSymbol]:
        for table in self.sections:
            if table.kind not in (_SYMTAB, _DYNSYM) or table.link >= len(self.sections):
                continue
            names = self.sections[table.link].data
            whole = len(table.data) // _SYMBOL.size * _SYMBOL.size
            for name, info, _, section, _, size in _SYMBOL.iter_unpack(table.data[:whole]):
                if info & 0xF == _FUNCTION and section != _UNDEFINED:
                    yield FunctionSymbol(_text(names, name), size, table.kind == _DYNSYM)


def read_shared_object(image: bytes) -> SharedObject:
    """Parse an ELF file.

    Raises:
        ValueError: it is not a 64-bit little-endian ELF file, or its tables point outside the file.
    """
    if len(image) < _HEADER.size or image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    fields = _HEADER.unpack_from(image)
    start, entry_size, count, names_index = fields[6], fields[11], fields[12], fields[13]
    if entry_size != _SECTION.size or start + count * entry_size > len(image) or names_index >= count:
        raise ValueError("damaged ELF section table")
    rows = [_SECTION.unpack_from(image, start + index * entry_size) for index in range(count)]
    name_table = _data(image, rows[names_index])
    sections = (
        ElfSection(_text(name_table, row[0]), row[1], row[2], row[6], row[5], _data(image, row)) for row in rows
    )
    return SharedObject(tuple(sections))


def _data(image: bytes, row: tuple[int, ...]) -> bytes:
    kind, offset, size = row[1], row[4], row[5]
    if kind == _NOBITS:
        return b""
    if offset + size > len(image):
        raise ValueError("an ELF section lies outside the file")
    return image[offset : offset + size]


def _text(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    return table[offset : end if end >= 0 else len(table)].decode(errors="replace")
