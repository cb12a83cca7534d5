"""Calls of models. A call is not a fact: it has no seq, and a replay reads only what failed ones have cost.

Like a lease it is written before the work begins, so that a kill leaves a trace of what was under way. Unlike a lease
it stays with its outcome, so that nothing is paid for twice. A call that was open when its engine died stays open for
ever and counts with its reservation: nobody knows whether it was charged.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator

from archive.file import checksums
from archive.file.checksums import CHECKED
from archive.file.database import Database
from archive.file.records import numbers_of, read, to_json, usage_of, usage_values
from archive.file.texts import put_text, unpack
from evokernel.errors import StoreError
from evokernel.records.candidate import Usage, clean
from evokernel.records.llm import CallStatus, Message, ModelCall, ModelCallResult, Origin, Spending, StoredCall

USABLE = f"status IN ('{CallStatus.OK}', '{CallStatus.TRUNCATED}')"
TOKENS = f"CASE status WHEN '{CallStatus.OPEN}' THEN reserved_tokens ELSE prompt_tokens + completion_tokens END"
"""Tokens of a call: those it used, or those that were reserved for it."""
COST_USD = f"CASE status WHEN '{CallStatus.OPEN}' THEN reserved_usd ELSE coalesce(cost_usd, reserved_usd) END"
"""Dollars of a call: those it cost, or those that were reserved for it."""
WITHOUT_CALLS = (
    "FROM proposals WHERE (cost_usd > 0 OR prompt_tokens + completion_tokens > 0) AND origin = '' "
    "AND step NOT IN (SELECT step FROM calls)"
)
"""Proposals whose own usage counts: those without calls of this run, and not paid by another run."""
MADE_HERE = "json_extract(parameters, '$.answer') IS NULL"
"""Calls that count: replies that were given elsewhere cost nothing here."""
_PAGE = 200
"""Calls that are in memory at once, with their texts."""
_FAILED = (
    f"SELECT step, model, sum({TOKENS}) AS tokens, sum({COST_USD}) AS cost FROM calls "
    f"WHERE status = '{CallStatus.FAILED}' AND"
)
_STORED = (
    "SELECT c.*, p.body AS prompt_body, r.body AS reply_body FROM calls c "
    "LEFT JOIN texts p ON p.hash = c.prompt LEFT JOIN texts r ON r.hash = c.reply"
)
_ORIGIN = "step, island, operator, parents, insights"
_END = "status = ?, reply = ?, answered_by = ?, prompt_tokens = ?, completion_tokens = ?, cost_usd = ?, duration_s = ?"
_COLUMNS = CHECKED["calls"].split(", ")


class Calls:
    """The record of all calls of a run: a `CallLog`. Every write is one transaction, so that a kill loses nothing.

    Args:
        session: returns the number of the open session, or None.
        changed: is called when the cost of all calls may have changed.
    """

    def __init__(
        self,
        database: Database,
        session: Callable[[], int | None] = lambda: None,
        *,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._session = session
        self._changed = changed

    def of_step(self, step: int, ordinal: int) -> StoredCall | None:
        """Return the newest call with a usable reply that was made for a step, or None."""
        return self._first(f"c.step = ? AND c.ordinal = ? AND c.{USABLE} ORDER BY c.number DESC", step, ordinal)

    def find(self, key: str, sample: int) -> StoredCall | None:
        """Return the first call of a key and a sample with a usable reply, or None."""
        return self._first(f"c.key = ? AND c.sample = ? AND c.{USABLE} ORDER BY c.number", key, sample)

    def samples(self, key: str) -> int:
        """Return the number of different samples of a key that were begun."""
        return int(self._database.number("SELECT count(DISTINCT sample) FROM calls WHERE key = ?", (key,)))

    def begin(self, call: ModelCall) -> int:
        """Store a call before it is paid for and return its number."""
        origin, now = call.origin, time.time()
        prompt = json.dumps([[message.role, message.text] for message in call.messages])
        self._changed()
        with self._database.money_transaction():
            values = {
                "step": origin.step,
                "island": clean(origin.island),
                "operator": clean(origin.operator),
                "parents": to_json(origin.parents),
                "insights": to_json(origin.insights),
                "ordinal": call.ordinal,
                "role": clean(call.role),
                "model": clean(call.model),
                "key": call.key,
                "sample": call.sample,
                "parameters": json.dumps(dict(call.parameters)),
                "prompt": put_text(self._database, prompt),
                "reserved_tokens": call.reserved_tokens,
                "reserved_usd": call.reserved_usd,
                "at": now,
                "session": self._session(),
                "status": CallStatus.OPEN.value,
            }
            return checksums.add(self._database, "calls", values)

    def end(self, number: int, result: ModelCallResult) -> None:
        """Store the outcome of a call.

        Raises `StoreError` if the call is not open, or the result says that it still is.
        """
        if result.status is CallStatus.OPEN:
            raise StoreError(f"{self._database.path}: call {number} cannot end and stay open")
        self._changed()
        with self._database.money_transaction():
            values = (result.status.value, put_text(self._database, clean(result.text)), *usage_values(result.usage))
            open_call = "SELECT 1 FROM calls WHERE number = ? AND status = ?"
            if self._database.row(open_call, (number, CallStatus.OPEN.value)) is None:
                raise StoreError(f"{self._database.path}: call {number} is not open: never begun, or ended before")
            checksums.change(self._database, "calls", number, _END, values)

    def spending(self) -> Spending:
        """Return what all calls of the run have cost; open ones count with what was reserved."""
        row = self._database.row(f"SELECT count(*), sum({TOKENS}), sum({COST_USD}) FROM calls WHERE {MADE_HERE}")
        return Spending() if row is None else Spending(row[0], row[1] or 0, row[2] or 0.0)

    def call(self, number: int) -> StoredCall | None:
        """Return a call by its number, or None. Raises `StoreCorrupt` for one that cannot be read."""
        return self._first("c.number = ?", number)

    def interrupted(self) -> list[Origin]:
        """Return, by step, the origins of usable replies that no candidate and no insight came from."""
        rows = self._database.rows(
            f"SELECT max(number), {_ORIGIN} FROM calls WHERE {USABLE} "  # the other columns are those of the newest
            "AND step NOT IN (SELECT step FROM proposals) GROUP BY step ORDER BY step"
        )
        return [read(row, _origin, f"a call for step {row['step']}") for row in rows]

    def answers(self) -> set[int]:
        """Return the numbers in the inbox of the replies that were given elsewhere and have had their step."""
        rows = self._database.rows(f"SELECT parameters FROM calls WHERE {USABLE} AND parameters LIKE '%\"answer\"%'")
        return {entry for row in rows if type(entry := json.loads(row["parameters"]).get("answer")) is int}

    def answered(self) -> dict[int, int]:
        """Return the steps that replies from elsewhere were given, by the number of each reply in the inbox."""
        entry = "json_extract(parameters, '$.answer')"
        rows = self._database.rows(f"SELECT step, {entry} AS entry FROM calls WHERE {entry} IS NOT NULL")
        return {row["entry"]: row["step"] for row in rows}

    def all(self) -> Iterator[StoredCall]:
        """Yield every call in the order they were begun, a page at a time."""
        for page in self._database.pages(_STORED, "c.number", page_rows=_PAGE):
            yield from map(self._stored, page)

    def _first(self, condition: str, *values: object) -> StoredCall | None:
        row = self._database.row(f"{_STORED} WHERE {condition} LIMIT 1", values)
        return None if row is None else self._stored(row)

    def _stored(self, row: sqlite3.Row) -> StoredCall:
        stored = read(row, _read, f"a call ({row['number']})")
        values = tuple(row[name] for name in _COLUMNS)
        checksums.refuse_changed(self._database, "calls", values, stored=row["checksum"])
        return stored


def failed_tries(database: Database, where: str, values: tuple[object, ...]) -> dict[int, tuple[Usage, ...]]:
    """Return what calls without a reply have cost, by step, one `Usage` for each model, by name.

    Those of a step have ended when its result is committed. Their tokens count as those of prompts.
    """
    found: dict[int, tuple[Usage, ...]] = {}
    for row in database.rows(f"{_FAILED} {where} GROUP BY step, model ORDER BY step, model", values):
        usage = Usage(row["model"], row["tokens"], cost_usd=row["cost"])
        found[row["step"]] = (*found.get(row["step"], ()), usage)
    return found


def _read(row: sqlite3.Row) -> StoredCall:
    messages = tuple(Message(role, text) for role, text in json.loads(unpack(row["prompt_body"])))
    call = ModelCall(
        origin=_origin(row),
        ordinal=row["ordinal"],
        role=row["role"],
        model=row["model"],
        messages=messages,
        parameters=json.loads(row["parameters"]),
        sample=row["sample"],
        reserved_tokens=row["reserved_tokens"],
        reserved_usd=row["reserved_usd"],
    )
    return StoredCall(row["number"], call, _result(row))


def _origin(row: sqlite3.Row) -> Origin:
    parents, insights = tuple(json.loads(row["parents"])), numbers_of(row["insights"])
    return Origin(row["step"], row["island"], row["operator"], parents, insights)


def _result(row: sqlite3.Row) -> ModelCallResult | None:
    status = CallStatus(row["status"])
    if status is CallStatus.OPEN:
        return None
    return ModelCallResult(status, unpack(row["reply_body"]), usage_of(row, model="answered_by"))
