"""Profile of a source for a GPU: numbers about the kernels that it launches, from the answer of its build.

The answer comes from a process that ran the candidate's code, so every number is checked before it is used.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evokernel.languages.device_limits import WARP, DeviceLimits, Residency
from evokernel.records.build import Built

_NUMBER_LIMIT = 1 << 40
_THREAD_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class _Launch:
    """One launch: digest of its machine code, warps and shared memory of a block, and its residency."""

    cubin: str
    warps: int
    shared_bytes: int
    residency: Residency


def read_answer(answer: Mapping[str, Any], device: DeviceLimits) -> Built:
    """Measure an answer of `triton_build` or `cuda_build` in `evaluate/inside`; what it built is left out.

    The hash is over the plans, equal for compiled duplicates.

    Where kernels differ the worst one counts: the most registers, spills and shared memory, the lowest occupancy;
    `tensor_cores` is 0 none, 1 one warp at a time, 2 warp groups, the best of all kernels. `blocks_by_...` are the
    blocks that a multiprocessor could hold by that resource alone, of the launch with the lowest occupancy. The
    instructions (`hot_loop_...`) are those of the kernel with the longest hot loop.

    Raises:
        ValueError: it is not such an answer.
    """
    try:
        plans = list(answer["plans"])
        facts = {str(digest): _numbers(found) for digest, found in answer["cubins"].items()}
        shapes = [
            [_launch(step["launch"], facts, device) for step in plan["steps"] if "launch" in step] for plan in plans
        ]
        launches = [launch for shape in shapes for launch in shape]
        used = [facts[launch.cubin] for launch in launches]
        if not launches:
            raise ValueError("no launches")
        sparsest = min(launches, key=lambda launch: launch.residency.blocks * launch.warps)
        longest = max(used, key=lambda found: (found["tensor_cores"], found["instructions"]))
        return Built(
            artifact=b"",
            hash=_hash(plans),
            descriptor={
                "registers": max(found["registers"] for found in used),
                "spills": max(found["local_bytes"] for found in used),
                "shared_kib": max(launch.shared_bytes for launch in launches) / 1024,
                "tensor_cores": max(found["tensor_cores"] for found in used),
                "occupancy": sparsest.residency.blocks * sparsest.warps * WARP / device.multiprocessor_threads,
                "kernels": float(max(map(len, shapes))),
            },
            metrics={
                "compile_ms": _number(answer["compile_ms"]),
                "num_warps": float(max(launch.warps for launch in launches)),
                "blocks_by_registers": float(sparsest.residency.registers),
                "blocks_by_shared_memory": float(sparsest.residency.shared_memory),
                "blocks_by_warps": float(sparsest.residency.warps),
                "blocks_by_slots": float(sparsest.residency.slots),
                "tma": max(found["tma"] for found in used),
                "local_accesses": max(found["local_accesses"] for found in used),
                **{f"hot_loop_{name}": longest[name] for name in _HOT},
            },
        )
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise ValueError(f"not an answer: {error!r}") from None


_HOT = (
    *("in_loop", "instructions", "tensor", "fma", "arithmetic", "special", "conversions", "integer"),
    *("loads", "load_bits", "stores", "store_bits", "shared", "async_copies", "barriers"),
)


def _launch(launch: Mapping[str, Any], facts: Mapping[str, Mapping[str, float]], device: DeviceLimits) -> _Launch:
    threads = math.prod(int(_number(extent)) for extent in launch["block"])
    if not 1 <= threads <= _THREAD_LIMIT:
        raise ValueError("not an answer: a block's threads")
    cubin, warps = str(launch["cubin"]), -(-threads // WARP)
    shared_bytes = int(_number(launch["shared_bytes"]) + facts[cubin]["static_shared_bytes"])
    registers = int(facts[cubin]["registers"])
    residency = device.residency(num_warps=warps, registers=registers, shared_bytes=shared_bytes)
    return _Launch(cubin, warps, shared_bytes, residency)


def _numbers(found: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): _number(value) for name, value in found.items()}


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value < _NUMBER_LIMIT:
        raise ValueError("not an answer: a number is out of range")
    return float(value)


def _hash(plans: Sequence[Mapping[str, Any]]) -> str:
    text = json.dumps(plans, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
