"""History of a run: all that it tried, equal in a live run and in a replay."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from evokernel.records.candidate import EVERYWHERE, MOST_AGENT_HINTS, Candidate, Proposal, Usage
from evokernel.records.evaluation import Evaluation, Status
from evokernel.records.fitness import Elite
from evokernel.records.hidden_check import HiddenCheck
from evokernel.records.step import Attempt, Failure, OperatorRecord, Sibling, StepResult
from evokernel.source.tunables import read_tunables, skeleton_hash
from islands.failures import FailureLog
from islands.insights import Insights
from islands.references import EliteRef, ResultVerdict, VerdictRef
from islands.resources import resources_of

VARIANTS = 8
KEPT = 512
"""Number of latest kernels and structures that pruning spares; of older ones it spares the leaders."""
LEADERS = 32
FOREIGN_KEPT = 4
"""Number of the newest kernels in other languages that are kept."""
SIBLINGS = 2048
TUNING_TRIALS = 6
CODE_DIGITS = 16
BY_HAND = "inject"
ATTEMPTS = 64
CHEAP = ("tune", "blend")  # they make so many attempts that others would find no room
FADE = 0.99
"""Weight of a record of a pair after another answer: what a pair gains changes as kernels become faster."""
FORGOTTEN = 0.01
"""Least weight of a record of a pair."""
PROMISING = 1.1  # natural log: within a factor of three of the best a skeleton is worth tuning, and a parent


@dataclass(slots=True)
class History:
    """Candidates, skeletons and the changes that were tried on them.

    Only methods that take something in change it: reading for a step leaves it equal to a replay.
    """

    proposed: set[str] = field(default_factory=set)
    """Every candidate so far, by id."""
    elites: dict[str, EliteRef] = field(default_factory=dict)
    """Correct kernels that steps can use, by id of the candidate, oldest first."""
    verdicts: dict[str, VerdictRef] = field(default_factory=dict)
    """The verdicts on these kernels, by id of the candidate."""
    barred: set[str] = field(default_factory=set)
    """Program hashes that are never a parent again."""
    variants: dict[str, list[EliteRef]] = field(default_factory=dict)
    """The best kernels of each skeleton, best first."""
    siblings: dict[str, list[Sibling]] = field(default_factory=dict)
    """Measured points of each skeleton, oldest first."""
    waiting: dict[str, tuple[str, dict[str, int]]] = field(default_factory=dict)
    """Skeletons and points of the candidates under way, by id."""
    tried: dict[str, set[str]] = field(default_factory=dict)
    """Rationales of the children of a first parent, by id of that parent."""
    exhausted: set[tuple[str, ...]] = field(default_factory=set)
    """An operator and the ids of parents for which it has nothing left to offer."""
    trials: dict[str, int] = field(default_factory=dict)
    """Tuning trials left, by skeleton."""
    best: EliteRef | None = None
    """The fastest kernel so far that is not barred."""
    attempts: list[Attempt] = field(default_factory=list)
    """The latest changes that were measured, oldest first."""
    failures: FailureLog = field(default_factory=FailureLog)
    """The latest failed candidates."""
    insights: Insights = field(default_factory=Insights)
    """Words of models that later prompts use."""
    hints: list[tuple[str, str]] = field(default_factory=list)
    """Islands and hints of people for them, oldest first."""
    agent_hints: list[tuple[str, str]] = field(default_factory=list)
    """Islands and hints of agents for them, oldest first; the newest of each island."""
    foreign: list[tuple[Candidate, str]] = field(default_factory=list)
    """Kernels in other languages that people handed in, each with words on it, oldest first; the newest few."""
    pinned: list[str] = field(default_factory=list)
    """Ids of the candidates that people have pinned."""
    operators: dict[str, dict[str, OperatorRecord]] = field(default_factory=dict)
    """Records of each operator, by island and operator."""
    pairs: dict[str, dict[str, OperatorRecord]] = field(default_factory=dict)
    """Records of each operator with a model, by operator and model, which is empty for a rule; older answers fade."""
    checks: list[HiddenCheck] = field(default_factory=list)
    """Hidden checks that the run has added, oldest first."""
    looks: dict[int, list[tuple[str, str, float]]] = field(default_factory=dict)
    """Agents, kernels that they had judged and the time of each on the device, in s, by step that has not ended."""
    changes: Counter[str] = field(default_factory=Counter)
    """Changes that were measured, by kind: the first word of the rationale."""
    gains: Counter[str] = field(default_factory=Counter)
    """Those of them that beat all their parents, by kind."""
    idle: Counter[str] = field(default_factory=Counter)
    """Changes that gave known machine code and no new tunable, by rationale, since such a one last gave new code."""
    without_effect: Counter[str] = field(default_factory=Counter)
    """Changes that gave known machine code and no new tunable, by kind."""

    def propose(self, proposal: Proposal) -> None:
        """Remember a candidate under way, so that it is not proposed twice, and its point counts."""
        self._remember(proposal)
        source = proposal.candidate.source
        with suppress(ValueError):  # malformed tunables have no point
            if values := read_tunables(source).values:
                self.waiting[proposal.candidate.id] = skeleton_hash(source), values

    def in_hand(self, skeleton: str) -> tuple[Mapping[str, int], ...]:
        """Return the points of a skeleton that are under way."""
        return tuple(values for name, values in self.waiting.values() if name == skeleton)

    def _remember(self, proposal: Proposal) -> None:
        self.proposed.add(proposal.candidate.id)
        for parent in proposal.parents[:1]:
            self.tried.setdefault(parent, set()).add(proposal.rationale)
        self.failures.begin_repair(proposal.parents)

    def learn(self, outcome: StepResult, *, device_usd_per_s: float = 0.0) -> Elite | None:
        """Take in one result; return the elite it made, if the candidate is right and measured.

        The device's time costs `device_usd_per_s`, beside what models charge.
        """
        proposal, evaluation = outcome.proposal, outcome.evaluation
        if proposal is None or evaluation is None:
            self._learn_without_candidate(outcome, device_usd_per_s=device_usd_per_s)
            return None
        self._remember(proposal)
        self.waiting.pop(proposal.candidate.id, None)
        if evaluation.status is Status.HARNESS_ERROR:
            return None
        elite = outcome.elite
        values = (
            read_tunables(proposal.candidate.source).values if evaluation.status is not Status.STATIC_REJECT else {}
        )
        point = Sibling(
            *(values, elite.fitness.value if elite else None, *resources_of(evaluation)),
            code=evaluation.artifact_hash[:CODE_DIGITS],
            known_code=evaluation.metrics.get("twin") == 1.0,
        )
        self.siblings.setdefault(outcome.skeleton, []).append(point)
        if elite is not None and outcome.program_hash not in self.barred:
            self.verdicts[elite.candidate.id] = ResultVerdict(outcome.seq, evaluation)
        else:
            elite = None
            self._fail(proposal, evaluation)
        idle = point.known_code and point.values.keys() <= self._tunables_before(proposal)
        self._credit(outcome, proposal, elite, evaluation, idle=idle, device_usd_per_s=device_usd_per_s)
        if elite is not None:
            self._keep(elite, is_new=not idle)
            self.failures.mended(proposal.parents, elite)
        return elite

    def look(self, step: int, *, agent: str, candidate: str, seconds: float) -> None:
        """Take in that an agent had a kernel judged, for so long, at a step that has not ended."""
        if seconds > 0:
            self.looks.setdefault(step, []).append((agent, candidate, seconds))

    def hint(self, text: str, *, island: str, by_agent: bool = False) -> None:
        """Take in a hint for one island or, named "*", for all; of agents' hints the newest are kept."""
        if not by_agent:
            self.hints.append((island, text))
            return
        self.agent_hints.append((island, text))
        places = [place for place, each in enumerate(self.agent_hints) if each[0] == island]
        if len(places) > MOST_AGENT_HINTS:
            del self.agent_hints[places[0]]

    def hand_in_foreign(self, candidate: Candidate, words: str) -> None:
        """Take in a kernel in another language, with words on it; an earlier one with its text goes."""
        others = [each for each in self.foreign if each[0] != candidate]
        self.foreign = [*others, (candidate, words)][-FOREIGN_KEPT:]

    def hints_for(self, island: str) -> tuple[str, ...]:
        """Return the hints of people for an island, oldest first."""
        return tuple(text for meant, text in self.hints if meant in (island, EVERYWHERE))

    def agent_hints_for(self, island: str) -> tuple[str, ...]:
        """Return the newest hints of agents for an island, oldest first."""
        return tuple(text for meant, text in self.agent_hints if meant in (island, EVERYWHERE))[-MOST_AGENT_HINTS:]

    def bar(self, program_hash: str) -> None:
        """Bar a program from being a parent: it did not hold when it was measured anew."""
        self.barred.add(program_hash)
        self.failures.bar(program_hash)
        for name in [name for name, elite in self.elites.items() if elite.program_hash == program_hash]:
            self.verdicts.pop(name, None)
        self.elites = {name: elite for name, elite in self.elites.items() if elite.program_hash != program_hash}
        self.pinned = [name for name in self.pinned if name in self.elites]
        for skeleton, variants in self.variants.items():
            self.variants[skeleton] = [elite for elite in variants if elite.program_hash != program_hash]
        if self.best is not None and self.best.program_hash == program_hash:
            self.best = max(self.elites.values(), key=lambda e: (e.fitness.value, -e.seq), default=None)

    def prune(self, living: Collection[str]) -> None:
        """Drop sources and verdicts that no later step needs, so that a long run stays small.

        Kept are `living`, the elites of the islands by id; pinned kernels; the leaders; the latest; and the variants of
        all their structures. Every id stays in `proposed`, so nothing is tried twice.
        """
        leaders = sorted(self.elites.values(), key=lambda e: (-e.fitness.value, e.seq))[:LEADERS]
        spared = {*living, *self.pinned, *(elite.candidate.id for elite in leaders), *list(self.elites)[-KEPT:]}
        structures = {elite.skeleton for name, elite in self.elites.items() if name in spared}
        structures.update(list(self.siblings)[-KEPT:])
        self.variants = {s: v for s, v in self.variants.items() if s in structures and v}
        spared.update(elite.candidate.id for variants in self.variants.values() for elite in variants)
        self.elites = {name: elite for name, elite in self.elites.items() if name in spared}
        self.verdicts = {name: verdict for name, verdict in self.verdicts.items() if name in self.elites}
        self.trials = {skeleton: left for skeleton, left in self.trials.items() if skeleton in structures}
        self.siblings = {s: v[-SIBLINGS:] for s, v in self.siblings.items() if s in structures}
        self.tried = {name: texts for name, texts in self.tried.items() if name in self.elites}
        self.exhausted = {key for key in self.exhausted if all(name in self.elites for name in key[1:])}

    @property
    def credit(self) -> Mapping[str, float]:
        """Return the share of changes of each kind that beat their parents, smoothed towards one half.

        A kind whose changes give known machine code has less: it is multiplied by the share of those that do not.
        """
        return {
            kind: (self.gains[kind] + 1) / (count + 2) * (count - self.without_effect[kind] + 1) / (count + 1)
            for kind, count in sorted(self.changes.items())
        }

    def near(self, elites: Sequence[Elite]) -> list[Elite]:
        """Return those within a factor of three of the best: calls of models are not spent on slower ones."""
        best = self.best.fitness.value if self.best else float("-inf")
        return [elite for elite in elites if elite.fitness.value > best - PROMISING]

    def to_tune(self) -> list[Elite]:
        """Return the best of each promising new skeleton that still has tuning trials, best first."""
        skeletons = [skeleton for skeleton, left in self.trials.items() if left > 0 and self.variants.get(skeleton)]
        return sorted((self.variants[s][0] for s in skeletons), key=lambda e: (-e.fitness.value, e.seq))

    def _tunables_before(self, proposal: Proposal) -> set[str]:
        """Return the names of its parents' tunables: a new one may lead to new machine code later."""
        return {
            name for each in self.made_from(proposal.parents) for name in read_tunables(each.candidate.source).values
        }

    def _keep(self, elite: Elite, *, is_new: bool) -> None:
        """Keep a kernel; the structure of one with new machine code, or a new tunable, has tuning trials."""
        others = self.variants.get(elite.skeleton, [])
        self.elites[elite.candidate.id] = elite
        ranked = sorted([*others, elite], key=lambda e: (-e.fitness.value, e.seq))
        self.variants[elite.skeleton] = ranked[:VARIANTS]
        best = self.best.fitness.value if self.best else float("-inf")
        promising = is_new and elite.fitness.value > best - PROMISING
        if not others and promising and read_tunables(elite.candidate.source).tunables:
            self.trials[elite.skeleton] = TUNING_TRIALS
        elif elite.skeleton in self.trials:
            self.trials[elite.skeleton] -= 1
        if elite.fitness.value > best:
            self.best = elite

    def _learn_without_candidate(self, outcome: StepResult, *, device_usd_per_s: float) -> None:
        if outcome.insight is not None:
            self.insights.add(outcome.seq, outcome.insight, island=outcome.island)
        elif outcome.exhausted:
            self.exhausted.add((outcome.operator, *outcome.parents))
        self.failures.count_try(outcome.parents)
        self._record(outcome, outcome.usage, gain=0.0, device_s=0.0, device_usd_per_s=device_usd_per_s)

    def _fail(self, proposal: Proposal, evaluation: Evaluation) -> None:
        candidate, operator, rationale = proposal.candidate, proposal.operator, proposal.rationale
        if evaluation.ok or evaluation.status is Status.HOLDOUT_FAILED or operator == "seed":
            return  # barred after a new measurement, or without use for a repair
        if operator in CHEAP:
            return
        self.failures.add(Failure(candidate, evaluation, operator, rationale, proposal.parents))

    def pair(self, operator: str, model: str) -> OperatorRecord:
        """Return the record of an operator with a model; without one, with all of them together."""
        records = self.pairs.get(operator, {})
        return records.get(model, OperatorRecord()) if model else sum(records.values(), OperatorRecord())

    def _record(
        self, outcome: StepResult, usage: Usage, *, gain: float, device_s: float, device_usd_per_s: float
    ) -> None:
        """Count a step for its operator, and for each model that was called: one without a reply gained nothing."""
        tries = {usage.model: OperatorRecord(1, gain, usage.cost_usd + device_usd_per_s * device_s)}
        handed_in = outcome.proposal.candidate.id if outcome.proposal else ""  # its time is in `device_s`
        for agent, candidate, seconds in self.looks.pop(outcome.step, ()):
            if candidate != handed_in:
                tries[agent] = tries.get(agent, OperatorRecord(1)).charged(device_usd_per_s * seconds)
        for failed in outcome.failed:
            tries[failed.model] = tries.get(failed.model, OperatorRecord(1)).charged(failed.cost_usd)
        cost_usd = sum(each.cost_usd for each in tries.values())
        records, operator = self.operators.setdefault(outcome.island, {}), outcome.operator
        records[operator] = records.get(operator, OperatorRecord()) + OperatorRecord(1, gain, cost_usd)
        for name, models in self.pairs.items():
            faded = {model: record.faded(FADE) for model, record in models.items()}
            self.pairs[name] = {model: record for model, record in faded.items() if record.count > FORGOTTEN}
        models = self.pairs.setdefault(operator, {})
        for model, one in tries.items():
            models[model] = models.get(model, OperatorRecord()) + one

    def _credit(
        self,
        outcome: StepResult,
        proposal: Proposal,
        elite: Elite | None,
        evaluation: Evaluation,
        *,
        idle: bool,
        device_usd_per_s: float,
    ) -> None:
        sources = self.made_from(proposal.parents)
        value = elite.fitness.value if elite is not None else None
        gain = value - sources[0].fitness.value if value is not None and sources else None
        over_best = value - max(e.fitness.value for e in sources) if value is not None and sources else 0.0
        if gain is not None or elite is None:
            self.insights.used(proposal.insights, gain)
        seconds = sum(evaluation.metrics.get(name, 0.0) for name in ("check_s", "time_s")) or evaluation.duration_s
        gained = max(0.0, over_best)
        self._record(outcome, proposal.usage, gain=gained, device_s=seconds, device_usd_per_s=device_usd_per_s)
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
            del self.attempts[:-ATTEMPTS]
            if idle:
                self.idle[proposal.rationale] += 1
            else:
                self.idle.pop(proposal.rationale, None)
        kind = proposal.rationale.partition(":")[0]
        if idle:
            self.without_effect[kind] += 1
        self.changes[kind] += 1
        if over_best > 0:
            self.gains[kind] += 1

    def made_from(self, parents: Sequence[str]) -> list[Elite]:
        """Return the correct parents of a change; in place of a failed parent its own parents."""
        found, waiting = list[Elite](), list(parents)
        while waiting and not found:
            found = [self.elites[name] for name in waiting if name in self.elites]
            failed = [failure for name in waiting if (failure := self.failures.get(name)) is not None]
            waiting = [name for failure in failed for name in failure.parents]
        return found
