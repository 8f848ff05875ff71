"""The pump: what a socket does not take waits, and ends are told once."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from headgate.core.delivery.mailbox import Budget, Mailbox, Pressure
from headgate.core.model.ids import SessionId
from headgate.server.net.connection import Connection, SocketPipe
from headgate.server.net.poller import poller_of
from tests.support.socket_buffers import narrow_sender

ID = SessionId(1)
BIG = b"x" * 4_000_000


class Watcher:
    """The owner of a connection, and its wire."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.reasons: list[str] = []
        self.pressures: list[Pressure] = []
        self.fails = False
        self.is_closed = False
        self.goes_on = 0
        self._happened = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something happened that makes it true."""
        async with asyncio.timeout(20):
            while not condition():
                self._happened.clear()
                await self._happened.wait()

    def receive(self, data: bytes) -> None:
        if self.fails:
            raise RuntimeError("a mistake of ours")
        self.received += data
        self._happened.set()

    owes_answers = False
    """Who hangs up is gone."""

    def go_on(self) -> None:
        self.goes_on += 1

    def let_go(self) -> None:
        self.is_let_go = True

    def pressed(self, connection: Connection) -> None:
        self.pressures.append(connection.mailbox.pressure)

    def eased(self, connection: Connection, before: Pressure) -> None:
        self.pressures.append(connection.mailbox.pressure)
        self._happened.set()

    def ended(self, connection: Connection) -> None:
        self.is_closed = True

    def gone(self, connection: Connection, reason: str) -> None:
        self.reasons.append(reason)
        self._happened.set()


class OpenPipe(SocketPipe):
    """A pipe that takes everything once it is open, whatever a socket would take."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected)
        self.is_open = False
        self.taken: list[bytes] = []
        self.told: Callable[[], None] = lambda: None
        """Called after each item."""
        self.send = self._send  # type: ignore[assignment]

    def _send(self, data: bytes) -> int:
        if not self.is_open:
            raise BlockingIOError
        self.taken.append(data)
        self.told()
        return len(data)


class Pair:
    """A connection, and the client's end of it."""

    def __init__(self, quota: int = 100, pipe: type[SocketPipe] = SocketPipe) -> None:
        ours, self.client = socket.socketpair()
        narrow_sender(ours)
        ours.setblocking(False)
        self.client.setblocking(False)
        self.budget = Budget(10**9, 2_000_000, 10**8)
        self.watcher = Watcher()
        self.poller = poller_of(asyncio.get_running_loop())
        self.pipe = pipe(ours)
        self.connection = Connection(
            asyncio.get_running_loop(),
            self.poller,
            self.pipe,
            self.watcher,
            ID,
            Mailbox(ID, self.budget),
            lambda: 0.0,
            quota,
            1000,
        )
        self.connection.start(self.watcher)

    def close(self) -> None:
        self.connection.close("the test is over", at_once=True)
        self.client.close()

    async def read(self, size: int) -> bytes:
        """So many bytes, or what there was before the end."""
        loop, data = asyncio.get_running_loop(), b""
        async with asyncio.timeout(20):
            while len(data) < size:
                part = await loop.sock_recv(self.client, 1 << 20)
                if not part:
                    break
                data += part
        return data

    async def until_gone(self) -> None:
        await self.watcher.until(lambda: bool(self.watcher.reasons))


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    made = Pair()
    yield made
    made.close()


async def test_what_the_socket_takes_never_waits(pair: Pair) -> None:
    pair.connection.write(b"+OK\r\n")
    pair.connection.deliver(b"hello", 1)
    assert await pair.read(10) == b"+OK\r\nhello"
    assert (pair.budget.bytes, pair.budget.stuck) == (0, {})


async def test_what_it_does_not_take_waits_and_leaves_in_order(pair: Pair) -> None:
    """S002-46, S002-57."""
    pair.connection.deliver(BIG, 1)
    pair.connection.write(b"answer")
    assert pair.connection.mailbox.bytes > 3_000_000
    assert pair.watcher.pressures[0] is Pressure.SOFT
    assert await pair.read(len(BIG) + 6) == BIG + b"answer"
    assert (pair.budget.bytes, pair.budget.stuck, pair.budget.slow) == (0, {}, {})
    assert pair.watcher.pressures[-1] is Pressure.EASY


async def test_bytes_for_many_sessions_exist_once(pair: Pair) -> None:
    """S002-32, S002-33: what waits is a view of the very bytes that were delivered."""
    pair.connection.deliver(BIG, 1)
    pair.connection.deliver(BIG, 1)
    part, whole = (item for item, _, _ in pair.connection.mailbox._line)
    assert whole is BIG
    assert isinstance(part, memoryview)
    assert part.obj is BIG


async def test_a_client_that_takes_no_answers_is_read_no_further(pair: Pair) -> None:
    """The limit answer_bytes, one above."""
    pair.connection.deliver(BIG, 1)
    pair.connection.write(b"a" * 1000)
    pair.client.send(b"one ")
    await pair.watcher.until(lambda: pair.watcher.received == b"one ")
    pair.connection.write(b"b")
    pair.client.send(b"two ")
    await asyncio.sleep(0.05)
    assert pair.watcher.received == b"one "
    await pair.read(len(BIG) + 1001)
    await pair.watcher.until(lambda: pair.watcher.received == b"one two ")
    assert pair.watcher.goes_on == 1


async def test_a_paused_session_is_not_read_and_still_written(pair: Pair) -> None:
    """S002-60."""
    pair.connection.pause()
    pair.client.send(b"later")
    pair.connection.deliver(b"now", 1)
    assert await pair.read(3) == b"now"
    assert pair.watcher.received == b""
    pair.connection.resume()
    await pair.watcher.until(lambda: pair.watcher.received == b"later")


async def test_last_words_are_written_before_the_end(pair: Pair) -> None:
    pair.connection.deliver(BIG, 1)
    pair.connection.close("done")
    pair.connection.deliver(b"not this", 1)
    pair.client.send(b"nor is this carried out")
    assert await pair.read(len(BIG) + 1) == BIG
    await pair.until_gone()
    assert pair.watcher.reasons == ["done"]
    assert pair.watcher.received == b""


async def test_a_session_that_must_go_goes_at_once(pair: Pair) -> None:
    pair.connection.deliver(BIG, 1)
    pair.connection.close("evicted", at_once=True)
    assert pair.watcher.reasons == ["evicted"]
    assert len(await pair.read(len(BIG))) < len(BIG)


async def test_a_client_that_closes_is_told_once(pair: Pair) -> None:
    pair.client.close()
    await pair.until_gone()
    pair.connection.close("again", at_once=True)
    assert pair.watcher.reasons == ["closed by the client"]


async def test_a_mistake_of_ours_ends_that_session_alone(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.watcher.fails = True
    pair.client.send(b"x")
    await pair.until_gone()
    assert pair.watcher.reasons == ["internal error"]
    assert "a session failed" in caplog.text


@pytest.mark.parametrize(("quota", "in_a_row"), [(1, 1), (100, 100), (0, 250)])
async def test_after_a_quota_of_items_others_get_their_turn(quota: int, in_a_row: int) -> None:
    """S002-43, S002-44: what a client sends when the first item of its mailbox is written is read
    after so many of them, and with no quota after all."""
    made = Pair(quota, OpenPipe)
    pipe, watcher = made.pipe, made.watcher
    assert isinstance(pipe, OpenPipe)
    items = [b"%d" % number for number in range(250)]
    for item in items:
        made.connection.deliver(item, 1)
    taken_when_read: list[int] = []
    receive = watcher.receive

    def speak() -> None:
        if len(pipe.taken) == 1:
            made.client.send(b"PING")

    def see(data: bytes) -> None:
        taken_when_read.append(len(pipe.taken))
        receive(data)

    pipe.told = speak
    watcher.receive = see  # type: ignore[method-assign]
    pipe.is_open = True
    await watcher.until(lambda: watcher.received == b"PING")
    await watcher.until(lambda: pipe.taken == items)
    assert taken_when_read == [in_a_row]
    made.close()


async def test_a_session_that_is_over_can_be_forgotten_at_once(pair: Pair) -> None:
    """Connection and session hold each other; the collector of cycles may come late."""
    pair.connection.close("over", at_once=True)
    assert not hasattr(pair.connection, "reader")


async def test_what_was_sent_before_a_half_close_is_carried_out(pair: Pair) -> None:
    """RESP-63 is about who waits for others; this one only has a long line of commands."""
    pair.connection.pause(may_leave=False)
    pair.client.send(b"last")
    pair.client.shutdown(socket.SHUT_WR)
    await asyncio.sleep(0.05)
    assert pair.watcher.reasons == []
    pair.connection.resume()
    await pair.until_gone()
    assert pair.watcher.received == b"last"


async def test_who_comes_to_wait_for_others_is_seen_to_leave(pair: Pair) -> None:
    """RESP-63: also if it was paused before, for a long line of commands."""
    pair.connection.pause(may_leave=False)
    pair.connection.pause()
    pair.client.send(b"more")
    pair.client.close()
    await pair.until_gone()
    assert pair.watcher.reasons == ["closed by the client"]


async def test_answers_of_a_pass_are_sent_together_at_its_end(pair: Pair) -> None:
    seen: list[bytes] = []

    def receive(data: bytes) -> None:
        pair.connection.write(b"one ")
        pair.connection.write(b"two")
        try:
            seen.append(pair.client.recv(100))
        except BlockingIOError:
            seen.append(b"")

    pair.watcher.receive = receive  # type: ignore[method-assign]
    pair.client.send(b"x")
    assert await pair.read(7) == b"one two"
    assert seen == [b""]


@pytest.mark.parametrize(
    ("then", "wanted"),
    [
        (lambda connection: connection.deliver(b"message", 1), b"answer message"),
        (lambda connection: connection.write(BIG), b"answer " + BIG),
        (lambda connection: connection.close("over"), b"answer "),
        (lambda connection: connection.close("over", at_once=True), b"answer "),
    ],
    ids=["a message", "a large answer", "the end", "the end at once"],
)
async def test_an_answer_comes_before_what_follows_it(
    pair: Pair, then: Callable[[Connection], None], wanted: bytes
) -> None:
    def receive(data: bytes) -> None:
        pair.connection.write(b"answer ")
        then(pair.connection)

    pair.watcher.receive = receive  # type: ignore[method-assign]
    pair.client.send(b"x")
    assert await pair.read(len(wanted)) == wanted
