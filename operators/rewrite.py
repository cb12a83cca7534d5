"""`rewrite`: one legal source transformation, drawn towards the kinds that have paid in this run."""

from collections import defaultdict

import numpy as np

from evokernel.candidate import Candidate
from evokernel.protocols import Context, Draft
from evokernel.rng import stream
from operators.rewrites import Move, apply, moves


class Rewrite:
    """Applies a transformation from the library for the candidate's language."""

    name = "rewrite"
    parents = 1
    tuner = False

    async def propose(self, context: Context) -> Draft | None:
        """Return a rewritten parent that was not tried before, or None where no move is left."""
        parent = context.parents[0]
        by_kind: dict[str, list[Move]] = defaultdict(list)
        for move in moves(parent.candidate.source, threads=context.threads):
            if rationale_of(move) not in context.tried:
                by_kind[move.rewrite].append(move)
        rng = stream(context.seed, context.step, "rewrite")
        while by_kind:
            kinds = sorted(by_kind)
            weights = np.array([context.credit.get(kind, 0.5) for kind in kinds])
            kind = kinds[int(rng.choice(len(kinds), p=weights / weights.sum()))]
            move = by_kind[kind].pop(int(rng.integers(len(by_kind[kind]))))
            if not by_kind[kind]:
                del by_kind[kind]
            source = apply(parent.candidate.source, move)
            if Candidate(source, context.language).id not in context.known:
                return Draft(source=source, parents=(parent.candidate.id,), rationale=rationale_of(move))
        return None


def rationale_of(move: Move) -> str:
    """Return the words a move is remembered by: its kind, then where it was applied."""
    return f"{move.rewrite}: {move.label}"
