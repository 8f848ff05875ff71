-- Devices and the apps that registered them, what they want to be woken for, and the last notices.
PRAGMA application_id = 0x48474e54;

-- `device` has its provider in it. `held` is how many subscriptions the token has.
CREATE TABLE tokens (
    id               BLOB PRIMARY KEY,
    device           BLOB NOT NULL,
    verify_key       BLOB NOT NULL,
    private          BLOB NOT NULL,
    key              BLOB NOT NULL,
    code             BLOB NOT NULL,
    status           TEXT NOT NULL,
    reason           TEXT,
    interval_minutes INTEGER NOT NULL,
    checked_at       INTEGER,
    used_day         INTEGER NOT NULL,
    held             INTEGER NOT NULL DEFAULT 0,
    UNIQUE (device, verify_key)
) WITHOUT ROWID;

-- Whose periodic pushes may be due.
CREATE INDEX tokens_by_interval ON tokens (id) WHERE interval_minutes > 0;

-- One address with two key hashes is two routers. `address` is as it was written last. Without
-- credentials there is no service: nothing is counted.
CREATE TABLE routers (
    number      INTEGER PRIMARY KEY,
    host        TEXT NOT NULL,
    port        INTEGER NOT NULL,
    key_hash    BLOB NOT NULL,
    address     BLOB NOT NULL,
    certificate BLOB,
    private_key BLOB,
    fingerprint BLOB,
    service_id  BLOB,
    count       INTEGER NOT NULL DEFAULT 0,
    xor         BLOB NOT NULL DEFAULT x'00000000000000000000000000000000',
    UNIQUE (host, port, key_hash)
);

-- The error is bytes, as it is whatever a router sent.
CREATE TABLE subscriptions (
    id           BLOB PRIMARY KEY,
    token        BLOB NOT NULL,
    router       INTEGER NOT NULL,
    notifier     BLOB NOT NULL,
    notifier_key BLOB NOT NULL,
    address      BLOB NOT NULL,
    status       TEXT NOT NULL,
    error        BLOB NOT NULL,
    assoc        INTEGER NOT NULL,
    UNIQUE (router, notifier)
) WITHOUT ROWID;
CREATE INDEX subscriptions_by_token ON subscriptions (token, id);
CREATE INDEX subscriptions_by_status ON subscriptions (router, status, notifier);
CREATE INDEX subscriptions_of_service ON subscriptions (router, notifier) WHERE assoc;

-- The last notice of a subscription. Numbers grow with arrival, and none comes twice. One that is
-- `waiting` was in no push that a provider has answered.
CREATE TABLE notices (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    token        BLOB NOT NULL,
    subscription BLOB NOT NULL UNIQUE,
    seconds      INTEGER NOT NULL,
    nonce        BLOB NOT NULL,
    metadata     BLOB NOT NULL,
    waiting      INTEGER NOT NULL
);
CREATE INDEX notices_by_token ON notices (token, number);
CREATE INDEX notices_waiting ON notices (token) WHERE waiting;
