"""`launch_hints`: warps, pipeline stages and the register limit of a launch become tunables."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from operators.rewrites.triton.source import TritonKernel, TritonModule, keyword_of
from operators.rewrites.triton.span_edits import SpanEdits, TritonRewrite


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


class LaunchHints(TritonRewrite):
    """Explicit launch options in place of defaults; 0 leaves the register limit to the compiler."""

    name = "launch_hints"

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, str]]:
        """Yield the options that no launch of a kernel passes."""
        for option in OPTIONS:
            if all(_plain(launch.call, option) for launch in module.launches_of(kernel)):
                yield f"{kernel.name} {option}", option

    def edit(self, edits: SpanEdits, kernel: TritonKernel, found: str) -> None:
        """Pass the option in every launch of the kernel."""
        shape = OPTIONS[found]
        name = edits.add_constant(shape.tunable, shape.default, shape.choices)
        for launch in edits.module.launches_of(kernel):
            edits.add_keyword(launch.call, found, shape.passed.format(name))


def _plain(call: ast.Call, option: str) -> bool:
    """Say whether a launch provably does not pass an option."""
    return keyword_of(call, option) is None and all(keyword.arg for keyword in call.keywords)
