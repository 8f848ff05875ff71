-- The last batch of each sink that is in its queue: a batch that comes again is not done again.
CREATE TABLE sinks (
    id    TEXT PRIMARY KEY,
    batch INTEGER NOT NULL,
    at    REAL NOT NULL
) WITHOUT ROWID;
