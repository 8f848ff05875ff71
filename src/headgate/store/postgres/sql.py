"""Statements for PostgreSQL. A list of any length is one array, and one statement.

The texts are prepared once for each connection and planned for arrays of any length. The server's
statistics at that time may be wrong soon after, by orders of magnitude; so nothing depends on them.
Tables are never joined: each is looked up by an index in a subquery that cannot be merged with the
rest (``OFFSET 0``, ``LIMIT``, a single value), or by ``ANY``, or as a conflict. Where the first
rows in an order are wanted, the condition is one that only one index has in that order: with
``queue = x`` the order of ``queue, seq`` is that of ``seq``, and all messages there are might be
walked in search of the few of one queue.
"""

from __future__ import annotations

# S004-34, S004-35, S004-44: one statement has every requested queue, empty ones too.
HEADS = """
WITH wanted AS MATERIALIZED (
    SELECT known.number, max(n) AS n, array_agg(place) AS places
    FROM unnest(%b::int8[], %b::int8[], %b::bytea[], %b::int8[]) AS want (place, party, id, n)
    CROSS JOIN LATERAL (
        SELECT number FROM queues WHERE party = 0 AND queues.id = want.id
        UNION ALL
        SELECT number FROM queues WHERE party = 1 AND sender = want.id
        UNION ALL
        SELECT number FROM queues WHERE party = 2 AND notifier = want.id
        UNION ALL
        SELECT number FROM queues WHERE party = 3 AND link = want.id
    ) AS known
    GROUP BY known.number
)
SELECT q.id, domain, service, is_full, parties, messages, m.seq, m.id, arrived, properties, body,
    (SELECT apps FROM holds WHERE holds.seq = m.seq), places
FROM wanted
CROSS JOIN LATERAL (
    SELECT number, id, domain, service, is_full, parties,
        (SELECT count(*) FROM messages WHERE queue = number) AS messages
    FROM queues WHERE number = wanted.number OFFSET 0
) AS q
LEFT JOIN LATERAL (
    SELECT * FROM messages
    WHERE queue BETWEEN q.number AND q.number ORDER BY queue, seq LIMIT n
) AS m ON true
"""

PAGES = """
SELECT looked.id, domain, q.service, is_full, parties, messages,
    m.seq, m.id, arrived, properties, body,
    (SELECT apps FROM holds WHERE holds.seq = m.seq), place
FROM unnest(%b::int8[], %b::bytea[], %b::bytea[], %b::int8[]) AS want (place, service, after, n)
CROSS JOIN LATERAL (
    SELECT number, id, (SELECT count(*) FROM messages WHERE queue = number) AS messages
    FROM queues
    WHERE (service, id) > (want.service, after) AND service <= want.service
    ORDER BY service, id LIMIT n
) AS looked
LEFT JOIN LATERAL (
    SELECT number, domain, service, is_full, parties FROM queues
    WHERE messages > 0 AND number = looked.number OFFSET 0
) AS q ON true
LEFT JOIN LATERAL (
    SELECT * FROM messages
    WHERE queue BETWEEN q.number AND q.number ORDER BY queue, seq LIMIT 1
) AS m ON true
"""

BACKLOGS = """
SELECT q.id, domain, service, is_full, parties, m.seq, m.id, arrived, size, properties,
    (SELECT apps FROM holds WHERE holds.seq = m.seq)
FROM unnest(%b::bytea[]) AS want (queue)
CROSS JOIN LATERAL (SELECT * FROM queues WHERE id = want.queue OFFSET 0) AS q
LEFT JOIN LATERAL (
    SELECT seq, id, arrived, size, properties FROM messages WHERE queue = q.number OFFSET 0
) AS m ON true
"""

KNOWN = """
SELECT want.queue, r.known, r.numbers
FROM unnest(%b::bytea[]) AS want (queue)
CROSS JOIN LATERAL (SELECT number FROM queues WHERE id = want.queue OFFSET 0) AS q
CROSS JOIN LATERAL (SELECT known, numbers FROM remembered WHERE queue = q.number OFFSET 0) AS r
"""

GROUPS = """
SELECT want.queue, g.name, g.filter
FROM unnest(%b::bytea[]) AS want (queue)
CROSS JOIN LATERAL (SELECT number FROM queues WHERE id = want.queue OFFSET 0) AS q
CROSS JOIN LATERAL (SELECT name, filter FROM open_groups WHERE queue = q.number OFFSET 0) AS g
"""

ENTRIES = """
SELECT seq, id, arrived, size, properties FROM messages WHERE seq = ANY(%b::int8[])
"""

BODIES = "SELECT seq, body FROM messages WHERE seq = ANY(%b::int8[])"

SERVICES = "SELECT service, count, hash FROM tallies WHERE service = ANY(%b::bytea[])"

USAGE = """
SELECT want.domain, count(*), sum(messages)::int8, sum(bytes)::int8
FROM unnest(%b::bytea[]) AS want (domain)
CROSS JOIN LATERAL (SELECT number FROM queues WHERE domain = want.domain OFFSET 0) AS q
CROSS JOIN LATERAL (
    SELECT count(*) AS messages, coalesce(sum(size), 0) AS bytes
    FROM messages WHERE queue = q.number
) AS held
GROUP BY want.domain
"""

IDENTITIES = """
SELECT fingerprint, service, role FROM identities WHERE fingerprint = ANY(%b::bytea[])
"""

# The old ones are selected by their index, and only then read. The sum keeps the server from
# walking the messages by number, old or not, until it has found enough.
AGED = """
SELECT m.seq, q.id, q.domain, m.id, m.arrived, m.properties
FROM (
    SELECT seq FROM messages WHERE arrived < %b AND seq + 0 > %b ORDER BY seq + 0 LIMIT %b
) AS old
CROSS JOIN LATERAL (SELECT * FROM messages WHERE seq = old.seq OFFSET 0) AS m
CROSS JOIN LATERAL (SELECT id, domain FROM queues WHERE number = m.queue OFFSET 0) AS q
ORDER BY m.seq
"""

# Only the first messages of a queue are checked, and only the first one if that is not old.
OVERDUE = """
SELECT m.seq, q.id, want.domain, m.id, m.arrived, m.size,
    coalesce((SELECT apps = '[]'::bytea FROM holds WHERE holds.seq = m.seq), false)
FROM unnest(%b::bytea[], %b::float8[], %b::int8[], %b::int8[]) AS want (domain, before, after, n)
CROSS JOIN LATERAL (SELECT number, id FROM queues WHERE domain = want.domain OFFSET 0) AS q
CROSS JOIN LATERAL (
    SELECT arrived FROM messages
    WHERE (queue, seq) > (q.number, want.after) AND queue <= q.number
    ORDER BY queue, seq LIMIT 1
) AS head
CROSS JOIN LATERAL (
    SELECT seq, id, arrived, size,
        bool_or(arrived >= want.before) OVER (ORDER BY seq) AS later
    FROM (
        SELECT seq, id, arrived, size FROM messages
        WHERE head.arrived < want.before
            AND (queue, seq) > (q.number, want.after) AND queue <= q.number
        ORDER BY queue, seq LIMIT want.n
    ) AS first
) AS m
WHERE NOT m.later
ORDER BY m.seq LIMIT %b
"""

LISTINGS = """
SELECT place, listed.id, held.messages, held.bytes, (
    SELECT coalesce((SELECT apps = '[""]'::bytea FROM holds WHERE holds.seq = m.seq), true)
    FROM (
        SELECT seq FROM messages
        WHERE queue BETWEEN listed.number AND listed.number AND coalesce(
            (SELECT apps <> '[]'::bytea FROM holds WHERE holds.seq = messages.seq), true
        ) ORDER BY queue, seq LIMIT 1
    ) AS m
), (SELECT count(*) FROM open_groups WHERE queue = listed.number)
FROM unnest(%b::int8[], %b::bytea[], %b::bytea[], %b::int8[]) AS want (place, domain, after, n)
CROSS JOIN LATERAL (
    SELECT number, id FROM (
        SELECT number, id FROM queues WHERE domain = want.domain OFFSET 0
    ) AS q WHERE id > want.after ORDER BY id LIMIT want.n
) AS listed
CROSS JOIN LATERAL (
    SELECT count(*) AS messages, coalesce(sum(size), 0)::int8 AS bytes
    FROM messages WHERE queue = listed.number
) AS held
ORDER BY place, listed.id
"""

SINKS = "SELECT id, batch, at FROM sinks"

UNSEALED = """
SELECT coalesce(max(last), 0), coalesce(sum(octet_length(facts)), 0)::int8 FROM outbox
"""

LAST = "SELECT coalesce(max(seq), 0) FROM messages"

REMOVE = """
WITH gone AS (
    DELETE FROM queues WHERE id = ANY(%b::bytea[]) RETURNING number
),
cleared AS (
    DELETE FROM messages WHERE queue = ANY(ARRAY(SELECT number FROM gone)) RETURNING seq
),
forgotten AS (
    DELETE FROM remembered WHERE queue = ANY(ARRAY(SELECT number FROM gone))
),
parted AS (
    DELETE FROM open_groups WHERE queue = ANY(ARRAY(SELECT number FROM gone))
)
DELETE FROM holds WHERE seq = ANY(ARRAY(SELECT seq FROM cleared))
"""

CREATE = """
INSERT INTO queues
    (id, domain, service, is_full, sender, notifier, link, notifier_service, parties)
SELECT * FROM unnest(
    %b::bytea[], %b::bytea[], %b::bytea[], %b::bool[], %b::bytea[], %b::bytea[], %b::bytea[],
    %b::bytea[], %b::bytea[]
)
"""

# A missing queue has no domain either, and the column takes no NULL.
AMEND = """
INSERT INTO queues
    (id, domain, service, is_full, sender, notifier, link, notifier_service, parties)
SELECT new.id, (SELECT domain FROM queues WHERE queues.id = new.id),
    new.service, new.is_full, new.sender, new.notifier, new.link, new.notifier_service, new.parties
FROM unnest(
    %b::bytea[], %b::bytea[], %b::bool[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[],
    %b::bytea[]
) AS new (id, service, is_full, sender, notifier, link, notifier_service, parties)
ON CONFLICT (id) DO UPDATE
SET service = excluded.service, is_full = excluded.is_full, sender = excluded.sender,
    notifier = excluded.notifier, link = excluded.link,
    notifier_service = excluded.notifier_service, parties = excluded.parties
"""

# An unknown queue has no number, and the column takes no NULL.
APPEND = """
INSERT INTO messages (seq, queue, arrived, size, id, properties, body)
SELECT seq, (SELECT number FROM queues WHERE queues.id = new.queue),
    arrived, size, new.id, properties, body
FROM unnest(
    %b::int8[], %b::bytea[], %b::float8[], %b::int8[], %b::bytea[], %b::bytea[], %b::bytea[]
) AS new (seq, queue, arrived, size, id, properties, body)
"""

HOLD = """
INSERT INTO holds (seq, apps)
SELECT seq, apps FROM unnest(%b::int8[], %b::bytea[]) AS new (seq, apps)
WHERE (SELECT true FROM messages WHERE messages.seq = new.seq)
ON CONFLICT (seq) DO UPDATE SET apps = excluded.apps
"""

DELETE = """
WITH gone AS (
    DELETE FROM messages WHERE seq = ANY(%b::int8[])
)
DELETE FROM holds WHERE seq = ANY(%b::int8[])
"""

FORGET_KNOWN = """
DELETE FROM remembered USING (
    SELECT (SELECT number FROM queues WHERE queues.id = want.id) AS number, before
    FROM unnest(%b::bytea[], %b::float8[]) AS want (id, before) OFFSET 0
) AS old
WHERE queue = old.number AND at < old.before
"""

# An unknown queue has no number, and the column takes no NULL.
REMEMBER_KNOWN = """
INSERT INTO remembered (queue, at, known, numbers)
SELECT (SELECT number FROM queues WHERE queues.id = new.queue), at, known, numbers
FROM unnest(%b::bytea[], %b::float8[], %b::bytea[], %b::bytea[]) AS new (queue, at, known, numbers)
"""

# An unknown queue has no number, and the column takes no NULL.
PUT_GROUP = """
INSERT INTO open_groups (queue, name, filter)
SELECT (SELECT number FROM queues WHERE queues.id = new.queue), name, filter
FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[]) AS new (queue, name, filter)
ON CONFLICT (queue, name) DO UPDATE SET filter = excluded.filter
"""

DROP_GROUP = """
DELETE FROM open_groups USING (
    SELECT (SELECT number FROM queues WHERE queues.id = want.id) AS number, want.name
    FROM unnest(%b::bytea[], %b::bytea[]) AS want (id, name) OFFSET 0
) AS old
WHERE queue = old.number AND open_groups.name = old.name
"""

ASSOCIATE = """
INSERT INTO queues (id, domain, service, is_full)
SELECT new.id, (SELECT domain FROM queues WHERE queues.id = new.id), new.service, false
FROM unnest(%b::bytea[], %b::bytea[]) AS new (id, service)
ON CONFLICT (id) DO UPDATE SET service = excluded.service
"""

KEPT = """
SELECT service, count, hash FROM tallies WHERE shard = %b AND service = ANY(%b::bytea[])
"""

TALLY = """
INSERT INTO tallies (shard, service, count, hash)
SELECT %b, new.* FROM unnest(%b::bytea[], %b::int8[], %b::bytea[]) AS new (service, count, hash)
ON CONFLICT (service, shard) DO UPDATE SET count = excluded.count, hash = excluded.hash
"""

IDENTIFY = """
INSERT INTO identities (fingerprint, service, role)
SELECT * FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[])
"""

REMEMBER = """
INSERT INTO sinks (id, batch, at) SELECT * FROM unnest(%b::bytea[], %b::int8[], %b::float8[])
ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, at = excluded.at
"""

FORGET = "DELETE FROM sinks WHERE id = ANY(%b::bytea[])"

ADD_FACTS = "INSERT INTO outbox (first, last, facts) VALUES (%b, %b, %b)"

# The first condition follows from the second, and has an index.
SEAL = """
WITH noted AS (
    UPDATE marks SET sealed = greatest(sealed, %b) WHERE shard = %b
)
DELETE FROM outbox WHERE first <= %b AND last <= %b
"""

# A whole store, a part at a time.

EXTENT = "SELECT (SELECT count(*) FROM queues), (SELECT count(*) FROM messages)"

RECORDS = """
SELECT number, id, domain, service, is_full, parties FROM queues
WHERE number > %b ORDER BY number LIMIT %b
"""

SIZES = "SELECT seq, size FROM messages WHERE seq > %b ORDER BY seq LIMIT %b"

MESSAGES = """
SELECT m.seq, (SELECT id FROM queues WHERE number = m.queue), m.id, arrived, properties, body,
    (SELECT apps FROM holds WHERE holds.seq = m.seq)
FROM messages AS m WHERE m.seq > %b AND m.seq <= %b ORDER BY m.seq
"""

REMEMBERED = """
SELECT queue, (SELECT id FROM queues WHERE number = queue), known, numbers FROM remembered
WHERE queue = (SELECT queue FROM remembered WHERE queue > %b ORDER BY queue LIMIT 1)
"""

ALL_GROUPS = """
WITH first AS (SELECT %b::int8 AS queue)
SELECT queue, (SELECT id FROM queues WHERE number = queue), name, filter FROM open_groups
WHERE queue > (SELECT queue FROM first) AND queue <= (
    SELECT max(queue) FROM (
        SELECT queue FROM open_groups WHERE queue > (SELECT queue FROM first)
        ORDER BY queue LIMIT %b
    ) AS page
)
ORDER BY queue
"""

TALLIES = "SELECT service, count, hash FROM tallies"

ALL_IDENTITIES = "SELECT fingerprint, service, role FROM identities"

OUTBOX = "SELECT first, facts FROM outbox WHERE first > %b ORDER BY first LIMIT 1"

# Statements on a store that no router uses.

UNHURRIED = """
SET statement_timeout = 0;
SET enable_seqscan = on;
SET enable_bitmapscan = on;
SET enable_hashjoin = on;
SET enable_mergejoin = on
"""
"""No limits and plans of turns for questions about all rows."""

_INDEXES = """
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE relnamespace = current_schema()::regnamespace
"""

INVALID_INDEXES = f"SELECT relname::text {_INDEXES} AND NOT indisvalid"

INDEXES = f"SELECT indexrelid::int8, relname::text {_INDEXES} ORDER BY relname"

AMCHECK = """
SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace
WHERE extname = 'amcheck'
"""
"""The schema of the extension that compares indexes with their tables, if it is installed."""

TABLES = """
SELECT quote_ident(relname) FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' ORDER BY relname
"""

DISK_BYTES = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::int8 FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
"""
