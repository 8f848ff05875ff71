"""A part of the tests of streams once more, with two workers. `TEST_WORKERS=2` does so for all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import redis

from tests.interop.resp.test_streams import (
    fetch,
    test_a_worker_of_redis_py,
    test_expressions_in_the_name,
)
from tests.support.resp_servers import eventually
from tests.support.resp_workers import Workers, started
from tests.support.stream_router import DOMAINS, StreamRouter

__all__ = ["test_a_worker_of_redis_py", "test_expressions_in_the_name"]


@pytest.fixture
def router(tmp_path: Path) -> Iterator[StreamRouter]:
    router = StreamRouter(tmp_path, workers=2)
    router.start()
    yield router
    router.stop()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    with started(tmp_path_factory.mktemp("streams"), more=DOMAINS) as workers:
        yield workers


def on(two: Workers, worker: int) -> redis.Redis:
    return two.client_on(worker, decode_responses=True)


Words: TypeAlias = tuple[str | int, ...]


def together(client: redis.Redis, *commands: Words) -> list[Any]:
    """The answers to some commands that are sent at once. A pipeline of redis-py takes another
    connection, which may be another worker's."""
    connection = client.connection
    assert connection is not None
    for words in commands:
        connection.send_command(*words)  # type: ignore[no-untyped-call]
    return [connection.read_response() for _ in commands]


@pytest.mark.parametrize(("here", "there"), [(0, 1), (1, 0), (1, 1)])
def test_what_is_added_on_one_worker_is_read_on_another(
    two: Workers, here: int, there: int
) -> None:
    """In its order, by many commands at once, and acknowledged."""
    key = f"s-{here}-{there}"
    adding, reading = on(two, here), on(two, there)
    assert reading.xgroup_create(key, "g", "$", mkstream=True)
    ids = together(adding, *(("XADD", key, "*", "n", number) for number in range(50)))
    got = fetch(reading, key, count=100)
    assert got == [(id, {"n": str(number)}) for number, id in enumerate(ids)]
    assert reading.xack(key, "g", *ids) == 50
    assert adding.xlen(key) == reading.xlen(key)
    for client in (adding, reading):
        client.close()


@pytest.mark.parametrize("worker", [0, 1])
def test_a_blocked_read_is_woken_from_another_worker(two: Workers, worker: int) -> None:
    """By an entry, by its time, and by CLIENT UNBLOCK."""
    key = f"s-blocked-{worker}"
    reading, other = on(two, worker), on(two, 1 - worker)
    assert reading.xgroup_create(key, "g", "$", mkstream=True)
    assert fetch(reading, key, block=20) == []
    number = reading.client_id()
    connection = reading.connection
    assert connection is not None
    words = ("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", key, ">")
    connection.send_command(*words)  # type: ignore[no-untyped-call]
    id = other.xadd(key, {"n": "1"})
    [[_, [entry]]] = connection.read_response()
    assert entry[0] == id
    connection.send_command(*words)  # type: ignore[no-untyped-call]
    eventually(lambda: other.client_unblock(number) == 1, "the read waits, and is ended")
    assert connection.read_response() is None
    assert other.client_unblock(number) == 0
    for client in (reading, other):
        client.close()


@pytest.mark.parametrize("worker", [0, 1])
def test_a_transaction_of_streams_is_whole(two: Workers, worker: int) -> None:
    """One that has keys, too, is refused where it cannot be carried out in one go."""
    client, key = on(two, worker), f"s-multi-{worker}"
    client.xgroup_create(key, "g", "$", mkstream=True)
    words: list[Words] = [("XADD", key, "*", "n", 1), ("PUBLISH", "heard", "x"), ("XLEN", key)]
    *_, (id, receivers, length) = together(client, ("MULTI",), *words, ("EXEC",))
    assert (receivers, length) == (0, 1)
    assert fetch(client, key) == [(id, {"n": "1"})]
    words = [("XADD", key, "*", "n", 2), ("SET", "key", "value")]
    if worker == 0:
        *_, done = together(client, ("MULTI",), *words, ("EXEC",))
        assert done[1] == "OK"
    else:
        with pytest.raises(redis.ResponseError, match="keys and streams cannot be in one"):
            together(client, ("MULTI",), *words, ("EXEC",))
        assert client.xlen(key) == 1
    client.close()


def test_what_a_client_that_left_held_goes_to_another(two: Workers) -> None:
    """Also if they are on two workers."""
    first, second = on(two, 1), on(two, 0)
    first.xgroup_create("s-left", "g", "$", mkstream=True)
    id = first.xadd("s-left", {"n": "1"})
    assert fetch(first, "s-left", "one") == [(id, {"n": "1"})]
    first.close()
    eventually(
        lambda: fetch(second, "s-left", "two", block=100) == [(id, {"n": "1"})], "it comes again"
    )
    second.close()
