"""Choice between the templates of a product or convolution, which Inductor would time on a GPU."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_GOOD_TILE, _GOOD_STAGES = 128, 3
_GOOD_DEPTH, _DEPTH_IN_REGISTERS = 32, 16
_WARP, _MOST_SUMS = 32, 64
"""Threads of a warp; sums of a thread without tensor cores beyond which its registers spill."""
_NUMBER = re.compile(r"\b(\w+)=(\d+)\b")


@dataclass(frozen=True, slots=True)
class TemplateSet:
    """The ways to compute one product or convolution."""

    choices: tuple[tuple[str, str], ...]
    """Name and description of each."""

    def values(self, name: str) -> set[int]:
        """Return the values that a number of the templates takes."""
        return {numbers(text)[name] for _, text in self.choices if name in numbers(text)}


def numbers(description: str) -> dict[str, int]:
    """Return the numbers in a template's description, by name."""
    return {name: int(value) for name, value in _NUMBER.findall(description)}


def best_template(templates: Sequence[Any], *, in_registers: bool) -> Any:
    """Return the template that is likely to do well on large inputs: tiles of 128 x 128 at most, three in flight.

    Without tensor cores (`in_registers`) the steps along the depth are written out, with all that a thread multiplies
    in its registers: deep tiles, or those of few threads, take long to compile and spill.
    """
    depth = _DEPTH_IN_REGISTERS if in_registers else _GOOD_DEPTH

    def rank(template: Any) -> tuple[int, ...]:
        known = numbers(template.description)
        wide = [known.get(name, 0) for name in ("BLOCK_M", "BLOCK_N")]
        sums = wide[0] * wide[1] / (_WARP * known.get("num_warps", 1))
        fits = max(wide) <= _GOOD_TILE and not (in_registers and sums > _MOST_SUMS)
        near = -abs(known.get("BLOCK_K", 0) - depth)
        return fits, wide[0] * wide[1], near, -abs(known.get("num_stages", 0) - _GOOD_STAGES), known.get("num_warps", 0)

    return max(templates, key=rank)
