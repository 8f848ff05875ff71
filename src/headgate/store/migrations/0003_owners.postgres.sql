-- The number of the last fact that was sealed: facts go on from it wherever the next journal is.
ALTER TABLE marks ADD COLUMN sealed bigint NOT NULL DEFAULT 0;

-- Who has a shard. The lock decides it; this is what who waits for it has to know.
CREATE TABLE owners (
    shard       integer PRIMARY KEY,
    -- How often it changed hands: who finds another number than its own has lost it.
    term        bigint NOT NULL,
    name        bytea NOT NULL,
    since       timestamptz NOT NULL DEFAULT now(),
    -- After so many seconds of silence it may be taken from its owner; never, if this is NULL.
    seconds     double precision,
    -- By what clients of SMP know the router, if it listens for them.
    fingerprint bytea
);
