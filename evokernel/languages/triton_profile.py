"""What a Triton source became: numbers about the kernels it launches, from the answer of its build.

The answer comes from a process that ran the candidate's code, so every number is checked before it is used.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evokernel.languages.device_limits import DeviceLimits

_NUMBER_LIMIT = 1 << 40


@dataclass(frozen=True, slots=True)
class Profile:
    """The identity of what is launched for the measured shapes, and behaviour and numbers read from it."""

    hash: str
    descriptor: Mapping[str, float]
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Launch:
    cubin: str
    num_warps: int
    shared_bytes: int


def read_answer(answer: Mapping[str, Any], device: DeviceLimits) -> Profile:
    """Measure what `evaluate/inside/triton_build` answered.

    Where kernels differ the worst one counts: the most registers, spills and shared memory, the lowest occupancy;
    `tensor_cores` is 0 none, 1 one warp at a time, 2 warp groups, the best of all kernels. Loads and copies are those
    of the kernel with the longest hot loop.

    Raises:
        ValueError: it is not such an answer.
    """
    try:
        shapes = [list(shape) for shape in answer["launches"]]
        launches = [_launch(launch) for shape in shapes for launch in shape if "cubin" in launch]
        facts = {str(digest): _numbers(found) for digest, found in answer["cubins"].items()}
        used = [facts[launch.cubin] for launch in launches]
        if not launches:
            raise ValueError("no launches")
        occupancy = min(_occupancy(launch, facts[launch.cubin], device) for launch in launches)
        longest = max(used, key=lambda found: (found["tensor_cores"], found["instructions"]))
        return Profile(
            hash=_hash(shapes),
            descriptor={
                "registers": max(found["registers"] for found in used),
                "spills": max(found["local_bytes"] for found in used),
                "shared_kib": max(launch.shared_bytes for launch in launches) / 1024,
                "tensor_cores": max(found["tensor_cores"] for found in used),
                "occupancy": occupancy,
                "kernels": float(max(sum("cubin" in launch for launch in shape) for shape in shapes)),
            },
            metrics={
                "compile_ms": _number(answer["compile_ms"]),
                "num_warps": float(max(launch.num_warps for launch in launches)),
                "tma": max(found["tma"] for found in used),
                "local_accesses": max(found["local_accesses"] for found in used),
                **{f"hot_loop_{name}": longest[name] for name in _HOT},
            },
        )
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise ValueError(f"not an answer: {error!r}") from None


_HOT = ("instructions", "fma", "special", "async_copies", "load_bits", "barriers")


def _launch(launch: Mapping[str, Any]) -> _Launch:
    num_warps = int(_number(launch["num_warps"]))
    if not 1 <= num_warps <= 32:
        raise ValueError("not an answer: num_warps")
    return _Launch(str(launch["cubin"]), num_warps, int(_number(launch["shared_bytes"])))


def _occupancy(launch: _Launch, facts: Mapping[str, float], device: DeviceLimits) -> float:
    return device.occupancy(
        num_warps=launch.num_warps, registers=int(facts["registers"]), shared_bytes=launch.shared_bytes
    )


def _numbers(found: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): _number(value) for name, value in found.items()}


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value < _NUMBER_LIMIT:
        raise ValueError("not an answer: a number is out of range")
    return float(value)


def _hash(shapes: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    text = json.dumps(shapes, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
