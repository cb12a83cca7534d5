"""Migrations of the file, as numbered steps. A released step is never edited: add another.

The version of a file is the number of steps that it has had.
"""

from collections.abc import Callable

from archive.file import chain, checksums
from archive.file.database import Database

Step = Callable[[Database], None]

_FIRST = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE journal(
  seq INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, at REAL NOT NULL, session INTEGER REFERENCES sessions(id)
) STRICT;

CREATE TABLE sessions(
  id INTEGER PRIMARY KEY AUTOINCREMENT, pid INTEGER NOT NULL, host TEXT NOT NULL,
  started REAL NOT NULL, last_seen REAL NOT NULL, seconds REAL NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE texts(hash TEXT PRIMARY KEY, size_bytes INTEGER NOT NULL, body BLOB NOT NULL) STRICT;

CREATE TABLE candidates(
  id TEXT PRIMARY KEY, language TEXT NOT NULL, text TEXT NOT NULL REFERENCES texts(hash),
  program_hash TEXT NOT NULL, skeleton TEXT NOT NULL, born INTEGER NOT NULL, origin TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX candidates_skeleton ON candidates(skeleton);

CREATE TABLE proposals(
  step INTEGER PRIMARY KEY, candidate TEXT REFERENCES candidates(id), operator TEXT NOT NULL, island TEXT NOT NULL,
  asked_seq INTEGER NOT NULL, rationale TEXT NOT NULL, predicted_speedup REAL, model TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, cost_usd REAL, duration_s REAL,
  at REAL NOT NULL, origin TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX proposals_candidate ON proposals(candidate);
CREATE INDEX proposals_cost ON proposals(cost_usd) WHERE cost_usd > 0 AND origin = '';

CREATE TABLE parents(
  step INTEGER NOT NULL REFERENCES proposals(step), ordinal INTEGER NOT NULL,
  candidate TEXT NOT NULL REFERENCES candidates(id), kind TEXT NOT NULL CHECK (kind IN ('parent', 'inspiration')),
  PRIMARY KEY (step, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX parents_candidate ON parents(candidate);

CREATE TABLE leases(
  step INTEGER PRIMARY KEY REFERENCES proposals(step), owner INTEGER REFERENCES sessions(id), since REAL NOT NULL
) STRICT;

CREATE TABLE evaluations(
  seq INTEGER PRIMARY KEY REFERENCES journal(seq), key_digest TEXT NOT NULL, program_hash TEXT NOT NULL,
  task_hash TEXT NOT NULL, device TEXT NOT NULL, environment TEXT NOT NULL, evaluator_version TEXT NOT NULL,
  mode TEXT NOT NULL, budget TEXT NOT NULL, candidate TEXT NOT NULL REFERENCES candidates(id),
  status TEXT NOT NULL, stage TEXT NOT NULL, timings TEXT NOT NULL, panel TEXT NOT NULL, descriptor TEXT NOT NULL,
  metrics TEXT NOT NULL, feedback TEXT NOT NULL, artifact_hash TEXT NOT NULL, stopped_early INTEGER NOT NULL,
  duration_s REAL, sandbox TEXT NOT NULL, speedup REAL, speedup_low REAL, origin TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX evaluations_program ON evaluations(program_hash);

CREATE TABLE results(
  seq INTEGER PRIMARY KEY REFERENCES journal(seq), step INTEGER NOT NULL UNIQUE REFERENCES proposals(step),
  evaluation INTEGER REFERENCES evaluations(seq)
) STRICT;

CREATE TABLE inbox(
  id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, payload TEXT NOT NULL, author TEXT NOT NULL,
  created REAL NOT NULL, taken_seq INTEGER UNIQUE REFERENCES journal(seq)
) STRICT;
CREATE INDEX inbox_waiting ON inbox(id) WHERE taken_seq IS NULL;

CREATE TABLE config_edits(
  seq INTEGER PRIMARY KEY REFERENCES journal(seq), key TEXT NOT NULL, old TEXT NOT NULL, new TEXT NOT NULL
) STRICT;

CREATE TABLE stops(seq INTEGER PRIMARY KEY REFERENCES journal(seq), reason TEXT NOT NULL) STRICT;
"""


def v1_first(database: Database) -> None:
    """Make all tables of the first released shape."""
    _run(database, _FIRST)


_MODELS = """
CREATE TABLE calls(
  number INTEGER PRIMARY KEY AUTOINCREMENT, step INTEGER NOT NULL, ordinal INTEGER NOT NULL, island TEXT NOT NULL,
  operator TEXT NOT NULL, parents TEXT NOT NULL, insights TEXT NOT NULL, role TEXT NOT NULL, model TEXT NOT NULL,
  key TEXT NOT NULL, sample INTEGER NOT NULL, parameters TEXT NOT NULL, prompt TEXT NOT NULL REFERENCES texts(hash),
  reserved_tokens INTEGER NOT NULL, reserved_usd REAL NOT NULL, at REAL NOT NULL,
  session INTEGER REFERENCES sessions(id), status TEXT NOT NULL, reply TEXT REFERENCES texts(hash),
  answered_by TEXT, prompt_tokens INTEGER, completion_tokens INTEGER, cost_usd REAL, duration_s REAL
) STRICT;
CREATE INDEX calls_step ON calls(step, ordinal);
CREATE INDEX calls_key ON calls(key, sample);

CREATE TABLE insights(
  seq INTEGER PRIMARY KEY REFERENCES journal(seq), step INTEGER NOT NULL UNIQUE REFERENCES proposals(step),
  island TEXT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL REFERENCES texts(hash),
  candidate TEXT REFERENCES candidates(id), predicted_speedup REAL, sources TEXT NOT NULL
) STRICT;

ALTER TABLE proposals ADD COLUMN insights TEXT NOT NULL DEFAULT '[]';
ALTER TABLE proposals ADD COLUMN exhausted INTEGER NOT NULL DEFAULT 1;

DROP INDEX proposals_cost;
CREATE INDEX proposals_usage ON proposals(step, prompt_tokens, completion_tokens, cost_usd)
  WHERE (cost_usd > 0 OR prompt_tokens + completion_tokens > 0) AND origin = '';
"""


def v2_models(database: Database) -> None:
    """Add tables for calls of models and for their insights."""
    _run(database, _MODELS)


_IMAGES = """
CREATE TABLE images(
  name TEXT PRIMARY KEY, seq INTEGER NOT NULL, fits TEXT NOT NULL, body BLOB NOT NULL
) STRICT;
"""


def v3_images(database: Database) -> None:
    """Add a table for snapshots of the state, which may be dropped at any time."""
    _run(database, _IMAGES)


_DIGESTS = """
ALTER TABLE journal ADD COLUMN digest BLOB NOT NULL DEFAULT x'';
ALTER TABLE proposals ADD COLUMN digest BLOB NOT NULL DEFAULT x'';

ALTER TABLE meta ADD COLUMN checksum BLOB NOT NULL DEFAULT x'';
ALTER TABLE sessions ADD COLUMN checksum BLOB NOT NULL DEFAULT x'';
ALTER TABLE leases ADD COLUMN checksum BLOB NOT NULL DEFAULT x'';
ALTER TABLE inbox ADD COLUMN checksum BLOB NOT NULL DEFAULT x'';
ALTER TABLE calls ADD COLUMN checksum BLOB NOT NULL DEFAULT x'';

CREATE TABLE remarks(
  id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, session INTEGER REFERENCES sessions(id), kind TEXT NOT NULL,
  step INTEGER, candidate TEXT, text TEXT NOT NULL, detail TEXT NOT NULL, checksum BLOB NOT NULL DEFAULT x''
) STRICT;
"""


def v4_digests(database: Database) -> None:
    """Add remarks and digests, and write the digests of all present rows."""
    _run(database, _DIGESTS)
    chain.sign_all(database)
    checksums.sign_all(database)


def _run(database: Database, statements: str) -> None:
    for statement in statements.split(";"):
        if statement.strip():
            database.execute(statement)


STEPS: tuple[Step, ...] = (v1_first, v2_models, v3_images, v4_digests)
