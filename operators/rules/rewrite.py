"""`rewrite`: one legal source transformation, drawn towards strong kinds and kinds that have paid in this run."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from evokernel.protocols import Operator
from evokernel.records.candidate import Candidate
from evokernel.records.step import Context, Draft, OperatorKind
from evokernel.rng import stream
from evokernel.source.protected import protected_change
from evokernel.source.regions import only_whole
from operators.rewrites.cpp import CPP_REWRITES
from operators.rewrites.cuda import CUDA_REWRITES
from operators.rewrites.focus import in_focus
from operators.rewrites.library import AnyRewriteLibrary, RewriteMove
from operators.rewrites.triton import TRITON_REWRITES

LIBRARIES: Mapping[str, AnyRewriteLibrary] = {"cpp": CPP_REWRITES, "cuda": CUDA_REWRITES, "triton": TRITON_REWRITES}
"""The rewrites of each language that has some."""

DECAY = 0.88
"""Ratio between the weights of a kind and of the one before it in its library, which lists strong ones first."""

IDLE = 0.25
"""Chance that a change does not wait for all others, to the power of how often it gave known machine code."""

FAVOUR = 3.0
"""Ratio between the weights of a kind that suits the task and of the first of its library."""


class Rewrite(Operator):
    """Application of one transformation from the library for the candidate's language."""

    name = "rewrite"
    parents = 1
    kind = OperatorKind.RULE

    def supports(self, language: str) -> bool:
        """Say whether there is a library of rewrites for a language."""
        return language in LIBRARIES

    async def propose(self, context: Context) -> Draft | None:
        """Return a rewritten parent that was not tried before, or None where no move is left."""
        library = LIBRARIES.get(context.language)
        if library is None:
            return None
        parent, rng = context.parents[0], stream(context.seed, context.step, "rewrite")
        now, later = defaultdict[str, list[RewriteMove]](list), defaultdict[str, list[RewriteMove]](list)
        for move in library.moves(parent.candidate.source, threads=context.threads):
            rationale = rationale_of(move)
            if rationale not in context.tried and in_focus(move.rewrite, context.focus):
                idle = context.idle.get(rationale, 0)
                waits = idle > 0 and rng.random() >= IDLE**idle
                (later if waits else now)[move.rewrite].append(move)
        return self._drawn(context, library, now, rng) or self._drawn(context, library, later, rng)

    def _drawn(
        self,
        context: Context,
        library: AnyRewriteLibrary,
        by_kind: dict[str, list[RewriteMove]],
        rng: np.random.Generator,
    ) -> Draft | None:
        """Return the parent after one of some moves, which are used up, or None where none gives a new source."""
        parent, favoured = context.parents[0].candidate, library.favoured(context.task)
        while by_kind:
            kinds = list(by_kind)  # in the library's order
            priors = [FAVOUR if kind in favoured else DECAY**rank for rank, kind in enumerate(kinds)]
            weights = np.array([context.credit.get(kind, 0.5) for kind in kinds]) * priors
            kind = kinds[int(rng.choice(len(kinds), p=weights / weights.sum()))]
            move = by_kind[kind].pop(int(len(by_kind[kind]) * rng.random() ** 2))
            if not by_kind[kind]:
                del by_kind[kind]
            source = only_whole(library.apply(parent.source, move))
            if protected_change(parent.source, source):
                continue
            if Candidate(source, context.language).id not in context.known:
                return Draft(source=source, parents=(parent.id,), rationale=rationale_of(move))
        return None


def rationale_of(move: RewriteMove) -> str:
    """Return the words by which a move is remembered: its kind, then its place."""
    return f"{move.rewrite}: {move.label}"
