-- The resources. An address belongs to its resource for as long as that is there.
CREATE TABLE resources (
	id         TEXT PRIMARY KEY,
	kind       TEXT NOT NULL,
	name       TEXT NOT NULL,
	generation INTEGER NOT NULL,
	created    TEXT NOT NULL,
	updated    TEXT NOT NULL,
	spec       TEXT NOT NULL,
	addrs      TEXT NOT NULL,
	UNIQUE (kind, name)
) STRICT;

-- What is true of the daemon as a whole.
CREATE TABLE settings (
	key   TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT;
