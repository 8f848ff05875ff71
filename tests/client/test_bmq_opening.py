"""Opening, configuring and closing queues: what is asked of the router."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.client.bmq import (
    Client,
    Closed,
    RequestRefused,
    Subscription,
    TimedOut,
)
from headgate.errors import (
    BadSubscription,
    Prohibited,
    Refused,
)
from headgate.wire.bmq.codec.control import (
    Category,
    ClientIdentity,
    CloseQueue,
    ConfigureQueueStream,
    ConfigureStream,
    ConsumerInfo,
    Expression,
    OpenQueue,
    QueueStreamParameters,
    Status,
    SubIdInfo,
)
from headgate.wire.bmq.codec.messages import (
    Push,
)
from tests.client.conftest import Connect
from tests.support.bmq_peer import URI, A, Peer, taken, until


async def test_a_reader_is_opened_and_configured(peer: Peer, client: Client) -> None:
    """Each subscription has a number."""
    wanted = [Subscription('kind == "express"', 10, 100, 1 << 20), Subscription(None, -1)]
    await client.open(f"{URI}?id=shipping", read=True, subscriptions=wanted)
    [opened] = peer.talk.requests(OpenQueue)
    assert opened.handle.uri == f"{URI}?id=shipping"
    assert (opened.handle.queue_id, opened.handle.sub_id_info) == (0, SubIdInfo(1, "shipping"))
    assert (opened.handle.flags, opened.handle.read_count, opened.handle.write_count) == (2, 1, 0)
    [configured] = peer.talk.requests(ConfigureStream)
    assert (configured.queue_id, configured.stream.app_id) == (0, "shipping")
    first, second = configured.stream.subscriptions
    assert (first.s_id, second.s_id) == (1, 2)
    assert first.expression == Expression(1, 'kind == "express"')
    assert first.consumers == (ConsumerInfo(100, 1 << 20, 10, 1),)
    assert second.expression == Expression(0, "")


async def test_queues_are_numbered_and_share_the_number_with_their_apps(
    peer: Peer, client: Client
) -> None:
    await client.open(URI, write=True)
    await client.open(f"{URI}?id=a", read=True)
    b = await client.open(f"{URI}?id=b", read=True)
    await client.open("bmq://orders/other", read=True, write=True)
    handles = [each.handle for each in peer.talk.requests(OpenQueue)]
    assert [handle.queue_id for handle in handles] == [0, 0, 0, 1]
    assert [handle.sub_id_info for handle in handles] == [
        None,
        SubIdInfo(1, "a"),
        SubIdInfo(2, "b"),
        None,
    ]
    assert [handle.flags for handle in handles] == [4, 2, 2, 6]
    assert [message.request_id for message in peer.talk.asked] == list(range(1, 8))
    await b.close()
    [close] = peer.talk.requests(CloseQueue)
    assert (close.handle, close.is_final) == (handles[2], False)
    last = peer.talk.requests(ConfigureStream)[-1]
    assert last.stream.subscriptions == ()


async def test_the_last_of_a_queue_is_closed_finally(peer: Peer, client: Client) -> None:
    queue = await client.open(URI, write=True)
    await queue.close()
    await queue.close()
    [close] = peer.talk.requests(CloseQueue)
    assert close.is_final
    assert not peer.talk.requests(ConfigureStream)
    with pytest.raises(Closed):
        await queue.post(b"x")
    await client.open(URI, write=True)
    assert peer.talk.requests(OpenQueue)[-1].handle.queue_id == 1


async def test_what_cannot_be_opened_is_refused_without_asking(peer: Peer, client: Client) -> None:
    await client.open(URI, write=True)
    with pytest.raises(Prohibited, match="open it for both"):
        await client.open(URI, read=True)
    with pytest.raises(Prohibited, match="to read, to write or both"):
        await client.open("bmq://orders/other")
    with pytest.raises(Prohibited, match="for reading"):
        await client.open("bmq://orders/other", write=True, subscriptions=[Subscription()])
    with pytest.raises(Refused, match="bmq://"):
        await client.open("amqp://orders/other", write=True)
    assert len(peer.talk.asked) == 1


@pytest.mark.parametrize(
    "text", ["", " ", "x > ", "()", "x = 1", "true", "x " + "x" * 99_999, "\ud800"]
)
async def test_a_wrong_expression_is_not_even_sent(peer: Peer, client: Client, text: str) -> None:
    """BMQ-3, BMQ-4, BMQ-18: together with those that are right."""
    with pytest.raises(BadSubscription):
        await client.open(URI, read=True, subscriptions=[Subscription("x > 1"), Subscription(text)])
    queue = await client.open(URI, read=True, subscriptions=[Subscription("x > 1")])
    with pytest.raises(BadSubscription):
        await queue.configure([Subscription("x > 2"), Subscription(text)])
    assert len(peer.talk.requests(ConfigureStream)) == 1
    assert queue.subscriptions == (Subscription("x > 1"),)


@pytest.mark.parametrize(
    "wrong",
    [
        Subscription(priority=2**31),
        Subscription(max_unconfirmed_messages=-1),
        Subscription(max_unconfirmed_bytes=2**63),
    ],
    ids=["priority", "messages", "bytes"],
)
async def test_numbers_that_the_wire_cannot_carry_are_refused(
    peer: Peer, client: Client, wrong: Subscription
) -> None:
    with pytest.raises(Prohibited):
        await client.open(URI, read=True, subscriptions=[wrong])
    assert not peer.talk.asked


async def test_a_refused_configure_changes_nothing(peer: Peer, client: Client) -> None:
    queue = await client.open(URI, read=True)
    peer.refusals[ConfigureStream] = Status(Category.INVALID_ARGUMENT, -7, "too long")
    with pytest.raises(RequestRefused, match="too long"):
        await queue.configure([Subscription("x > 1")])
    assert queue.subscriptions == (Subscription(),)


async def test_a_reader_whose_configure_is_refused_is_closed_again(
    peer: Peer, client: Client
) -> None:
    peer.refusals[ConfigureStream] = Status(Category.INVALID_ARGUMENT, -7, "too long")
    with pytest.raises(RequestRefused, match="too long"):
        await client.open(URI, read=True)
    assert len(peer.talk.requests(CloseQueue)) == 1
    del peer.refusals[ConfigureStream]
    await client.open(URI, read=True)


async def test_what_is_not_answered_in_time_is_closed_for_safety(
    peer: Peer, connect: Connect
) -> None:
    client = await connect(timeout=1.5)
    peer.refusals[OpenQueue] = None
    with pytest.raises(TimedOut, match=f"opening {URI}"):
        await client.open(URI, read=True)
    await until(lambda: peer.talk.requests(CloseQueue), "the queue closed")
    with pytest.raises(TimeoutError):
        await client.open(URI, read=True)


async def test_pausing_leaves_no_subscription_and_configuring_brings_them_back(
    peer: Peer, client: Client
) -> None:
    queue = await client.open(URI, read=True, subscriptions=[Subscription("x > 1")])
    await queue.pause()
    assert queue.subscriptions == ()
    assert peer.talk.requests(ConfigureStream)[-1].stream.subscriptions == ()
    await queue.configure([])
    [everything] = peer.talk.requests(ConfigureStream)[-1].stream.subscriptions
    assert everything.expression == Expression(0, "")
    assert everything.s_id == 2


async def test_a_writer_cannot_be_read_nor_a_reader_posted_to(client: Client) -> None:
    writer = await client.open(URI, write=True)
    with pytest.raises(Prohibited, match="not opened to read"):
        await writer.configure([])
    with pytest.raises(Prohibited, match="not opened to read"):
        await anext(writer)
    reader = await client.open("bmq://orders/other", read=True)
    with pytest.raises(Prohibited, match="not opened to write"):
        await reader.post(b"x")


async def test_a_broker_without_subscriptions_gets_one_priority_and_one_window(
    peer: Peer, connect: Connect
) -> None:
    peer.answer = replace(peer.answer, broker_identity=ClientIdentity(features=""))
    client = await connect()
    uri = f"{URI}?id=a"
    queue = await client.open(uri, read=True, subscriptions=[Subscription(None, 3, 7, 9999)])
    [configured] = peer.talk.requests(ConfigureQueueStream)
    app = SubIdInfo(1, "a")
    assert configured.stream == QueueStreamParameters(app, 7, 9999, 3, 1)
    peer.talk.push(Push(0, A, 0, b"body", (1,)))
    assert await taken(queue, 1) == [A]
    with pytest.raises(Prohibited, match="knows no subscriptions"):
        await queue.configure([Subscription("x > 1")])
    with pytest.raises(Prohibited, match="knows no subscriptions"):
        await queue.configure([Subscription(), Subscription()])
    await queue.pause()
    configured = peer.talk.requests(ConfigureQueueStream)[-1]
    assert configured.stream == QueueStreamParameters(app, 0, 0, -(2**31), 0)
    with pytest.raises(Prohibited, match="knows no subscriptions"):
        await client.open("bmq://d/q", read=True, subscriptions=[Subscription("x > 1")])
    assert len(peer.talk.requests(CloseQueue)) == 1
