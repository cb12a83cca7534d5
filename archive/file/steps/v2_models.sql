-- Tables for calls of models and for their insights.
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
