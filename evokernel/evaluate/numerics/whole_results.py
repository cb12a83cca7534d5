"""Results that are whole numbers, which are compared exactly but at edges: there any of several may be right."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from evokernel.evaluate.numerics.arrays import BYTES, EDGED, Array, differ
from evokernel.evaluate.numerics.cast_answers import CastAnswers
from evokernel.evaluate.numerics.edges import MovedRun, edge_answers
from evokernel.evaluate.numerics.expected import ExpectedOutput
from evokernel.evaluate.numerics.rankings import RankingFinder
from evokernel.task import Task, Workload


def with_edges(
    outputs: Sequence[ExpectedOutput],
    task: Task,
    workload: Workload,
    inputs: Mapping[str, Array],
    *,
    unit: float | None,
    coarse: Iterable[MovedRun],
    casting: CastAnswers | None,
) -> list[ExpectedOutput]:
    """Note what elements of whole numbers may be that lie at an edge.

    Args:
        outputs: the answers.
        task: the task.
        workload: the sizes.
        inputs: what the answers are for.
        unit: how far inexact results move; None where nothing tells what is exact.
        coarse: runs that round each step to 16 bits, as torch rounds under tensors of 16 bits, if there are such:
            numbers that tie there may be in any order.
        casting: the reference, if it casts to 16 bits; kernels may round in other places.
    """
    places = [place for place, output in enumerate(outputs) if output.native.dtype in EDGED]
    made = list(outputs)
    if unit is None or not places:
        return made
    runs: Iterator[tuple[list[int], MovedRun]]
    runs = zip(itertools.repeat(places), edge_answers(task, workload, inputs, unit=unit, terms=True), strict=False)
    if any(outputs[place].native.dtype not in BYTES for place in places):
        runs = itertools.chain(runs, zip(itertools.repeat(places), coarse, strict=False))
    if casting is not None and (mine := sorted({*places} & {*casting.changed()})):
        runs = itertools.chain(runs, zip(itertools.repeat(mine), casting.edges(), strict=False))
    found = {place: _EdgesOf(outputs[place].high) for place in places}
    for moved, run in runs:  # one at a time: each holds all that was ranked in it
        for place in moved:
            found[place].add(run, run.answer[place])
    for place, edges in found.items():
        share = float(edges.places.double().mean())
        ranking = edges.finder.found
        made[place] = replace(outputs[place], others=tuple(edges.others), edge_share=share, ranking=ranking)
        if ranking is not None:  # which tells more than the ends of positions
            made[place] = replace(made[place], ends=tuple)
    return made


class _EdgesOf:
    """Edges of one output."""

    def __init__(self, high: Array) -> None:
        self.others: list[Array] = []
        self.places = torch.zeros_like(high, dtype=torch.bool)
        self.finder = RankingFinder()
        self._high = high

    def add(self, run: MovedRun, answer: Array) -> None:
        """Take the output of one run."""
        moved = differ(answer, self._high)
        if moved.any():
            self.others.append(answer)
            self.places |= moved
        if self._high.dtype not in BYTES:
            self.finder.add(run.ranked, answer)
