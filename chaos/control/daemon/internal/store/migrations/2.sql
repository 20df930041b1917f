-- The runs, which go with their experiment. doc is the run as the API has it, input
-- the definition that is run, last_event the greatest number that an event of it
-- can have.
CREATE TABLE runs (
	seq           INTEGER PRIMARY KEY AUTOINCREMENT,
	id            TEXT NOT NULL UNIQUE,
	experiment_id TEXT NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
	key           TEXT,
	doc           TEXT NOT NULL,
	input         TEXT NOT NULL,
	last_event    INTEGER NOT NULL,
	experiment    TEXT AS (doc ->> '$.experiment'),
	state         TEXT AS (doc ->> '$.state'),
	UNIQUE (experiment_id, key)
) STRICT;
CREATE INDEX runs_by_experiment ON runs (experiment_id, seq);
CREATE INDEX runs_by_state ON runs (state);

-- The news of runs that is worth keeping.
CREATE TABLE events (
	run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
	n      INTEGER NOT NULL,
	doc    TEXT NOT NULL,
	PRIMARY KEY (run_id, n)
) STRICT, WITHOUT ROWID;

-- The journals, compressed.
CREATE TABLE journals (
	run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
	n      INTEGER NOT NULL,
	data   BLOB NOT NULL,
	PRIMARY KEY (run_id, n)
) STRICT;
