"""Failures of a source in the language `cuda`, in the format of `faults`."""

import re
from collections.abc import Mapping
from typing import Any

from ..driver.cubin_facts import KernelFacts
from ..driver.cuda_module import Geometry
from ..driver.nvrtc import CompileError
from .faults import TEXT_LIMIT, of_host

_THREADS, _BLOCK_REGISTERS, _WARP = 1024, 65536, 32
_REGISTER_STEP = 8  # registers of a thread are allocated in multiples of this
_PLACE = re.compile(r"\bkernel\.cu\((\d+)\)")
_COUNT = re.compile(r"^\d+ errors? detected in the compilation of .*$", re.MULTILINE)
_TOO_MUCH_SHARED = re.compile(r"uses too much shared data \((0x[0-9a-f]+) bytes, (0x[0-9a-f]+) max\)")


class ResourceError(RuntimeError):
    """A launch needs more of a resource than one block can have."""

    def __init__(self, kernel: str, *, resource: str, required: int, limit: int) -> None:
        """Keep the numbers."""
        super().__init__(f"kernel {kernel} needs {required} of {resource}; the limit is {limit}")
        self.numbers = {"resource": resource, "required": required, "limit": limit}


def check_resources(name: str, facts: KernelFacts, geometry: Geometry, properties: Mapping[str, int]) -> None:
    """Refuse a launch that the driver would refuse.

    Raises:
        ResourceError: a block is too large for the device.
        ValueError: a block has no threads, or more than `__launch_bounds__` promised.
    """
    x, y, z = geometry.block
    threads = x * y * z
    if threads < 1 or z > 64:
        raise ValueError(f"kernel {name} is launched with blocks of {geometry.block} threads: 1 at least, z at most 64")
    registers = _up(threads, _WARP) * _up(facts.registers, _REGISTER_STEP)
    needs = (
        ("threads", threads, _THREADS),
        ("shared memory", facts.shared_bytes + geometry.shared_bytes, properties["max_shared_mem"]),
        ("registers", registers, _BLOCK_REGISTERS),
    )
    for resource, required, limit in needs:
        if required > limit:
            raise ResourceError(name, resource=resource, required=required, limit=limit)
    if facts.max_threads and threads > facts.max_threads:
        raise ValueError(
            f"kernel {name} is launched with {threads} threads; __launch_bounds__ says {facts.max_threads}"
        )


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def describe(error: BaseException, source: str) -> dict[str, Any]:
    """Return the failure for an exception during a build."""
    failure = of_host(error)
    if isinstance(error, ResourceError):
        return failure | error.numbers | {"stage": "resources"}
    if not isinstance(error, CompileError):
        return failure
    log = str(error)
    shared = _TOO_MUCH_SHARED.search(log)
    if shared is not None:
        required, limit = (int(number, 16) for number in shared.groups())
        numbers = {"required": required, "limit": limit, "resource": "shared memory"}
        return failure | numbers | {"stage": "resources", "message": log[:TEXT_LIMIT]}
    line, message = _located(_COUNT.sub("", log).rstrip(), error.source, source)
    return failure | {"stage": "compile", "line": line, "message": message[:TEXT_LIMIT]}


def _located(log: str, text: str, source: str) -> tuple[int | None, str]:
    """Return the line of the Python source where the first error is, and the log with such lines in it.

    This works where the CUDA text stands in the source as it is. A text built from pieces keeps its own line numbers.
    """
    start = source.find(text)
    if start < 0:
        return None, log
    before = source.count("\n", 0, start)
    first = _PLACE.search(log)
    line = before + int(first[1]) if first is not None else None
    return line, _PLACE.sub(lambda match: f"line {before + int(match[1])}", log)
