"""Losing the connection, and leaving."""

from __future__ import annotations

import asyncio
from itertools import islice, pairwise

import pytest

from headgate.client.bmq import (
    Change,
    Client,
    Closed,
    Lost,
    NotConnected,
    Queue,
    RequestRefused,
    Restored,
    Subscription,
    TimedOut,
    session,
)
from headgate.client.bmq.session import pauses
from headgate.errors import (
    ProtocolError,
)
from headgate.wire.bmq.codec.control import (
    Category,
    CloseQueue,
    CloseQueueResponse,
    ConfigureStream,
    DisconnectRequest,
    OpenQueue,
    Status,
)
from headgate.wire.bmq.codec.frames import EventType, event
from tests.client.conftest import Connect
from tests.support.bmq_peer import URI, A, B, C, Peer, pushed, puts, settled, taken, until

# Losing the connection.


async def test_what_was_not_acknowledged_is_sent_again_with_its_id_in_order(
    peer: Peer, connect: Connect
) -> None:
    """The router takes it once, by its id."""
    changes: list[Change] = []
    client = await connect(on_change=changes.append)
    queue = await client.open(URI, write=True)
    peer.acknowledges = False
    posting = [asyncio.create_task(queue.post(b"%d" % n)) for n in range(5)]
    first = peer.talk
    guids = list(await puts(first, 5))
    first.ack(guids[1])
    assert await posting[1] == guids[1]
    await peer.stop()
    await until(lambda: changes, "the loss")
    assert not client.is_connected
    posting += [asyncio.create_task(queue.post(b"%d" % n)) for n in (5, 6)]
    await peer.start()
    second = await peer.talked(2)
    await puts(second, 6)
    assert second.guids[:4] == [guids[0], *guids[2:]]
    assert [put.data for put in second.puts] == [b"0", b"2", b"3", b"4", b"5", b"6"]
    second.ack(*second.guids)
    assert await asyncio.gather(*posting) == [second.guids[0], guids[1], *second.guids[1:]]
    assert isinstance(changes[0], Lost)
    assert isinstance(changes[1], Restored)
    assert len(changes) == 2


async def test_queues_are_opened_as_they_were(peer: Peer, client: Client) -> None:
    writer = await client.open(URI, write=True)
    await client.open(f"{URI}?id=a", read=True, subscriptions=[Subscription("x > 1")])
    changed = await client.open("bmq://orders/changed", read=True)
    await changed.configure([Subscription("x > 2")])
    paused = await client.open("bmq://orders/paused", read=True)
    await paused.pause()
    closed = await client.open("bmq://orders/closed", read=True)
    await closed.close()
    before = [each.handle for each in peer.talk.requests(OpenQueue)][:4]
    requests = peer.talk.asked[-1].request_id
    peer.talk.drop()
    talk = await peer.talked(2)
    await writer.post(b"x")
    assert [each.handle for each in talk.requests(OpenQueue)] == before
    configured = talk.requests(ConfigureStream)
    texts = [each.stream.subscriptions[0].expression.text for each in configured]
    assert texts == ["x > 1", "x > 2"]
    assert talk.hello.guid_info == peer.talks[0].hello.guid_info
    assert requests is not None
    assert talk.asked[0].request_id == requests + 1


async def test_deliveries_of_the_lost_connection_are_forgotten(peer: Peer, client: Client) -> None:
    """They come again, and only then are they confirmed."""
    queue = await client.open(URI, read=True)
    peer.talk.push(*pushed(peer.talk, A, B, C))
    lost = await anext(queue)
    peer.talk.drop()
    talk = await peer.talked(2)
    await settled(client)
    await lost.confirm()
    talk.push(*pushed(talk, A, B))
    again = await anext(queue)
    assert (lost.guid, again.guid) == (A, A)
    await again.confirm()
    assert await taken(queue, 1) == [B]
    await until(lambda: talk.confirmed, "the confirmation")
    assert [each.guid for each in talk.confirmed] == [A]


async def test_a_request_that_lost_its_connection_is_asked_again(
    peer: Peer, client: Client
) -> None:
    queue = await client.open(URI, read=True)
    peer.refusals[ConfigureStream] = peer.refusals[OpenQueue] = None
    asking = [
        asyncio.create_task(queue.configure([Subscription("x > 1")])),
        asyncio.create_task(client.open("bmq://orders/other", write=True)),
    ]
    await until(lambda: len(peer.talk.asked) == 4, "both requests")
    peer.refusals.clear()
    peer.talk.drop()
    await asyncio.gather(*asking)
    talk = await peer.talked(2)
    configured = talk.requests(ConfigureStream)
    texts = [each.stream.subscriptions[0].expression.text for each in configured]
    assert texts == ["", "x > 1"]
    uris = [each.handle.uri for each in talk.requests(OpenQueue)]
    assert uris == [URI, "bmq://orders/other"]


async def test_a_queue_that_is_not_opened_again_is_over_and_the_others_go_on(
    peer: Peer, client: Client
) -> None:
    other = await client.open("bmq://orders/other", write=True)
    queue = await client.open(URI, read=True, write=True)
    peer.acknowledges = False
    posting = asyncio.create_task(queue.post(b"x"))
    reading = asyncio.create_task(taken(queue, 1))
    await puts(peer.talk, 1)
    peer.refusals[ConfigureStream] = Status(Category.REFUSED, -6, "no more")
    peer.acknowledges = True
    peer.talk.drop()
    for task in (posting, reading):
        with pytest.raises(RequestRefused, match="no more"):
            await task
    with pytest.raises(RequestRefused, match="no more"):
        await queue.configure([])
    await other.post(b"x")
    peer.refusals.clear()
    again = await client.open(URI, read=True, write=True)
    await again.post(b"x")


async def test_a_router_that_is_not_ready_is_asked_later(peer: Peer, client: Client) -> None:
    queue = await client.open(URI, write=True)
    peer.refusals[OpenQueue] = Status(Category.NOT_READY, -8, "starting")
    peer.talk.drop()
    await peer.talked(3)
    peer.refusals.clear()
    await queue.post(b"x")


async def test_a_router_that_does_not_answer_is_asked_again(
    peer: Peer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ATTEMPT_SECONDS_MAX", 0.1)
    queue = await client.open(URI, write=True)
    peer.refusals[OpenQueue] = None
    peer.talk.drop()
    await peer.talked(3)
    peer.refusals.clear()
    await queue.post(b"x")


async def test_a_queue_that_was_closed_meanwhile_is_not_left_open(
    peer: Peer, client: Client
) -> None:
    first = await client.open("bmq://orders/first", read=True)
    second = await client.open("bmq://orders/second", read=True)
    third = await client.open("bmq://orders/third", write=True)
    await peer.stop()
    await until(lambda: not client.is_connected, "the loss")
    await third.close()
    await peer.start()
    peer.refusals[ConfigureStream] = None
    talk = await peer.talked(2)
    await until(lambda: talk.requests(ConfigureStream), "the first configured")
    await first.close()
    number = talk.asked[-1].request_id
    del peer.refusals[ConfigureStream]
    answer = peer.decide(talk.requests(ConfigureStream)[0])
    assert answer is not None
    talk.say(number, answer)
    await second.configure([])
    uris = [each.handle.uri for each in talk.requests(OpenQueue)]
    assert uris == ["bmq://orders/first", "bmq://orders/second"]
    assert [each.handle.uri for each in talk.requests(CloseQueue)] == ["bmq://orders/first"]


async def test_patience_ends(peer: Peer, connect: Connect) -> None:
    client = await connect(patience=0.3)
    queue = await client.open(URI, read=True, write=True)
    peer.acknowledges = False
    posting = asyncio.create_task(queue.post(b"x"))
    reading = asyncio.create_task(taken(queue, 1))
    await puts(peer.talk, 1)
    await peer.stop()
    for task in (posting, reading):
        with pytest.raises(NotConnected, match=r"no router on .* for 0\.3 seconds: no router"):
            await task
    for call in (queue.post(b"x"), queue.configure([]), client.open("bmq://d/q", write=True)):
        with pytest.raises(NotConnected, match="no router on"):
            await call
    await queue.close()


async def test_a_call_while_there_is_no_router_takes_too_long(peer: Peer, connect: Connect) -> None:
    client = await connect(timeout=1.5)
    queue = await client.open(URI, read=True, write=True)
    await peer.stop()
    await until(lambda: not client.is_connected, "the loss")
    for call in (
        queue.post(b"x"),
        queue.post(b"x", acknowledged=False),
        queue.pause(),
        client.open("bmq://d/q", write=True),
    ):
        with pytest.raises(TimedOut):
            await call


@pytest.mark.parametrize(
    "nonsense",
    [
        event(EventType.PUSH, b"junk"),
        event(EventType.ACK, b""),
        event(EventType.CONTROL, b"\x30\x80\x04\x04\x04\x04"),
        event(EventType.PUT, b""),
        event(6, b"what?"),
        b"\xff" * 8,
    ],
    ids=["push", "ack", "control", "put", "unknown", "frame"],
)
async def test_a_router_that_breaks_the_protocol_is_left(
    peer: Peer, connect: Connect, nonsense: bytes
) -> None:
    changes: list[Change] = []
    client = await connect(on_change=changes.append)
    peer.talk.send(nonsense)
    await until(lambda: len(changes) == 2, "the loss and the next connection")
    [lost, _] = changes
    assert isinstance(lost, Lost)
    assert "protocol" in lost.reason
    await client.open(URI, write=True)


async def test_pauses_grow_and_stay_within_their_bounds() -> None:
    some = list(islice(pauses(), 20))
    assert 0.1 <= some[0] <= 0.2
    assert max(some) == some[-1] == 10.0
    assert all(before <= 2 * after for before, after in pairwise(some))


async def test_an_answer_to_another_question_is_not_taken(peer: Peer, client: Client) -> None:
    queue = await client.open(URI, read=True)
    peer.refusals[ConfigureStream] = CloseQueueResponse()
    with pytest.raises(ProtocolError, match="CloseQueueResponse is no answer to ConfigureStream"):
        await queue.pause()


async def test_a_mistake_of_ours_is_told_and_not_waited_for(
    peer: Peer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bool:
        raise RuntimeError("oops")

    queue = await client.open(URI, read=True)
    monkeypatch.setattr(Queue, "take", fail)
    peer.talk.push(*pushed(peer.talk, A))
    with pytest.raises(NotConnected, match="a mistake in the client: RuntimeError"):
        await taken(queue, 1)


async def test_a_queue_that_does_not_close_in_time_is_told_to_once_more(
    peer: Peer, connect: Connect
) -> None:
    client = await connect(timeout=1.5)
    queue = await client.open(URI, read=True)
    peer.refusals[ConfigureStream] = None
    with pytest.raises(TimedOut, match=f"closing {URI}"):
        await queue.close()
    await until(lambda: peer.talk.requests(CloseQueue), "the queue closed")


# Leaving.


async def test_leaving_is_told_after_everything_else(peer: Peer) -> None:
    async with await Client.connect(peer.address) as client:
        queue = await client.open(URI, read=True)
        peer.talk.push(*pushed(peer.talk, A))
        await (await anext(queue)).confirm()
    assert [each.guid for each in peer.talk.confirmed] == [A]
    assert len(peer.talk.requests(DisconnectRequest)) == 1
    assert peer.talk.events[-2:] == [EventType.CONFIRM, EventType.CONTROL]
    with pytest.raises(Closed):
        await client.open("bmq://d/q", read=True)
    with pytest.raises(StopAsyncIteration):
        await anext(queue)


async def test_what_waits_when_the_client_leaves_is_told(peer: Peer, client: Client) -> None:
    peer.acknowledges = False
    queue = await client.open(URI, write=True)
    posting = asyncio.create_task(queue.post(b"x"))
    await puts(peer.talk, 1)
    await client.close()
    with pytest.raises(Closed):
        await posting
    await client.close()


async def test_a_router_that_does_not_say_goodbye_is_left_anyway(
    peer: Peer, connect: Connect
) -> None:
    client = await connect(timeout=1.5)
    peer.refusals[DisconnectRequest] = None
    await client.close()
    await until(lambda: peer.talk.is_over, "the end")


async def test_a_client_leaves_while_it_connects_again(peer: Peer, client: Client) -> None:
    await client.open(URI, write=True)
    peer.refusals[OpenQueue] = None
    peer.talk.drop()
    talk = await peer.talked(2)
    await until(lambda: talk.asked, "the queue opened")
    await client.close()
    await until(lambda: talk.is_over, "the end")
