"""`blend`: a child that takes each tunable from one of two parents of the same skeleton (uniform crossover)."""

from evokernel.protocols import Operator
from evokernel.records.candidate import Candidate
from evokernel.records.step import Context, Draft, OperatorKind
from evokernel.rng import stream
from evokernel.source.protected import protected_change
from evokernel.source.tunables import read_tunables, with_values
from operators.rules.tune import KnownPoints, describe_change

ATTEMPTS = 16


class Blend(Operator):
    """Recombination of the tunables of two parents of one skeleton."""

    name = "blend"
    parents = 2
    kind = OperatorKind.TUNER

    async def propose(self, context: Context) -> Draft | None:
        """Return a new mixture that the constraints allow, or None where a few attempts find none.

        None repeats a sibling's machine code, as far as is known.
        """
        if len(context.parents) < 2:
            return None
        first, second = context.parents[:2]
        space, other = read_tunables(first.candidate.source), read_tunables(second.candidate.source).values
        rng, known = stream(context.seed, context.step, "blend"), KnownPoints(space, context.siblings, context.in_hand)
        for _ in range(ATTEMPTS):
            mixed = {name: other[name] if rng.random() < 0.5 else value for name, value in space.values.items()}
            source = with_values(first.candidate.source, mixed)
            if protected_change(first.candidate.source, source) or not space.allows(mixed):
                continue  # where the second parent has a value that it does not list, the first has no place for it
            if Candidate(source, context.language).id in context.known:
                continue
            if not known.again(known.places([mixed]))[0]:
                return Draft(
                    source=source,
                    parents=(first.candidate.id, second.candidate.id),
                    rationale=f"blend: {describe_change(space.values, mixed)} from {second.candidate.id}",
                )
        return None
