"""The checks of `headgate agent check`: tallies recounted, and rows without an owner.

This reads everything, as `summary` does. No other module does.
"""

from __future__ import annotations

from collections import defaultdict

from headgate.agent.model import RouterId, UserId
from headgate.agent.records.database import Database
from headgate.core.model.ids import QueueId
from headgate.core.model.tally import NOTHING, Tally

ORPHANS = {
    "receive queues without a connection": "receive_queues AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM connections WHERE connections.id = t.connection)",
    "receive queues without a router": "receive_queues AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM routers WHERE routers.id = t.router)",
    "send queues without a connection": "send_queues AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM connections WHERE connections.id = t.connection)",
    "send queues without a router": "send_queues AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM routers WHERE routers.id = t.router)",
    "services without a user or a router": "services AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM users, routers WHERE users.id = t.user AND routers.id = t.router)",
    "connections without a user": "connections AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM users WHERE users.id = t.user)",
    "ratchets without a connection": "ratchets AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM connections WHERE connections.id = t.connection)",
    "skipped keys without a ratchet": "skipped_keys AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM ratchets WHERE ratchets.connection = t.connection)",
    "received messages without a connection": "received AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM connections WHERE connections.id = t.connection)",
    "outgoing messages that wait for no queue": "outgoing AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM deliveries WHERE deliveries.connection = t.connection"
    " AND deliveries.id = t.id)",
    "deliveries without a message": "deliveries AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM outgoing WHERE outgoing.connection = t.connection AND outgoing.id = t.id)",
    "deliveries without a queue": "deliveries AS t WHERE NOT EXISTS (SELECT 1 FROM send_queues"
    " WHERE send_queues.router = t.router AND send_queues.sender_id = t.sender_id)",
    "commands without a connection": "commands AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM connections WHERE connections.id = t.connection)",
    "confirmations without a connection": "confirmations AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM connections WHERE connections.id = t.connection)",
    "requests without a connection": "requests AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM connections WHERE connections.id = t.connection)",
}


def check(tables: Database) -> list[str]:
    """The errors in a file, a sentence each; none if it is in order."""
    wrong = [
        f"service of user {user} at router {router}: the kept tally is {kept.count} queues and"
        f" {kept.hash.hex()}, a recount {counted.count} and {counted.hash.hex()}"
        for (user, router), (kept, counted) in tallies(tables).items()
        if kept != counted
    ]
    for what, condition in ORPHANS.items():
        found = tables.number(f"SELECT count(*) FROM {condition}")
        if found:
            wrong.append(f"{found} {what}")
    return wrong


def tallies(tables: Database) -> dict[tuple[UserId, RouterId], tuple[Tally, Tally]]:
    """The stored tally and a recount, for each service that has a record or a queue."""
    counted: defaultdict[tuple[UserId, RouterId], Tally] = defaultdict(Tally)
    for user, router, queue in tables.ask(
        "SELECT user, router, recipient_id FROM receive_queues WHERE assoc = 1"
    ):
        counted[user, router] = counted[user, router].plus(QueueId(queue))
    kept = {
        (user, router): Tally.parse(count, xor)
        for user, router, count, xor in tables.ask("SELECT user, router, count, xor FROM services")
    }
    keys = sorted(kept.keys() | counted.keys())
    return {key: (kept.get(key, NOTHING), counted.get(key, NOTHING)) for key in keys}
