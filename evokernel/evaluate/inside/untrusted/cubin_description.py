"""Description of a compiled GPU kernel: its registers, its local memory, and the instructions of its hot loop.

Read with `cuobjdump`, which comes with Triton and with the CUDA toolkit. The hot loop has the most work of its own,
where deeper loops count more. A kernel without loops is described as a whole.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..driver.cubin_facts import inspect

_TIMEOUT_S = 20
_OF_TRITON = Path("backends/nvidia/bin/cuobjdump")
_OF_TOOLKIT = "/usr/local/cuda/bin"
_FUNCTION = re.compile(r"^[ \t]*Function : ", re.MULTILINE)
_USAGE = re.compile(r"REG:(?P<registers>\d+) STACK:(?P<stack>\d+)")
_LINE = re.compile(
    r"^[ \t]+/\*(?P<address>[0-9a-f]{4,})\*/[ \t]+(?:@!?U?P\w+[ \t]+)?"
    r"(?P<opcode>[A-Z][A-Z0-9_]*)(?P<parts>(?:\.\w+)*)(?P<rest>(?:[^\w.;\n][^;\n]*)?);",
    re.MULTILINE,
)
_TARGET = re.compile(r"0x([0-9a-f]+)")
_WARP_GROUP_MATH = frozenset({"HGMMA", "QGMMA", "IGMMA", "BGMMA"})
_WARP_MATH = frozenset({"HMMA", "QMMA", "IMMA", "BMMA", "DMMA", "OMMA"})
_FMA = frozenset({"FFMA", "HFMA2", "DFMA", "FFMA2"})
_FLOAT = _FMA | {"FADD", "FMUL", "FMNMX", "HADD2", "HMUL2", "DADD", "DMUL"}
_TMA = frozenset({"UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP"})
_LOADS, _STORES = frozenset({"LDG", "LDGSTS"}), frozenset({"STG"})
_COPIES = _TMA | {"LDGSTS"}
_SHARED = frozenset({"LDS", "LDSM", "STS", "STSM"})
_MEMORY = _LOADS | _STORES | _TMA | _SHARED
_CONVERSIONS = frozenset({"F2F", "F2FP", "F2I", "F2IP", "I2F", "I2FP", "I2I", "I2IP", "FRND"})
_INTEGER = re.compile(
    r"U?(?:IADD|IMAD|LEA|LOP|SHF|SHL|SHR|ISETP|IMNMX|IABS|VIADD|VIMNMX|BMSK|SGXT|FLO|POPC|PRMT|BREV)\w*"
)
_LOCAL = frozenset({"LDL", "STL"})
# weight of an instruction when loops are compared: one on tensor cores does the work of very many others
_WORK = dict.fromkeys(_WARP_GROUP_MATH, 256) | dict.fromkeys(_WARP_MATH, 32) | dict.fromkeys(_FLOAT | _MEMORY, 1)
_WORK["MUFU"] = 4
_WORK_PER_LEVEL = 8  # assumed passes of an inner loop for each pass of the outer one


@dataclass(frozen=True, slots=True)
class _Instruction:
    address: int
    opcode: str
    parts: tuple[str, ...]
    target: int | None


def find_cuobjdump() -> str | None:
    """Return the path of the disassembler, or None where there is none."""
    spec = importlib.util.find_spec("triton")
    folders = (spec.submodule_search_locations if spec else None) or ()
    of_triton = [str(path) for path in (Path(folder, _OF_TRITON) for folder in folders) if os.access(path, os.X_OK)]
    return of_triton[0] if of_triton else shutil.which("cuobjdump") or shutil.which("cuobjdump", path=_OF_TOOLKIT)


def describe(cubin: bytes, folder: Path) -> dict[str, int]:
    """Return numbers about the kernels in a cubin.

    `registers` per thread, `local_bytes` (stack: spills, mostly) and `static_shared_bytes`, each of the kernel with the
    most; over all code `tensor_cores` (0 none, 1 one warp at a time, 2 warp groups), `tma`, `local_accesses`. `in_loop`
    is 0 where there is no loop. In the hot loop, counted as they stand in the code: `instructions`, of them `tensor`,
    `fma`, `arithmetic` (in floating point, with the fused ones), `special` (exponentials, reciprocals, ...),
    `conversions`, `integer` (addresses, mostly), global `loads` and `stores`, `shared` memory accesses, `async_copies`
    into it, `barriers`; `load_bits` and `store_bits` are the most common widths for one thread, 0: none.

    Raises:
        RuntimeError: the file cannot be disassembled.
        ValueError: the file is not a cubin.
    """
    listing = _listing(cubin, folder)
    usages = list(_USAGE.finditer(listing))
    kernels = [list(_read(text)) for text in _FUNCTION.split(listing)[1:]]
    code = [one for kernel in kernels for one in kernel]
    if not usages or not code:
        raise RuntimeError("the compiled kernel cannot be disassembled")
    loops = [_hot_loop(kernel) for kernel in kernels]
    loop = max(loops, key=_work)
    hot = loop or max(kernels, key=_work)
    whole = {one.opcode for one in code}
    return {
        "registers": max(int(usage["registers"]) for usage in usages),
        "local_bytes": max(int(usage["stack"]) for usage in usages),
        "static_shared_bytes": max(kernel.shared_bytes for kernel in inspect(cubin).kernels.values()),
        "tensor_cores": 2 if whole & _WARP_GROUP_MATH else 1 if whole & _WARP_MATH else 0,
        "tma": int(bool(whole & _TMA)),
        "local_accesses": _count(code, _LOCAL),
        "in_loop": int(bool(loop)),
        "instructions": len(hot),
        "tensor": _count(hot, _WARP_GROUP_MATH | _WARP_MATH),
        "fma": _count(hot, _FMA),
        "arithmetic": _count(hot, _FLOAT),
        "special": _count(hot, {"MUFU"}),
        "conversions": _count(hot, _CONVERSIONS),
        "integer": sum(_INTEGER.fullmatch(one.opcode) is not None for one in hot),
        "loads": _count(hot, {"LDG"}),
        "load_bits": _usual_bits(hot, _LOADS),
        "stores": _count(hot, _STORES),
        "store_bits": _usual_bits(hot, _STORES),
        "shared": _count(hot, _SHARED),
        "async_copies": _count(hot, _COPIES),
        "barriers": _count(hot, {"BAR", "SYNCS"}),
    }


def _listing(cubin: bytes, folder: Path) -> str:
    program = find_cuobjdump()
    if program is None:
        raise RuntimeError("cuobjdump is missing: it comes with triton and with the CUDA toolkit")
    path = folder / "look.cubin"
    path.write_bytes(cubin)
    command = [program, "-res-usage", "-sass", str(path)]
    done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
    return done.stdout.decode(errors="replace")


def _read(listing: str) -> Iterable[_Instruction]:
    for match in _LINE.finditer(listing):
        target = _TARGET.search(match["rest"]) if match["opcode"] == "BRA" else None
        parts = tuple(match["parts"].split(".")[1:])
        yield _Instruction(
            int(match["address"], 16), match["opcode"], parts, int(target[1], 16) if target is not None else None
        )


def _hot_loop(code: Sequence[_Instruction]) -> list[_Instruction]:
    """Return the loop with the most work of its own, without the loops inside it.

    A kernel may load its tiles in a loop of their own and work on them behind it. A loop is the code between a branch
    and its earlier target. A loop that only waits for a barrier does not count: such loops stand inside those that
    work.
    """
    spans = {(one.target, one.address) for one in code if one.target is not None and one.target < one.address}
    loops = [[one for one in code if start <= one.address <= end] for start, end in sorted(spans)]
    working = [loop for loop in loops if _work(loop)]
    best: list[_Instruction] = []
    most = 0
    for loop in working:
        inside = {one.address for other in working if _around(loop, other) for one in other}
        own = [one for one in loop if one.address not in inside]
        score = _work(own) * _WORK_PER_LEVEL ** sum(_around(other, loop) for other in working)
        if score > most:
            best, most = own, score
    return best


def _work(code: Sequence[_Instruction]) -> int:
    return sum(_WORK.get(one.opcode, 0) for one in code)


def _around(loop: Sequence[_Instruction], other: Sequence[_Instruction]) -> bool:
    return len(other) < len(loop) and loop[0].address <= other[0].address and other[-1].address <= loop[-1].address


def _count(code: Sequence[_Instruction], opcodes: Any) -> int:
    return sum(one.opcode in opcodes for one in code)


def _usual_bits(code: Sequence[_Instruction], opcodes: frozenset[str]) -> int:
    widths = [_bits(one.parts) for one in code if one.opcode in opcodes]
    return max(set(widths), key=lambda bits: (widths.count(bits), bits), default=0)


def _bits(parts: Sequence[str]) -> int:
    for part in parts:
        if part in ("64", "128", "256"):
            return int(part)
        if part in ("U8", "S8", "U16", "S16"):
            return int(part[1:])
    return 32
