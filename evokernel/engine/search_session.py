"""A session of a search: the loop from its first seed to its final measurements."""

import asyncio
import math
from collections.abc import Coroutine, Sequence
from dataclasses import replace

from archive.account import RunAccount
from archive.calls import failed_tries
from archive.file.records import NoCandidate
from archive.follower import LeadingEvaluation
from archive.queries import last_failure
from archive.results import commit_result
from archive.session_notes import write_diversity
from evokernel.engine.agent_services import SearchServices
from evokernel.engine.context import SearchSetting, context_for
from evokernel.engine.finals import FinalMeasurements
from evokernel.engine.hidden_checks import HiddenChecks
from evokernel.engine.model_gate import is_drafter, no_candidate
from evokernel.engine.promotion import PromotionPolicy
from evokernel.engine.run_clock import HEARTBEAT_S, RunClock
from evokernel.engine.scheduler import StepScheduler
from evokernel.engine.search_run import SearchRun
from evokernel.engine.snapshot import Snapshots
from evokernel.engine.state import SearchState
from evokernel.engine.step_looks import StepLooks
from evokernel.engine.verdicts import Verdicts, only_our_faults
from evokernel.errors import BudgetSpent, ConfigError, HarnessError, ModelsUnavailable
from evokernel.protocols import Evaluator, asks_model
from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.evaluation import Evaluation, Fidelity, Status
from evokernel.records.events import Notice, ProposalCommitted, ResultCommitted
from evokernel.records.fitness import Elite
from evokernel.records.hidden_check import CheckReply
from evokernel.records.llm import Insight
from evokernel.records.remarks import RemarkKind
from evokernel.records.run import NOTHING_LEFT, Progress
from evokernel.records.step import Draft, InsightReply, LookRequest, Selection, UnusableReply
from evokernel.source.tunables import skeleton_hash
from islands.archipelago import EVERYWHERE
from islands.diversity import diversity_of

DIVERSITY_EVERY = 32
"""Results between two measurements of the islands' diversity."""
UNBEATEN = "the seed is still the best: nothing to measure anew"
_FAR_AHEAD = math.log(4.0)
"""A seed that is left behind by such a factor is not measured anew: all that it tells is how far behind it is."""
_AHEAD = math.log(1.15)
"""One that is left behind by such a factor is measured in one process: processes differ by far less."""


class SearchSession:
    """A search at work: its evaluator is ready, its state replayed, its store in a session.

    Args:
        search: its parts and settings, and the wish to stop.
        clock: of the session of the store.
        snapshots: of the state, restored from already.
        setting: the part of a context that no step changes.
    """

    def __init__(
        self, search: SearchRun, evaluator: Evaluator, *, clock: RunClock, snapshots: Snapshots, setting: SearchSetting
    ) -> None:
        self._search = search
        self._parts = search.parts
        self._config = search.config
        self._seeds = search.seeds
        self._in_flight = search.in_flight
        self._handed_in_only = search.handed_in_only
        self._gate = search.gate
        self._notify = search.notify
        self._fold = search.fold
        self._leading = LeadingEvaluation(self._parts.store)
        self._verdicts = Verdicts(
            self._parts.store, evaluator, evaluator.identity, checks=lambda: self._fold.history.checks
        )
        self._checks = HiddenChecks(self._parts.store, self._fold, evaluator, notify=self._notify)
        self._promotion = PromotionPolicy(
            self._verdicts,
            account=self.account,
            leading=self._leading,
            notify=self._notify,
            precise_ms=self._config.evaluation.precise_ms,
        )
        self._snapshots = snapshots
        self._setting = setting
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving = False
        self._services = SearchServices(
            self._parts.store,
            self._fold,
            setting=setting,
            language=self._parts.language,
            verdicts=self._verdicts,
            promotion=self._promotion,
            notify=self._notify,
        )
        self._looks = StepLooks(self._parts.store, self._fold, self._parts.language, self._take_inbox)
        if self._parts.agents is not None:
            self._parts.agents.current = self._services

    @property
    def state(self) -> SearchState:
        """The state after the facts so far; read only."""
        return self._fold.state

    @property
    def account(self) -> RunAccount:
        """The account of the run."""
        return self.state.account

    async def run(self) -> str:
        """Search until a budget is used or a stop is asked for; return the reason. Raises as `Search.run`."""
        try:
            await self._clock.during(self._checks.take_brought_along(lambda: self._search.stop_asked))
            await self._clock.during(self._seed())
            reason = await self._loop()
            if self._search.finals and not self._search.stop_asked:
                self._search.finishing = True
                await self._clock.during(self._measure_finals())
            self._note_diversity()
            self._parts.store.set_meta("fingerprint", self._fingerprint())
            self._snapshots.take(at_once=True)
        finally:
            await self._cancel_tasks()
            await self._services.close()
        return reason

    # ------------------------------------------------------------------------------------------------ the loop

    async def _loop(self) -> str:
        leases = list(self._parts.store.open_leases())
        scheduler = StepScheduler(
            self._parts.store,
            self._fold,
            self._gate,
            notify=self._notify,
            handed_in_only=self._handed_in_only,
            replayed=self._parts.replayed,
        )
        while True:
            self._take_inbox()
            reason, resting = self._reason(), self._gate.resting
            while not reason and len(self._tasks) - self._gate.count < self._in_flight:
                if leases:
                    self._spawn(self._judge(leases.pop(0)))
                elif not self._start_step(scheduler):
                    break
                await asyncio.sleep(0)  # lets a rule finish, so that the next ask knows its proposal
                reason = self._reason()
            if reason and self._tasks and self._clock.seconds > self._parts.stopper.seconds + self._search.finish_s:
                await self._leave_unfinished()
            if not self._tasks and (reason or not resting):
                return reason or self._nothing_left()
            await self._wait()

    async def _leave_unfinished(self) -> None:
        """Stop waiting for candidates, most with compilers at work; leases stay open where no verdict is there."""
        self._leaving, count, results = True, len(self._tasks), self.account.results
        await self._cancel_tasks()
        if count := count - self.account.results + results:
            late = (
                f"{count} candidate{'s' * (count != 1)} not judged {self._search.finish_s:g} s after the time was over"
            )
            self._notify(Notice(f"{late}: left to the next session"))

    def _take_inbox(self) -> None:
        for entry in self._parts.store.take_inbox():
            self._notes(self._fold.apply_inbox(entry))

    def _nothing_left(self) -> str:
        if self._handed_in_only:
            return "everything that was handed in is judged"
        if self._parts.model is None and any(map(asks_model, self._fold.archipelago.operators.values())):
            return "the rules have tried everything they can; the other operators wait for `evokernel ask`"
        return self._gate.lost_reason or NOTHING_LEFT

    def _reason(self) -> str | None:
        """Return why to ask nothing more, or None."""
        if self._handed_in_only:
            return self._search.stop_asked
        if self._gate.ends_run:
            return self._gate.ends_run
        reason = self._search.stop_asked or self._parts.stopper.reason(self._progress(ahead=len(self._tasks)))
        if reason and self._parts.stopper.reason(self._progress()):
            self._gate.stop_new_calls()  # the reason stays: nothing more is paid for
        return reason

    def _start_step(self, scheduler: StepScheduler) -> bool:
        """Start work on the next step; return False where there is none."""
        match scheduler.next(idle=not self._tasks):
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

    async def _wait(self) -> None:
        """Wait until something in flight ends, or for a heartbeat; pass on the first failure."""
        if not self._tasks:  # every model rests
            await asyncio.sleep(HEARTBEAT_S)
            self._clock.beat()
            return
        done, self._tasks = await asyncio.wait(self._tasks, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
        failures = [error for task in done if (error := task.exception()) is not None]
        if failures:
            raise failures[0]
        self._clock.beat()

    async def _cancel_tasks(self) -> None:
        """Cancel work in flight; its leases stay open."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = set()

    async def _work(self, selection: Selection, *, asked_seq: int) -> None:
        """Ask the operator and judge its proposal."""
        operator = self._fold.archipelago.operators[selection.operator]
        context = context_for(selection, self._fold, setting=self._setting)
        if self._parts.model is not None:
            context = replace(context, looks=self._looks.offered(operator, context))
        try:
            answer = await self._gate.answer(operator, context, look=self._looks.take)
        except (BudgetSpent, ModelsUnavailable):
            return  # a later session takes the step up, with what was paid for it
        if asks_model(operator):
            self._take_inbox()  # an agent's looks count for the step that they were made in
            known = self._fold.history.proposed  # looked up now: others may have had the same idea
            answer = self._gate.checked(answer, known, language=self._parts.language.name)
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
                record = no_candidate(selection, asked_seq, usage=answer.usage, exhausted=False)
                seq = self._parts.store.record_insight(record, answer.insight, answer.others)
                self._apply_no_candidate(seq, record, answer.insight)
                self._take_inbox()  # further insights of the reply
                self._notify(Notice(f"{selection.operator} ({selection.island}): {answer.insight.title}"))
            case CheckReply():
                outcome = await self._checks.take(answer, selection)
                self._commit_no_candidate(no_candidate(selection, asked_seq, reason=outcome, usage=answer.usage))
            case UnusableReply() | LookRequest():
                again = asks_model(operator)  # a rule would say the same
                reason = answer.reason if isinstance(answer, UnusableReply) else "it asks for a look once more"
                self._commit_no_candidate(
                    no_candidate(selection, asked_seq, reason=reason, usage=answer.usage, exhausted=not again)
                )
            case None:
                self._commit_no_candidate(no_candidate(selection, asked_seq))

    async def _judge(self, proposal: Proposal) -> None:
        known = self._parts.store.candidate(proposal.candidate.id)
        with await self._promotion.alone(known.program_hash):
            evaluation, reused_from = await self._verdict(proposal.candidate, known.program_hash)
            named = {"program_hash": known.program_hash, "skeleton": known.skeleton}
            result = commit_result(self._parts.store, proposal, evaluation, **named, reused_from=reused_from)
            change, notes = self._fold.apply_result(result)
            self._notify(ResultCommitted(proposal, evaluation, result.seq, change, result.reused))
            self._notes(notes)
            self._snapshots.take()
            if self.state.archipelago.results % DIVERSITY_EVERY == 0:
                self._note_diversity()

    async def _verdict(self, candidate: Candidate, program: str) -> tuple[Evaluation, int | None]:
        """Return the evaluation that counts, as `PromotionPolicy.verdict`: the quick one where no longer one came."""
        try:
            evaluation, reused_from = await self._promotion.verdict(candidate, program)
            while evaluation.ok and self._verdicts.behind(evaluation):
                evaluation, reused_from = await self._promotion.verdict(candidate, program)
        except asyncio.CancelledError:
            quick = self._verdicts.stored(candidate.id, program, Fidelity.QUICK) if self._leaving else None
            if quick is None:
                raise
            return quick.evaluation, quick.seq
        return evaluation, reused_from

    async def _seed(self) -> None:
        """Judge the seeds first; a search needs one correct kernel to start from."""
        known, store = self._fold.history.proposed, self._parts.store
        for candidate in self._seeds:
            if candidate.id not in known or only_our_faults(store, candidate):
                step = self._parts.store.next_step()
                self._store_proposal(Proposal(candidate, step, EVERYWHERE, "seed", 0, rationale="seed"))
        for proposal in self._parts.store.open_leases():
            if proposal.operator == "seed":
                await self._judge(proposal)
        if self.account.lead is None and not any(map(is_drafter, self._fold.archipelago.operators.values())):
            failure = last_failure(store.database)
            reason = f"{failure.status}: {failure.feedback}" if failure else "no seed given"
            wrong = failure is None or failure.status is not Status.HARNESS_ERROR  # otherwise another try may do
            error = ConfigError if wrong else HarnessError
            cure = ": correct one, and run the same command again" if wrong else ""
            raise error(f"no seed of this search is a correct kernel{cure}. The last one failed with {reason}")

    async def _measure_finals(self) -> None:
        """Measure the winner anew, then the seed, which it is compared with, unless it is far behind.

        Nothing is measured where the seed is unbeaten.
        """
        settings, opening_s = self._config.evaluation, self._search.opening_s
        finals = FinalMeasurements(self._verdicts, self._notify, settings=settings, opening_s=opening_s)
        first = self.account.seed
        seed = [self._parts.store.results([first.seq])[first.seq].elite()] if first else []  # to compare with
        seed_ids = {each.candidate.id for each in seed}
        contenders = finals.contenders(self._fold.history.elites.values())
        if contenders and contenders[0].candidate.id in seed_ids:
            self._notify(Notice(UNBEATEN))
            return
        won = None
        # Each further dtype of a winner has a process of its own, for which one that was kept would have to end.
        alone = not any(offered.further_dtypes for offered in self._parts.task.workloads.values())
        for elite in contenders:
            keeps = alone and any(_AHEAD < _lead(elite, each) < _FAR_AHEAD for each in seed)
            if elite.candidate.id not in seed_ids and await self._holds(finals, elite, keep_last=keeps):
                won = elite
                break
        for elite in seed:
            if (ahead := _lead(won, elite) if won else 0.0) < _FAR_AHEAD:
                await self._holds(finals, elite, is_seed=True, briefly=ahead > _AHEAD)

    async def _holds(self, finals: FinalMeasurements, elite: Elite, **how: bool) -> bool:
        """Measure an elite anew as `FinalMeasurements.measure`, unless the session is to stop; say whether it holds."""
        if self._search.stop_asked:
            return False
        try:
            evaluation = await finals.measure(elite, **how)
        except HarnessError as error:
            text = f"our evaluator failed on {elite.candidate.id}: {error}"
            self._notify(Notice(text, warning=True, kind=RemarkKind.FAULT, candidate=elite.candidate.id))
            return False
        self._fold.apply_evaluation(self._parts.store.last_seq(), evaluation)
        return evaluation.ok

    def _store_proposal(self, proposal: Proposal) -> None:
        source = proposal.candidate.source  # one that was proposed before keeps the hashes it has in the store
        program = self._parts.language.program_hash(source)
        self._parts.store.propose(proposal, program_hash=program, skeleton=skeleton_hash(source))
        self._fold.pending(proposal)
        self._notify(ProposalCommitted(proposal))

    def _commit_no_candidate(self, record: NoCandidate) -> None:
        seq = self._parts.store.record_no_candidate(record)
        self._apply_no_candidate(seq, record)

    def _apply_no_candidate(self, seq: int, record: NoCandidate, insight: Insight | None = None) -> None:
        failed = failed_tries(self._parts.store.database, "step = ?", (record.step,)).get(record.step, ())
        self._notes(self._fold.apply_no_candidate(seq, replace(record, failed=failed), insight=insight))

    def _fingerprint(self) -> str:
        """Return the seq of the newest fact, the fingerprint of the state, and the key of its snapshots."""
        return f"{self._parts.store.last_seq()} {self.state.fingerprint()} {self._snapshots.fits}"

    def _note_diversity(self) -> None:
        populations = self.state.archipelago.populations
        write_diversity(self._parts.store, {name: diversity_of(each) for name, each in populations.items()})

    def _progress(self, *, ahead: int = 0) -> Progress:
        return self.account.progress(
            seconds=self._clock.seconds,
            models=self._parts.store.paid(),
            roofline_share=self._leading.floor_share(self.account.lead),
            ahead=ahead,
        )

    def _notes(self, notes: Sequence[Notice]) -> None:
        for note in notes:
            self._notify(note)


def _lead(elite: Elite, seed: Elite) -> float:
    """Return the logarithm of how many times faster one is than the other, as the search has measured them."""
    return elite.fitness.log_speedup - seed.fitness.log_speedup
