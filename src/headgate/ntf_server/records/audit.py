"""An audit of the records: tallies recounted, and rows that belong to nothing. This reads
everything."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from headgate.core.model.ids import QueueId
from headgate.core.model.tally import NOTHING, Tally
from headgate.notify.subscriptions import WANTED
from headgate.ntf_server.records import routers
from headgate.ntf_server.records.routers import RouterNumber
from headgate.ntf_server.records.tables import Tables

ORPHANS: Final = {
    "subscriptions without a token": "subscriptions AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM tokens WHERE tokens.id = t.token)",
    "subscriptions without a router": "subscriptions AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM routers WHERE routers.number = t.router)",
    "notices without a subscription": "notices AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM subscriptions WHERE subscriptions.id = t.subscription)",
    "tokens with a wrong count of subscriptions": "tokens AS t WHERE held <>"
    " (SELECT count(*) FROM subscriptions WHERE subscriptions.token = t.id)",
    "associated subscriptions that are not wanted": "subscriptions WHERE assoc AND status"
    f" NOT IN ({', '.join(repr(status.value) for status in WANTED)})",
}


def audit(tables: Tables) -> list[str]:
    """The inconsistencies, a sentence each; an empty list is a store in order."""
    wrong = [
        f"router {number}: the kept tally is {kept.count} subscriptions and {kept.hash.hex()},"
        f" a recount {counted.count} and {counted.hash.hex()}"
        for number, (kept, counted) in tallies(tables).items()
        if kept != counted
    ]
    for what, condition in ORPHANS.items():
        found = tables.number(f"SELECT count(*) FROM {condition}")
        if found:
            wrong.append(f"{found} {what}")
    return wrong


def tallies(tables: Tables) -> dict[RouterNumber, tuple[Tally, Tally]]:
    """The kept tally of each router, and a recount."""
    counted: defaultdict[RouterNumber, Tally] = defaultdict(Tally)
    for number, notifier in tables.ask("SELECT router, notifier FROM subscriptions WHERE assoc"):
        counted[number] = counted[number].plus(QueueId(notifier))
    return {
        each.number: (each.tally, counted.get(each.number, NOTHING))
        for each in routers.everyone(tables)
    }
