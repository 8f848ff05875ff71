from __future__ import annotations

import re
import sqlite3
from functools import partial

import pytest

from headgate.agent.model import Which
from headgate.agent.records import (
    Database,
    Records,
    connections,
    receive_queues,
    routers,
    services,
    users,
)
from headgate.agent.records.connections import ConnectionRecord
from headgate.agent.records.services import Credentials, Service
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import NOTHING, Tally
from headgate.wire.smp.codec.router_address import RouterAddress
from tests.support.agent_records import (
    C1,
    C2,
    C3,
    CREDENTIALS,
    Scene,
    ask,
    inside,
    kept_and_counted,
    prepare,
    queue_id,
    receive_queue,
    steps,
    with_service,
)
from tests.support.repository import SOURCE

NEW_CREDENTIALS = Credentials(b"another", b"key", b"other")
X, Y = ServiceId(b"x" * 24), ServiceId(b"y" * 24)


async def add_queues(
    scene: Scene, numbers: range, *, assoc: bool = False, router: int | None = None
) -> list[bytes]:
    def add(tables: Database) -> None:
        for n in numbers:
            queue = receive_queue(router or scene.router, n, scene.user, assoc=assoc)
            receive_queues.add(tables, queue)

    await scene.records.write(add)
    return [queue_id(n) for n in numbers]


async def service(scene: Scene, router: int | None = None) -> Service:
    """The record; its tally is what a recount gives."""
    found = await scene.records.read(services.get, scene.user, router or scene.router)
    assert found is not None
    kept, counted = await scene.records.read(kept_and_counted, scene.user, router or scene.router)
    assert kept == counted == found.tally
    return found


async def associated(scene: Scene, router: int | None = None) -> list[bytes]:
    page = await scene.records.read(
        receive_queues.page, scene.user, router or scene.router, which=Which.ASSOCIATED
    )
    return [queue.recipient_id for queue in page]


async def test_a_record_is_there_again_after_a_restart(records: Records, scene: Scene) -> None:
    await with_service(scene)
    await records.write(services.put_service_id, scene.user, scene.router, X)
    found = await service(scene)
    assert (found.credentials, found.service_id, found.tally) == (CREDENTIALS, X, NOTHING)
    assert await records.read(services.of_user, scene.user) == [scene.router]
    assert await records.read(services.get, scene.user, scene.other_router) is None


async def test_a_user_is_made_with_services_and_may_switch_them(records: Records) -> None:
    """S004-22: a user is made with services on, or off, and the setting can be changed."""
    on = await records.write(users.add, services=True)
    off = await records.write(users.add)
    await records.write(users.switch_services, off, on=True)
    await records.write(users.switch_services, on, on=False)
    found = {user.id: user.services for user in await records.read(users.everyone)}
    assert found == {on: False, off: True}
    assert await records.read(users.get, 99) is None


async def test_one_address_with_two_key_hashes_is_two_routers(scene: Scene) -> None:
    """S004-16: each has a record of its own."""
    records = scene.records
    one = RouterAddress(("a.example.org", "a.onion"), None, b"1" * 32, "secret")
    two = RouterAddress(("a.example.org",), None, b"2" * 32)
    first, second = [await records.write(routers.keep, each) for each in (one, two)]
    assert first != second
    await records.write(services.put_credentials, scene.user, first, CREDENTIALS)
    assert await records.read(services.get, scene.user, second) is None
    again = RouterAddress(("A.example.org",), 5223, b"1" * 32)
    assert await records.write(routers.keep, again) == first
    found = await records.read(routers.get, first)
    assert found is not None
    assert found.address.hosts == ("A.example.org",)
    assert found.address.password == "secret"
    assert await records.read(routers.get, 99) is None
    everything = await records.read(routers.everything)
    assert [router.id for router in everything] == [scene.router, scene.other_router, first, second]


async def test_a_new_certificate_empties_the_service_id_in_one_statement(scene: Scene) -> None:
    """S001-87: the id belongs to the certificate that was replaced."""
    records = scene.records
    await with_service(scene)
    await records.write(services.put_service_id, scene.user, scene.router, X)
    before = records.statements
    await records.write(services.put_credentials, scene.user, scene.router, NEW_CREDENTIALS)
    assert records.statements - before == 3  # BEGIN, the statement, COMMIT
    found = await service(scene)
    assert (found.credentials, found.service_id) == (NEW_CREDENTIALS, None)


async def test_the_tally_follows_every_change(scene: Scene) -> None:
    """S001-86: adding, associating, taking out, deleting and removing, one by one."""
    records = scene.records
    await with_service(scene)
    await add_queues(scene, range(3), assoc=True)
    await add_queues(scene, range(3, 5))
    assert (await service(scene)).tally == Tally.of(QueueId(queue_id(n)) for n in range(3))
    for step, expected in [
        (lambda t: services.associate(t, 1, scene.router, [queue_id(3)]), {0, 1, 2, 3}),
        (lambda t: services.associate(t, 1, scene.router, [queue_id(3)]), {0, 1, 2, 3}),
        (lambda t: services.associate(t, 1, scene.router, [queue_id(0)], on=False), {1, 2, 3}),
        (lambda t: receive_queues.delete(t, (scene.router, queue_id(1))), {2, 3}),
        (lambda t: receive_queues.delete(t, (scene.router, queue_id(1))), {2, 3}),
        (lambda t: services.associate(t, 1, scene.router, [queue_id(1)]), {2, 3}),
        (lambda t: receive_queues.remove(t, (scene.router, queue_id(2))), {3}),
        (lambda t: receive_queues.remove(t, (scene.router, queue_id(4))), {3}),
        (lambda t: connections.delete(t, C1), set()),
    ]:
        await records.write(step)
        assert (await service(scene)).tally == Tally.of(QueueId(queue_id(n)) for n in expected)


async def test_the_tally_follows_changes_in_bulk(scene: Scene) -> None:
    """S001-86: many at once, some of which change nothing, exist twice in the list or nowhere."""
    await with_service(scene)
    queues = await add_queues(scene, range(3000))
    await scene.records.write(services.associate, scene.user, scene.router, queues[:10])
    wanted = [*queues, *queues[20:25], b"nowhere"]
    changed = await scene.records.write(services.associate, scene.user, scene.router, wanted)
    assert changed == 2990
    assert (await service(scene)).tally.count == 3000
    changed = await scene.records.write(
        services.change, scene.router, queues[1000:2000], deleted=True
    )
    assert changed == 1000
    assert (await service(scene)).tally.count == 2000
    assert await associated(scene) == queues[:1000] + queues[2000:2350]


async def test_one_call_may_change_queues_of_several_users(scene: Scene) -> None:
    """S001-86: each user's service counts its own."""
    records = scene.records
    await with_service(scene)
    other = await records.write(users.add, services=True)
    await records.write(services.put_credentials, other, scene.router, NEW_CREDENTIALS)
    await add_queues(scene, range(2), assoc=True)
    queue = receive_queue(scene.router, 7, other, C2, assoc=True)
    await records.write(receive_queues.add, queue)
    # Of another user's service no queue is taken.
    assert not await records.write(
        services.associate, scene.user, scene.router, [queue_id(7)], on=False
    )
    both = [queue_id(1), queue_id(7)]
    assert await records.write(services.change, scene.router, both, deleted=True) == 2
    for user, left in ((scene.user, 1), (other, 0)):
        kept, counted = await records.read(kept_and_counted, user, scene.router)
        assert kept == counted
        assert kept.count == left


async def test_without_a_record_nothing_is_associated(scene: Scene) -> None:
    queues = await add_queues(scene, range(2), assoc=True)
    assert await scene.records.write(services.associate, scene.user, scene.router, queues) == 0
    assert await associated(scene) == []


async def test_a_service_id_is_stored_and_the_same_one_changes_nothing(scene: Scene) -> None:
    """S001-77: no statement but the question."""
    records = scene.records
    await with_service(scene)
    await add_queues(scene, range(2), assoc=True)
    assert not await records.write(services.put_service_id, scene.user, scene.router, X)
    before = records.statements
    assert not await records.write(services.put_service_id, scene.user, scene.router, X)
    assert records.statements - before == 3
    assert (await service(scene)).tally.count == 2
    # And where there is no record there is nothing to store it in.
    assert not await records.write(services.put_service_id, scene.user, scene.other_router, X)


async def test_another_service_id_clears_the_associations_of_that_router(scene: Scene) -> None:
    """S001-78: in the same transaction. S004-20: those at other routers stay."""
    records = scene.records
    await with_service(scene)
    await records.write(services.put_credentials, scene.user, scene.other_router, CREDENTIALS)
    await records.write(services.put_service_id, scene.user, scene.router, X)
    await add_queues(scene, range(1500), assoc=True)
    elsewhere = await add_queues(scene, range(5), assoc=True, router=scene.other_router)
    before = records.commits
    assert await records.write(services.put_service_id, scene.user, scene.router, Y)
    assert records.commits - before == 1
    found = await service(scene)
    assert (found.service_id, found.tally) == (Y, NOTHING)
    assert await associated(scene) == []
    assert await associated(scene, scene.other_router) == elsewhere
    assert (await service(scene, scene.other_router)).tally.count == 5


async def test_a_record_is_deleted_with_its_associations_at_once(scene: Scene) -> None:
    """S001-84: the queues are single ones then, and new credentials make
    a new record."""
    records = scene.records
    await with_service(scene)
    queues = await add_queues(scene, range(1500), assoc=True)
    before = records.commits
    assert await records.write(services.remove, scene.user, scene.router) == 1500
    assert records.commits - before == 1
    assert await records.read(services.get, scene.user, scene.router) is None
    assert await associated(scene) == []
    single = await records.read(
        receive_queues.page, scene.user, scene.router, limit=2000, which=Which.SINGLE
    )
    assert [queue.recipient_id for queue in single] == queues
    await records.write(services.put_credentials, scene.user, scene.router, NEW_CREDENTIALS)
    assert (await service(scene)).tally == NOTHING


async def test_switching_off_removes_every_record_of_the_user(scene: Scene) -> None:
    """In one transaction; its queues stay, as single ones."""
    records = scene.records
    await with_service(scene)
    await records.write(services.put_credentials, scene.user, scene.other_router, CREDENTIALS)
    queues = await add_queues(scene, range(5), assoc=True)
    other = await records.write(users.add, services=True)
    await records.write(services.put_credentials, other, scene.router, NEW_CREDENTIALS)
    before = records.commits
    found = await records.write(services.switch_off, scene.user)
    assert found == [scene.router, scene.other_router]
    assert records.commits - before == 1
    assert await records.read(services.of_user, scene.user) == []
    assert await associated(scene) == []
    page = await records.read(receive_queues.page, scene.user, scene.router)
    assert [queue.recipient_id for queue in page] == queues
    switched = await records.read(users.get, scene.user)
    assert switched is not None
    assert not switched.services
    assert await records.read(services.of_user, other) == [scene.router]


FILL = """
WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n + 1 < {count})
INSERT INTO receive_queues
    (router, recipient_id, user, connection, key_kind, private_key, dh_key, e2e_private,
    client_version, sender_id, mode, status, assoc, deleted)
SELECT {router}, CAST(printf('%024d', n) AS BLOB), {user}, CAST('c' AS BLOB), 'ed25519',
    x'00', x'00', x'00', 4, x'00', 'messaging', 'active', 0, 0
FROM n
"""


def run(text: str, db: sqlite3.Connection) -> None:
    db.execute(text)


async def test_associations_cost_the_same_in_a_bigger_table() -> None:
    """S004-25: a page of 1,350 among 4,000 and among 400,000 queues, in statements and in steps of
    SQLite's virtual machine."""
    costs = []
    for count in (4_000, 400_000):
        async with await Records.memory() as records:
            scene = await with_service(await prepare(records))
            text = FILL.format(count=count, router=scene.router, user=scene.user)
            await inside(records, partial(run, text))
            # From everywhere in the table.
            page = [queue_id(n) for n in range(0, count, count // 1350)][:1350]
            before = records.statements
            took = await steps(records, services.associate, scene.user, scene.router, page)
            costs.append((records.statements - before, took))
            assert (await service(scene)).tally == Tally.of(map(QueueId, page))
    (small_statements, small_steps), (large_statements, large_steps) = costs
    # BEGIN, the record, flags, update, tally in and out, COMMIT; the rest is for counting steps.
    assert small_statements == large_statements == 7
    assert small_steps == large_steps


@pytest.mark.parametrize("text", [services.FLAGS, services.SET_FLAGS])
async def test_associations_are_found_by_primary_key(records: Records, text: str) -> None:
    """S004-25: as SQLite explains what it does."""
    text = text.format(want="(?, ?)")
    values = [None] * text.count("?")
    plan = await inside(
        records, lambda db: db.execute(f"EXPLAIN QUERY PLAN {text}", values).fetchall()
    )
    found = [row[3] for row in plan if "receive_queues" in row[3]]
    assert found == ["SEARCH receive_queues USING PRIMARY KEY (router=? AND recipient_id=?)"]


def test_flags_are_changed_in_one_place() -> None:
    """S001-86: no other statement changes `assoc` or `deleted` of receive queues."""
    change = re.compile(r"UPDATE receive_queues SET ([^\"]*)")
    places = {
        path.name
        for path in (SOURCE / "agent" / "records").glob("*.py")
        for sets in change.findall(path.read_text())
        if re.search(r"\b(assoc|deleted)\b *=", sets.split("WHERE")[0])
    }
    assert places == {"services.py"}


async def test_the_routers_of_a_user_are_found_without_reading_its_queues(scene: Scene) -> None:
    records = scene.records
    await add_queues(scene, range(50))
    await add_queues(scene, range(50), router=scene.other_router)
    await records.write(connections.add, ConnectionRecord(C3, 9))
    await records.write(receive_queues.add, receive_queue(scene.other_router, 99, 9, C3))
    before = records.statements
    found = await records.read(routers.of_user, scene.user)
    assert found == [scene.router, scene.other_router]
    assert records.statements - before == 3
    assert await records.read(routers.of_user, 9) == [scene.other_router]
    assert await ask(records, "SELECT count(*) FROM receive_queues") == [(101,)]
