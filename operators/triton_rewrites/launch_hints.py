"""`launch_hints`: warps, pipeline stages and the register limit of a launch become tunables."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from operators.triton_rewrites.base import Site
from operators.triton_rewrites.edits import Edits
from operators.triton_rewrites.source import Module, keyword_of


@dataclass(frozen=True, slots=True)
class Option:
    """A launch option: its tunable, default first, and how the launch passes it."""

    tunable: str
    default: int
    choices: tuple[int, ...]
    passed: str = "{}"


OPTIONS = {
    "num_warps": Option("NUM_WARPS", 4, (1, 2, 4, 8, 16)),
    "num_stages": Option("NUM_STAGES", 3, (1, 2, 3, 4, 5)),
    "maxnreg": Option("MAXNREG", 0, (0, 64, 96, 128, 168, 255), "{} or None"),
}


class LaunchHints:
    """Passes an option that a launch leaves to its default; 0 leaves the register limit to the compiler."""

    name = "launch_hints"

    def sites(self, module: Module) -> list[Site]:
        """One per kernel and option that none of its launches passes."""
        return [
            Site(f"{kernel.name} {option}", (kernel.name, option))
            for kernel in module.kernels.values()
            for option in OPTIONS
            if all(_plain(launch.call, option) for launch in module.launches_of(kernel))
        ]

    def apply(self, module: Module, site: Site) -> str:
        """Every launch of the kernel with the option."""
        kernel, option = (str(part) for part in site.detail)
        shape = OPTIONS[option]
        edits = Edits(module)
        name = edits.add_constant(shape.tunable, shape.default, shape.choices)
        for launch in module.launches_of(module.kernels[kernel]):
            edits.add_keyword(launch.call, option, shape.passed.format(name))
        return edits.result()


def _plain(call: ast.Call, option: str) -> bool:
    """Whether a launch surely does not pass an option."""
    return keyword_of(call, option) is None and all(keyword.arg for keyword in call.keywords)
