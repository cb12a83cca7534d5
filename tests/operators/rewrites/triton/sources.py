"""Triton sources that the tests rewrite: the seeds of the built-in tasks, and small edits of them."""

from pathlib import Path

from operators.rewrites.library import RewriteMove
from operators.rewrites.triton import TRITON_REWRITES

_TASKS = Path(__file__).parents[4] / "evokernel" / "tasks"
GEMM = (_TASKS / "gemm" / "seeds" / "plain.py").read_text()
SOFTMAX = (_TASKS / "softmax" / "seeds" / "plain.py").read_text()


def labels(source: str, rewrite: str) -> list[str]:
    """Labels of the moves of one rewrite."""
    return [move.label for move in TRITON_REWRITES.moves(source) if move.rewrite == rewrite]


def move(source: str, rewrite: str, label: str = "") -> RewriteMove:
    """The first move of a rewrite whose label holds these words."""
    return next(m for m in TRITON_REWRITES.moves(source) if m.rewrite == rewrite and label in m.label)


def after(source: str, *steps: str) -> str:
    """The source after some moves, each `rewrite` or `rewrite: words of the label`."""
    for step in steps:
        name, _, label = step.partition(": ")
        source = TRITON_REWRITES.apply(source, move(source, name, label))
    return source


def changed(source: str, old: str, new: str) -> str:
    """The source with one text replaced; the text must be there."""
    assert old in source
    return source.replace(old, new)
