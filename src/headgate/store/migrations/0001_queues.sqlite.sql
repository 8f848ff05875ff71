-- "HGAT": whose file this is, so that no other program's database is taken for ours.
PRAGMA application_id = 0x48474154;

-- Messages name their queue by a number: ids are chosen by peers and may be long.
CREATE TABLE queues (
    number  INTEGER PRIMARY KEY,
    id      BLOB NOT NULL UNIQUE,
    domain  TEXT NOT NULL,
    service BLOB
);

-- The pages of a sweep, in the order of the ids.
CREATE INDEX queues_by_service ON queues (service, id) WHERE service IS NOT NULL;

CREATE INDEX queues_by_domain ON queues (domain);

-- The body comes last: what stands before it is read without the pages of a long body.
CREATE TABLE messages (
    seq        INTEGER PRIMARY KEY,
    queue      INTEGER NOT NULL,
    id         BLOB NOT NULL,
    arrived    REAL NOT NULL,
    size       INTEGER NOT NULL,
    properties BLOB NOT NULL,
    body       BLOB NOT NULL
);

-- First messages, numbers of messages and bytes of a queue, without touching the messages.
CREATE INDEX messages_by_queue ON messages (queue, seq, size);

-- The apps that are left of a message, unless it has the one app of a queue without apps.
CREATE TABLE holds (
    seq  INTEGER PRIMARY KEY,
    apps TEXT NOT NULL
);

CREATE TABLE services (
    id    BLOB PRIMARY KEY,
    count INTEGER NOT NULL,
    hash  BLOB NOT NULL
) WITHOUT ROWID;
