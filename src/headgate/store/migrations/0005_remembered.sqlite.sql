-- Ids of messages of shared queues that are no longer there, to recognise one that is sent again:
-- a row for what one batch deleted of one queue, and when the newest of these was accepted.
CREATE TABLE remembered (
    queue INTEGER NOT NULL,
    at    REAL NOT NULL,
    known BLOB NOT NULL,
    PRIMARY KEY (queue, at, known)
) WITHOUT ROWID;
