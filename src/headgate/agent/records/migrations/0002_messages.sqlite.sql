-- Messages in both directions, and what opens and seals them.
CREATE TABLE ratchets (
    connection    BLOB PRIMARY KEY,
    x3dh_1        BLOB,
    x3dh_2        BLOB,
    kem_secret    BLOB,
    state         BLOB,
    joiner_params BLOB
) WITHOUT ROWID;

CREATE TABLE skipped_keys (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    connection BLOB NOT NULL,
    header_key BLOB NOT NULL,
    n          INTEGER NOT NULL,
    key        BLOB NOT NULL,
    iv         BLOB NOT NULL,
    UNIQUE (connection, header_key, n)
);
CREATE INDEX skipped_keys_by_age ON skipped_keys (connection, number);

-- A message has its body until it is acknowledged; what recognises it when it comes again
-- stays longer. Ids grow with arrival and are never used again.
CREATE TABLE received (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    connection     BLOB NOT NULL,
    router         INTEGER NOT NULL,
    recipient_id   BLOB NOT NULL,
    broker_id      BLOB NOT NULL,
    broker_seconds INTEGER NOT NULL,
    peer_id        INTEGER,
    hash           BLOB,
    prev_hash      BLOB,
    sealed_hash    BLOB NOT NULL,
    kind           TEXT NOT NULL,
    flags          INTEGER NOT NULL,
    acked          INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    first_seconds  REAL NOT NULL,
    body           BLOB
);
CREATE UNIQUE INDEX received_by_broker_id ON received (router, recipient_id, broker_id);
CREATE UNIQUE INDEX received_by_sealed_hash ON received (connection, sealed_hash);
CREATE INDEX received_waiting ON received (connection, id) WHERE acked = 0;
CREATE INDEX received_by_age ON received (first_seconds) WHERE acked = 1;

CREATE TABLE outgoing (
    connection    BLOB NOT NULL,
    id            INTEGER NOT NULL,
    kind          TEXT NOT NULL,
    flags         INTEGER NOT NULL,
    hash          BLOB NOT NULL,
    created       REAL NOT NULL,
    seal_key      BLOB,
    iv            BLOB,
    header        BLOB,
    padded_length INTEGER,
    body          BLOB NOT NULL,
    PRIMARY KEY (connection, id)
);

-- Which message waits for which send queue, in the order of sending. `fast` and `slow` are the
-- delays reached after errors and after QUOTA; they outlive a restart.
CREATE TABLE deliveries (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    router     INTEGER NOT NULL,
    sender_id  BLOB NOT NULL,
    connection BLOB NOT NULL,
    id         INTEGER NOT NULL,
    created    REAL NOT NULL,
    fast       REAL NOT NULL,
    slow       REAL NOT NULL
);
CREATE INDEX deliveries_of_queue ON deliveries (router, sender_id, number);
CREATE INDEX deliveries_of_message ON deliveries (connection, id);

-- What peers sent and the application has not answered.
CREATE TABLE confirmations (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    connection BLOB NOT NULL,
    content    BLOB NOT NULL,
    info       BLOB NOT NULL,
    created    REAL NOT NULL
);
CREATE INDEX confirmations_of_connection ON confirmations (connection, id);

CREATE TABLE requests (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    connection BLOB NOT NULL,
    content    BLOB NOT NULL,
    info       BLOB NOT NULL,
    created    REAL NOT NULL
);
CREATE INDEX requests_of_connection ON requests (connection, id);
