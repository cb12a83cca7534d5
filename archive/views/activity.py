"""Signs of life of a run: whether a search is at work, and whether anything is new."""

from dataclasses import dataclass

from archive.store import Store


@dataclass(frozen=True, slots=True)
class LastSession:
    """The newest session of a run."""

    pid: int
    """The process of its engine, on `host`."""
    host: str
    """The name of the machine."""
    last_seen: float
    """Its last sign of life, in s since 1970, by the clock of that machine."""
    ended: bool
    """True where it came to an orderly end."""


def last_session(store: Store) -> LastSession | None:
    """Return the newest session, or None before the first."""
    row = store.database.row(
        "SELECT s.pid, s.host, s.last_seen, EXISTS (SELECT 1 FROM journal j WHERE j.session = s.id "
        "AND j.seq IN (SELECT seq FROM stops)) AS ended FROM sessions s ORDER BY s.id DESC LIMIT 1"
    )
    return None if row is None else LastSession(row["pid"], row["host"], row["last_seen"], bool(row["ended"]))


def last_stop(store: Store) -> str:
    """Return the reason of the last orderly end of a session; empty without one."""
    row = store.database.row("SELECT reason FROM stops ORDER BY seq DESC LIMIT 1")
    return row["reason"] if row else ""


def last_heard(store: Store) -> float:
    """Return the newest sign of life of any session, in s since 1970."""
    return float(store.database.number("SELECT max(last_seen) FROM sessions"))


def last_fact_at(store: Store) -> float:
    """Return when the newest fact was committed, in s since 1970; 0 without one."""
    return float(store.database.number("SELECT at FROM journal ORDER BY seq DESC LIMIT 1"))


def seconds_used(store: Store) -> float:
    """Return how long all sessions have lasted, in s."""
    return float(store.database.number("SELECT sum(seconds) FROM sessions"))


def mark(store: Store) -> tuple[object, ...]:
    """Return a value that differs when facts, proposals, calls of models or sessions were added."""
    row = store.database.row(  # each subquery reads one index entry
        "SELECT (SELECT max(seq) FROM journal), (SELECT max(step) FROM proposals), (SELECT max(number) FROM calls), "
        "(SELECT max(id) FROM sessions)"
    )
    return tuple(row or ())
