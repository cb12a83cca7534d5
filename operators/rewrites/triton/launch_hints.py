"""`launch_hints`: warps, pipeline stages and the register limit of a launch become tunables."""

import ast
from dataclasses import dataclass

from operators.rewrites.triton.source import TritonModule, TritonSite, keyword_of
from operators.rewrites.triton.span_edits import SpanEdits


@dataclass(frozen=True, slots=True)
class LaunchOption:
    """A launch option with its tunable."""

    tunable: str
    """The name of the tunable."""
    default: int
    """Its first value."""
    choices: tuple[int, ...]
    """All its values."""
    passed: str = "{}"
    """The argument of the launch, with `{}` for the tunable."""


OPTIONS = {
    "num_warps": LaunchOption("NUM_WARPS", 4, (1, 2, 4, 8, 16)),
    "num_stages": LaunchOption("NUM_STAGES", 3, (1, 2, 3, 4, 5)),
    "maxnreg": LaunchOption("MAXNREG", 0, (0, 64, 96, 128, 168, 255), "{} or None"),
}


class LaunchHints:
    """Explicit launch options in place of defaults; 0 leaves the register limit to the compiler."""

    name = "launch_hints"

    def sites(self, module: TritonModule) -> list[TritonSite]:
        """Return one site per kernel and option that none of its launches passes."""
        return [
            TritonSite(f"{kernel.name} {option}", (kernel.name, option))
            for kernel in module.kernels.values()
            for option in OPTIONS
            if all(_plain(launch.call, option) for launch in module.launches_of(kernel))
        ]

    def apply(self, module: TritonModule, site: TritonSite) -> str:
        """Return the source with the option in every launch of the kernel."""
        kernel, option = (str(part) for part in site.detail)
        shape = OPTIONS[option]
        edits = SpanEdits(module)
        name = edits.add_constant(shape.tunable, shape.default, shape.choices)
        for launch in module.launches_of(module.kernels[kernel]):
            edits.add_keyword(launch.call, option, shape.passed.format(name))
        return edits.result()


def _plain(call: ast.Call, option: str) -> bool:
    """Say whether a launch provably does not pass an option."""
    return keyword_of(call, option) is None and all(keyword.arg for keyword in call.keywords)
