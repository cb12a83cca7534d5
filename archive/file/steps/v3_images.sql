-- A table for snapshots of the state, which may be dropped at any time.
CREATE TABLE images(
  name TEXT PRIMARY KEY, seq INTEGER NOT NULL, fits TEXT NOT NULL, body BLOB NOT NULL
) STRICT;
