-- The number of the newest of these scripts that was run.
CREATE TABLE version (
    number integer NOT NULL
);

-- The last transaction. Whoever lost the connection at COMMIT reads here whether it was done.
CREATE TABLE marks (
    shard  integer PRIMARY KEY,
    number bigint NOT NULL
) WITH (fillfactor = 10);

-- `device` has its provider in it. `held` is how many subscriptions the token has.
CREATE TABLE tokens (
    id               bytea PRIMARY KEY,
    device           bytea NOT NULL,
    verify_key       bytea NOT NULL,
    private          bytea NOT NULL,
    key              bytea NOT NULL,
    code             bytea NOT NULL,
    status           text NOT NULL,
    reason           text,
    interval_minutes bigint NOT NULL,
    checked_at       bigint,
    used_day         bigint NOT NULL,
    held             bigint NOT NULL DEFAULT 0,
    UNIQUE (device, verify_key)
);

-- Whose periodic pushes may be due.
CREATE INDEX tokens_by_interval ON tokens (id) WHERE interval_minutes > 0;

-- One address with two key hashes is two routers. `address` is as it was written last. Without
-- credentials there is no service: nothing is counted.
CREATE TABLE routers (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host        text NOT NULL,
    port        bigint NOT NULL,
    key_hash    bytea NOT NULL,
    address     bytea NOT NULL,
    certificate bytea,
    private_key bytea,
    fingerprint bytea,
    service_id  bytea,
    count       bigint NOT NULL DEFAULT 0,
    xor         bytea NOT NULL DEFAULT '\x00000000000000000000000000000000',
    UNIQUE (host, port, key_hash)
);

-- The error is bytes, as it is whatever a router sent.
CREATE TABLE subscriptions (
    id           bytea PRIMARY KEY,
    token        bytea NOT NULL,
    router       bigint NOT NULL,
    notifier     bytea NOT NULL,
    notifier_key bytea NOT NULL,
    address      bytea NOT NULL,
    status       text NOT NULL,
    error        bytea NOT NULL,
    assoc        boolean NOT NULL,
    UNIQUE (router, notifier)
);
CREATE INDEX subscriptions_by_token ON subscriptions (token, id);
CREATE INDEX subscriptions_by_status ON subscriptions (router, status, notifier);
CREATE INDEX subscriptions_of_service ON subscriptions (router, notifier) WHERE assoc;

-- The last notice of a subscription. Numbers grow with arrival. One that is `waiting` was in no push
-- that a provider has answered.
CREATE TABLE notices (
    number       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token        bytea NOT NULL,
    subscription bytea NOT NULL UNIQUE,
    seconds      bigint NOT NULL,
    nonce        bytea NOT NULL,
    metadata     bytea NOT NULL,
    waiting      boolean NOT NULL
);
CREATE INDEX notices_by_token ON notices (token, number);
CREATE INDEX notices_waiting ON notices (token) WHERE waiting;
