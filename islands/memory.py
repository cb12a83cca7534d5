"""What a run knows of everything it tried: a fold over committed results, equal in a live run and in a replay."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from evokernel.candidate import Proposal
from evokernel.evaluation import Status
from evokernel.fitness import Elite, fitness_of
from evokernel.steps import Outcome, Sibling
from evokernel.tunables import read_tunables

VARIANTS = 8
TUNING_TRIALS = 6
PROMISING = 1.1  # natural log: a new skeleton within a factor of three of the best is worth tuning


class Memory:
    """Candidates, skeletons and what was tried on them."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.elites: dict[str, Elite] = {}
        self.barred: set[str] = set()
        self.variants: dict[str, list[Elite]] = defaultdict(list)
        self.siblings: dict[str, list[Sibling]] = defaultdict(list)
        self.tried: dict[str, set[str]] = defaultdict(set)
        self.exhausted: set[tuple[str, ...]] = set()
        self.trials: dict[str, int] = {}
        self.best: Elite | None = None
        self._chances: Counter[str] = Counter()
        self._gains: Counter[str] = Counter()

    def propose(self, proposal: Proposal) -> None:
        """Remember that a candidate is on its way, so that it is not proposed twice."""
        self.known.add(proposal.candidate.id)
        for parent in proposal.parents[:1]:
            self.tried[parent].add(proposal.rationale)

    def learn(self, outcome: Outcome) -> Elite | None:
        """Take in one result; return the elite it made, if the candidate is right and measured."""
        proposal, evaluation = outcome.proposal, outcome.evaluation
        if proposal is None or evaluation is None:
            self.exhausted.add((outcome.operator, *outcome.parents))
            return None
        self.propose(proposal)
        if evaluation.status is Status.HARNESS_ERROR:
            return None
        fitness = fitness_of([evaluation])
        values = (
            read_tunables(proposal.candidate.source).values if evaluation.status is not Status.STATIC_REJECT else {}
        )
        self.siblings[outcome.skeleton].append(Sibling(values, fitness.value if fitness else None))
        elite = None
        if fitness is not None and outcome.program_hash not in self.barred:
            elite = Elite(
                candidate=proposal.candidate,
                fitness=fitness,
                descriptor=dict(evaluation.descriptor),
                seq=outcome.seq,
                program_hash=outcome.program_hash,
                skeleton=outcome.skeleton,
                feedback=evaluation.feedback,
            )
        self._credit(proposal, elite)
        if elite is not None:
            self._keep(elite)
        return elite

    def bar(self, program_hash: str) -> None:
        """Never let a program be a parent again: it did not hold when it was measured anew."""
        self.barred.add(program_hash)
        self.elites = {name: elite for name, elite in self.elites.items() if elite.program_hash != program_hash}
        for skeleton, variants in self.variants.items():
            self.variants[skeleton] = [elite for elite in variants if elite.program_hash != program_hash]
        if self.best is not None and self.best.program_hash == program_hash:
            self.best = max(self.elites.values(), key=lambda e: (e.fitness.value, -e.seq), default=None)

    @property
    def credit(self) -> Mapping[str, float]:
        """How often each kind of change gave a better kernel than its parent, smoothed towards one half."""
        return {kind: (self._gains[kind] + 1) / (chances + 2) for kind, chances in sorted(self._chances.items())}

    def young(self) -> list[Elite]:
        """Return the best of each promising new skeleton that still has tuning trials, best first."""
        skeletons = [skeleton for skeleton, left in self.trials.items() if left > 0 and self.variants[skeleton]]
        return sorted((self.variants[s][0] for s in skeletons), key=lambda e: (-e.fitness.value, e.seq))

    def _keep(self, elite: Elite) -> None:
        first = not self.variants[elite.skeleton]
        self.elites[elite.candidate.id] = elite
        ranked = sorted([*self.variants[elite.skeleton], elite], key=lambda e: (-e.fitness.value, e.seq))
        self.variants[elite.skeleton] = ranked[:VARIANTS]
        best = self.best.fitness.value if self.best else float("-inf")
        if first and elite.fitness.value > best - PROMISING and read_tunables(elite.candidate.source).tunables:
            self.trials[elite.skeleton] = TUNING_TRIALS
        elif elite.skeleton in self.trials:
            self.trials[elite.skeleton] -= 1
        if elite.fitness.value > best:
            self.best = elite

    def _credit(self, proposal: Proposal, elite: Elite | None) -> None:
        parents = [self.elites[parent] for parent in proposal.parents if parent in self.elites]
        if not parents:
            return
        kind = proposal.rationale.partition(":")[0]
        self._chances[kind] += 1
        if elite is not None and elite.fitness.value > max(parent.fitness.value for parent in parents):
            self._gains[kind] += 1
