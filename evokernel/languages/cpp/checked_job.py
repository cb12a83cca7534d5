"""Calls under sanitizers: the jobs that an executable of `build_checked` reads, and its report.

One job or more, one behind the other, on standard input, little-endian:

    8 bytes   `EVKJOB1` and the exit status of a clean end, drawn by the judge: a candidate may end the process itself
    8 bytes   for each scalar in calling order: int64, or float64 for floating-point scalars
    8 + n     for each tensor in calling order: n as uint64, then its n bytes

Each tensor gets a block of exactly its size, aligned to 64 bytes, so that one byte too far is seen; it is freed after
its call. The executable calls `run` once for each job and ends with the exit status that the last one names,
`EXIT_FOUND` (a finding, described on standard error) or `EXIT_BAD_JOB` (a job that does not fit). It writes no results.
AddressSanitizer reserves terabytes of addresses, so the executable must run without a limit on its address space
(RLIMIT_AS); limit its time.
"""

import re
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from evokernel.languages.messages import without_paths
from evokernel.task import Signature, Tensor

MAGIC = b"EVKJOB1"
EXIT_FOUND = 66
EXIT_BAD_JOB = 65
POISON = 0xFF
_LINE_LIMIT = 12
_NOTE = re.compile(
    r"^evokernel: (?P<name>\w+) (?P<size>\d+) bytes, (?P<kind>read|write) of (?P<count>\d+) at (?P<offset>-?\d+)$",
    re.MULTILINE,
)
_ASAN = re.compile(r"ERROR: AddressSanitizer: (?P<kind>[\w-]+)")
_UBSAN = re.compile(r"^(?P<place>\S+?:\d+(?::\d+)?): runtime error: (?P<text>.*)$", re.MULTILINE)
_FRAME = re.compile(
    r"^[ \t]*#\d+ 0x[0-9a-f]+ in (?P<function>.+?) (?P<place>\S*kernel\.\w+:\d+(?::\d+)?)", re.MULTILINE
)
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_FAR_BYTES = 1 << 20


def pack_job(
    signature: Signature, dims: Mapping[str, int | float], arrays: Mapping[str, Any], *, status: int = 0
) -> bytes:
    """Return a job for an executable of `build_checked`.

    Args:
        dims: every dimension and scalar by name.
        arrays: for each tensor by name the bytes of its buffer, in its layout and of exactly its size; an output
            that is missing is filled with 0xFF bytes (not-a-number in every floating-point type).
        status: the exit status of a clean end, at most 63.

    Raises:
        ValueError: a scalar or input is missing, or a buffer has the wrong size.
    """
    missing = {scalar.name for scalar in signature.scalars} - dims.keys()
    missing |= {tensor.name for tensor in signature.inputs} - arrays.keys()
    if missing:
        raise ValueError(f"a job needs {', '.join(sorted(missing))}")
    sizes = {name: value for name, value in dims.items() if isinstance(value, int)}
    parts = [MAGIC, bytes([status])]
    for argument in signature.arguments:
        if isinstance(argument, Tensor):
            content = _content(argument, argument.storage_bytes_at(sizes), arrays)
            parts += [struct.pack("<Q", len(content)), content]
        elif argument.dtype == "int64":
            parts.append(struct.pack("<q", int(dims[argument.name])))
        else:
            parts.append(struct.pack("<d", float(dims[argument.name])))
    return b"".join(parts)


def read_sanitizer_report(stderr: str) -> str:
    """Return a sanitizer's finding in at most 12 lines: the error, the argument with the overrun, the source lines."""
    lines = [*_undefined(stderr), *_overrun(stderr), *_places(stderr)]
    if not lines:
        lines = [line for line in stderr.splitlines() if line.strip() and set(line) != {"="}]
    return "\n".join(_ADDRESS.sub("(address)", without_paths(line))[:200] for line in lines[:_LINE_LIMIT])


def _content(tensor: Tensor, size: int, arrays: Mapping[str, Any]) -> bytes:
    if tensor.name not in arrays:
        return bytes([POISON]) * size
    content = memoryview(arrays[tensor.name])
    if content.nbytes != size:
        raise ValueError(f"tensor {tensor.name!r} has {content.nbytes} bytes; its shape needs {size}")
    return content.tobytes()


def _undefined(stderr: str) -> Iterable[str]:
    for match in _UBSAN.finditer(stderr):
        place = match["place"].rpartition("/")[2]
        yield f"undefined behaviour at {place}: {match['text']}"


def _overrun(stderr: str) -> Iterable[str]:
    found = _ASAN.search(stderr)
    if found is None:
        return
    note = _NOTE.search(stderr)
    if note is None:
        yield f"{found['kind']}: an access far away from every argument, or a fault inside the program"
        return
    size, count, offset = int(note["size"]), int(note["count"]), int(note["offset"])
    action = f"{note['kind']} of {count} bytes" if count else note["kind"]
    if offset + count > size and offset - size <= _FAR_BYTES:
        over = offset + max(count, 1) - size
        yield f"{found['kind']}: {action}, reaching {over} bytes past the end of argument {note['name']} ({size} bytes)"
    elif offset < 0 and -offset <= _FAR_BYTES:
        yield f"{found['kind']}: {action}, {-offset} bytes before the start of argument {note['name']} ({size} bytes)"
    else:
        yield f"{found['kind']}: {action}, inside or far away from every argument"


def _places(stderr: str) -> Iterable[str]:
    """Yield the source lines on the stack of the error itself; later stacks show the origin of memory."""
    report = re.split(
        r"^(?:freed|previously|allocated) |^0x[0-9a-f]+ is located", stderr, maxsplit=1, flags=re.MULTILINE
    )[0]
    for match in _FRAME.finditer(report):
        yield f"  in {match['function']} at {match['place'].rpartition('/')[2]}"
