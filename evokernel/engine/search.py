"""A search on one store: ask the islands, let an operator propose, judge, commit, apply; asynchronous, steady-state.

The store is the state: this module holds only a fold over committed facts. Proposals that were in flight when the last
engine ended have leases, and are judged again.
"""

import asyncio
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import yaml

from archive.identity import RunIdentity
from archive.session_notes import write_host_activity
from archive.store import Store
from archive.verdict_filter import verdict_filter_of
from evokernel import __version__
from evokernel.config.changes import edits_between
from evokernel.config.load import parse_config
from evokernel.config.run import RunConfig, dump_config, flatten
from evokernel.engine.context import SearchSetting
from evokernel.engine.rejudging import rejudge_leaders
from evokernel.engine.run_clock import RunClock
from evokernel.engine.search_run import SearchRun
from evokernel.engine.search_session import SearchSession
from evokernel.engine.snapshot import Snapshots
from evokernel.engine.state_fold import StateFold
from evokernel.protocols import Evaluator, has_hosts
from evokernel.records.evaluation import EvaluatorIdentity
from evokernel.records.events import Notice
from evokernel.records.remarks import RemarkKind
from evokernel.records.timing import microseconds


class Search(SearchRun):
    """One engine on one store."""

    async def run(self) -> str:
        """Search until a budget is used or a stop is asked for; return the reason.

        Raises:
            ConfigError: no seed is a correct kernel.
            RunMismatch: the store belongs to another search.
            HarnessError: our own machinery failed again and again, or on the seed.
        """
        try:
            self.notify(Notice("starting the evaluator: admission of the task, device, baselines"))
            began = time.monotonic()
            async with self.parts.evaluator as evaluator:
                self.opening_s = time.monotonic() - began
                begin_run(self.parts.store, self.config, evaluator.identity, self.notify)
                return await self._session(evaluator)
        finally:
            await self.gate.close()

    async def _session(self, evaluator: Evaluator) -> str:
        """Restore the state by the verdicts of this evaluator, and go on from there."""
        store = self.parts.store
        store.session_start()
        clock, reason = RunClock(store, also=partial(_note_hosts, store, evaluator)), "stopped by an error"
        try:
            await clock.during(
                rejudge_leaders(
                    store, self.fold, evaluator, evaluator.identity, notify=self.notify, at_once=self.in_flight
                )
            )
            snapshots = resume(store, self.fold, self.config, evaluator.identity, notify=self.notify)
            setting = self._setting(evaluator.identity)
            session = SearchSession(self, evaluator, clock=clock, snapshots=snapshots, setting=setting)
            reason = await session.run()
        except asyncio.CancelledError:
            reason = "stopped at once"
            raise
        finally:
            clock.note()
            store.session_end(reason)
        return reason

    def _setting(self, evaluator: EvaluatorIdentity) -> SearchSetting:
        return SearchSetting(
            task=self.parts.task,
            config=self.config,
            device=evaluator.device,
            environment=evaluator.environment,
            device_sheet=evaluator.device_sheet,
            guide=self.parts.language.guide(self.parts.task),
            foreign=self.parts.foreign,
        )


def _note_hosts(store: Store, evaluator: Evaluator) -> None:
    write_host_activity(store, evaluator.host_activity() if has_hosts(evaluator) else ())


def resume(
    store: Store, fold: StateFold, config: RunConfig, evaluator: EvaluatorIdentity, *, notify: Callable[[Notice], None]
) -> Snapshots:
    """Apply every committed fact that no snapshot holds, and compare with the state at the last session's end.

    Args:
        store: of the run; open for writing.
        fold: with a fresh state.
        config: shapes the state, except for its budget.
        evaluator: results of another task or device count for nothing.
        notify: takes a note where the two states differ.
    """
    fold.verdict_filter = verdict_filter_of(store.database, evaluator)
    snapshots = Snapshots(store, fold, config, evaluator=evaluator)
    snapshots.restore()
    fold.replay(store.facts(after=fold.state.seq))
    for proposal in store.open_leases():
        fold.pending(proposal)
    if _ended_elsewhere(store, fold.state.fingerprint(), fits=snapshots.fits):
        text = "replaying the store gave another state than the last session ended in"
        notify(Notice(text, warning=True, kind=RemarkKind.FAULT))
    return snapshots


def _ended_elsewhere(store: Store, fingerprint: str, *, fits: str) -> bool:
    """Say whether the last session ended in another state of the same facts, rules and settings."""
    seq, noted, *under = (store.meta("fingerprint") or "0 none").split()
    comparable = under == [fits] and store.unchanged_since(int(seq)) and not store.open_leases()
    return comparable and noted != fingerprint


def begin_run(store: Store, config: RunConfig, evaluator: EvaluatorIdentity, notify: Callable[[Notice], None]) -> None:
    """Make sure the store holds this run, and write down the edits since its last session.

    Raises `RunMismatch` if it holds another one, or an edit would make it one; nothing was written then.
    """
    edits = edits_since(store, config)
    store.database.power_safe = config.durable == "power"
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
        ),
        earlier=evaluator.earlier_task_hashes,
    )
    store.edit_config(edits, config=dump_config(config))
    for key, old, new in edits:
        notify(Notice(f"config: {key} changed from {old} to {new}"))
    store.set_meta("device_sheet", json.dumps(dict(evaluator.device_sheet)))
    store.set_meta("sandbox", evaluator.sandbox)
    for workload, times in evaluator.baseline_us.items():
        notify(Notice(f"{workload}: " + ", ".join(f"{name} {microseconds(us)}" for name, us in times.items())))


def edits_since(store: Store, config: RunConfig) -> list[tuple[str, Any, Any]]:
    """Return (key, old, new) for every setting that differs from those of the last session, None for an absent one.

    Raises `RunMismatch` if one of them cannot change within a run.
    """
    stored = store.meta("config")
    if stored is None:
        return []
    return edits_between(flatten(parse_config(yaml.safe_load(stored), "the config in the store")), flatten(config))
