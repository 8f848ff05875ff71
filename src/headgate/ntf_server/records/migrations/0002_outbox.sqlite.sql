-- Facts that are not sealed into the journal yet: one row per job, numbered first to last.
CREATE TABLE outbox (
    first INTEGER PRIMARY KEY,
    last  INTEGER NOT NULL,
    facts BLOB NOT NULL
);
