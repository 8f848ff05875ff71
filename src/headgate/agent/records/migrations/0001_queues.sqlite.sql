-- What is subscribed to and written to, and by whom.
PRAGMA application_id = 0x48474147;

CREATE TABLE users (
    id       INTEGER PRIMARY KEY,
    services INTEGER NOT NULL
);

-- One address with two key hashes is two routers.
CREATE TABLE routers (
    id           INTEGER PRIMARY KEY,
    host         TEXT NOT NULL,
    port         INTEGER NOT NULL,
    key_hash     BLOB NOT NULL,
    hosts        TEXT NOT NULL,    -- all names as they were given, with commas between them
    written_port INTEGER,
    password     TEXT,
    UNIQUE (host, port, key_hash)
);

CREATE TABLE services (
    user        INTEGER NOT NULL,
    router      INTEGER NOT NULL,
    certificate BLOB NOT NULL,
    private_key BLOB NOT NULL,
    fingerprint BLOB NOT NULL,
    service_id  BLOB,
    count       INTEGER NOT NULL DEFAULT 0,
    xor         BLOB NOT NULL DEFAULT x'00000000000000000000000000000000',
    PRIMARY KEY (user, router)
) WITHOUT ROWID;

CREATE TABLE connections (
    id            BLOB PRIMARY KEY,
    user          INTEGER NOT NULL,
    kind          TEXT NOT NULL,
    status        TEXT NOT NULL,
    name          TEXT,
    agent_version INTEGER,
    e2e_version   INTEGER,
    pq            INTEGER NOT NULL,
    sent_id       INTEGER NOT NULL,
    sent_hash     BLOB NOT NULL,
    received_id   INTEGER NOT NULL,
    received_hash BLOB NOT NULL,
    info          BLOB,
    deleted       INTEGER NOT NULL
);
CREATE UNIQUE INDEX connection_names ON connections (user, name) WHERE name IS NOT NULL;
CREATE INDEX connections_of_user ON connections (user, id);

-- `user` is that of the connection; it is here for the index of pages. Who deletes a queue takes
-- it out of its service.
CREATE TABLE receive_queues (
    router         INTEGER NOT NULL,
    recipient_id   BLOB NOT NULL,
    user           INTEGER NOT NULL,
    connection     BLOB NOT NULL,
    key_kind       TEXT NOT NULL,
    private_key    BLOB NOT NULL,
    dh_key         BLOB NOT NULL,
    e2e_private    BLOB NOT NULL,
    e2e_key        BLOB,
    client_version INTEGER NOT NULL,
    sender_id      BLOB NOT NULL,
    mode           TEXT NOT NULL,
    status         TEXT NOT NULL,
    assoc          INTEGER NOT NULL,
    deleted        INTEGER NOT NULL,
    notice         BLOB,
    notifier_id    BLOB,
    notifier_key   BLOB,
    notice_key     BLOB,
    link_id        BLOB,
    link_key       BLOB,
    link_root_key  BLOB,
    link_fixed     BLOB,
    PRIMARY KEY (router, recipient_id),
    CHECK (NOT (assoc AND deleted))
) WITHOUT ROWID;
CREATE INDEX receive_queue_pages ON receive_queues (user, router, assoc, recipient_id) WHERE deleted = 0;
CREATE INDEX receive_queues_of_connection ON receive_queues (connection);

CREATE TABLE send_queues (
    router         INTEGER NOT NULL,
    sender_id      BLOB NOT NULL,
    connection     BLOB NOT NULL,
    private_key    BLOB,
    e2e_key        BLOB,
    e2e_public     BLOB,
    client_version INTEGER NOT NULL,
    mode           TEXT NOT NULL,
    status         TEXT NOT NULL,
    PRIMARY KEY (router, sender_id)
) WITHOUT ROWID;
CREATE INDEX send_queues_of_connection ON send_queues (connection);

-- What has to be done at a router and was not yet: SKEY, confirmation, DEL and others.
CREATE TABLE commands (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    connection BLOB NOT NULL,
    router     INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    arguments  BLOB NOT NULL,
    attempts   INTEGER NOT NULL
);
CREATE INDEX commands_of_connection ON commands (connection, id);
CREATE INDEX commands_of_router ON commands (router, id);
