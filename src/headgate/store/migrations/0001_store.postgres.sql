-- The number of the newest of these scripts that was run.
CREATE TABLE version (
    number integer NOT NULL
);

-- The last batch of each shard. Whoever lost the connection at COMMIT reads here whether it was
-- done; and two routers that both believe to be the only one cannot both go on from a number.
CREATE TABLE marks (
    shard  integer PRIMARY KEY,
    number bigint NOT NULL
) WITH (fillfactor = 10);

-- Names are bytes, as text takes no NUL, and not every database is in UTF-8.
--
-- Messages name their queue by a number: ids are chosen by peers and may be long. Whether two
-- queues have the same id of a party is a matter of what they have when a batch is done.
CREATE TABLE queues (
    number           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id               bytea NOT NULL UNIQUE,
    domain           bytea NOT NULL,
    service          bytea,
    is_full          boolean NOT NULL,
    sender           bytea UNIQUE DEFERRABLE INITIALLY DEFERRED,
    notifier         bytea UNIQUE DEFERRABLE INITIALLY DEFERRED,
    link             bytea UNIQUE DEFERRABLE INITIALLY DEFERRED,
    notifier_service bytea,
    parties          bytea
);

-- Keys and what is encrypted do not become smaller, and to try takes time.
ALTER TABLE queues ALTER COLUMN parties SET STORAGE EXTERNAL;

-- The pages of a sweep, in the order of the ids.
CREATE INDEX queues_by_service ON queues (service, id) WHERE service IS NOT NULL;

CREATE INDEX queues_by_domain ON queues (domain);

-- What an audit counts of notifiers, without touching the queues.
CREATE INDEX queues_by_notifier_service ON queues (notifier_service, notifier)
WHERE notifier_service IS NOT NULL;

CREATE TABLE messages (
    seq        bigint PRIMARY KEY,
    queue      bigint NOT NULL,
    arrived    double precision NOT NULL,
    size       bigint NOT NULL,
    id         bytea NOT NULL,
    properties bytea NOT NULL,
    body       bytea NOT NULL
);

ALTER TABLE messages ALTER COLUMN body SET STORAGE EXTERNAL;

-- First messages, numbers of messages and bytes of a queue, without touching the messages.
CREATE INDEX messages_by_queue ON messages (queue, seq) INCLUDE (size);

-- Messages that are too old, without walking over those that are not.
CREATE INDEX messages_by_arrival ON messages (arrived);

-- The apps that are left of a message, unless it has the one app of a queue without apps.
CREATE TABLE holds (
    seq  bigint PRIMARY KEY,
    apps bytea NOT NULL
);

-- A shard writes its own rows only, so that shards do not wait for each other. The tally of a
-- service is the sum of the counts and the XOR of the hashes of its rows.
CREATE TABLE tallies (
    service bytea NOT NULL,
    shard   integer NOT NULL,
    count   bigint NOT NULL,
    hash    bytea NOT NULL,
    PRIMARY KEY (service, shard)
);

CREATE TABLE identities (
    fingerprint bytea PRIMARY KEY,
    service     bytea NOT NULL UNIQUE,
    role        bytea NOT NULL
);

-- The last batch of each sink that is in its queue: a batch that comes again is not done again.
CREATE TABLE sinks (
    id    bytea PRIMARY KEY,
    batch bigint NOT NULL,
    at    double precision NOT NULL
);

-- Facts that are not sealed into the journal yet: one row per turn, numbered first to last.
CREATE TABLE outbox (
    first bigint PRIMARY KEY,
    last  bigint NOT NULL,
    facts bytea NOT NULL
);
