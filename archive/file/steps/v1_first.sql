-- All tables of the first released shape.
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
