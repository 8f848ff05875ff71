"""Statements for SQLite.

The number of statements does not depend on how much a call names. Its keys are the rows of a
``VALUES`` list, filled up with NULLs to the next power of two: so thirteen texts per question are
enough for lists of every length, and sqlite3 finds them in its cache of prepared statements. A list
above `ROWS_MAX` rows is cut; only there the count grows.
"""

from __future__ import annotations

from functools import cache

ROWS_MAX = 4096
"""Rows of one ``VALUES`` list: as many as a turn has commands. With the four columns of a page
this is half of the 32,766 variables that SQLite allows in a statement by default."""

STATEMENTS_CACHED = 256
"""Eight questions in thirteen lengths, and one text per kind of change, with some to spare."""


def padded(length: int) -> int:
    """The next power of two."""
    return 1 << (length - 1).bit_length()


@cache
def text(question: str, width: int, length: int) -> str:
    """A question about so many rows of this width."""
    row = f"({', '.join('?' * width)})"
    return question.format(want=", ".join([row] * length))


# Each id has an index of its own, and a join uses one index; so the number comes first. A row gives
# the position of the key that it answers.
_HEADS = """
WITH want(place, party, id, n) AS (VALUES {{want}}),
found AS MATERIALIZED (
    SELECT place, number, queues.id, domain, service, is_full, parties, n,
        (SELECT count(*) FROM messages WHERE messages.queue = number) AS messages
    FROM want CROSS JOIN queues ON number = CASE party
        WHEN 0 THEN (SELECT number FROM queues WHERE queues.id = want.id)
        WHEN 1 THEN (SELECT number FROM queues WHERE sender = want.id)
        WHEN 2 THEN (SELECT number FROM queues WHERE notifier = want.id)
        WHEN 3 THEN (SELECT number FROM queues WHERE link = want.id)
    END
)
SELECT place, found.id, domain, service, is_full, parties, messages,
    m.seq, m.id, arrived, properties, body, apps
FROM found
LEFT JOIN messages AS m ON m.seq {first}
LEFT JOIN holds ON holds.seq = m.seq
"""

HEADS = _HEADS.format(
    first="= (SELECT seq FROM messages WHERE queue = number AND n > 0 ORDER BY seq LIMIT ?)"
)
"""At most one message of each queue, which is what subscribing asks for."""

# SQLite takes no column as a LIMIT. The largest limit bounds the walk of the index, and the rank
# the rows read for each queue.
HEADS_LONG = _HEADS.format(
    first="""IN (
    SELECT seq FROM (
        SELECT seq, row_number() OVER (ORDER BY seq) AS rank FROM (
            SELECT seq FROM messages WHERE messages.queue = number ORDER BY seq LIMIT ?
        )
    ) WHERE rank <= n
)"""
)

PAGES = """
WITH want(place, service, after, n) AS (VALUES {want}),
found AS MATERIALIZED (
    SELECT place, number, queues.id,
        (SELECT count(*) FROM messages WHERE messages.queue = number) AS messages
    FROM want CROSS JOIN queues ON number IN (
        SELECT number FROM (
            SELECT number, row_number() OVER (ORDER BY id) AS rank FROM (
                SELECT number, id FROM queues
                WHERE queues.service = want.service AND queues.id > after
                ORDER BY queues.id LIMIT ?
            )
        ) WHERE rank <= n
    )
)
SELECT place, found.id, domain, service, is_full, parties, messages,
    m.seq, m.id, arrived, properties, body, apps
FROM found
LEFT JOIN queues ON messages > 0 AND queues.number = found.number
LEFT JOIN messages AS m ON m.seq = (
    SELECT seq FROM messages WHERE messages.queue = queues.number ORDER BY seq LIMIT 1
)
LEFT JOIN holds ON holds.seq = m.seq
"""

BACKLOGS = """
WITH want(queue) AS (VALUES {want})
SELECT queues.id, domain, service, is_full, parties,
    m.seq, m.id, arrived, size, properties, apps
FROM want CROSS JOIN queues ON queues.id = want.queue
LEFT JOIN messages AS m ON m.queue = number
LEFT JOIN holds ON holds.seq = m.seq
"""

KNOWN = """
WITH want(queue) AS (VALUES {want})
SELECT want.queue, known, numbers
FROM want CROSS JOIN queues ON queues.id = want.queue
CROSS JOIN remembered ON remembered.queue = number
"""

GROUPS = """
WITH want(queue) AS (VALUES {want})
SELECT want.queue, name, filter
FROM want CROSS JOIN queues ON queues.id = want.queue
CROSS JOIN open_groups ON open_groups.queue = number
"""

ENTRIES = """
WITH want(seq) AS (VALUES {want})
SELECT seq, id, arrived, size, properties FROM want CROSS JOIN messages USING (seq)
"""

BODIES = """
WITH want(seq) AS (VALUES {want})
SELECT seq, body FROM want CROSS JOIN messages USING (seq)
"""

SERVICES = """
WITH want(id) AS (VALUES {want})
SELECT id, count, hash FROM want CROSS JOIN services USING (id)
"""

USAGE = """
WITH want(domain) AS (VALUES {want}),
found AS (
    SELECT domain, count(seq) AS messages, coalesce(sum(size), 0) AS bytes
    FROM want CROSS JOIN queues USING (domain)
    LEFT JOIN messages ON queue = number
    GROUP BY domain, number
)
SELECT domain, count(*), sum(messages), sum(bytes) FROM found GROUP BY domain
"""

IDENTITIES = """
WITH want(fingerprint) AS (VALUES {want})
SELECT fingerprint, service, role FROM want CROSS JOIN identities USING (fingerprint)
"""

# Usually the old message that arrived last has the largest number, and all up to there are old. So
# they come in the order of their numbers, however many there are.
AGED = """
SELECT seq, queues.id, domain, messages.id, arrived, properties
FROM messages NOT INDEXED CROSS JOIN queues ON number = queue
WHERE arrived < ?1 AND seq > ?2 AND seq <= (
    SELECT seq FROM messages INDEXED BY messages_by_arrival
    WHERE arrived < ?1 AND seq > ?2 ORDER BY arrived DESC LIMIT 1
)
ORDER BY seq LIMIT ?3
"""

# Where that does not hold, the others are selected in the index alone, and then read.
AGED_REST = """
SELECT seq, queues.id, domain, messages.id, arrived, properties
FROM messages CROSS JOIN queues ON number = queue
WHERE seq IN (
    SELECT seq FROM messages INDEXED BY messages_by_arrival
    WHERE arrived < ?1 AND seq > ?2 ORDER BY seq LIMIT ?3
)
ORDER BY seq
"""

# Only the first messages of a queue are checked, and only the first one if that is not old.
OVERDUE = """
WITH want(domain, before, after) AS (VALUES {want}),
old AS MATERIALIZED (
    SELECT number, queues.id AS queue, domain, before, after
    FROM want CROSS JOIN queues USING (domain)
    WHERE before > (
        SELECT arrived FROM messages WHERE seq = (
            SELECT seq FROM messages
            WHERE messages.queue = number AND seq > after ORDER BY seq LIMIT 1
        )
    )
),
first AS (
    SELECT seq, old.queue, domain, m.id, arrived, size, before,
        max(arrived >= before) OVER (PARTITION BY number ORDER BY seq) AS later
    FROM old CROSS JOIN messages AS m ON seq IN (
        SELECT seq FROM messages
        WHERE messages.queue = number AND seq > after ORDER BY seq LIMIT ?
    )
)
SELECT seq, queue, domain, id, arrived, size,
    EXISTS (SELECT 1 FROM holds WHERE holds.seq = first.seq AND apps = '[]')
FROM first WHERE NOT later ORDER BY seq LIMIT ?
"""

LISTINGS = """
WITH want(place, domain, after, n) AS (VALUES {want}),
found AS MATERIALIZED (
    SELECT place, number, queues.id,
        (
            SELECT seq FROM messages WHERE queue = number AND NOT EXISTS (
                SELECT 1 FROM holds WHERE holds.seq = messages.seq AND apps = '[]'
            ) ORDER BY seq LIMIT 1
        ) AS first
    FROM want CROSS JOIN queues ON number IN (
        SELECT number FROM (
            SELECT number, row_number() OVER (ORDER BY id) AS rank FROM (
                SELECT number, id FROM queues
                WHERE queues.domain = want.domain AND queues.id > after
                ORDER BY queues.id LIMIT ?
            )
        ) WHERE rank <= n
    )
)
SELECT place, id, (SELECT count(*) FROM messages WHERE queue = number),
    (SELECT coalesce(sum(size), 0) FROM messages WHERE queue = number),
    CASE WHEN first IS NULL THEN NULL
        ELSE NOT EXISTS (SELECT 1 FROM holds WHERE seq = first AND apps <> '[""]') END,
    (SELECT count(*) FROM open_groups WHERE queue = number)
FROM found ORDER BY place, id
"""

CREATE = """
INSERT INTO queues (service, is_full, sender, notifier, link, notifier_service, parties, id, domain)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

LET_GO = """
UPDATE queues SET sender = NULL, notifier = NULL, link = NULL
WHERE id = ? AND (sender IS NOT ? OR notifier IS NOT ? OR link IS NOT ?)
"""

AMEND = """
UPDATE queues SET service = ?, is_full = ?, sender = ?, notifier = ?, link = ?,
    notifier_service = ?, parties = ?
WHERE id = ?
"""

# An unknown queue has no number, and the column takes no NULL.
APPEND = """
INSERT INTO messages (seq, queue, id, arrived, size, properties, body)
VALUES (?, (SELECT number FROM queues WHERE queues.id = ?), ?, ?, ?, ?, ?)
"""

HOLD_NEW = "INSERT INTO holds (apps, seq) VALUES (?, ?)"

HOLD = """
INSERT INTO holds (apps, seq) SELECT ?, seq FROM messages WHERE seq = ?
ON CONFLICT (seq) DO UPDATE SET apps = excluded.apps
"""

# Of a run of numbers: what one consumer confirms in a turn usually came together.
DELETE = (
    "DELETE FROM messages WHERE seq BETWEEN ? AND ?",
    "DELETE FROM holds WHERE seq BETWEEN ? AND ?",
)

FORGET_KNOWN = """
DELETE FROM remembered WHERE queue = (SELECT number FROM queues WHERE id = ?) AND at < ?
"""

# An unknown queue has no number, and the column takes no NULL.
REMEMBER_KNOWN = """
INSERT INTO remembered (queue, at, known, numbers)
VALUES ((SELECT number FROM queues WHERE id = ?), ?, ?, ?)
ON CONFLICT DO NOTHING
"""

# An unknown queue has no number, and the column takes no NULL.
PUT_GROUP = """
INSERT INTO open_groups (queue, name, filter)
VALUES ((SELECT number FROM queues WHERE id = ?), ?, ?)
ON CONFLICT (queue, name) DO UPDATE SET filter = excluded.filter
"""

DROP_GROUP = """
DELETE FROM open_groups WHERE queue = (SELECT number FROM queues WHERE id = ?) AND name = ?
"""

ASSOCIATE = "UPDATE queues SET service = ? WHERE id = ?"

TALLY = """
INSERT INTO services (id, count, hash) VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET count = excluded.count, hash = excluded.hash
"""

IDENTIFY = "INSERT INTO identities (fingerprint, service, role) VALUES (?, ?, ?)"

SINKS = "SELECT id, batch, at FROM sinks"

REMEMBER = """
INSERT INTO sinks (id, batch, at) VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, at = excluded.at
"""

FORGET = "DELETE FROM sinks WHERE id = ?"

ADD_FACTS = "INSERT INTO outbox (first, last, facts) VALUES (?, ?, ?)"

SEAL = "DELETE FROM outbox WHERE last <= ?"

LAST = "SELECT coalesce(max(seq), 0) FROM messages"

UNSEALED = "SELECT coalesce(max(last), 0), coalesce(sum(length(facts)), 0) FROM outbox"

REMOVE = (
    """
    DELETE FROM holds WHERE seq IN (
        SELECT seq FROM messages JOIN queues ON queue = number WHERE queues.id = ?
    )
    """,
    "DELETE FROM messages WHERE queue = (SELECT number FROM queues WHERE queues.id = ?)",
    "DELETE FROM remembered WHERE queue = (SELECT number FROM queues WHERE queues.id = ?)",
    "DELETE FROM open_groups WHERE queue = (SELECT number FROM queues WHERE queues.id = ?)",
    "DELETE FROM queues WHERE id = ?",
)

# A whole store, a part at a time.

EXTENT = "SELECT (SELECT count(*) FROM queues), (SELECT count(*) FROM messages)"

RECORDS = """
SELECT number, id, domain, service, is_full, parties FROM queues
WHERE number > ? ORDER BY number LIMIT ?
"""

SIZES = "SELECT seq, size FROM messages WHERE seq > ? ORDER BY seq LIMIT ?"

MESSAGES = """
SELECT m.seq, queues.id, m.id, arrived, properties, body, apps
FROM messages AS m JOIN queues ON number = m.queue LEFT JOIN holds ON holds.seq = m.seq
WHERE m.seq > ? AND m.seq <= ? ORDER BY m.seq
"""

REMEMBERED = """
SELECT number, queues.id, known, numbers FROM queues JOIN remembered ON queue = number
WHERE number = (SELECT queue FROM remembered WHERE queue > ? ORDER BY queue LIMIT 1)
"""

ALL_GROUPS = """
SELECT number, queues.id, name, filter FROM queues JOIN open_groups ON queue = number
WHERE number > ?1 AND number <= (
    SELECT max(queue) FROM (
        SELECT queue FROM open_groups WHERE queue > ?1 ORDER BY queue LIMIT ?2
    )
)
ORDER BY number
"""

TALLIES = "SELECT id, count, hash FROM services"

ALL_IDENTITIES = "SELECT fingerprint, service, role FROM identities"

OUTBOX = "SELECT first, facts FROM outbox WHERE first > ? ORDER BY first LIMIT 1"
