"""Store of one run: the only state of a search. Facts are added, never changed; a resumed run replays them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from archive import hidden_checks, inbox, insights, queries, sessions, summary, writing
from archive import identity as identities
from archive.calls import Calls
from archive.file import file_version, texts
from archive.file.database import Database, connect, folder_for, refuse_foreign, refuse_unfit
from archive.file.file_guard import SUFFIXES, FileGuard, dated
from archive.file.lock import EngineLock
from archive.file.records import NoCandidate, StoredCandidate, StoredEvaluation
from archive.identity import RunIdentity
from archive.journal import InboxEntry, ResultEntry, read_facts, read_results
from archive.remarks import Remarks
from archive.sessions import SpentBudget
from archive.verify import verify
from evokernel.errors import StoreError
from evokernel.records.candidate import Proposal, Usage
from evokernel.records.evaluation import Evaluation, EvaluationKey
from evokernel.records.hidden_check import HiddenCheck
from evokernel.records.llm import Insight, Spending

__all__ = ["NoCandidate", "RunIdentity", "SpentBudget", "Store", "StoredCandidate", "StoredEvaluation", "set_aside"]

P = ParamSpec("P")
T = TypeVar("T")


def _method(function: Callable[Concatenate[Database, P], T]) -> Callable[Concatenate["Store", P], T]:
    """Return a function of a database as a method of the store that has it open."""

    @wraps(function)
    def method(store: "Store", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return function(store.database, *args, **kwargs)

    return method


class Store:
    """An open store; a context manager. Use it from the thread that opened it.

    Every write is one transaction: when the method returns, all is in the file, or nothing. Every method may raise
    `StoreError` with what to do about it (a full disk, a read-only file) and `StoreCorrupt` for a damaged file.
    """

    def __init__(self, database: Database, lock: EngineLock | None, *, made: Sequence[Path] = ()) -> None:
        """`made`: the file, where it was made here, and then the folders that were, the innermost first."""
        self.database = database
        self._lock = lock
        self._presence = None if lock is None else FileGuard(database)
        self._made = tuple(made)
        self._session: int | None = None
        self._paid: Spending | None = None
        self._evaluated: set[int] | None = None

    @classmethod
    def open(cls, path: Path | str, *, write: bool) -> Self:
        """Open a store; with `write`, as the one engine that may, making the file where there is none.

        Opening for reading changes nothing: a file of an older schema is brought up to date in memory only.

        Raises:
            StoreLocked: another engine writes it.
            SchemaTooNew: a later release wrote it.
            StoreCorrupt: it is damaged or not a store.
            StoreError: it is missing (for reading) or cannot be opened.
        """
        path = Path(path)
        if not write:
            return cls(_for_reading(path), None)
        refuse_unfit(path)
        file_version.refuse_unusable(path)  # before anything is made beside a file of somebody else
        folders = folder_for(path)
        lock: EngineLock | None = None
        made: tuple[Path, ...] = ()
        try:
            lock = EngineLock(path)
            made = () if path.exists() else (path, *folders)  # asked under the lock: another engine may have made it
            return cls(_for_writing(path), lock, made=made)
        except BaseException:
            if lock is None:
                _remove_folders(folders)
            elif made:
                _remove(made, lock)
            if lock is not None:
                lock.release()
            raise

    def close(self) -> None:
        """Close the file and release the lock; the facts are in the file already."""
        try:
            self.database.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._made and self._lock is not None:
            with suppress(StoreError):  # of a full or read-only disk: the first error is the one to be told
                self._remove_if_empty(self._lock)
        self.close()

    def _remove_if_empty(self, lock: EngineLock) -> None:
        tables = ("meta", "journal", "candidates", "calls", "inbox", "texts")
        if any(self.database.row(f"SELECT 1 FROM {table} LIMIT 1") is not None for table in tables):
            return
        _remove(self._made, lock)

    # -- functions of the archive as methods

    identity = _method(identities.read_identity)
    meta = _method(identities.read_meta)
    set_meta = _method(identities.write_meta)
    facts = _method(read_facts)
    results = _method(read_results)
    unchanged_since = _method(queries.unchanged_since)
    open_leases = _method(queries.open_leases)
    missing_steps = _method(queries.missing_steps)
    next_step = _method(queries.next_step)
    candidate = _method(queries.candidate)
    proposals_of = _method(queries.proposals_of)
    evaluations_of = _method(queries.evaluations_of)
    siblings = _method(queries.siblings)
    insight = _method(insights.find)
    added_checks = _method(hidden_checks.added)
    checks_brought_along = _method(hidden_checks.brought_along)
    settle_check = _method(hidden_checks.settle)
    spent = _method(sessions.spent)
    best = _method(summary.best)
    curve = _method(summary.curve)
    counts = _method(summary.counts)
    verify = _method(verify)

    # -- the run

    def begin_run(self, identity: RunIdentity, *, earlier: Collection[str] = ()) -> None:
        """Write the identity of the run, or refuse another by `RunMismatch`; `earlier` hashes are of the same task."""
        identities.begin_run(self.database, identity, session=self._session, earlier=earlier)

    def edit_config(self, edits: Sequence[tuple[str, Any, Any]], *, config: str) -> None:
        """Store every changed setting (key, old, new) and the resolved config, all or nothing."""
        with self.database.transaction():
            for key, old, new in edits:
                writing.edit_row(self.database, key, old, new, session=self._session)
            identities.write_meta(self.database, "config", config)

    # -- proposals and results

    def propose(self, proposal: Proposal, *, program_hash: str, skeleton: str) -> None:
        """Store a proposal and a lease on its step. Raises `StoreError` for a taken step or an unknown parent."""
        self._charge(proposal.usage)
        writing.propose(self.database, proposal, program_hash=program_hash, skeleton=skeleton, session=self._session)

    def record_no_candidate(self, nothing: NoCandidate) -> int:
        """Store that a step's operator had nothing to offer and return the seq."""
        self._charge(nothing.usage)
        return writing.record_no_candidate(self.database, nothing, session=self._session)

    def record_insight(self, nothing: NoCandidate, insight: Insight, others: Sequence[Insight] = ()) -> int:
        """Store that a step ended with an insight in place of a candidate and return its seq.

        The `others` of the same reply wait in the inbox.

        Raises `StoreError` where its candidate, or an insight it was made from, is not in the store.
        """
        self._charge(nothing.usage)
        return writing.record_insight(self.database, nothing, insight, others, session=self._session)

    @property
    def remarks(self) -> Remarks:
        """The remarks on the run, which no replay reads."""
        return Remarks(self.database, lambda: self._session)

    @property
    def calls(self) -> Calls:
        """The record of the calls of models."""
        return Calls(self.database, lambda: self._session, changed=self._drop_paid)

    def find_evaluation(self, key: EvaluationKey) -> StoredEvaluation | None:
        """Return the newest evaluation with an equal key, or None. Our own faults are never used again."""
        return queries.find_evaluation(self.database, key) if self._may_be_evaluated(key.program_hash) else None

    def _may_be_evaluated(self, program_hash: str) -> bool:
        """Say whether to look for evaluations of a program: most programs are new, and each is asked about.

        Only the one engine writes evaluations, so the file holds no others. The set keeps 64 bits of each hash; two
        programs that share them cost a look-up, no more.
        """
        if self._lock is None:
            return True
        if self._evaluated is None:
            self._evaluated = set(map(hash, queries.evaluated_programs(self.database)))
        return hash(program_hash) in self._evaluated

    def _note_evaluated(self, evaluation: Evaluation) -> None:
        """Remember a program before it is written: one too many costs a look-up, one too few a second evaluation."""
        if self._evaluated is not None:
            self._evaluated.add(hash(evaluation.key.program_hash))

    def commit(self, step: int, evaluation: Evaluation, *, reused_from: int | None = None) -> int:
        """Store the result of a step in flight, end its lease and return the seq.

        `reused_from` is the seq of a stored evaluation that is used again; `evaluation` is then not stored.
        """
        self._note_evaluated(evaluation)
        return writing.commit(self.database, step, evaluation, reused_from=reused_from, session=self._session)

    def add_evaluation(self, evaluation: Evaluation) -> int:
        """Store one more evaluation of a known candidate, outside any step, and return the seq."""
        self._note_evaluated(evaluation)
        return writing.add_evaluation(self.database, evaluation, session=self._session)

    def add_check(
        self, check: HiddenCheck, failed: Sequence[Evaluation], *, operator: str, model: str, step: int | None
    ) -> tuple[InboxEntry, list[int]]:
        """Store a hidden check of the run, and the verdicts on kernels that fail it, as facts; return these."""
        return hidden_checks.add(
            self.database, check, failed, operator=operator, model=model, step=step, session=self._session
        )

    def result_of(self, candidate_id: str) -> ResultEntry | None:
        """Return the latest result of a candidate, or None where it has none."""
        seq = queries.result_of(self.database, candidate_id)
        return None if seq is None else self.results([seq])[seq]

    def put_snapshot(self, body: bytes, *, fits: str, seq: int) -> None:
        """Replace the snapshot of the state by one after a fact; `fits` names the code and config that may use it."""
        self.database.execute("INSERT OR REPLACE INTO images VALUES ('state', ?, ?, ?)", (seq, fits, body))

    def snapshot(self, *, fits: str) -> bytes | None:
        """Return the snapshot of the state, if there is one that fits."""
        row = self.database.row("SELECT body FROM images WHERE name = 'state' AND fits = ?", (fits,))
        return None if row is None else bytes(row["body"])

    def last_seq(self) -> int:
        """Return the seq of the newest fact, 0 in an empty store."""
        return int(self.database.number("SELECT max(seq) FROM journal"))

    # -- inbox and sessions

    @staticmethod
    def inbox_put(path: Path | str, kind: str, payload: Any, *, author: str = "") -> int:
        """Put an entry into the inbox from any process, without the engine's lock, and return its number."""
        return inbox.put(Path(path), kind, payload, author=author)

    def take_inbox(self) -> list[InboxEntry]:
        """Take in the waiting entries of the inbox, oldest first, each at a seq of its own."""
        return inbox.take(self.database, session=self._session)

    def session_start(self) -> int:
        """Open a session and return its number; later writes and the leases of earlier sessions belong to it."""
        self._session = sessions.start(self.database)
        return self._session

    def heartbeat(self, seconds: float) -> None:
        """Note how long the session has lasted, so that the time of a killed one counts too.

        Raises `StoreError` where a file of the store, or its lock, was removed or replaced.
        """
        if self._lock is not None and self._presence is not None:
            self._presence.check()
            self._lock.keep()
        sessions.heartbeat(self.database, self._in_session(), seconds)

    def session_end(self, reason: str, *, seconds: float | None = None) -> int:
        """Store the orderly end of the session and return the seq."""
        seq = sessions.end(self.database, self._in_session(), reason=reason, seconds=seconds)
        self._session = None
        return seq

    def _in_session(self) -> int:
        if self._session is None:
            raise StoreError(f"{self.database.path}: no session is open; call session_start() first")
        return self._session

    def paid(self) -> Spending:
        """Return the costs of models over all sessions: as in `spent`, but cheap enough for every step."""
        if self._paid is None:
            self._paid = sessions.paid(self.database)
        return self._paid

    def seconds_before(self) -> float:
        """Return how long all sessions but the open one have lasted, in s."""
        return sessions.seconds_before(self.database, self._in_session())

    def _charge(self, usage: Usage) -> None:
        if usage.cost_usd or usage.prompt_tokens or usage.completion_tokens:
            self._drop_paid()

    def _drop_paid(self) -> None:
        self._paid = None

    # -- reading

    def proposal_of(self, candidate_id: str) -> Proposal | None:
        """Return the proposal that brought a candidate in."""
        return next(iter(queries.proposals_of(self.database, candidate_id)), None)

    def put_text(self, text: str) -> str:
        """Store a text that belongs to no candidate, such as a model's reply, and return its hash."""
        with self.database.transaction():
            return texts.put_text(self.database, text)

    def text(self, digest: str) -> str | None:
        """Return the text with a hash, or None."""
        row = self.database.row("SELECT body FROM texts WHERE hash = ?", (digest,))
        return None if row is None else texts.unpack(row["body"])


def _remove(made: Sequence[Path], lock: EngineLock) -> None:
    """Remove the file and the folders that were made for a store that is not to be, and release its lock."""
    path, *folders = made
    with suppress(OSError):  # a full or read-only disk: the first error is the one to be told
        for suffix in reversed(SUFFIXES):  # the file last: a log without its file is refused
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        lock.remove()
    _remove_folders(folders)


def _remove_folders(folders: Iterable[Path]) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()  # not one that somebody else has put something into


def _for_reading(path: Path) -> Database:
    database = connect(path, write=False)
    try:
        version = file_version.version_of(database)
        file_version.refuse_newer(database, version)
        if version == file_version.VERSION:
            return database
        copy = file_version.in_memory_copy(database)
    except BaseException:
        database.close()
        raise
    database.close()
    return copy


def _for_writing(path: Path) -> Database:
    database = connect(path, write=True, create=True)
    try:
        file_version.upgrade(database)
        database.rows("PRAGMA wal_checkpoint(PASSIVE)")  # what a killed session left in the log goes into the file
    except BaseException:
        database.close()
        raise
    return database


def set_aside(path: Path | str) -> Path | None:
    """Move a store with its log to a dated name beside it and return that; None where there is no store.

    Raises:
        StoreLocked: an engine is writing it.
        StoreCorrupt: it never was a store.
        StoreError: it cannot be moved.
    """
    path = Path(path)
    if path.is_dir():
        raise StoreError(f"{path} is a folder, and a store is one file: name another")
    if not any(path.with_name(path.name + suffix).exists() for suffix in SUFFIXES):
        return None
    refuse_foreign(path)
    lock = EngineLock(path)
    try:
        _fold_log(path)
        target = dated(path)
        for suffix in SUFFIXES:  # the file first: a log without its file is refused, a file without its log is not
            part = path.with_name(path.name + suffix)
            if part.exists():
                part.rename(target.with_name(target.name + suffix))
    except OSError as error:
        raise StoreError(f"cannot move {path} aside: {error.strerror}") from error
    finally:
        lock.release()
    return target


def _fold_log(path: Path) -> None:
    try:
        database = connect(path, write=True)
        try:
            database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            database.close()
    except StoreError:
        return  # a damaged file is moved aside as it is, with its log
