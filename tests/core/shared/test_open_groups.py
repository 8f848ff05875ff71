"""Groups that clients make, in the core. The numbers are those of the checks in
docs/design/streams.md."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.effects import Effect, Failed
from headgate.core.facts import GroupCreated, GroupDropped, Skipped
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import AppId
from headgate.core.model.stream_id import FIRST, StreamId
from headgate.core.reader_commands import DropGroup, MakeGroup, MoveGroup
from headgate.core.reader_effects import Counted
from headgate.core.turn.turn import BREATH_WORK
from headgate.errors import HeadgateError, LimitReached, NoSuchApp, NoSuchQueue, Prohibited
from tests.support.readers import Patron
from tests.support.shared_queues import Q, Shop

OPEN = Domain("orders", Mode.FANOUT, apps=(), groups="open", group_idle=100.0)
KEEPS = replace(OPEN, keep_messages=10)


def outcome(effects: list[Effect]) -> int | HeadgateError:
    [found] = [e for e in effects if isinstance(e, Counted | Failed)]
    return found.error if isinstance(found, Failed) else found.count


def make(
    shop: Shop, app: AppId, after: StreamId | None = None, *, where: str | None = None
) -> int | HeadgateError:
    session = shop.rig.session()
    return outcome(shop.do(MakeGroup(session, shop.ref(), Q, "orders", app, after, True, where)))


def drop(shop: Shop, app: AppId) -> int | HeadgateError:
    return outcome(shop.do(DropGroup(shop.rig.session(), shop.ref(), Q, "orders", app)))


def move(shop: Shop, app: AppId, after: StreamId | None) -> int | HeadgateError:
    return outcome(shop.do(MoveGroup(shop.rig.session(), shop.ref(), Q, "orders", app, after)))


def test_a_group_is_an_app_of_one_queue_for_every_wire() -> None:
    shop = Shop(OPEN)
    assert make(shop, "g") == 1
    assert make(shop, "g") == 0
    consumer = shop.consumer(app="g")
    shop.post_many(2)
    assert consumer.got() == [1, 2]
    [made] = shop.rig.take_facts(GroupCreated)
    assert (made.app, made.messages) == ("g", 0)


def test_without_a_group_nothing_is_stored_unless_it_is_kept() -> None:
    shop = Shop(OPEN)
    shop.post()
    assert shop.stored() == {}
    shop = Shop(KEEPS)
    shop.post()
    assert shop.stored() == {1: ()}


def test_groups_survive_a_restart_with_what_they_want() -> None:
    """Check 22."""
    shop = Shop(OPEN)
    make(shop, "g", where="x == 1")
    make(shop, "h")
    shop.post_each(1, 2)
    shop = shop.restarted()
    shop.post_each(1, 2)
    assert Patron(shop, app="g").fetch() == [1, 3]
    assert Patron(shop, app="h").fetch() == [1, 2, 3, 4]


def test_a_group_begins_with_what_is_there_and_kept() -> None:
    """Check 21."""
    shop = Shop(KEEPS)
    make(shop, "g")
    shop.post_many(3)
    reader = Patron(shop, app="g")
    reader.fetch()
    reader.done(1, 3)
    assert shop.stored() == {1: (), 2: ("g",), 3: ()}
    make(shop, "h", FIRST)
    assert shop.stored() == {1: ("h",), 2: ("g", "h"), 3: ("h",)}
    other = Patron(shop, app="h")
    assert other.fetch() == [1, 2, 3]
    make(shop, "i", reader.ids[2])
    assert Patron(shop, app="i").fetch() == [3]


def test_a_group_that_is_gone_lets_go_of_what_only_it_wanted() -> None:
    """Check 23."""
    shop = Shop(OPEN)
    make(shop, "g")
    make(shop, "h")
    shop.post_many(2)
    mine, other = Patron(shop, app="g"), Patron(shop, app="h")
    assert mine.fetch(1) == [1]
    other.fetch()
    other.done(1)
    assert drop(shop, "g") == 1
    assert drop(shop, "g") == 0
    assert shop.stored() == {2: ("h",)}
    assert isinstance(mine.error(mine.pulling()), NoSuchApp)
    [dropped] = shop.rig.take_facts(GroupDropped)
    assert (dropped.app, dropped.messages, dropped.reason) == ("g", 2, "asked")
    assert shop.restarted().stored() == {2: ("h",)}


def test_a_group_is_moved_forwards_and_back() -> None:
    shop = Shop(KEEPS)
    make(shop, "g")
    shop.post_many(4)
    reader = Patron(shop, app="g")
    assert reader.fetch(2) == [1, 2]
    reader.done(1)
    assert move(shop, "g", None) == 2
    [skipped] = shop.rig.take_facts(Skipped)
    assert skipped.messages == 2
    assert reader.fetch() == []
    assert move(shop, "g", FIRST) == 0
    assert reader.fetch() == [1, 3, 4]
    assert reader.held() == [1, 2, 3, 4]


def test_a_group_that_nobody_reads_by_is_dropped() -> None:
    """Check 37."""
    shop = Shop(OPEN)
    make(shop, "g")
    make(shop, "h")
    shop.post()
    waiting = Patron(shop, app="h")
    waiting.fetch()
    waiting.done(1)
    waiting.wait()
    for _ in range(4):
        shop.pass_time(61)
    [dropped] = shop.rig.take_facts(GroupDropped)
    assert (dropped.app, dropped.messages, dropped.reason) == ("g", 1, "idle")
    assert shop.stored() == {}


def test_others_are_served_while_a_group_with_many_messages_is_dropped() -> None:
    shop = Shop(OPEN)
    make(shop, "g")
    shop.post_many(1000)
    before = shop.rig.breaths
    for _ in range(2):
        shop.pass_time(61)
    [dropped] = shop.rig.take_facts(GroupDropped)
    assert dropped.messages == 1000
    assert shop.rig.breaths - before >= 1000 // BREATH_WORK


def test_what_is_refused() -> None:
    shop = Shop(replace(OPEN, max_groups=1, apps=("own",)))
    session = shop.rig.session()
    missing = MakeGroup(session, shop.ref(), Q, "orders", "g")
    assert isinstance(outcome(shop.do(missing)), NoSuchQueue)
    assert isinstance(drop(shop, "g"), NoSuchQueue)
    assert isinstance(move(shop, "g", FIRST), NoSuchQueue)
    assert make(shop, "own") == 1
    assert make(shop, "own") == 0
    assert isinstance(drop(shop, "own"), Prohibited)
    assert isinstance(move(shop, "g", FIRST), NoSuchApp)
    assert make(shop, "g") == 1
    refused = make(shop, "h")
    assert isinstance(refused, LimitReached)
    assert refused.name == "max_groups"
    shop = Shop(replace(OPEN, groups="fixed", apps=("own",)))
    assert isinstance(make(shop, "g"), NoSuchApp)


@pytest.mark.parametrize("restarts", [False, True])
def test_groups_are_gone_when_they_are_no_longer_open(restarts: bool) -> None:
    shop = Shop(OPEN)
    make(shop, "g")
    shop.post()
    fixed = replace(OPEN, groups="fixed", apps=("own",))
    if restarts:
        shop = shop.restarted(fixed)
    else:
        shop.reconfigure(fixed)
    shop.post()
    assert shop.stored() == {2: ("own",)}
