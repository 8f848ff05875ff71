-- Facts that are not sealed into the journal yet: one row per job, numbered first to last.
CREATE TABLE outbox (
    first bigint PRIMARY KEY,
    last  bigint NOT NULL,
    facts bytea NOT NULL
);
