"""Facts of a cubin: its kernels with their parameters, undefined functions, variables and foreign sections.

A cubin is an ELF file for machine 190, and its author may be hostile. Every offset is checked, and every fault is a
`ValueError`. The driver reads the file as well. So ambiguous content is refused too: tables and names that lie
otherwise than compilers write them. The attributes of `.nv.info` are as NVRTC 13 and the assemblers of Triton write
them for compute capabilities 8.0 to 12.0.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .cubin_sections import is_known

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ATTRIBUTE = struct.Struct("<BBH")
_PARAMETER = struct.Struct("<IHHI")  # section index, place, offset, and a packed word with the size above bit 18
_CUDA, _EXECUTABLE, _SYMTAB, _STRTAB, _NOBITS = 190, 2, 2, 3, 8
_FORMATS = tuple(b"\x7fELF\x02\x01\x01" + kind + bytes(7) for kind in (b"\x33\x07", b"\x41\x08"))  # CUDA 12; 12.8 on
_SEGMENTS = (1, 6)  # PT_LOAD, PT_PHDR
_ENTRY = 0x10  # st_other of a __global__ function
_FUNCTION = 2
_SYSTEM = ".nv."  # prefix of symbols that the driver defines for every kernel
_LONG_FORM = 4  # the attribute has a value of its own behind it
_MAX_THREADS, _PARAMETER_INFO, _PARAMETER_BYTES, _REGISTERS = 0x05, 0x17, 0x19, 0x2F
_SIZE_LIMIT_BYTES = 64 << 20
_SECTION_LIMIT = 8192
_SYMBOL_LIMIT = 65536
_STATE = (".nv.global", ".nv.global.init", ".nv.constant3")
"""Sections of variables; those of `__constant__` ones lie in device memory, too."""
_OBJECT = 1
_CODE = ".text."  # prefix of a function's machine code
_INSTRUCTION_BYTES = 16  # from compute capability 7.0 on
_OPCODE = 0x1FF  # its bits in the first word of an instruction; those above say where operands come from
_ATOMIC = frozenset(
    {
        *(0x18A, 0x18B, 0x1A2),  # ATOM, of any memory
        *(0x1A3, 0x1A8, 0x1A9),  # ATOMG, of global memory
        *(0x18C, 0x18D),  # ATOMS, of shared memory
        *(0x18E, 0x1A6, 0x1B6, 0x1BB),  # RED, REDG, UTMAREDG, UBLKRED: without an answer
    }
)
"""Opcodes of atomic operations, as ptxas 12.8 and 13.0 write them for compute capabilities 8.0 to 12.0."""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """One `__global__` function."""

    parameter_bytes: tuple[int, ...]
    """Sizes of its parameters in order."""
    registers: int
    """Of a thread."""
    shared_bytes: int
    """Static shared memory, without the part that newer devices reserve in each block."""
    max_threads: int
    """From `__launch_bounds__`; 0 without them."""


@dataclass(frozen=True, slots=True)
class CubinFacts:
    """The contents of a cubin."""

    capability: int
    """Compute capability of the target: 90 for sm_90a."""
    kernels: Mapping[str, KernelFacts]
    """Facts of kernels by name."""
    undefined: tuple[str, ...]
    """Functions that the driver must provide."""
    state_bytes: int
    """Size of variables in device memory, which keep their values between launches."""
    foreign: tuple[tuple[str, int], ...] = ()
    """Names and types of sections that no supported compiler makes; the driver may run them."""


@dataclass(frozen=True, slots=True)
class StateSection:
    """The variables of one section."""

    content: bytes
    """After loading."""
    offsets: Mapping[str, int]
    """Places of its variables by name, in bytes from its begin."""


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    link: int
    size: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    kind: int
    other: int
    section: int
    value: int


def inspect(image: bytes) -> CubinFacts:
    """Return the facts of a cubin. Raises `ValueError` if it is damaged, or another kind of file."""
    try:
        return _inspect(image)
    except struct.error as error:
        raise ValueError(f"a damaged cubin: {error}") from None


def state_sections(image: bytes) -> list[StateSection]:
    """Return the sections with variables of a cubin that `inspect` accepts."""
    _, sections = _read_elf(image)
    (table,) = (section for section in sections if section.kind == _SYMTAB)
    symbols = [symbol for symbol in _symbols(table, sections) if symbol.kind == _OBJECT]
    return [
        StateSection(
            section.data or bytes(section.size), {one.name: one.value for one in symbols if one.section == number}
        )
        for number, section in enumerate(sections)
        if section.name in _STATE and section.size
    ]


def atomic_kernels(image: bytes) -> frozenset[str]:
    """Return the kernels with atomic operations in their code, where compilers put the functions that they call, too.

    Raises `ValueError` as `inspect`.
    """
    code = {one.name.removeprefix(_CODE): one.data for one in _read_elf(image)[1] if one.name.startswith(_CODE)}
    return frozenset(name for name in inspect(image).kernels if _has_atomics(code.get(name, b"")))


def _has_atomics(code: bytes) -> bool:
    starts = range(0, len(code) - 1, _INSTRUCTION_BYTES)
    return any(int.from_bytes(code[at : at + 2], "little") & _OPCODE in _ATOMIC for at in starts)


def _inspect(image: bytes) -> CubinFacts:
    flags, sections = _read_elf(image)
    by_name = {section.name: section for section in sections}
    if len(by_name) != len(sections):
        raise ValueError("a damaged cubin: two sections of one name")
    tables = [section for section in sections if section.kind == _SYMTAB]
    if len(tables) != 1:
        raise ValueError("a damaged cubin: it must have one symbol table")
    symbols = list(_symbols(tables[0], sections))
    registers = _registers(by_name, symbols)
    kernels = {symbol.name for symbol in symbols if symbol.kind == _FUNCTION and symbol.other & _ENTRY}
    undefined = {one.name for one in symbols if not one.section and one.name and not one.name.startswith(_SYSTEM)}
    return CubinFacts(
        capability=_capability(image, flags),
        kernels={name: _kernel(name, by_name, registers) for name in sorted(kernels)},
        undefined=tuple(sorted(undefined)),
        state_bytes=sum(section.size for section in sections if section.name in _STATE),
        foreign=tuple((one.name, one.kind) for one in sections if not is_known(one.name, one.kind)),
    )


def _capability(image: bytes, flags: int) -> int:
    """Return the target's capability; versions of the format keep it in different flags."""
    abi = image[8]
    return flags >> 8 & 0xFFFF if abi >= 8 else flags & 0xFF


def _registers(sections: Mapping[str, _Section], symbols: Sequence[_Symbol]) -> dict[str, int]:
    """Return the registers of a thread by function; `.nv.info` names functions by their place among the symbols."""
    found = {}
    for code, value in _attributes(sections[".nv.info"].data if ".nv.info" in sections else b""):
        if code == _REGISTERS:
            place, count = struct.unpack("<II", value)
            if place < len(symbols):
                found[symbols[place].name] = count
    return found


def _kernel(name: str, sections: Mapping[str, _Section], registers: Mapping[str, int]) -> KernelFacts:
    info = sections.get(f".nv.info.{name}")
    if info is None or name not in registers:
        raise ValueError(f"a damaged cubin: nothing is said about kernel {name[:60]!r}")
    shared = sections.get(f".nv.shared.{name}")
    reserved = sections.get(".nv.shared.reserved.0")
    own = 1024 if reserved is not None else 0  # what the system reserves in each block, which newer cubins count in
    static = shared.size - own if shared is not None else 0
    attributes = list(_attributes(info.data))
    threads = [struct.unpack("<III", value) for code, value in attributes if code == _MAX_THREADS]
    return KernelFacts(
        parameter_bytes=_parameters(name, attributes),
        registers=registers[name],
        shared_bytes=max(static, 0),
        max_threads=threads[0][0] * threads[0][1] * threads[0][2] if threads else 0,
    )


def _parameters(name: str, attributes: Sequence[tuple[int, bytes]]) -> tuple[int, ...]:
    found: dict[int, tuple[int, int]] = {}
    total = 0
    for code, value in attributes:
        if code == _PARAMETER_INFO:
            _, place, offset, packed = _PARAMETER.unpack(value)
            found[place] = offset, packed >> 18
        elif code == _PARAMETER_BYTES:
            total = int.from_bytes(value, "little")
    end = max((offset + size for offset, size in found.values()), default=0)
    if sorted(found) != list(range(len(found))) or end != total:
        raise ValueError(f"a damaged cubin: the parameters of kernel {name[:60]!r} are not described")
    return tuple(found[place][1] for place in sorted(found))


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the attributes of a section `.nv.info.NAME`: number and value."""
    offset = 0
    while offset < len(data):
        form, code, value = _ATTRIBUTE.unpack_from(data, offset)
        offset += _ATTRIBUTE.size
        if form != _LONG_FORM:
            yield code, value.to_bytes(2, "little")
            continue
        if offset + value > len(data):
            raise ValueError("a damaged cubin: an attribute lies outside its section")
        yield code, data[offset : offset + value]
        offset += value


def _symbols(table: _Section, sections: Sequence[_Section]) -> Iterator[_Symbol]:
    if table.link >= len(sections) or len(table.data) % _SYMBOL.size:
        raise ValueError("a damaged cubin: a symbol table")
    if len(table.data) > _SYMBOL_LIMIT * _SYMBOL.size:
        raise ValueError("a cubin with too many symbols")
    if sections[table.link].name != ".strtab":
        raise ValueError("a damaged cubin: the names of its symbols")
    names = sections[table.link].data
    for name, info, other, section, value, _ in _SYMBOL.iter_unpack(table.data):
        yield _Symbol(_text(names, name), info & 0xF, other, section, value)


def _read_elf(image: bytes) -> tuple[int, list[_Section]]:
    """Return the flags of the header, and the sections."""
    if len(image) < _HEADER.size or image[:16] not in _FORMATS:
        raise ValueError("not a cubin: no 64-bit little-endian ELF file of CUDA")
    if len(image) > _SIZE_LIMIT_BYTES:
        raise ValueError(f"a cubin of {len(image)} bytes; the limit is {_SIZE_LIMIT_BYTES}")
    _, kind, machine, _, _, _, start, flags, header_bytes, _, _, entry_bytes, count, names = _HEADER.unpack_from(image)
    if machine != _CUDA:
        raise ValueError("not a cubin: an ELF file for another machine")
    if kind != _EXECUTABLE or header_bytes != _HEADER.size:
        raise ValueError("a damaged cubin: its header")
    # some readers take numbers that do not fit the header from the first section
    if entry_bytes != _SECTION.size or names >= count or count > _SECTION_LIMIT:
        raise ValueError("a damaged cubin: its table of sections")
    if start + count * _SECTION.size > len(image):
        raise ValueError("a damaged cubin: its table of sections lies outside the file")
    rows = [_SECTION.unpack_from(image, start + index * _SECTION.size) for index in range(count)]
    if any(rows[0]):
        raise ValueError("a damaged cubin: its first section is not empty")
    if sum(row[5] for row in rows if row[1] != _NOBITS) > 2 * len(
        image
    ):  # compilers let two sections share their content
        raise ValueError("a damaged cubin: its sections overlap")
    table = _data(image, rows[names])
    sections = [_Section(_name(table, row[0]), row[1], row[6], row[5], _data(image, row)) for row in rows]
    if (sections[names].name, sections[names].kind) != (".shstrtab", _STRTAB):
        raise ValueError("a damaged cubin: the names of its sections")
    _refuse_misplaced(image, rows, names)
    return flags, sections


def _refuse_misplaced(image: bytes, rows: Sequence[tuple[int, ...]], names: int) -> None:
    """Raise `ValueError` where a section overlaps the headers or tables, or bytes follow the end.

    Sections may share bytes with each other: for newer devices compilers write one content for two names.
    """
    fields = _HEADER.unpack_from(image)
    first, start, entry_bytes, segments = fields[5], fields[6], fields[9], fields[10]
    if segments and (entry_bytes != _SEGMENT.size or first + segments * _SEGMENT.size > len(image)):
        raise ValueError("a damaged cubin: its table of segments")
    for index in range(segments):
        kind, _, offset, _, _, size, _, _ = _SEGMENT.unpack_from(image, first + index * _SEGMENT.size)
        if kind not in _SEGMENTS or offset + size > len(image):
            raise ValueError("a damaged cubin: a segment")
    spans = [(row[4], row[4] + row[5], at == names) for at, row in enumerate(rows) if row[1] != _NOBITS and row[5]]
    spans += [(0, _HEADER.size, True), (start, start + len(rows) * _SECTION.size, True)]
    spans += [(first, first + segments * _SEGMENT.size, True)] if segments else []
    end = 0
    guarded = 0  # end of the bytes that no section may share
    for begin, until, alone in sorted(spans):
        if begin < (end if alone else guarded):
            raise ValueError("a damaged cubin: something lies across its tables")
        end = max(end, until)
        guarded = max(guarded, until) if alone else guarded
    if end != len(image):
        raise ValueError("a damaged cubin: bytes behind its end")


def _data(image: bytes, row: tuple[int, ...]) -> bytes:
    kind, offset, size = row[1], row[4], row[5]
    if kind == _NOBITS:
        return b""
    if offset + size > len(image):
        raise ValueError("a damaged cubin: a section lies outside the file")
    return image[offset : offset + size]


def _name(table: bytes, offset: int) -> str:
    """Return the name of a section; one that begins within another is refused."""
    if offset and table[offset - 1 : offset] != b"\0":
        raise ValueError("a damaged cubin: a name within another")
    return _text(table, offset)


def _text(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset, offset + 4096)
    if end < 0:
        raise ValueError("a damaged cubin: a name without an end")
    return table[offset:end].decode(errors="replace")
