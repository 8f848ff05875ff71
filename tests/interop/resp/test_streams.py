"""Streams with redis-py against a router on disk, beside a consumer of another wire. The numbers
are those of the checks in docs/design/streams.md."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from headgate.client.bmq import Client, Subscription
from tests.support.resp_servers import eventually
from tests.support.stream_router import StreamRouter

ADDED = 200


@pytest.fixture
def router(tmp_path: Path) -> Iterator[StreamRouter]:
    router = StreamRouter(tmp_path)
    router.start()
    yield router
    router.stop()


def fetch(
    client: redis.Redis, key: str = "s", consumer: str = "c", group: str = "g", **options: int
) -> list[tuple[str, dict[str, str]]]:
    """New entries of one stream, whichever version of the protocol it is."""
    asked: Any = client
    found = asked.xreadgroup(group, consumer, {key: ">"}, **options)
    if not found:
        return []
    some = found[key][0] if isinstance(found, dict) else found[0][1]
    return [(id, fields) for id, fields in some]


def test_a_lock_of_redis_py(router: StreamRouter) -> None:
    """Acquired, refused to others, extended, acquired again, released, and waited for."""
    mine, other = router.client(), router.client(3)
    lock = mine.lock("lock", timeout=20, thread_local=False)
    assert lock.acquire()
    assert not other.lock("lock").acquire(blocking_timeout=0.1)
    assert 0 < mine.pttl("lock") <= 20_000
    assert lock.extend(40)
    assert 20_000 < mine.pttl("lock") <= 60_000
    assert lock.extend(5, replace_ttl=True)
    assert lock.reacquire()
    assert 5_000 < mine.pttl("lock") <= 20_000
    waiting = threading.Timer(0.2, lock.release)
    waiting.start()
    with other.lock("lock", timeout=20, sleep=0.02, blocking_timeout=20):
        waiting.join()
        with pytest.raises(redis.exceptions.LockNotOwnedError):
            mine.lock("lock", thread_local=False).do_release(b"another")
    assert mine.get("lock") is None
    with pytest.raises(redis.ResponseError, match="there is no Lua here"):
        mine.eval("return 1", 0)


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_worker_of_redis_py(router: StreamRouter, protocol: int) -> None:
    """Checks 1, 24, 25, 27, 39, 41: produce, consume, acknowledge."""
    client = router.client(protocol)
    with pytest.raises(redis.ResponseError, match="requires the key to exist"):
        client.xgroup_create("s", "g", "0")
    assert client.xgroup_create("s", "g", "$", mkstream=True)
    with pytest.raises(redis.ResponseError, match="already exists"):
        client.xgroup_create("s", "g", "$", mkstream=True)
    ids = [client.xadd("s", {"kind": "mail", "n": str(n)}, maxlen=10) for n in range(3)]
    assert client.xlen("s") == 3
    got = fetch(client, count=2)
    assert got == [(ids[n], {"kind": "mail", "n": str(n)}) for n in range(2)]
    summary: Any = client.xpending("s", "g")
    assert (summary["pending"], summary["min"], summary["max"]) == (2, ids[0], ids[1])
    assert summary["consumers"] == [{"name": "c", "pending": 2}]
    listed: Any = client.xpending_range("s", "g", "-", "+", 10)
    assert [(each["message_id"], each["times_delivered"]) for each in listed] == [
        (ids[0], 1),
        (ids[1], 1),
    ]
    assert client.xack("s", "g", *ids[:2]) == 2
    assert client.xack("s", "g", ids[0], "5-5") == 0
    claimed: Any = client.xautoclaim("s", "g", "d", 0)
    assert claimed[1] == []
    assert [id for id, _ in fetch(client)] == [ids[2]]
    groups: Any = client.xinfo_groups("s")
    assert [(each["name"], each["pending"], each["lag"]) for each in groups] == [
        ("g", 1, 0),
        ("h", 0, 3),
    ]
    assert [each["name"] for each in client.xinfo_consumers("s", "g")] == ["c"]


def test_killed_routers_lose_nothing_and_forget_no_ack(router: StreamRouter) -> None:
    """Checks 1, 11, 33: what was answered is there, what was acknowledged does not come back."""
    client = router.client()
    ids = [client.xadd("s", {"n": str(n)}) for n in range(ADDED)]
    got = [id for id, _ in fetch(client, count=ADDED)]
    assert got == ids
    assert client.xack("s", "g", *ids[::2]) == ADDED // 2
    router.kill()
    router.start()
    client = router.client()
    back = fetch(client, consumer="other", count=ADDED)
    assert [id for id, _ in back] == ids[1::2]
    assert [fields for _, fields in back] == [{"n": str(n)} for n in range(1, ADDED, 2)]
    assert len(fetch(client, group="h", count=ADDED)) == ADDED
    # An ack of before the crash still counts.
    assert client.xack("s", "g", *ids[1::2]) == ADDED // 2
    later = client.xadd("s", {"n": "last"})
    assert [id for id, _ in fetch(client)] == [later]
    pairs = [tuple(map(int, str(id).split("-"))) for id in (*ids, later)]
    assert pairs == sorted(set(pairs))


def test_a_killed_router_recognises_what_is_added_again(router: StreamRouter) -> None:
    """Check 16, with entries that are in line and that were acknowledged."""
    client: Any = router.client()
    kept = client.xadd("s", {"n": 1}, idmp=("p", b"1"))
    gone = client.xadd("s", {"n": 2}, idmpauto="p")
    found = [id for id, _ in fetch(client)]
    assert found == [kept, gone]
    assert client.xack("s", "g", gone) == 1
    router.kill()
    router.start()
    again: Any = router.client(3)
    assert again.xadd("s", {"n": 1}, idmp=("p", b"1")) == kept
    assert again.xadd("s", {"n": 2}, idmpauto="p") == gone
    assert [id for id, _ in fetch(again)] == [kept]


def test_what_a_lost_worker_held_goes_to_another(router: StreamRouter) -> None:
    """Checks 30, 48: without XAUTOCLAIM."""
    lost, other = router.client(), router.client()
    id = other.xadd("s", {"n": "1"})
    assert [each for each, _ in fetch(lost, consumer="lost")] == [id]
    lost.close()
    lost.connection_pool.disconnect()
    assert [each for each, _ in fetch(other, consumer="other", block=20_000)] == [id]


def test_read_on_one_connection_acknowledged_on_another(router: StreamRouter) -> None:
    """Check 25."""
    reading, confirming = router.client(), router.client()
    id = reading.xadd("s", {"n": "1"})
    fetch(reading)
    assert confirming.xack("s", "g", id) == 1


def test_a_reader_that_waits_is_woken(router: StreamRouter) -> None:
    """Checks 48, 49, 51."""
    waiting, client = router.client(), router.client()
    assert fetch(waiting, block=50) == []
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.extend(fetch(waiting, block=20_000)))
    thread.start()
    eventually(lambda: any(each["flags"] == "b" for each in client.client_list()), "it waits")
    id = client.xadd("s", {"n": "1"})
    thread.join(20)
    assert got == [(id, {"n": "1"})]


def test_a_transaction(router: StreamRouter) -> None:
    """Check 66: pipelines of redis-py are transactions."""
    client = router.client()
    with client.pipeline() as pipe:
        pipe.xadd("s", {"n": "1"})
        pipe.set("k", "v")
        pipe.xlen("s")
        pipe.get("k")
        id, ok, length, value = pipe.execute()
    assert (ok, length, value) == (True, 1, "v")
    with client.pipeline() as pipe:
        pipe.xreadgroup("g", "c", {"s": ">"})
        pipe.xack("s", "g", id)
        [[_, entries]], acked = pipe.execute()
    assert [each for each, _ in entries] == [id]
    assert acked == 1


def test_expressions_in_the_name(router: StreamRouter) -> None:
    """Check 58: an unmodified client has predicates."""
    client = router.client()
    client.xadd("s", {"kind": "slow", "zip": "01234", "data": "a"})
    express = client.xadd("s", {"kind": "express", "zip": "12345", "data": "b"})
    name = 'w1?where=kind == "express" && zip == "12345"'
    assert fetch(client, consumer=name) == [
        (express, {"kind": "express", "zip": "12345", "data": "b"})
    ]
    with pytest.raises(redis.ResponseError, match="bad expression at"):
        fetch(client, consumer="w1?where=kind ==")


def test_two_wires_share_one_app(router: StreamRouter) -> None:
    """Checks 2, 9, 17, 45: one dispatch; each message reaches one of them, typed or as text."""
    client = router.client()

    async def run() -> None:
        async with await Client.connect(router.bmq) as bmq:
            queue = await bmq.open(
                "bmq://jobs/jobs~3Amail?id=g",
                read=True,
                write=True,
                subscriptions=[Subscription('kind == "express"', priority=5)],
            )
            ask = asyncio.to_thread
            first = await ask(
                client.xadd, "jobs:mail", {"kind": "express", "n": "7", "data": "to bmq"}
            )
            delivery = await anext(queue)
            assert delivery.body == b"to bmq"
            assert dict(delivery.properties) == {"kind": "express", "n": 7}
            pending: Any = await ask(client.xpending_range, "jobs:mail", "g", "-", "+", 10)
            assert [each["message_id"] for each in pending] == [first]
            assert pending[0]["consumer"].startswith("bmq:")
            assert await ask(client.xclaim, "jobs:mail", "g", "c", 0, [first]) == []
            await delivery.confirm()
            await queue.post(b"to redis", {"kind": "slow", "n": 8, "ok": True})
            got = await ask(fetch, client, "jobs:mail", "c", "g", block=20_000)
            assert [fields for _, fields in got] == [
                {"kind": "slow", "n": "8", "ok": "true", "body": "to redis"}
            ]
            last = await ask(client.xadd, "jobs:mail", {"kind": "slow"})
            ids = [tuple(map(int, str(id).split("-"))) for id in (first, got[0][0], last)]
            assert ids == sorted(ids)

    asyncio.run(run())


def test_values_survive(router: StreamRouter) -> None:
    """Check 10: any bytes, and a large body."""
    client: Any = redis.Redis(*router.resp)
    large = bytes(range(256)) * (4 << 12)
    fields = {b"raw": b"\0\r\n\xff", b"n": b"007", b"data": large}
    id = client.xadd("s", fields)
    [[_, [[got, back]]]] = client.xreadgroup("g", "c", {"s": ">"})
    assert (got, back) == (id, fields)
    with pytest.raises(redis.ResponseError):
        client.xadd("s", {b"data": b"x" * (17 << 20)})
    client.close()


def test_many_readers_wait_and_get_one_each(router: StreamRouter) -> None:
    """Check 55, with fewer."""
    count = 50
    clients = [router.client() for _ in range(count)]
    got: list[str] = []

    def wait(number: int) -> None:
        found = fetch(clients[number], consumer=f"c{number}", count=1, block=30_000)
        got.extend(id for id, _ in found)

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    client = router.client()
    eventually(
        lambda: sum(each["flags"] == "b" for each in client.client_list()) == count, "all wait"
    )
    ids = [client.xadd("s", {"n": str(n)}) for n in range(count)]
    for thread in threads:
        thread.join(30)
    assert sorted(got) == sorted(ids)


def test_many_entries_in_one_write(router: StreamRouter) -> None:
    """Check 18."""
    client = router.client()
    count = 10_000
    pipe = client.pipeline(transaction=False)
    for number in range(count):
        pipe.xadd("s", {"n": str(number)})
    ids = [tuple(map(int, id.split("-"))) for id in pipe.execute()]
    assert len(ids) == count
    assert ids == sorted(set(ids))
    got = []
    while some := fetch(client, group="h", count=1000):
        got += [fields["n"] for _, fields in some]
    assert got == [str(number) for number in range(count)]
