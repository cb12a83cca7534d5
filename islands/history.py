"""What a run knows of everything it tried: a fold over committed results, equal in a live run and in a replay."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence

from evokernel.records.candidate import Proposal
from evokernel.records.evaluation import Evaluation, Status
from evokernel.records.fitness import Elite
from evokernel.records.step import Attempt, Failure, OperatorRecord, Sibling, StepResult
from evokernel.source.tunables import read_tunables
from islands.failures import FailureLog
from islands.image import Find, HistorySnapshot
from islands.insights import Insights
from islands.known import Known

VARIANTS = 8
KEPT = 512
"""Kernels and structures of the latest so many results stay at hand; of older ones those that still lead."""
LEADERS = 32
SIBLINGS = 2048
TUNING_TRIALS = 6
BY_HAND = "inject"
ATTEMPTS = 64
CHEAP = ("tune", "blend")  # so many that they would crowd out the others
PROMISING = 1.1  # natural log: within a factor of three of the best a skeleton is worth tuning, and a parent


class History:
    """Candidates, skeletons and what was tried on them.

    Args:
        repairable: operators by name: only their failures are worth mending.
        repairs: how often a failed candidate and what comes of it is given back.
        device_usd_per_hour: what the device's time costs, beside what models charge.
    """

    def __init__(self, *, repairable: Collection[str] = (), repairs: int = 0, device_usd_per_hour: float = 0.0) -> None:
        self.known = Known()
        self.elites: dict[str, Elite] = {}
        self.barred: set[str] = set()
        self.variants: dict[str, list[Elite]] = defaultdict(list)
        self.siblings: dict[str, list[Sibling]] = defaultdict(list)
        self.tried: dict[str, set[str]] = defaultdict(set)
        self.exhausted: set[tuple[str, ...]] = set()
        self.trials: dict[str, int] = {}
        self.best: Elite | None = None
        self.verdicts: dict[str, Evaluation] = {}
        self.attempts: deque[Attempt] = deque(maxlen=ATTEMPTS)
        self.broken = FailureLog({*repairable, BY_HAND}, repairs=repairs)
        self.insights = Insights()
        self.hints: list[tuple[str, str]] = []
        self.pinned: list[str] = []
        self.accounts: dict[tuple[str, str], OperatorRecord] = {}
        self._usd_per_s = device_usd_per_hour / 3600
        self._chances: Counter[str] = Counter()
        self._gains: Counter[str] = Counter()

    def propose(self, proposal: Proposal) -> None:
        """Remember that a candidate is on its way, so that it is not proposed twice."""
        self.known.add(proposal.candidate.id)
        for parent in proposal.parents[:1]:
            self.tried[parent].add(proposal.rationale)
        self.broken.take(proposal.parents)

    def learn(self, outcome: StepResult) -> Elite | None:
        """Take in one result; return the elite it made, if the candidate is right and measured."""
        proposal, evaluation = outcome.proposal, outcome.evaluation
        if proposal is None or evaluation is None:
            self._learn_without_candidate(outcome)
            return None
        self.propose(proposal)
        if evaluation.status is Status.HARNESS_ERROR:
            return None
        elite = outcome.elite
        values = (
            read_tunables(proposal.candidate.source).values if evaluation.status is not Status.STATIC_REJECT else {}
        )
        self.siblings[outcome.skeleton].append(Sibling(values, elite.fitness.value if elite else None))
        if elite is not None and outcome.program_hash not in self.barred:
            self.verdicts[elite.candidate.id] = evaluation
        else:
            elite = None
            self._fail(proposal, evaluation)
        self._credit(proposal, elite, evaluation)
        if elite is not None:
            self._keep(elite)
        return elite

    def hint(self, text: str, *, island: str) -> None:
        """Take in what a person said, for one island or, named "*", for all."""
        self.hints.append((island, text))

    def hints_for(self, island: str) -> tuple[str, ...]:
        """Return what people said for an island, oldest first."""
        return tuple(text for meant, text in self.hints if meant in (island, "*"))

    def bar(self, program_hash: str) -> None:
        """Never let a program be a parent again: it did not hold when it was measured anew."""
        self.barred.add(program_hash)
        for name in [name for name, elite in self.elites.items() if elite.program_hash == program_hash]:
            self.verdicts.pop(name, None)
        self.elites = {name: elite for name, elite in self.elites.items() if elite.program_hash != program_hash}
        self.pinned = [name for name in self.pinned if name in self.elites]
        for skeleton, variants in self.variants.items():
            self.variants[skeleton] = [elite for elite in variants if elite.program_hash != program_hash]
        if self.best is not None and self.best.program_hash == program_hash:
            self.best = max(self.elites.values(), key=lambda e: (e.fitness.value, -e.seq), default=None)

    def prune(self, living: Collection[str]) -> None:
        """Let go of the sources and verdicts of what nobody will turn to again, so that a long run stays small.

        What stays: `living`, the elites of the islands by id; what is pinned; the best of all; the latest; and the
        variants of all their structures. Every id stays known, so nothing is tried twice.
        """
        leaders = sorted(self.elites.values(), key=lambda e: (-e.fitness.value, e.seq))[:LEADERS]
        spared = {*living, *self.pinned, *(elite.candidate.id for elite in leaders), *list(self.elites)[-KEPT:]}
        structures = {elite.skeleton for name, elite in self.elites.items() if name in spared}
        structures.update(list(self.siblings)[-KEPT:])
        self.variants = defaultdict(list, {s: v for s, v in self.variants.items() if s in structures and v})
        spared.update(elite.candidate.id for variants in self.variants.values() for elite in variants)
        self.elites = {name: elite for name, elite in self.elites.items() if name in spared}
        self.verdicts = {name: verdict for name, verdict in self.verdicts.items() if name in self.elites}
        self.trials = {skeleton: left for skeleton, left in self.trials.items() if skeleton in structures}
        self.siblings = defaultdict(list, {s: v[-SIBLINGS:] for s, v in self.siblings.items() if s in structures})
        self.tried = defaultdict(set, {name: texts for name, texts in self.tried.items() if name in self.elites})
        self.exhausted = {key for key in self.exhausted if all(name in self.elites for name in key[1:])}

    def image(self) -> HistorySnapshot:
        """Return all of it as plain values."""
        return HistorySnapshot(
            known=self.known.text(),
            elites=tuple(elite.seq for elite in self.elites.values()),
            variants=tuple((s, tuple(e.seq for e in variants)) for s, variants in self.variants.items() if variants),
            siblings=tuple((skeleton, tuple(points)) for skeleton, points in self.siblings.items() if points),
            tried=tuple((name, tuple(sorted(texts))) for name, texts in self.tried.items() if texts),
            exhausted=tuple(sorted(self.exhausted)),
            trials=tuple(self.trials.items()),
            barred=tuple(sorted(self.barred)),
            best=self.best.seq if self.best else None,
            attempts=tuple(self.attempts),
            broken=self.broken.image(),
            insights=tuple(self.insights.all.values()),
            hints=tuple(self.hints),
            pinned=tuple(self.pinned),
            accounts=tuple((*place, account) for place, account in self.accounts.items()),
            chances=dict(self._chances),
            gains=dict(self._gains),
        )

    def restore(self, image: HistorySnapshot, *, find: Find, verdict: Callable[[int], Evaluation]) -> None:
        """Become what an image was taken of; `find` and `verdict` give the elite and the evaluation of a result."""
        self.known = Known.from_text(image.known)
        elites = [find(seq) for seq in image.elites]
        self.elites = {elite.candidate.id: elite for elite in elites}
        self.verdicts = {elite.candidate.id: verdict(elite.seq) for elite in elites}
        self.variants = defaultdict(list, {s: [find(seq) for seq in seqs] for s, seqs in image.variants})
        self.siblings = defaultdict(list, {skeleton: list(points) for skeleton, points in image.siblings})
        self.tried = defaultdict(set, {name: set(texts) for name, texts in image.tried})
        self.exhausted = set(image.exhausted)
        self.trials = dict(image.trials)
        self.barred = set(image.barred)
        self.best = None if image.best is None else find(image.best)
        self.attempts = deque(image.attempts, maxlen=ATTEMPTS)
        self.broken.restore(image.broken)
        self.insights.all = {known.seq: known for known in image.insights}
        self.hints = list(image.hints)
        self.pinned = list(image.pinned)
        self.accounts = {(island, name): account for island, name, account in image.accounts}
        self._chances, self._gains = Counter(image.chances), Counter(image.gains)

    @property
    def credit(self) -> Mapping[str, float]:
        """How often each kind of change gave a better kernel than its parent, smoothed towards one half."""
        return {kind: (self._gains[kind] + 1) / (chances + 2) for kind, chances in sorted(self._chances.items())}

    def near(self, elites: Sequence[Elite]) -> list[Elite]:
        """Return those within a factor of three of the best: a model is not paid for what is far behind."""
        best = self.best.fitness.value if self.best else float("-inf")
        return [elite for elite in elites if elite.fitness.value > best - PROMISING]

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

    def _learn_without_candidate(self, outcome: StepResult) -> None:
        if outcome.insight is not None:
            self.insights.add(outcome.seq, outcome.insight, island=outcome.island)
        elif outcome.exhausted:
            self.exhausted.add((outcome.operator, *outcome.parents))
        self.broken.tried(outcome.parents)
        self._account(outcome.island, outcome.operator, gain=0.0, cost_usd=outcome.usage.cost_usd)

    def _fail(self, proposal: Proposal, evaluation: Evaluation) -> None:
        candidate, operator, rationale = proposal.candidate, proposal.operator, proposal.rationale
        if evaluation.ok or evaluation.status is Status.HOLDOUT_FAILED or operator == "seed":
            return  # barred when it was measured anew, or nothing to learn from
        if operator in CHEAP:
            return
        self.broken.add(Failure(candidate, evaluation, operator, rationale, proposal.parents))

    def _account(self, island: str, operator: str, *, gain: float, cost_usd: float) -> None:
        before = self.accounts.get((island, operator), OperatorRecord())
        after = OperatorRecord(before.count + 1, before.gain + gain, before.cost_usd + cost_usd)
        self.accounts[island, operator] = after

    def _credit(self, proposal: Proposal, elite: Elite | None, evaluation: Evaluation) -> None:
        sources = self._made_from(proposal.parents)
        value = elite.fitness.value if elite is not None else None
        gain = value - sources[0].fitness.value if value is not None and sources else None
        over_best = value - max(e.fitness.value for e in sources) if value is not None and sources else 0.0
        if gain is not None or elite is None:
            self.insights.used(proposal.insights, gain)
        seconds = sum(evaluation.metrics.get(name, 0.0) for name in ("check_s", "time_s")) or evaluation.duration_s
        cost = proposal.usage.cost_usd + self._usd_per_s * seconds
        self._account(proposal.island, proposal.operator, gain=max(0.0, over_best), cost_usd=cost)
        if not sources:
            return
        if proposal.operator not in CHEAP:
            self.attempts.append(
                Attempt(
                    proposal.rationale,
                    sources[0].candidate.id,
                    gain,
                    evaluation.status,
                    log_speedup=elite.fitness.log_speedup if elite is not None else None,
                )
            )
        kind = proposal.rationale.partition(":")[0]
        self._chances[kind] += 1
        self._gains[kind] += over_best > 0

    def _made_from(self, parents: Sequence[str]) -> list[Elite]:
        """Return the correct kernels that something comes from: its parents, of a broken one those it came from."""
        found, waiting = list[Elite](), list(parents)
        while waiting and not found:
            found = [self.elites[name] for name in waiting if name in self.elites]
            broken = [failure for name in waiting if (failure := self.broken.get(name)) is not None]
            waiting = [name for failure in broken for name in failure.parents]
        return found
