"""`launch_hints`: warps, pipeline stages and the register limit of a launch become tunables."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from operators.rewrites.triton.base import TritonSite
from operators.rewrites.triton.source import TritonModule, keyword_of
from operators.rewrites.triton.span_edits import SpanEdits


@dataclass(frozen=True, slots=True)
class LaunchOption:
    """A launch option: its tunable, default first, and how the launch passes it."""

    tunable: str
    default: int
    choices: tuple[int, ...]
    passed: str = "{}"


OPTIONS = {
    "num_warps": LaunchOption("NUM_WARPS", 4, (1, 2, 4, 8, 16)),
    "num_stages": LaunchOption("NUM_STAGES", 3, (1, 2, 3, 4, 5)),
    "maxnreg": LaunchOption("MAXNREG", 0, (0, 64, 96, 128, 168, 255), "{} or None"),
}


class LaunchHints:
    """Passes an option that a launch leaves to its default; 0 leaves the register limit to the compiler."""

    name = "launch_hints"

    def sites(self, module: TritonModule) -> list[TritonSite]:
        """Return one per kernel and option that none of its launches passes."""
        return [
            TritonSite(f"{kernel.name} {option}", (kernel.name, option))
            for kernel in module.kernels.values()
            for option in OPTIONS
            if all(_plain(launch.call, option) for launch in module.launches_of(kernel))
        ]

    def apply(self, module: TritonModule, site: TritonSite) -> str:
        """Return every launch of the kernel with the option."""
        kernel, option = (str(part) for part in site.detail)
        shape = OPTIONS[option]
        edits = SpanEdits(module)
        name = edits.add_constant(shape.tunable, shape.default, shape.choices)
        for launch in module.launches_of(module.kernels[kernel]):
            edits.add_keyword(launch.call, option, shape.passed.format(name))
        return edits.result()


def _plain(call: ast.Call, option: str) -> bool:
    """Say whether a launch surely does not pass an option."""
    return keyword_of(call, option) is None and all(keyword.arg for keyword in call.keywords)
