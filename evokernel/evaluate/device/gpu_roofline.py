"""Roofline of this GPU: rates measured at start, and the least time of a piece of work."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.device.cpu_roofline import longer
from evokernel.evaluate.device.nvml import visible_gpu
from evokernel.records.timing import Floor

GIB = 1 << 30
ARITHMETIC_MARGIN = 1.25
"""The rates are those of the vendor library's matrix product, which a better kernel at a higher clock may beat."""
CACHE_MARGIN = 1.5
"""No kernel of torch reads the second-level cache as fast as the best one could."""

Work = Callable[[], Any]

_BUDGET_S = 0.05
_MOST_SAMPLES = 200
_NODES = 64
# Side of the matrix product that is timed: large enough to fill the GPU, short enough for several in the budget.
_SIDES = {"fp32": 4096, "tf32": 8192, "fp16": 8192, "bf16": 8192, "fp64": 4096}
_TYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp64": torch.float64,
}
_SINCE = {"tf32": 80, "bf16": 80}  # compute capability
# Types that work of a dtype may run on, and how many of their operations replace one: three products of halves give a
# nearly exact fp32 product (Ootomo and Yokota 2022, arXiv 2203.03341), or six of bf16.
_PATHS: Mapping[str, Mapping[str, int]] = {
    "float64": {"fp64": 1},
    "float32": {"fp32": 1, "tf32": 3, "fp16": 3, "bf16": 6},
    "tf32": {"fp32": 1, "tf32": 1, "fp16": 1},
    "float16": {"fp32": 1, "fp16": 1, "bf16": 1},
    "bfloat16": {"fp32": 1, "fp16": 1, "bf16": 1},
}


def device_name() -> str:
    """Return the GPU's model, such as "NVIDIA H100 80GB HBM3", without a CUDA context. Raises `HarnessError`."""
    gpu = visible_gpu()
    if gpu is None:
        raise HarnessError("no NVIDIA GPU is visible; look at nvidia-smi and CUDA_VISIBLE_DEVICES")
    return gpu.name


def measure_device() -> dict[str, float]:
    """Return the rates, bandwidths, launch costs and fixed sizes of torch's current GPU.

    `peak_{fp32,tf32,fp16,bf16,fp64}_gflop_s`, `{dram,l2}_{read,copy}_gb_s` (a copy counts both ways), `launch_us` and
    `graph_launch_us` of a tiny kernel, `l2_bytes`, `shared_bytes` of one block, `memory_bytes`, `multiprocessors` and
    `capability` (90 for 9.0). Takes about a second, and up to 2 GiB of device memory for that time. A type that the GPU
    or torch cannot multiply is left out.
    """
    sheet = _sizes()
    try:
        sheet |= _dram() | _l2(sheet["l2_bytes"]) | _peaks(sheet["capability"]) | _launches()
    finally:
        torch.cuda.empty_cache()
    return sheet


def floor_of(flops: float, bytes_moved: float, dtype: str, sheet: Mapping[str, float], *, allow_tf32: bool) -> Floor:
    """Return the least time: the longer of arithmetic and of the fastest memory that holds the bytes.

    `dtype` is that of the task's floating-point tensors. Arithmetic is taken at the best rate measured for any type
    that could do it, and with a margin; integers count as free. Timed calls run in a graph, so a launch costs what it
    does there.
    """
    level, margin = ("l2", CACHE_MARGIN) if bytes_moved < sheet.get("l2_bytes", 0.0) else ("dram", 1.0)
    bandwidth = margin * max(sheet[f"{level}_read_gb_s"], sheet[f"{level}_copy_gb_s"])
    kind = "tf32" if allow_tf32 and dtype == "float32" else dtype
    memory_us = bytes_moved / (bandwidth * 1e3)
    return longer(_arithmetic_us(flops, kind, sheet), memory_us, launch_us=sheet.get("graph_launch_us", 0.0))


def _arithmetic_us(flops: float, kind: str, sheet: Mapping[str, float]) -> float:
    paths = _PATHS.get(kind, {})
    rates = [sheet[name] / cost for path, cost in paths.items() if (name := f"peak_{path}_gflop_s") in sheet]
    return flops / (ARITHMETIC_MARGIN * max(rates) * 1e3) if rates else 0.0


def _sizes() -> dict[str, float]:
    facts: Any = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "l2_bytes": float(facts.L2_cache_size),
        "shared_bytes": float(facts.shared_memory_per_block_optin),
        "memory_bytes": float(facts.total_memory),
        "multiprocessors": float(facts.multi_processor_count),
        "capability": float(10 * facts.major + facts.minor),
    }


def _dram() -> dict[str, float]:
    free, _ = torch.cuda.mem_get_info()
    size = min(GIB, free // 8) // 8 * 8
    return {
        "dram_copy_gb_s": 2 * size / _least_us(_copying(2 * size)) / 1e3,
        "dram_read_gb_s": size / _least_us(_reading(size)) / 1e3,
    }


def _l2(l2_bytes: float) -> dict[str, float]:
    """Time passes over two parts of the cache; the extra time of the larger one excludes the cost of starting."""
    few, many = (int(l2_bytes * share) // 1024 * 1024 for share in (1 / 8, 3 / 8))
    if not few:
        return {}
    rates = {}
    for name, passing in (("l2_copy_gb_s", _copying), ("l2_read_gb_s", _reading)):
        less_us, more_us = (_least_graph_us(passing(size)) for size in (few, many))
        plain = many / more_us
        slope = (many - few) / (more_us - less_us) if more_us > less_us else plain
        rates[name] = min(max(plain, slope), 3 * plain) / 1e3  # noise can make the slope far too high
    return rates


def _copying(size_bytes: int) -> Work:
    source = torch.ones(size_bytes // 8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _reading(size_bytes: int) -> Work:
    source, total = torch.ones(size_bytes // 4, device="cuda"), torch.empty((), device="cuda")
    return lambda: torch.sum(source, dim=0, out=total)


def _peaks(capability: float) -> dict[str, float]:
    return {
        f"peak_{name}_gflop_s": 2 * side**3 / _product_us(name, side) / 1e3
        for name, side in _SIDES.items()
        if capability >= _SINCE.get(name, 0)
    }


def _product_us(name: str, side: int) -> float:
    # Zeros draw the least power, so the clock is the highest that any kernel can have.
    left, right, out = (torch.zeros((side, side), dtype=_TYPES[name], device="cuda") for _ in range(3))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    try:
        return _least_us(lambda: torch.matmul(left, right, out=out))
    finally:
        torch.set_float32_matmul_precision(before)


def _launches() -> dict[str, float]:
    tiny = torch.zeros(1, device="cuda")

    def launch() -> None:
        tiny.add_(1)

    def alone() -> None:
        for _ in range(_NODES):
            launch()

    return {"launch_us": _least_us(alone) / _NODES, "graph_launch_us": _least_graph_us(launch)}


def _least_graph_us(work: Work) -> float:
    """Return the least time of one of many passes in a graph."""
    work()  # the set-up of a first call cannot be captured
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_NODES):
            work()
    return _least_us(graph.replay) / _NODES


def _least_us(work: Work) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    work()
    torch.cuda.synchronize()
    least_ms = math.inf
    deadline = time.perf_counter() + _BUDGET_S
    for _ in range(_MOST_SAMPLES):
        work()  # the GPU is busy with this one while the next is queued
        begin.record()
        work()
        end.record()
        end.synchronize()
        least_ms = min(least_ms, begin.elapsed_time(end))
        if time.perf_counter() >= deadline:
            break
    return least_ms * 1e3
