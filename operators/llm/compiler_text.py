"""Compiler facts in a prompt: resources, the limiter of occupancy, the hot loop."""

from collections.abc import Mapping

from operators.quoting import quantities

_NOT_TOLD = frozenset({"compile_ms", "artifact_bytes", "sanitized", "disturbed", "recordable"})
_BLOCKS, _LOOP = "blocks_by_", "hot_loop_"
_ELSEWHERE = ("holdout", "profiled_")  # the feedback has the latter, with their meaning
_WORDS = {
    "tensor": "tensor cores",
    "arithmetic": "floating-point arithmetic",
    "special": "special functions",
    "conversions": "conversions",
    "integer": "integer arithmetic (addresses, mostly)",
    "shared": "shared memory",
    "loads": "global loads",
    "stores": "global stores",
    "async_copies": "asynchronous copies",
    "barriers": "barriers",
}
_SEVERAL = (
    "Each number is of the kernel where it is worst: what follows on occupancy is of the one with the fewest warps in "
    "flight, and the instructions are of the one with the longest hot loop."
)
_WIDTHS = {"loads": "load_bits", "stores": "store_bits"}


def compiled(metrics: Mapping[str, float], descriptor: Mapping[str, float]) -> str:
    """Return descriptors and metrics of the compiled kernel; numbers that do not describe it are left out.

    For a GPU kernel sentences name the limiter of its occupancy and the instructions of its hot loop.
    """
    numbers = {
        name: value
        for name, value in {**metrics, **descriptor}.items()
        if name not in _NOT_TOLD and not name.endswith("_s") and not name.startswith(_ELSEWHERE)
    }
    residency = _residency(numbers)
    loop = _hot_loop({name.removeprefix(_LOOP): value for name, value in numbers.items() if name.startswith(_LOOP)})
    general = {
        name: value
        for name, value in numbers.items()
        if not (residency and (name.startswith(_BLOCKS) or name == "occupancy"))
        and not (loop and name.startswith(_LOOP))
    }
    rest = f"Compiled code: {quantities(general)}." if general else ""
    if residency and numbers.get("kernels", 1) > 1:
        rest += f" {_SEVERAL}"
    return " ".join(part for part in (rest, residency, loop) if part)


def _residency(numbers: Mapping[str, float]) -> str:
    """Say how many warps are in flight, and which resource limits them."""
    allowed = {
        name.removeprefix(_BLOCKS).replace("_", " "): int(value)
        for name, value in numbers.items()
        if name.startswith(_BLOCKS)
    }
    if not allowed or "occupancy" not in numbers:
        return ""
    share = f"Occupancy {numbers['occupancy']:.0%}"
    if numbers["occupancy"] >= 1:
        return f"{share}."
    least = min(allowed.values())
    limiters = " and ".join(sorted(name for name, blocks in allowed.items() if blocks == least))
    others = ", ".join(f"{name} {blocks}" for name, blocks in sorted(allowed.items()) if blocks > least)
    beside = f" (would allow: {others})" if others else ""
    noun = "block" if least == 1 else "blocks"
    return f"{share}: {least} {noun} at once on a multiprocessor, limited by {limiters}{beside}."


def _hot_loop(found: Mapping[str, float]) -> str:
    """Say which instructions a GPU kernel's hot loop has; empty for kernels of a processor."""
    if "load_bits" not in found or "tensor" not in found:
        return ""
    widths = dict(_WIDTHS) if found.get("loads") else _WIDTHS | {"async_copies": "load_bits"}
    parts = []
    for name, words in _WORDS.items():
        bits = found.get(widths.get(name, ""), 0.0)
        if found.get(name):
            parts.append(f"{words} {found[name]:.0f}" + (f" (mostly {bits:.0f} bits a thread)" if bits else ""))
    place = "In the hot loop" if found.get("in_loop", 1) else "There is no loop; in all"
    return f"{place} {found['instructions']:.0f} instructions: {', '.join(parts)}." if parts else ""
