from __future__ import annotations

from dataclasses import replace

from headgate.core.broker import Broker
from headgate.core.facts import AppUnknown
from headgate.core.model.domain import Domain
from headgate.server.desk.unknown_apps import KEPT, UnknownApps
from tests.support.shared_queues import Shop

FANOUT = Domain.fanout("orders", "shipping", "billing")


class Reading(Broker):
    """What `found` looks at, of the queues of a test."""

    def __init__(self, shop: Shop) -> None:
        self.shard = shop.rig.shard
        self.sessions = shop.rig.shard.session_states.sessions


def test_an_app_is_told_of_while_somebody_reads_it_and_it_is_not_there() -> None:
    shop, apps = Shop(FANOUT), UnknownApps()
    reader = shop.consumer(app="nope")
    for fact in shop.rig.take_facts(AppUnknown):
        apps.take(fact)
    [found] = apps.found(Reading(shop))
    assert (found.app, found.session, found.consumers) == ("nope", reader.session, 1)
    assert (
        found.reason == "orders has no app nope, so nothing comes; its apps are shipping, billing"
    )
    shop.reconfigure(replace(FANOUT, apps=(*FANOUT.apps, "nope")))
    assert apps.found(Reading(shop)) == []


def test_who_leaves_is_not_told_of() -> None:
    shop, apps = Shop(FANOUT), UnknownApps()
    reader = shop.consumer(app="nope")
    for fact in shop.rig.take_facts(AppUnknown):
        apps.take(fact)
    reader.close()
    assert apps.found(Reading(shop)) == []


def test_only_so_many_are_remembered() -> None:
    shop, apps = Shop(FANOUT), UnknownApps()
    for number in range(KEPT + 10):
        shop.consumer(app=f"nope-{number}")
    for fact in shop.rig.take_facts(AppUnknown):
        apps.take(fact)
    assert len(apps.found(Reading(shop))) == KEPT
