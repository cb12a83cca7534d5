"""Ranges and words of hidden checks, and those in force, for a prompt."""

from evokernel.records.hidden_check import MOST_PARTS, HiddenCheck, words_for
from evokernel.records.step import Context

_MEANT = {
    "equal": "each row of one value",
    "ties": "each row of three values",
    "outlier": "one value of each row far off",
    "run": "a run of equal values in each row",
    "extremes": "the least and the largest index alone",
    "ordered": "ascending indices",
    "crowded": "a few neighbouring indices",
}


def check_choices(context: Context) -> str:
    """Return the sizes and contents that a check may have, and the checks that the run has added."""
    (offered,) = context.task.workloads.values()
    lines = ["Sizes, each a whole number within its range, both ends included:", ""]
    lines += [f"- {name}: {low} to {high}" for name, (low, high) in offered.probe.items()]
    lines += ["", f"Words for the contents of an input, up to {MOST_PARTS}: its rows are cut into as many parts.", ""]
    named = {tensor.name: words_for(context.task, tensor) for tensor in context.task.signature.inputs}
    lines += [f"- {name}: {', '.join(words)}" for name, words in named.items() if words]
    used = [word for word in _MEANT if any(word in words for words in named.values())]
    lines += ["", "; ".join(f"{word}: {_MEANT[word]}" for word in used)] if used else []
    lines += ["", "Added so far, so propose something else:", "", *map(_line, context.checks)] if context.checks else []
    return "\n".join(lines)


def _line(check: HiddenCheck) -> str:
    sizes = " ".join(f"{name}={size}" for name, size in check.sizes.items())
    contents = "; ".join(f"{name} {', '.join(words)}" for name, words in check.contents.items())
    return f"- {sizes}{f' ({contents})' if contents else ''}: {check.reason}"
