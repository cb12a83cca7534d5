BEGIN TRANSACTION;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO "_sqlite_migrations" VALUES(1,'evokernel','v1_first','2026-11-21 21:54:28.225466+00:00');
CREATE TABLE candidates(
  id TEXT PRIMARY KEY, language TEXT NOT NULL, text TEXT NOT NULL REFERENCES texts(hash),
  program_hash TEXT NOT NULL, skeleton TEXT NOT NULL, born INTEGER NOT NULL, origin TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO "candidates" VALUES('49d0ad5c7c2506f1','cpp','28dacd04958f0d722c81eb7bf7f5d9ff451eaa548657265efa8126b9245690ee','p1','s',1,'');
INSERT INTO "candidates" VALUES('3e83177da0107ad4','cpp','d84351390e8bbec89e24fbe66ea050ddbe32f860f3c71b8cd718866f8f83c2a1','p3','s',3,'');
INSERT INTO "candidates" VALUES('6780d06cd94be7fd','cpp','20d9f7319bdc078f5018c5bb0cc5027b2c6d0002184d0a4081e0cc877ad7535f','p5','s',5,'');
CREATE TABLE config_edits(
  seq INTEGER PRIMARY KEY REFERENCES journal(seq), key TEXT NOT NULL, old TEXT NOT NULL, new TEXT NOT NULL
) STRICT;
INSERT INTO "config_edits" VALUES(6,'budget.evaluations','10','20');
CREATE TABLE evaluations(
  seq INTEGER PRIMARY KEY REFERENCES journal(seq), key_digest TEXT NOT NULL, program_hash TEXT NOT NULL,
  task_hash TEXT NOT NULL, device TEXT NOT NULL, environment TEXT NOT NULL, evaluator_version TEXT NOT NULL,
  mode TEXT NOT NULL, budget TEXT NOT NULL, candidate TEXT NOT NULL REFERENCES candidates(id),
  status TEXT NOT NULL, stage TEXT NOT NULL, timings TEXT NOT NULL, panel TEXT NOT NULL, descriptor TEXT NOT NULL,
  metrics TEXT NOT NULL, feedback TEXT NOT NULL, artifact_hash TEXT NOT NULL, stopped_early INTEGER NOT NULL,
  duration_s REAL, sandbox TEXT NOT NULL, speedup REAL, speedup_low REAL, origin TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO "evaluations" VALUES(1,'462b2a7d321ef28e','p1','t0','Some CPU','gcc 12','1','worker','quick','49d0ad5c7c2506f1','ok','quick timing','[{"workload":"n64","baseline":"torch","weight":1.0,"candidate_us":2.0,"baseline_us":2.0,"log_speedup":0.0,"log_error":0.01,"pairs":10,"verdict":"same","floor_us":null}]','{}','{}','{}','','',0,0.0,'',1.0,9.80590831202428403479e-01,'');
INSERT INTO "evaluations" VALUES(3,'17e91927bcf675d8','p3','t0','Some CPU','gcc 12','1','worker','quick','3e83177da0107ad4','ok','quick timing','[{"workload":"n64","baseline":"torch","weight":1.0,"candidate_us":2.0,"baseline_us":2.0,"log_speedup":0.5,"log_error":0.01,"pairs":10,"verdict":"same","floor_us":null}]','{}','{}','{}','','',0,0.0,'',1.64872127070012819416e+00,1.6167209612569626298e+00,'');
INSERT INTO "evaluations" VALUES(4,'f059490c43849274','p3','t0','Some CPU','gcc 12','1','worker','precise','3e83177da0107ad4','ok','quick timing','[{"workload":"n64","baseline":"torch","weight":1.0,"candidate_us":2.0,"baseline_us":2.0,"log_speedup":0.4,"log_error":0.01,"pairs":10,"verdict":"same","floor_us":null}]','{}','{}','{}','','',0,0.0,'',1.4918246976412703475e+00,1.46286962026836464545e+00,'');
CREATE TABLE inbox(
  id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, payload TEXT NOT NULL, author TEXT NOT NULL,
  created REAL NOT NULL, taken_seq INTEGER UNIQUE REFERENCES journal(seq)
) STRICT;
INSERT INTO "inbox" VALUES(1,'hint','{"text": "try 8x8"}','me',1.79529806823000526432e+09,5);
INSERT INTO "inbox" VALUES(2,'source','{"source": "void run() {}"}','',1.79529806823109269143e+09,NULL);
CREATE TABLE journal(
  seq INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, at REAL NOT NULL, session INTEGER REFERENCES sessions(id)
) STRICT;
INSERT INTO "journal" VALUES(1,'result',1.79529806822775793071e+09,1);
INSERT INTO "journal" VALUES(2,'barren',1.79529806822822952266e+09,1);
INSERT INTO "journal" VALUES(3,'result',1.7952980682287511825e+09,1);
INSERT INTO "journal" VALUES(4,'evaluation',1.79529806822902202609e+09,1);
INSERT INTO "journal" VALUES(5,'inbox',1.79529806823028278356e+09,1);
INSERT INTO "journal" VALUES(6,'config_edit',1.7952980682313797474e+09,1);
INSERT INTO "journal" VALUES(7,'stop',1.79529806823179960252e+09,1);
CREATE TABLE leases(
  step INTEGER PRIMARY KEY REFERENCES proposals(step), owner INTEGER REFERENCES sessions(id), since REAL NOT NULL
) STRICT;
INSERT INTO "leases" VALUES(5,1,1.79529806823151373866e+09);
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('created','1795298068.2269561');
INSERT INTO "meta" VALUES('identity','{"task":"gemm","task_hash":"t0","seed":7,"language":"cpp","device":"Some CPU","environment":"gcc 12","evokernel_version":"0.1.0","task_spec":{"precision":{"slack":4.0},"name":"gemm"}}');
INSERT INTO "meta" VALUES('run_id','ed8c16b010b6');
CREATE TABLE parents(
  step INTEGER NOT NULL REFERENCES proposals(step), ordinal INTEGER NOT NULL,
  candidate TEXT NOT NULL REFERENCES candidates(id), kind TEXT NOT NULL CHECK (kind IN ('parent', 'inspiration')),
  PRIMARY KEY (step, ordinal)
) STRICT, WITHOUT ROWID;
INSERT INTO "parents" VALUES(2,0,'49d0ad5c7c2506f1','parent');
INSERT INTO "parents" VALUES(3,0,'49d0ad5c7c2506f1','parent');
INSERT INTO "parents" VALUES(3,1,'49d0ad5c7c2506f1','inspiration');
INSERT INTO "parents" VALUES(5,0,'3e83177da0107ad4','parent');
CREATE TABLE proposals(
  step INTEGER PRIMARY KEY, candidate TEXT REFERENCES candidates(id), operator TEXT NOT NULL, island TEXT NOT NULL,
  asked_seq INTEGER NOT NULL, rationale TEXT NOT NULL, predicted_speedup REAL, model TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, cost_usd REAL, duration_s REAL,
  at REAL NOT NULL, origin TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO "proposals" VALUES(1,'49d0ad5c7c2506f1','seed','*',0,'seed',NULL,'',0,0,0.0,0.5,1.79529806822716522223e+09,'');
INSERT INTO "proposals" VALUES(2,NULL,'rewrite','main',1,'nothing left',NULL,'m',1,2,0.5,0.0,1.79529806822813081746e+09,'');
INSERT INTO "proposals" VALUES(3,'3e83177da0107ad4','tune','main',0,'unroll',1.5,'m',100,20,0.25,1.5,1.79529806822839212415e+09,'');
INSERT INTO "proposals" VALUES(5,'6780d06cd94be7fd','tune','main',0,'',NULL,'',0,0,0.0,0.5,1.79529806823151373866e+09,'');
CREATE TABLE results(
  seq INTEGER PRIMARY KEY REFERENCES journal(seq), step INTEGER NOT NULL UNIQUE REFERENCES proposals(step),
  evaluation INTEGER REFERENCES evaluations(seq)
) STRICT;
INSERT INTO "results" VALUES(1,1,1);
INSERT INTO "results" VALUES(2,2,NULL);
INSERT INTO "results" VALUES(3,3,3);
CREATE TABLE sessions(
  id INTEGER PRIMARY KEY AUTOINCREMENT, pid INTEGER NOT NULL, host TEXT NOT NULL,
  started REAL NOT NULL, last_seen REAL NOT NULL, seconds REAL NOT NULL DEFAULT 0
) STRICT;
INSERT INTO "sessions" VALUES(1,28202,'somewhere',1.79529806822667980193e+09,1.79529806823178958896e+09,9.0);
CREATE TABLE stops(seq INTEGER PRIMARY KEY REFERENCES journal(seq), reason TEXT NOT NULL) STRICT;
INSERT INTO "stops" VALUES(7,'enough');
CREATE TABLE texts(hash TEXT PRIMARY KEY, size_bytes INTEGER NOT NULL, body BLOB NOT NULL) STRICT;
INSERT INTO "texts" VALUES('28dacd04958f0d722c81eb7bf7f5d9ff451eaa548657265efa8126b9245690ee',16,X'28B52FFD2010810000766F69642072756E5F312829207B7D0A');
INSERT INTO "texts" VALUES('d84351390e8bbec89e24fbe66ea050ddbe32f860f3c71b8cd718866f8f83c2a1',16,X'28B52FFD2010810000766F69642072756E5F332829207B7D0A');
INSERT INTO "texts" VALUES('20d9f7319bdc078f5018c5bb0cc5027b2c6d0002184d0a4081e0cc877ad7535f',16,X'28B52FFD2010810000766F69642072756E5F352829207B7D0A');
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE INDEX candidates_skeleton ON candidates(skeleton);
CREATE INDEX proposals_candidate ON proposals(candidate);
CREATE INDEX proposals_cost ON proposals(cost_usd) WHERE cost_usd > 0 AND origin = '';
CREATE INDEX parents_candidate ON parents(candidate);
CREATE INDEX evaluations_program ON evaluations(program_hash);
CREATE INDEX inbox_waiting ON inbox(id) WHERE taken_seq IS NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('sessions',1);
INSERT INTO "sqlite_sequence" VALUES('journal',7);
INSERT INTO "sqlite_sequence" VALUES('inbox',2);
COMMIT;
PRAGMA application_id = 1702259505;
PRAGMA user_version = 1;
