"""The runner of a queue: sessions in turn, each for a slice of time, with all that it decides by in the queue's file.

A slice is written down before its session begins, with the most that it may use. The session's own store says what it
has used, so nothing is lost where this process, or the machine, is killed: the next runner finds the slice, ends what
still runs of it, counts it by the store, and goes on.
"""

import signal
from collections.abc import Callable
from dataclasses import replace

from evokernel.config.load import load_config
from evokernel.config.run import RunConfig
from evokernel.errors import ConfigError, StoreError, StoreUnavailable, may_pass
from evokernel.queue.choice import (
    LEAST_S,
    WaitingEntry,
    choose,
    measured_gain,
    seconds_left,
    slice_dollars,
    slice_seconds,
)
from evokernel.queue.clock import QueueClock
from evokernel.queue.command import (
    SessionLimits,
    agent_s,
    asks_models,
    command_of,
    least_seconds,
    rules_go_on,
    session_limits,
)
from evokernel.queue.facts import store_facts
from evokernel.queue.file import QueueFile
from evokernel.queue.outcome import SliceExit, entry_after
from evokernel.queue.records import EntryState, QueueEntry, QueueNight, QueueSlice, SliceLimits, StoreFacts
from evokernel.queue.session import ChildSession, ChildSessions, count_gpus

LOOK_S = 1.0
"""Time between two looks at a session, in s."""
LOOKS_FOR_NOTE = 5
"""Looks between two notes of the length of a slice."""
IDLE_S = 15.0
"""Time between two looks at a queue without work, in s."""
BACK_OFF_S, LONGEST_BACK_OFF_S = 30.0, 1800.0
"""Rest of an entry after its first fault, doubled with each further one, and the longest, in s."""
GRACE_S = 60.0
"""Time that a session has to finish what is in flight, in s."""
STUCK_S = 30.0
"""Time that a process may outlive SIGKILL, in s."""
CENT = 0.01


class QueueRunner:
    """Runs the entries of a queue in turn.

    Args:
        queue: the open file; only one runner may have it, which the caller sees to.
        wait: stay for new entries; otherwise end where nothing can run any more.
        grace_s: time that a session has to end in order, in s.
        look_s: time between two looks at a session, in s.
        host, clock, gpus: the outside world: where sessions run, the time, the number of GPUs.
        ended: told of an entry that its night has ended, and why, where none of its sessions could tell.
    """

    def __init__(  # noqa: PLR0913 - each is a choice of its caller, or the outside world
        self,
        queue: QueueFile,
        *,
        say: Callable[[str], None],
        wait: bool = False,
        grace_s: float = GRACE_S,
        look_s: float = LOOK_S,
        host: ChildSessions | None = None,
        clock: QueueClock | None = None,
        gpus: Callable[[], int] = count_gpus,
        ended: Callable[[QueueEntry, str], None] = lambda entry, reason: None,
    ) -> None:
        self._queue = queue
        self._tell_end = ended
        self._say = say
        self._wait = wait
        self._grace_s = grace_s
        self._look_s = look_s
        self._host = host or ChildSessions()
        self._clock = clock or QueueClock()
        self._gpus = gpus
        self._asked = 0
        """How often an end was asked for."""
        self._ready_at: dict[int, float] = {}
        """By entry: the end of its rest, in s of `elapsed`."""
        self._ended: dict[int, tuple[SliceExit, SessionLimits, float]] = {}
        """Slices of this runner whose end is not in the file yet: the ending, the told, the length in s."""
        self._waited_for: set[int] = set()
        """Slices of earlier runners whose processes had their time to end."""
        self._troubles = 0

    def stop(self) -> None:
        """End the session in order and then the run; the second time at once."""
        self._asked += 1
        self._clock.wake()

    def run(self) -> str:
        """Run entries until none can run any more or a stop is asked for; return the reason.

        Trouble with the queue's own file, such as a full disk, is waited out.
        """
        while not self._asked:
            try:
                rest_s = self._step()
                self._troubles = 0
            except StoreError as error:
                self._troubles += 1
                rest_s = _back_off(self._troubles)
                self._say(f"{error}; trying again in {rest_s:.0f} s")
            if rest_s is None:
                return "nothing is left to run"
            self._clock.rest(rest_s)
        self._settle_at_the_end()
        return "stopped"

    def _settle_at_the_end(self) -> None:
        try:
            self._settle()
        except StoreError as error:
            self._say(f"{error}; the next run counts the last slice")

    def _step(self) -> float | None:
        """Run one slice, or return how long to rest; None where nothing is left to do."""
        self._settle()
        nights = [night for night in self._queue.nights(running=True) if not self._over(night)]
        for night in nights:
            ready = self._ready(night)
            if ready:
                self._run_slice(night, choose(ready))
                return 0.0
        if any(entry.state is EntryState.WAITING for night in nights for entry in self._queue.entries(night.id)):
            return IDLE_S
        return IDLE_S if self._wait else None

    # -- what may run

    def _left_s(self, night: QueueNight) -> float | None:
        use = self._queue.use(night.id)
        return seconds_left(night.budget, use, added=night.added, now=self._clock.now())

    def _over(self, night: QueueNight) -> bool:
        left, use = self._left_s(night), self._queue.use(night.id)
        gpu_hours, reason = night.budget.gpu_hours, ""
        if left is not None and left < LEAST_S:
            reason = "the time of its night is used"
        elif gpu_hours is not None and gpu_hours * 3600 - use.gpu_seconds < LEAST_S:
            reason = "the GPU-hours of its night are used"
        elif all(each.state in (EntryState.DONE, EntryState.FAILED) for each in self._queue.entries(night.id)):
            reason = "each entry has ended"
        if reason:
            cut_short = [each for each in self._queue.entries(night.id) if each.state is EntryState.WAITING]
            self._queue.end_night(night.id, reason)
            self._say(f"night {night.id} has ended: {reason}")
            for entry in cut_short:
                self._tell_end(entry, reason)
        return bool(reason)

    def _ready(self, night: QueueNight) -> list[WaitingEntry]:
        busy = {each.entry for each in self._queue.open_slices()}
        return [
            WaitingEntry(entry, self._queue.use_of(entry.id))
            for entry in self._queue.entries(night.id)
            if entry.state is EntryState.WAITING
            and entry.id not in busy
            and self._ready_at.get(entry.id, 0.0) <= self._clock.elapsed()
        ]

    def _unstarted(self, night: QueueNight, but: QueueEntry) -> tuple[int, int]:
        """Return how many entries may still run, and how many of them, but for one, have not started."""
        waiting = [each for each in self._queue.entries(night.id) if each.state is EntryState.WAITING]
        fresh = [each for each in waiting if each.id != but.id and not self._queue.use_of(each.id).gains]
        return len(waiting), len(fresh)

    # -- one slice

    def _run_slice(self, night: QueueNight, chosen: WaitingEntry) -> None:
        entry = chosen.entry
        planned = self._plan(night, entry)
        if planned is None:
            return
        before, limits, told = planned
        number = self._queue.begin_slice(entry.id, limits, before, at=self._clock.now())
        began = self._clock.elapsed()
        money = "" if limits.dollars is None else f", at most ${limits.dollars:.2f}"
        self._say(f"entry {entry.id}, {entry.config.stem}: {limits.seconds / 60:.0f} min{money}")
        try:
            log, mark = self._queue.log(entry.id), self._mark(number)
            session = self._host.start(command_of(entry, told), log=log, mark=mark)
        except OSError as error:
            ending = SliceExit(None, said=f"the session could not be started: {error.strerror}")
        else:
            ending = self._watch(number, session, entry, limits.seconds)
            if ending.code not in (0, None) and limits.gpus:
                ending = replace(ending, device_lost=not self._gpus())
        self._ended[number] = ending, told, self._clock.elapsed() - began
        self._settle()

    def _plan(self, night: QueueNight, entry: QueueEntry) -> tuple[StoreFacts, SliceLimits, SessionLimits] | None:
        """Return the store's facts and the limits for a slice; None where the entry cannot run, which is noted."""
        try:
            config = load_config(entry.config, overrides=entry.settings)
            before = store_facts(entry.store)
        except (ConfigError, StoreError) as error:
            self._fault(entry, str(error), passing=may_pass(error))
            return None
        gpus = self._gpus_for(config, before)
        if gpus is None:
            self._fault(entry, "no GPU is visible")
            return None
        call_s = agent_s(config)
        limits = self._limits(night, entry, gpus, least_s=least_seconds(call_s))
        if not asks_models(config, before):
            limits = replace(limits, dollars=None)
        told = session_limits(before, limits, call_s=call_s)
        if limits.dollars is None:
            return before, limits, told
        if limits.dollars < CENT and not rules_go_on(config, before):
            reason = f"the ${night.budget.dollars:g} of its night are used"
            self._note(replace(entry, state=EntryState.DONE, reason=reason), "done")
            return None
        left = (night.budget.dollars or 0.0) - self._queue.use(night.id).dollars
        return before, limits, replace(told, all_dollars=limits.dollars >= left)

    def _gpus_for(self, config: RunConfig, before: StoreFacts) -> int | None:
        """Return how many GPUs a session would use: 0 on a processor, None where it needs one and there is none."""
        device = config.device if config.device != "auto" else before.device
        if device == "cpu":
            return 0
        found, wanted = self._gpus(), config.evaluation.gpus
        if not found:
            return None if device == "cuda" else 0
        return found if wanted == "all" else min(found, wanted)

    def _limits(self, night: QueueNight, entry: QueueEntry, gpus: int, *, least_s: float) -> SliceLimits:
        entries, unstarted = self._unstarted(night, entry)
        left, use, budget = self._left_s(night), self._queue.use(night.id), night.budget
        if budget.gpu_hours is not None and gpus:
            gpu_left = (budget.gpu_hours * 3600 - use.gpu_seconds) / gpus
            left = gpu_left if left is None else min(left, gpu_left)
        seconds = slice_seconds(left, entries=entries, unstarted=unstarted, least_s=least_s)
        return SliceLimits(seconds, slice_dollars(budget, use, unstarted=unstarted), gpus)

    def _watch(self, number: int, session: ChildSession, entry: QueueEntry, limit_s: float) -> SliceExit:
        """Wait for the end of a session, and see to it that it comes in time."""
        began, asked_at = self._clock.elapsed(), None
        signals = iter((signal.SIGTERM, signal.SIGTERM, signal.SIGKILL))
        due, beat_at = limit_s - min(self._grace_s, 0.15 * limit_s), 0.0
        hurried = False
        while (code := session.poll()) is None:
            length = self._clock.elapsed() - began
            if length >= beat_at:
                beat_at = length + LOOKS_FOR_NOTE * self._look_s
                self._beat(number, length, session.process)
                if asked_at is None and self._taken_back(entry):
                    due = min(due, length)
            if self._asked and asked_at is None:
                due = min(due, length)
            if self._asked > 1 and not hurried:
                due, hurried = length, True
            if length >= due:
                session.signal(next(signals, signal.SIGKILL))
                asked_at = length if asked_at is None else asked_at
                due = length + max(self._look_s, min(self._grace_s / 2, (limit_s - length) / 2))
            if length >= limit_s - 2 * self._look_s:
                session.signal(signal.SIGKILL)
            if length >= limit_s + STUCK_S:  # a driver holds it
                return SliceExit(None, asked=True, said=f"process {session.process} outlives SIGKILL")
            self._clock.rest(self._look_s)
        return SliceExit(code, asked=asked_at is not None, said=session.said())

    def _beat(self, number: int, length: float, process: str) -> None:
        try:
            self._queue.beat(number, length, process=process)
        except StoreError as error:
            self._say(str(error))  # until the end is noted, the slice counts with its limit

    def _taken_back(self, entry: QueueEntry) -> bool:
        try:
            return self._queue.entry(entry.id).state is not EntryState.WAITING
        except StoreError:
            return False

    # -- ends

    def _settle(self) -> None:
        """Count every slice that has ended. Raises `StoreError` where that cannot be written now."""
        for ended in self._queue.open_slices():
            entry = self._queue.entry(ended.entry)
            seen = self._ended.get(ended.id)
            try:
                ending, told, length = seen or self._left_behind(ended, entry)
                after = store_facts(entry.store)
            except StoreError as error:
                if not may_pass(error):
                    self._give_up(ended, entry, str(error))
                elif entry.id not in self._ready_at or self._ready_at[entry.id] <= self._clock.elapsed():
                    self._fault(entry, str(error))  # the slice counts with its limits until its store can be read
                continue
            if told is None:  # nobody saw its end
                length = min(
                    ended.limits.seconds,
                    max(length, after.seconds - ended.before.seconds) + LOOKS_FOR_NOTE * self._look_s,
                )
            results = after.results - ended.before.results
            later, outcome = entry_after(entry, ending, told, stop=after.stop, results=results)
            gain = measured_gain(ended.before, after)
            self._queue.end_slice(ended, seconds=length, after=after, gain=gain, entry=later, outcome=outcome)
            self._ended.pop(ended.id, None)
            self._rest(later)
            self._tell(later, outcome, length=length, results=results)

    def _left_behind(self, ended: QueueSlice, entry: QueueEntry) -> tuple[SliceExit, None, float]:
        """End what still runs of a slice that an earlier runner has begun.

        Raises `StoreUnavailable` if it cannot be ended, not even by SIGKILL.
        """
        grace_s = 0.0 if ended.id in self._waited_for else self._grace_s
        self._waited_for.add(ended.id)
        began, mark = self._clock.elapsed(), self._mark(ended.id)
        while process := self._host.left(ended.process, store=entry.store, mark=mark):
            late = self._clock.elapsed() - began - grace_s
            self._host.send(process, signal.SIGTERM if late < 0 else signal.SIGKILL)
            if late >= STUCK_S:
                raise StoreUnavailable(
                    f"process {process} outlives SIGKILL, so a slice on {entry.store} is not counted"
                )
            self._clock.rest(self._look_s if late >= 0 else max(self._look_s, grace_s / 2))
        return SliceExit(None), None, ended.seconds

    def _mark(self, number: int) -> str:
        return f"{self._queue.database.path.absolute()}#{number}"

    def _give_up(self, ended: QueueSlice, entry: QueueEntry, reason: str) -> None:
        """End an entry whose store is damaged; its slice counts with its limits."""
        after = replace(ended.before, dollars=ended.before.dollars + (ended.limits.dollars or 0.0))
        failed = replace(entry, state=EntryState.FAILED, reason=reason)
        seconds = ended.limits.seconds
        self._queue.end_slice(ended, seconds=seconds, after=after, gain=0.0, entry=failed, outcome="failed")
        self._tell(failed, "failed", length=seconds)

    def _fault(self, entry: QueueEntry, reason: str, *, passing: bool = True) -> None:
        """Note a fault outside a session: the entry rests, or has failed where the fault will not pass."""
        state = EntryState.WAITING if passing else EntryState.FAILED
        later = replace(entry, state=state, reason=reason, faults=entry.faults + 1)
        self._note(later, "fault" if passing else "failed")

    def _note(self, entry: QueueEntry, outcome: str) -> None:
        self._queue.note(entry)
        self._rest(entry)
        self._tell(entry, outcome)

    def _rest(self, entry: QueueEntry) -> None:
        self._ready_at.pop(entry.id, None)
        if entry.faults and entry.state is EntryState.WAITING:
            self._ready_at[entry.id] = self._clock.elapsed() + _back_off(entry.faults)

    def _tell(self, entry: QueueEntry, outcome: str, *, length: float = 0.0, results: int = 0) -> None:
        rests = f"; rests {_back_off(entry.faults):.0f} s" if entry.id in self._ready_at else ""
        why = f": {entry.reason}" if entry.reason else ""
        ran = f" after {length:.0f} s, {results} results" if length else ""
        self._say(f"entry {entry.id}, {entry.config.stem}: {outcome}{ran}{why}{rests}")


def _back_off(faults: int) -> float:
    return float(min(BACK_OFF_S * 2 ** min(faults - 1, 16), LONGEST_BACK_OFF_S))
