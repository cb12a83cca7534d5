"""Chain of digests over the journal: the digest of each entry covers the one before and all facts of the entry.

Digests are hashes as `archive.file.checksums` makes them, of these tuples:

* proposal: its row; ordinal, candidate and kind of each edge; the row of its candidate, or None where the candidate
  was there before;
* entry: the digest of the entry before it; seq, kind, at, session; table and row of each fact with its seq, in the
  order of `FACTS`; the digest of the proposal that it ends, or nothing.

A proposal is written before the entry that ends it, so its digest waits in its row.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from archive.file.checksums import Values, digest_of
from archive.file.database import Database
from archive.file.records import CANDIDATE_COLUMNS, EVALUATION_COLUMNS, INBOX_COLUMNS, PROPOSAL_COLUMNS

FACTS = {
    "evaluations": EVALUATION_COLUMNS,
    "results": "seq, step, evaluation",
    "insights": "seq, step, island, kind, title, text, candidate, predicted_speedup, sources",
    "inbox": INBOX_COLUMNS,
    "config_edits": "seq, key, old, new",
    "stops": "seq, reason",
}
"""The facts of an entry, table and columns, in the order in which they are written. A later column joins a list only
where it is not at its default, or old digests would be wrong."""
_FIRST = b""
_INSERT = {
    table: f"INSERT INTO {table}({columns}) VALUES ({', '.join('?' * len(columns.split(', ')))})"
    for table, columns in FACTS.items()
}
_SEQ = {"inbox": "taken_seq"}
_Entry = tuple[tuple[object, ...], bytes, list[Values], bytes]


def proposal_digest(proposal: Values, *, edges: Sequence[Values], candidate: Values | None) -> bytes:
    """Return the digest of a proposal.

    Args:
        proposal: the values of `PROPOSAL_COLUMNS`.
        edges: ordinal, candidate and kind of each parent and inspiration.
        candidate: the values of `CANDIDATE_COLUMNS`; None where the candidate was there before.
    """
    return digest_of((proposal, tuple(edges), candidate))


def append(
    database: Database,
    entry: tuple[str, float, int | None],
    facts: Callable[[int], Mapping[str, Values]],
    *,
    proposal: bytes = b"",
) -> int:
    """Add an entry and its facts to the journal, within the open transaction, and return its seq.

    Args:
        entry: kind, at, session.
        facts: returns for a seq the row of each fact by table, in the order of `FACTS`.
        proposal: the digest of the proposal that the entry ends.
    """
    last, before = database.newest or _newest(database)
    seq = last + 1
    rows, row = facts(seq), (seq, *entry)
    digest = _entry_digest(before, row, tuple(rows.items()), proposal)
    database.execute("INSERT INTO journal(seq, kind, at, session, digest) VALUES (?, ?, ?, ?, ?)", (*row, digest))
    for table, values in rows.items():
        if table != "inbox":  # put in earlier, by another process
            database.execute(_INSERT[table], values)
    database.newest = (seq, digest)
    return seq


def _newest(database: Database) -> tuple[int, bytes]:
    row = database.row("SELECT seq, digest FROM journal ORDER BY seq DESC LIMIT 1")
    return (0, _FIRST) if row is None else (row["seq"], row["digest"])


def _entry_digest(before: bytes, entry: Values, facts: Sequence[Values], proposal: bytes) -> bytes:
    return digest_of((before, entry, tuple(facts), proposal))


def sign_all(database: Database) -> None:
    """Write the digests of all proposals and entries as they are now, within the open transaction."""
    for steps in _proposals(database):
        database.insert_many(
            "UPDATE proposals SET digest = ? WHERE step = ?", [(made, step) for step, _, made in steps]
        )
    last = _FIRST
    for page in _entries(database):
        signed = []
        for entry, _, facts, proposal in page:
            last = _entry_digest(last, entry, facts, proposal)
            signed.append((last, entry[0]))
        database.insert_many("UPDATE journal SET digest = ? WHERE seq = ?", signed)


def mismatches(database: Database) -> list[str]:
    """Return one line for each proposal that does not fit its digest, and one for the first such entry."""
    found = [
        f"the proposal of step {step} is not what was written, or its parents or its candidate are not"
        for steps in _proposals(database)
        for step, stored, made in steps
        if stored != made
    ]
    return found + [f"the chain breaks at fact {seq}: it, or what it committed, is not what was written"
                    for seq in _first_break(database)]  # fmt: skip


def _first_break(database: Database) -> list[object]:
    last = _FIRST
    for page in _entries(database):
        for entry, stored, facts, proposal in page:
            if stored != _entry_digest(last, entry, facts, proposal):
                return [entry[0]]
            last = stored
    return []


def _entries(database: Database) -> Iterator[list[_Entry]]:
    """Yield pages of entries: the row, its stored digest, its facts, the digest of the proposal that it ends."""
    for page in database.pages("SELECT seq, kind, at, session, digest FROM journal", "seq"):
        span = (page[0][0], page[-1][0])
        facts: defaultdict[object, list[Values]] = defaultdict(list)
        for table, columns in FACTS.items():
            seq = _SEQ.get(table, "seq")
            for row in database.rows(f"SELECT {columns} FROM {table} WHERE {seq} BETWEEN ? AND ?", span):
                facts[row[seq]].append((table, tuple(row)))
        ended = "SELECT r.seq, p.digest FROM results r JOIN proposals p ON p.step = r.step WHERE r.seq BETWEEN ? AND ?"
        proposals = {row["seq"]: row["digest"] for row in database.rows(ended, span)}
        yield [(row[:-1], row[-1], facts[row[0]], proposals.get(row[0], b"")) for row in page]


def _proposals(database: Database) -> Iterator[list[tuple[object, bytes, bytes]]]:
    """Yield pages of steps, each with the stored digest of its proposal and the one that the rows give."""
    width = len(PROPOSAL_COLUMNS.split(", "))
    made, born = (
        ", ".join(f"{table}.{name}" for name in columns.split(", "))
        for table, columns in (("p", PROPOSAL_COLUMNS), ("c", CANDIDATE_COLUMNS))
    )
    tables = "proposals p LEFT JOIN candidates c ON c.id = p.candidate AND c.born = p.step"
    for page in database.pages(f"SELECT {made}, {born}, p.digest FROM {tables}", "p.step"):
        edges: defaultdict[object, list[Values]] = defaultdict(list)
        sql = "SELECT step, ordinal, candidate, kind FROM parents WHERE step BETWEEN ? AND ? ORDER BY step, ordinal"
        for step, *edge in database.rows(sql, (page[0][0], page[-1][0])):
            edges[step].append(tuple(edge))
        yield [
            (row[0], row[-1], proposal_digest(row[:width], edges=edges[row[0]],
                                              candidate=None if row[width] is None else row[width:-1]))
            for row in page
        ]  # fmt: skip
