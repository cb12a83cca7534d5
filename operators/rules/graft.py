"""`graft`: a kernel with regions of another of different structure in the place of its own (`// region: pack`)."""

from collections.abc import Collection

from evokernel.protocols import Crossover
from evokernel.records.fitness import Elite
from evokernel.records.step import Context, Draft, OperatorKind
from evokernel.rng import stream
from evokernel.source.protected import protected_change
from operators.rules.grafting import GraftedSource as Splice
from operators.rules.grafting import grafts

SHORT_ID = 8


class Graft(Crossover):
    """Exchange of named regions between kernels of different skeletons, of any island."""

    name = "graft"
    parents = 2
    kind = OperatorKind.CROSSOVER

    def suits(self, first: Elite, second: Elite, *, known: Collection[str]) -> bool:
        """Say whether the first can take a region of the second and give a candidate that is not known."""
        return bool(_new(first, second, known))

    async def propose(self, context: Context) -> Draft | None:
        """Return the first parent with regions of the second, or None where all legal grafts are known."""
        if len(context.parents) < 2:
            return None
        first, second = context.parents[:2]
        offered = _new(first, second, context.known)
        if not offered:
            return None
        rng = stream(context.seed, context.step, "graft")
        chosen = offered[int(rng.integers(len(offered)))]
        what = "region" if len(chosen.regions) == 1 else "regions"
        return Draft(
            source=chosen.source,
            parents=(first.candidate.id, second.candidate.id),
            rationale=f"graft: {what} {', '.join(chosen.regions)} from {second.candidate.id[:SHORT_ID]}",
        )


def _new(first: Elite, second: Elite, known: Collection[str]) -> list[Splice]:
    one, other = first.candidate, second.candidate
    return [
        graft
        for graft in grafts(one.source, other.source, one.language)
        if graft.id not in known and not protected_change(one.source, graft.source)
    ]
