-- Remarks, and columns for digests and checksums, which the step then writes for all present rows.
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
