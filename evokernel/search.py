"""The loop: ask the islands, let an operator propose, judge, commit, tell. Asynchronous and steady-state.

The store is the state. Everything this module holds is a fold over committed facts; what was in flight when the last
engine ended is found by its lease and judged again.
"""

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass

import yaml

from archive.identity import RunIdentity
from archive.records import Barren
from archive.store import Store
from evokernel import __version__
from evokernel.budget import FirstOf
from evokernel.candidate import Candidate, Proposal, Usage
from evokernel.config import RunConfig, dump_config, flatten, parse_config
from evokernel.crown import Crown
from evokernel.edits import edits_between
from evokernel.errors import ConfigError, HarnessError
from evokernel.evaluation import Budget, Evaluation, combined_speedup, harness_failure
from evokernel.protocols import (
    EvaluationRequest,
    Evaluator,
    EvaluatorIdentity,
    Judged,
    Language,
    Listener,
    Note,
    Operator,
    Progress,
    Proposed,
)
from evokernel.reuse import stored_verdict
from evokernel.standing import Standing
from evokernel.state import State
from evokernel.steps import Selection
from evokernel.task import Task
from evokernel.tunables import skeleton_hash
from islands.archipelago import EVERYWHERE, Archipelago

logger = logging.getLogger(__name__)

HEARTBEAT_S = 1.0
TRIES = 2  # for one candidate, when our own machinery fails
FAILURES = 3  # candidates in a row that it failed on, before the search gives up


@dataclass(frozen=True, slots=True)
class Parts:
    """The live objects a search is made of."""

    task: Task
    language: Language
    store: Store
    archipelago: Archipelago
    operators: Mapping[str, Operator]
    evaluator: Evaluator
    stopper: FirstOf
    listeners: Sequence[Listener]


class Search:
    """One engine on one store.

    Args:
        parts: what it works with.
        config: what this run is, to be compared with what the store says it is.
        seeds: the sources to start from.
        in_flight: proposals waiting or being judged at once.
    """

    def __init__(self, parts: Parts, *, config: RunConfig, seeds: Sequence[Candidate], in_flight: int) -> None:
        self._parts = parts
        self._config = config
        self._seeds = seeds
        self._in_flight = in_flight
        self.state = State(parts.archipelago, parts.language)
        self._stop_asked = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._evaluator_identity: EvaluatorIdentity | None = None
        self._judging: dict[str, asyncio.Future[None]] = {}
        self._started = time.monotonic()
        self._failures = 0

    @property
    def standing(self) -> Standing:
        """Where the run stands."""
        return self.state.standing

    def stop(self, reason: str) -> None:
        """Ask nothing more; what is in flight is finished and committed."""
        self._stop_asked = reason

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

    async def _run(self) -> str:
        self._tell(Note("starting the evaluator: admission of the task, device, baselines"))
        self._evaluator_identity = await self._parts.evaluator.start()
        store = self._parts.store
        self._begin(self._evaluator_identity)
        self.replay()
        store.session_start()
        self._started = time.monotonic()
        reason = "stopped by an error"
        try:
            await self._beating(self._seed())
            reason = await self._loop()
            if not self._stop_asked:
                await self._beating(self._crown())
            store.set_meta("fingerprint", self._fingerprint())
        except asyncio.CancelledError:
            reason = "stopped at once"
            raise
        finally:
            await self._drop_tasks()
            store.heartbeat(time.monotonic() - self._started)
            store.session_end(reason)
        return reason

    def replay(self) -> None:
        """Apply every committed fact in seq order, and compare with the state the last session ended in."""
        self.state.replay(self._parts.store.facts(), task_hash=self._identity_of_evaluator().task_hash)
        for proposal in self._parts.store.open_leases():
            self.state.archipelago.pending(proposal)
        noted = self._parts.store.meta("fingerprint") or ""
        if noted.split()[:1] == self._fingerprint().split()[:1] and noted != self._fingerprint():
            self._tell(Note("replaying the store gave another state than the last session ended in", warning=True))

    # ------------------------------------------------------------------------------------------------ the loop

    async def _loop(self) -> str:
        leases = list(self._parts.store.open_leases())
        steps = self._steps()
        while True:
            for entry in self._parts.store.take_inbox():
                self._notes(self.state.apply_inbox(entry))
            reason = self._stop_asked or self._parts.stopper.reason(self._progress(ahead=len(self._tasks)))
            while not reason and len(self._tasks) < self._in_flight:
                if leases:
                    self._spawn(self._judge(leases.pop(0)))
                elif not self._start_step(steps):
                    break
                await asyncio.sleep(0)  # a rule runs through here, so that the next ask knows its proposal
                reason = self._stop_asked or self._parts.stopper.reason(self._progress(ahead=len(self._tasks)))
            if not self._tasks:
                return reason or "every operator has tried everything it can"
            await self._settle()

    def _steps(self) -> deque[int]:
        """Return the step numbers to ask for: those an interrupted session left out, then the next new one."""
        return deque([*self._parts.store.missing_steps(), self._parts.store.next_step()])

    def _start_step(self, steps: deque[int]) -> bool:
        """Start work on the next step; False when nothing is left to ask for."""
        injected = self.state.next_injected()
        selection = None if injected else self.state.archipelago.ask(steps[0])
        if injected is None and selection is None:
            return False
        step = steps.popleft()
        if not steps:
            steps.append(step + 1)
        if injected is not None:
            proposal = Proposal(injected, step, EVERYWHERE, "inject", self.state.seq, rationale="inject: by hand")
            self._store_proposal(proposal)
            self._spawn(self._judge(proposal))
        elif selection is not None:
            self._spawn(self._work(selection, asked_seq=self.state.seq))
        return True

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def _settle(self) -> None:
        """Wait until something in flight ends, or for a heartbeat; pass on the first failure."""
        done, self._tasks = await asyncio.wait(self._tasks, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
        self._parts.store.heartbeat(time.monotonic() - self._started)
        failures = [error for task in done if (error := task.exception()) is not None]
        if failures:
            raise failures[0]

    async def _drop_tasks(self) -> None:
        """End what is still in flight; its leases stay open."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = set()

    async def _beating(self, work: Coroutine[None, None, None]) -> None:
        """Wait for something long, with heartbeats, so that its time counts even if this process is killed."""
        task = asyncio.create_task(work)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=HEARTBEAT_S)
                self._parts.store.heartbeat(time.monotonic() - self._started)
        finally:
            task.cancel()
        await task

    async def _work(self, selection: Selection, *, asked_seq: int) -> None:
        """Let the operator propose and judge what it proposes."""
        began = time.monotonic()
        sheet = self._identity_of_evaluator().device_sheet
        context = self.state.context(selection, task=self._parts.task, config=self._config, device_sheet=sheet)
        try:
            draft, reason = await self._parts.operators[selection.operator].propose(context), ""
        except Exception as error:  # the edge of an operator: a fault of one must not end the search
            logger.exception("operator %s failed at step %d", selection.operator, selection.step)
            draft, reason = None, f"{type(error).__name__}: {error}"
            self._tell(Note(f"operator {selection.operator} failed at step {selection.step}: {reason}", warning=True))
        if draft is None:
            self._commit_barren(selection, asked_seq, reason)
            return
        proposal = Proposal(
            candidate=Candidate(draft.source, self._parts.language.name),
            step=selection.step,
            island=selection.island,
            operator=selection.operator,
            asked_seq=asked_seq,
            parents=draft.parents,
            rationale=draft.rationale,
            predicted_speedup=draft.predicted_speedup,
            usage=Usage(duration_s=time.monotonic() - began),
        )
        self._store_proposal(proposal)
        await self._judge(proposal)

    async def _judge(self, proposal: Proposal) -> None:
        """Judge one proposal and commit the result."""
        program = self.state.program_hash(proposal.candidate)
        while program in self._judging:  # the same program is being measured: its verdict will serve both
            await asyncio.wait([self._judging[program]])
        done = self._judging[program] = asyncio.get_running_loop().create_future()
        try:
            evaluation, reused_from = await self._verdict(proposal.candidate, program)
            seq = self._parts.store.commit(proposal.step, evaluation, reused_from=reused_from)
            improved, notes = self.state.apply_result(seq, proposal, evaluation)
            self._tell(Judged(proposal, evaluation, seq, improved, reused_from is not None))
            self._notes(notes)
        finally:
            del self._judging[program]
            done.set_result(None)

    async def _verdict(self, candidate: Candidate, program: str) -> tuple[Evaluation, int | None]:
        """Return the evaluation that counts: quick, and precise where it may beat the best so far."""
        quick, reused_from = await self._evaluate(candidate, program, Budget.QUICK)
        if not quick.ok or quick.stopped_early or self.standing.best is None:
            return quick, reused_from
        if combined_speedup(quick.timings).high < self.standing.best_speedup:
            return quick, reused_from
        if reused_from is None:
            self._parts.store.add_evaluation(quick)
        return await self._evaluate(candidate, program, Budget.PRECISE)

    async def _evaluate(self, candidate: Candidate, program: str, budget: Budget) -> tuple[Evaluation, int | None]:
        identity = self._identity_of_evaluator()
        stored = stored_verdict(self._parts.store, identity, program_hash=program, budget=budget)
        if stored is not None:
            return stored.evaluation, stored.seq
        request = EvaluationRequest(candidate, program, budget, incumbent=self.standing.best_by_workload)
        for _ in range(TRIES):
            try:
                evaluation = await self._parts.evaluator.evaluate(request)
            except HarnessError as error:
                failure = error
                self._tell(Note(f"our evaluator failed on {candidate.id}: {error}", warning=True))
            else:
                self._failures = 0
                return evaluation, None
        self._failures += 1
        if self._failures >= FAILURES:
            raise failure
        return harness_failure(identity.key(program, budget), candidate.id, str(failure)), None

    # ------------------------------------------------------------------------------------------------ state

    def _begin(self, evaluator: EvaluatorIdentity) -> None:
        """Make sure the store holds this run, and write down what was edited since its last session."""
        store, config = self._parts.store, self._config
        store.begin_run(
            RunIdentity(
                task=config.task,
                task_hash=evaluator.task_hash,
                seed=config.seed,
                language=config.language,
                device=evaluator.device,
                environment=evaluator.environment,
                evokernel_version=__version__,
                task_spec=config.evaluation.model_dump(mode="json"),
            )
        )
        stored = store.meta("config")
        if stored is not None:
            before = flatten(parse_config(yaml.safe_load(stored), "the config in the store"))
            for key, old, new in edits_between(before, flatten(config)):
                store.config_edit(key, old, new)
                self._tell(Note(f"config: {key} changed from {old} to {new}"))
        store.set_meta("config", dump_config(config))
        store.set_meta("device_sheet", json.dumps(dict(evaluator.device_sheet)))
        store.set_meta("sandbox", evaluator.sandbox)
        for workload, times in evaluator.baseline_us.items():
            self._tell(Note(f"{workload}: " + ", ".join(f"{name} {us / 1e3:.3g} ms" for name, us in times.items())))

    async def _seed(self) -> None:
        """Judge the seeds first; a search needs one correct kernel to start from."""
        known = self.state.archipelago.memory.known
        for candidate in self._seeds:
            if candidate.id not in known:
                step = self._parts.store.next_step()
                self._store_proposal(Proposal(candidate, step, EVERYWHERE, "seed", 0, rationale="seed"))
        for proposal in self._parts.store.open_leases():
            if proposal.operator == "seed":
                await self._judge(proposal)
        if self.standing.best is None:
            failure = self.standing.last_failure
            reason = f"{failure.status}: {failure.feedback}" if failure else "no seed given"
            raise ConfigError(f"no seed of this search is a correct kernel. The last one failed with {reason}")

    async def _crown(self) -> None:
        crown = Crown(self._parts.store, self._parts.evaluator, self._identity_of_evaluator(), self._tell)
        seed = [self.standing.seed] if self.standing.seed else []
        for elite in [*seed, *crown.contenders(self.state.archipelago.memory.elites.values())]:
            if self._stop_asked:
                return
            try:
                # of the seed one process tells enough: it is what the winner is compared with, and nobody's choice
                evaluation = await crown.measure(elite, processes=1 if elite in seed else 0)
            except HarnessError as error:
                self._tell(Note(f"our evaluator failed on {elite.candidate.id}: {error}", warning=True))
                continue
            self.state.apply_final(evaluation)
            if evaluation.ok and elite not in seed:
                return

    def _store_proposal(self, proposal: Proposal) -> None:
        program, skeleton = self.state.program_hash(proposal.candidate), skeleton_hash(proposal.candidate.source)
        self._parts.store.propose(proposal, program_hash=program, skeleton=skeleton)
        self.state.archipelago.pending(proposal)
        self._tell(Proposed(proposal))

    def _commit_barren(self, selection: Selection, asked_seq: int, reason: str) -> None:
        barren = Barren(
            step=selection.step,
            operator=selection.operator,
            island=selection.island,
            asked_seq=asked_seq,
            reason=reason,
            parents=tuple(elite.candidate.id for elite in selection.parents),
        )
        seq = self._parts.store.record_barren(barren)
        self._notes(self.state.apply_barren(seq, barren))

    def _fingerprint(self) -> str:
        """Return how many results the state has taken in, and its hash."""
        return f"{self.state.archipelago.results} {self.state.fingerprint()}"

    def _progress(self, *, ahead: int = 0) -> Progress:
        spent = self._parts.store.spent()
        return Progress(
            evaluations=self.standing.results - self.standing.copied + ahead,
            seconds=spent.seconds,
            cost_usd=spent.cost_usd,
            since_improvement=self.standing.since_improvement,
            best_speedup=self.standing.best_speedup,
            roofline_share=self.standing.roofline_share,
        )

    def _identity_of_evaluator(self) -> EvaluatorIdentity:
        if self._evaluator_identity is None:
            raise HarnessError("the evaluator was asked before it was started")
        return self._evaluator_identity

    def _notes(self, texts: Sequence[str]) -> None:
        for text in texts:
            self._tell(Note(text))

    def _tell(self, event: Proposed | Judged | Note) -> None:
        for listener in self._parts.listeners:
            listener.hear(event)
