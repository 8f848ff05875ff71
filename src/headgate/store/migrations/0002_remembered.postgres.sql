-- Ids of messages of shared queues that are no longer there, to recognise one that is sent again:
-- a row for what one batch deleted of one queue, and when the newest of these was accepted.
CREATE TABLE remembered (
    queue bigint NOT NULL,
    at    double precision NOT NULL,
    known bytea NOT NULL
);

-- Ids do not become smaller, and to try takes time.
ALTER TABLE remembered ALTER COLUMN known SET STORAGE EXTERNAL;

CREATE INDEX remembered_by_queue ON remembered (queue, at);
