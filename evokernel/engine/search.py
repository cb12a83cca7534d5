"""The loop: ask the islands, let an operator propose, judge, commit, tell. Asynchronous and steady-state.

The store is the state. Everything this module holds is a fold over committed facts; what was in flight when the last
engine ended is found by its lease and judged again.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from archive.account import RunAccount
from archive.follower import LeadingEvaluation
from archive.queries import last_failure
from archive.records import NoCandidate
from archive.results import commit_result
from archive.store import Store
from evokernel.config.run import RunConfig
from evokernel.engine.finals import FinalMeasurements
from evokernel.engine.model_gate import ModelGate, barren_step, is_drafter
from evokernel.engine.promotion import PromotionPolicy
from evokernel.engine.reuse import only_our_faults
from evokernel.engine.run_clock import HEARTBEAT_S, RunClock
from evokernel.engine.scheduler import ReplayedCalls, StepScheduler
from evokernel.engine.session import begin_run
from evokernel.engine.snapshot import Snapshots
from evokernel.engine.state import SearchSetting, SearchState
from evokernel.engine.stoppers import FirstOf
from evokernel.errors import BudgetSpent, ConfigError, HarnessError, ModelsUnavailable
from evokernel.protocols import Evaluator, Language, LanguageModel, Listener, Operator
from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.evaluation import EvaluatorIdentity
from evokernel.records.events import Notice, ProposalCommitted, ResultCommitted
from evokernel.records.run import Progress
from evokernel.records.step import Draft, InsightReply, Selection, UnusableReply
from evokernel.task import Task
from islands.archipelago import EVERYWHERE, Archipelago

logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts:
    """The live objects a search is made of.

    `thinkers_at_once` is how many operators may wait for a model; `foreign` are kernels in other languages,
    `replayed` says what the steps of a recorded run were about.
    """

    task: Task
    language: Language
    store: Store
    archipelago: Archipelago
    operators: Mapping[str, Operator]
    evaluator: Evaluator
    stopper: FirstOf
    listeners: Sequence[Listener]
    model: LanguageModel | None = None
    thinkers_at_once: int = 0
    foreign: tuple[Candidate, ...] = ()
    replayed: Mapping[int, ReplayedCalls] = field(default_factory=dict)


class Search:
    """One engine on one store.

    Args:
        parts: what it works with.
        config: what this run is, to be compared with what the store says it is.
        seeds: the sources to start from.
        in_flight: proposals waiting or being judged at once.
        handed_in_only: judge what others have handed in, and end: ask no operator, use up no budget, crown nobody.
        clock: in s; how long models rest is counted by it.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        config: RunConfig,
        seeds: Sequence[Candidate],
        in_flight: int,
        handed_in_only: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = parts
        self._config = config
        self._seeds = seeds
        self._in_flight = in_flight
        self._handed_in_only = handed_in_only
        self.state = SearchState(parts.archipelago, parts.language)
        self.stopper = parts.stopper
        self._stop_asked = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._thinking = ModelGate(parts.model, self._tell, most=parts.thinkers_at_once, clock=clock)
        self._evaluator_identity: EvaluatorIdentity | None = None
        self._appraiser: PromotionPolicy | None = None
        self._surroundings: SearchSetting | None = None
        self._time: RunClock | None = None
        self._images: Snapshots | None = None
        self._leading = LeadingEvaluation(parts.store)

    @property
    def standing(self) -> RunAccount:
        """How the run stands."""
        return self.state.standing

    def stop(self, reason: str) -> None:
        """Ask nothing more; what is in flight is finished and committed."""
        self._stop_asked = reason
        self._thinking.hush()

    async def run(self) -> str:
        """Search until a budget is used or a stop is asked for; return the reason.

        Raises:
            ConfigError: no seed is a correct kernel.
            RunMismatch: the store belongs to another search.
            HarnessError: our own machinery failed again and again.
        """
        try:
            return await self._run()
        finally:
            await self._parts.evaluator.close()
            await self._thinking.close()

    async def _run(self) -> str:
        self._tell(Notice("starting the evaluator: admission of the task, device, baselines"))
        self._evaluator_identity = await self._parts.evaluator.start()
        store = self._parts.store
        begin_run(store, self._config, self._evaluator_identity, self._tell)
        self.replay()
        self._appraiser = PromotionPolicy(
            store, self._parts.evaluator, self._evaluator_identity, standing=self.standing, tell=self._tell
        )
        self._surroundings = self._look_around(self._evaluator_identity)
        store.session_start()
        session = self._time = RunClock(store)
        reason = "stopped by an error"
        try:
            await session.during(self._seed())
            reason = await self._loop()
            if not self._stop_asked and not self._handed_in_only:
                await session.during(self._crown())
            store.set_meta("fingerprint", self._fingerprint())
            _started(self._images).take(at_once=True)
        except asyncio.CancelledError:
            reason = "stopped at once"
            raise
        finally:
            await self._drop_tasks()
            session.note()
            store.session_end(reason)
        return reason

    def replay(self) -> None:
        """Apply every committed fact that no image holds, and compare with the state the last session ended in."""
        started = _started(self._evaluator_identity)
        images = self._images = Snapshots(self._parts.store, self.state, self._config, evaluator=started)
        images.restore()
        facts = self._parts.store.facts(after=self.state.seq)
        self.state.replay(facts, task_hash=started.task_hash, device=started.device)
        for proposal in self._parts.store.open_leases():
            self.state.archipelago.pending(proposal)
        if self._ended_elsewhere(images.fits):
            self._tell(Notice("replaying the store gave another state than the last session ended in", warning=True))

    def _ended_elsewhere(self, fits: str) -> bool:
        """Whether the last session, under the same rules and settings, ended in another state of the same facts."""
        seq, noted, *under = (self._parts.store.meta("fingerprint") or "0 none").split()
        store = self._parts.store
        comparable = under == [fits] and store.unchanged_since(int(seq)) and not store.open_leases()
        return comparable and noted != self.state.fingerprint()

    # ------------------------------------------------------------------------------------------------ the loop

    async def _loop(self) -> str:
        leases = list(self._parts.store.open_leases())
        agenda = StepScheduler(
            self._parts.store,
            self.state,
            self._thinking,
            tell=self._tell,
            handed_in_only=self._handed_in_only,
            replayed=self._parts.replayed,
        )
        while True:
            for entry in self._parts.store.take_inbox():
                self._notes(self.state.apply_inbox(entry))
            reason, resting = self._reason(), self._thinking.resting
            while not reason and len(self._tasks) - self._thinking.count < self._in_flight:
                if leases:
                    self._spawn(self._judge(leases.pop(0)))
                elif not self._start_step(agenda):
                    break
                await asyncio.sleep(0)  # a rule runs through here, so that the next ask knows its proposal
                reason = self._reason()
            if not self._tasks and (reason or not resting):
                return reason or self._nothing_left()
            await self._settle()

    def _nothing_left(self) -> str:
        if self._handed_in_only:
            return "everything that was handed in is judged"
        if self._parts.model is None and self.state.archipelago.thinkers:
            return "the rules have tried everything they can; the other operators wait for `evokernel ask`"
        return self._thinking.silenced or "every operator has tried everything it can"

    def _reason(self) -> str | None:
        """Return why to ask nothing more, or None."""
        if self._handed_in_only:
            return self._stop_asked
        if self._thinking.spent:
            return self._thinking.spent
        reason = self._stop_asked or self.stopper.reason(self._progress(ahead=len(self._tasks)))
        if reason and self.stopper.reason(self._progress()):
            self._thinking.hush()  # it cannot go away again: nothing more is paid for
        return reason

    def _start_step(self, agenda: StepScheduler) -> bool:
        """Start work on the next step; False when nothing is left to ask for."""
        match agenda.next(idle=not self._tasks):
            case Selection() as selection:
                self._spawn(self._work(selection, asked_seq=self.state.seq))
            case Proposal() as proposal:
                self._store_proposal(proposal)
                self._spawn(self._judge(proposal))
            case None:
                return False
        return True

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def _settle(self) -> None:
        """Wait until something in flight ends, or for a heartbeat; pass on the first failure."""
        if not self._tasks:  # every model rests
            await asyncio.sleep(HEARTBEAT_S)
            _started(self._time).beat()
            return
        done, self._tasks = await asyncio.wait(self._tasks, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
        failures = [error for task in done if (error := task.exception()) is not None]
        if failures:
            raise failures[0]
        _started(self._time).beat()

    async def _drop_tasks(self) -> None:
        """End what is still in flight; its leases stay open."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = set()

    async def _work(self, selection: Selection, *, asked_seq: int) -> None:
        """Let the operator propose and judge what it proposes."""
        context = self.state.context(selection, _started(self._surroundings))
        try:
            answer = await self._thinking.answer(self._parts.operators[selection.operator], context)
        except (BudgetSpent, ModelsUnavailable):
            return  # the step is left out, with what was paid for it; a later session takes it up
        if self.state.archipelago.thinks(selection.operator):  # looked up now: others may have had the same idea
            known = self.state.archipelago.memory.known
            answer = self._thinking.checked(answer, known, language=self._parts.language.name)
        match answer:
            case Draft():
                proposal = Proposal(
                    candidate=Candidate(answer.source, self._parts.language.name),
                    step=selection.step,
                    island=selection.island,
                    operator=selection.operator,
                    asked_seq=asked_seq,
                    parents=answer.parents,
                    inspirations=answer.inspirations,
                    rationale=answer.rationale,
                    predicted_speedup=answer.predicted_speedup,
                    usage=answer.usage,
                    insights=answer.insights,
                )
                self._store_proposal(proposal)
                await self._judge(proposal)
            case InsightReply():
                barren = barren_step(selection, asked_seq, usage=answer.usage, exhausted=False)
                seq = self._parts.store.record_insight(barren, answer.insight)
                self._notes(self.state.apply_insight(seq, barren, answer.insight))
                self._tell(Notice(f"{selection.operator} ({selection.island}): {answer.insight.title}"))
            case UnusableReply():
                again = self.state.archipelago.thinks(selection.operator)  # a rule would say the same
                self._commit_barren(
                    barren_step(selection, asked_seq, reason=answer.reason, usage=answer.usage, exhausted=not again)
                )
            case None:
                self._commit_barren(barren_step(selection, asked_seq))

    async def _judge(self, proposal: Proposal) -> None:
        """Judge one proposal and commit the result."""
        hashes, appraiser = self.state.hashes(proposal.candidate), _started(self._appraiser)
        with await appraiser.alone(hashes.program):
            evaluation, reused_from = await appraiser.verdict(proposal.candidate, hashes.program)
            named = {"program_hash": hashes.program, "skeleton": hashes.skeleton}
            result = commit_result(self._parts.store, proposal, evaluation, **named, reused_from=reused_from)
            change, notes = self.state.apply_result(result)
            self._tell(ResultCommitted(proposal, evaluation, result.seq, change, result.reused))
            self._notes(notes)
            _started(self._images).take()

    async def _seed(self) -> None:
        """Judge the seeds first; a search needs one correct kernel to start from."""
        known, store = self.state.archipelago.memory.known, self._parts.store
        for candidate in self._seeds:
            if candidate.id not in known or only_our_faults(store, candidate, self.state.hashes(candidate).program):
                step = self._parts.store.next_step()
                self._store_proposal(Proposal(candidate, step, EVERYWHERE, "seed", 0, rationale="seed"))
        for proposal in self._parts.store.open_leases():
            if proposal.operator == "seed":
                await self._judge(proposal)
        if self.standing.lead is None and not self._can_draft():
            failure = last_failure(store.database)
            reason = f"{failure.status}: {failure.feedback}" if failure else "no seed given"
            raise ConfigError(f"no seed of this search is a correct kernel. The last one failed with {reason}")

    def _can_draft(self) -> bool:
        """Whether some operator makes a kernel from nothing."""
        named = {name for island in self._config.islands for name in island.operators}
        return any(is_drafter(self._parts.operators[name]) for name in named)

    async def _crown(self) -> None:
        crown = FinalMeasurements(
            self._parts.store, self._parts.evaluator, _started(self._evaluator_identity), self._tell
        )
        seed = crown.first_seed(self.standing)
        contenders = crown.contenders(self.state.archipelago.memory.elites.values())
        unbeaten = seed == contenders[:1]
        for elite in [*seed, *contenders]:
            if self._stop_asked:
                return
            try:
                # of a seed that is beaten one process tells enough: the winner is compared with it
                evaluation = await crown.measure(elite, processes=1 if elite in seed and not unbeaten else 0)
            except HarnessError as error:
                self._tell(Notice(f"our evaluator failed on {elite.candidate.id}: {error}", warning=True))
                continue
            self.state.apply_evaluation(self._parts.store.last_seq(), evaluation)
            if evaluation.ok and (unbeaten or elite not in seed):
                return

    def _store_proposal(self, proposal: Proposal) -> None:
        hashes = self.state.hashes(proposal.candidate)
        self._parts.store.propose(proposal, program_hash=hashes.program, skeleton=hashes.skeleton)
        self.state.archipelago.pending(proposal)
        self._tell(ProposalCommitted(proposal))

    def _commit_barren(self, barren: NoCandidate) -> None:
        seq = self._parts.store.record_barren(barren)
        self._notes(self.state.apply_barren(seq, barren))

    def _fingerprint(self) -> str:
        """Return the newest fact that the state has taken in, its hash, and what shaped it."""
        return f"{self._parts.store.last_seq()} {self.state.fingerprint()} {_started(self._images).fits}"

    def _progress(self, *, ahead: int = 0) -> Progress:
        return self.standing.progress(
            seconds=_started(self._time).seconds,
            models=self._parts.store.paid(),
            roofline_share=self._leading.floor_share(self.standing.lead),
            ahead=ahead,
        )

    def _look_around(self, evaluator: EvaluatorIdentity) -> SearchSetting:
        return SearchSetting(
            task=self._parts.task,
            config=self._config,
            device=evaluator.device,
            environment=evaluator.environment,
            device_sheet=evaluator.device_sheet,
            guide=self._parts.language.guide(self._parts.task),
            foreign=self._parts.foreign,
        )

    def _notes(self, texts: Sequence[str]) -> None:
        for text in texts:
            self._tell(Notice(text))

    def _tell(self, event: ProposalCommitted | ResultCommitted | Notice) -> None:
        for listener in self._parts.listeners:
            listener.hear(event)


def _started(part: T | None) -> T:
    """Return what exists once a search was started."""
    if part is None:
        raise HarnessError("the search was not started yet")
    return part
