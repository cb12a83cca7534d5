"""Sessions and their costs: budgets count over all of them, also over killed ones."""

import os
import socket
import time
from dataclasses import dataclass

from archive import writing
from archive.calls import WITHOUT_CALLS, Calls
from archive.file import checksums
from archive.file.database import Database
from evokernel.records.llm import Spending


@dataclass(frozen=True, slots=True)
class SpentBudget:
    """Resources that a run has used over all sessions. Copies of a fork cost nothing here."""

    seconds: float
    """The length of all sessions."""
    cost_usd: float
    """Dollars for models; an open call counts with its reservation."""
    evaluations: int
    """Evaluations, further ones of a candidate included."""
    steps: int
    """Steps that ended."""
    tokens: int = 0
    """Tokens of models; an open call counts with its reservation."""
    calls: int = 0
    """Calls of models."""

    @property
    def models(self) -> Spending:
        """Return the costs of models."""
        return Spending(self.calls, self.tokens, self.cost_usd)


def start(database: Database) -> int:
    """Open a session, take over the leases of earlier ones, and return its number."""
    now = time.time()
    with database.transaction():
        values = {"pid": os.getpid(), "host": socket.gethostname(), "started": now, "last_seen": now}
        session = checksums.add(database, "sessions", values)
        for lease in database.rows("SELECT step FROM leases"):
            checksums.change(database, "leases", lease["step"], "owner = ?, since = ?", (session, now))
    return session


def heartbeat(database: Database, session: int, seconds: float) -> None:
    """Note how long the session has lasted, in seconds since its start; it never goes down."""
    with database.transaction():
        _beat(database, session, seconds)


def _beat(database: Database, session: int, seconds: float) -> None:
    values = (seconds, time.time())
    checksums.change(database, "sessions", session, "seconds = max(seconds, ?), last_seen = ?", values)


def end(database: Database, session: int, *, reason: str, seconds: float | None) -> int:
    """Note the orderly end of the session and return the seq."""
    with database.transaction():
        if seconds is not None:
            _beat(database, session, seconds)
        return writing.stop(database, reason, session=session)


def spent(database: Database) -> SpentBudget:
    """Return the resources that the run has used so far."""
    models = paid(database)
    copied = "(SELECT count(*) FROM evaluations WHERE origin <> '')"
    copied_results = "(SELECT count(*) FROM results r JOIN proposals p USING (step) WHERE p.origin <> '')"
    forked = database.row("SELECT 1 FROM meta WHERE key = 'forked_from'") is not None
    evaluations = f"SELECT count(*) - {copied if forked else 0} FROM evaluations"
    steps = f"SELECT count(*) - {copied_results if forked else 0} FROM results"
    return SpentBudget(
        seconds=float(database.number("SELECT sum(seconds) FROM sessions")),
        cost_usd=models.cost_usd,
        evaluations=int(database.number(evaluations)),
        steps=int(database.number(steps)),
        tokens=models.tokens,
        calls=models.calls,
    )


def paid(database: Database) -> Spending:
    """Return the costs of models so far."""
    called = Calls(database).spending()
    cost = database.number(f"SELECT sum(cost_usd) {WITHOUT_CALLS} AND cost_usd > 0")
    tokens = database.number(f"SELECT sum(prompt_tokens + completion_tokens) {WITHOUT_CALLS}")
    return Spending(called.calls, called.tokens + int(tokens), called.cost_usd + float(cost))


def seconds_before(database: Database, session: int) -> float:
    """Return how long all other sessions have lasted, in s."""
    return float(database.number("SELECT sum(seconds) FROM sessions WHERE id <> ?", (session,)))
