"""Blocks, time, keep-alive, cancelling and the end of a link."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from errno import EPIPE
from functools import partial

import pytest

from headgate.client.smp import requests
from headgate.client.smp.link import Link
from headgate.client.smp.recipient import Request, make_key
from headgate.client.smp.service import make_service
from headgate.client.smp.timing import Timing
from headgate.client.smp.waiting import Outcome
from headgate.errors import HeadgateError, NotConnected, TimedOut
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.blocks import BLOCK
from tests.client.smp.conftest import Connect
from tests.support.smp_peer import (
    Asked,
    Notes,
    StillClock,
    Talk,
    event,
    is_cancelled_at,
    passes,
    until,
)

KEY = make_key()
ID = b"recipient"


def subs(count: int) -> list[Request]:
    return [requests.subscribe(b"%024d" % n, KEY) for n in range(count)]


def granted(block: list[Asked]) -> list[tuple[bytes, bytes, r.Reply | bytes]]:
    return [asked.answer(r.Sok()) for asked in block]


def has_asked(talk: Talk, count: int) -> bool:
    return len(talk.asked) >= count


async def check_works(link: Link, talk: Talk) -> None:
    """The next request is answered."""
    asking = asyncio.create_task(link.ask(requests.ping()))
    while not isinstance((block := await talk.block())[0].command, c.Ping):
        pass  # what was asked before, by somebody who has left
    talk.send(block[0].answer(r.Pong()))
    assert await asking == r.Pong()


# Blocks.


@pytest.mark.parametrize(
    ("is_service", "sizes"), [(False, [135, 135, 30]), (True, [87, 87, 87, 39])]
)
async def test_subscriptions_fill_as_few_blocks_as_possible(
    connect: Connect, is_service: bool, sizes: list[int]
) -> None:
    """S000-60: 300 SUBs in three blocks, and in four if a service signs too."""
    link, talk = await connect(service=make_service(time.time()) if is_service else None)
    asking = asyncio.create_task(link.ask_all(subs(300)))
    blocks = [await talk.block() for _ in sizes]
    assert [len(block) for block in blocks] == sizes
    assert [asked.entity for asked in talk.asked] == [request.entity for request in subs(300)]
    assert {asked.is_service_signed for asked in talk.asked} == {is_service}
    assert len({asked.correlation for asked in talk.asked}) == 300
    assert {len(asked.correlation) for asked in talk.asked} == {24}
    for block in blocks:
        talk.send(*granted(block))
    assert await asking == [r.Sok()] * 300
    assert talk.blocks.empty()


async def test_a_block_has_at_most_255_requests(connect: Connect) -> None:
    """S000-60: however short they are."""
    link, talk = await connect()
    asking = asyncio.create_task(link.ask_all([requests.ping()] * 300))
    blocks = [await talk.block() for _ in range(2)]
    assert [len(block) for block in blocks] == [255, 45]
    talk.send(*(asked.answer(r.Pong()) for asked in talk.asked))
    assert await asking == [r.Pong()] * 300


async def test_a_slow_router_is_not_asked_twice(connect: Connect, clock: StillClock) -> None:
    """T11: it answers a block every two seconds, and the time of an answer is five: 40 blocks of
    SUBs are granted, at most ten are unanswered, and none is sent again."""
    link, talk = await connect(timing=Timing(answer_seconds=5.0))
    asking = asyncio.create_task(link.ask_all(subs(40 * 135)))
    for number in range(40):
        sent = min(number + 10, 40)
        await until(partial(has_asked, talk, sent * 135))
        await passes()
        assert len(talk.asked) == sent * 135
        await clock.advance(2.0)
        talk.send(*granted(await talk.block()))
    assert await asking == [r.Sok()] * (40 * 135)
    assert len({asked.entity for asked in talk.asked}) == len(talk.asked) == 40 * 135


async def test_other_requests_pass_those_that_wait_for_room(connect: Connect) -> None:
    """T11: SUBs wait for the router; a message to be sent does not wait for them."""
    link, talk = await connect(timing=Timing(subscribing_blocks_max=1))
    subscribing = asyncio.create_task(link.ask_all(subs(270)))
    first = await talk.block()
    sending = asyncio.create_task(link.ask(requests.send(b"sender", b"hello", KEY)))
    sent = await talk.one()
    assert isinstance(sent.command, c.SmpSend)
    talk.send(sent.answer(r.Ok()))
    assert await sending == r.Ok()
    assert talk.blocks.empty()
    talk.send(*granted(first))
    talk.send(*granted(await talk.block()))
    assert await subscribing == [r.Sok()] * 270


# Time.


async def test_a_request_that_is_not_answered_times_out_alone(
    connect: Connect, clock: StillClock
) -> None:
    link, talk = await connect(timing=Timing(answer_seconds=5.0))
    first = asyncio.create_task(link.ask(requests.describe(ID, KEY)))
    await talk.one()
    await clock.advance(4.0)
    second = asyncio.create_task(link.ask(requests.ping(), seconds=20.0))
    asked = await talk.one()
    await clock.advance(1.0)
    with pytest.raises(TimedOut, match="QUE took longer than 5 seconds"):
        await first
    await clock.advance(18.0)
    talk.send(asked.answer(r.Pong()))
    assert await second == r.Pong()


async def test_a_router_that_answers_nothing_fails_all_blocks_together(
    connect: Connect, clock: StillClock
) -> None:
    """T7: whoever subscribed learns it after one timeout, not after one for each block."""
    link, talk = await connect(timing=Timing(answer_seconds=5.0))
    asking = asyncio.create_task(link.ask_all(subs(4 * 135)))
    await until(lambda: len(talk.asked) == 4 * 135)
    await passes()
    await clock.advance(5.0)
    outcomes = await asking
    assert {type(outcome) for outcome in outcomes} == {TimedOut}
    assert link.is_open


async def test_the_time_of_a_block_runs_from_when_it_was_written(
    connect: Connect, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T11: not from when it was queued, however long that took."""
    link, talk = await connect(timing=Timing(answer_seconds=5.0))
    left = asyncio.Event()

    async def drain() -> None:
        await left.wait()

    monkeypatch.setattr(link._stream.writer, "drain", drain)
    asking = asyncio.create_task(link.ask(requests.ping()))
    asked = await talk.one()
    await clock.advance(60.0)
    assert not asking.done()
    left.set()
    await passes()
    await clock.advance(4.0)
    assert not asking.done()
    talk.send(asked.answer(r.Pong()))
    assert await asking == r.Pong()


async def test_a_late_answer_is_handed_on_if_it_is_about_what_was_asked(
    connect: Connect, clock: StillClock, notes: Notes
) -> None:
    """S000-67: a message in the late answer to an ACK is a message like any other (T12)."""
    link, talk = await connect(timing=Timing(answer_seconds=5.0))
    ack = requests.acknowledge(ID, KEY, b"id")
    asking = asyncio.create_task(link.ask_all([ack, requests.subscribe(ID, KEY), requests.ping()]))
    first, second, third = await talk.block()
    await passes()
    await clock.advance(5.0)
    assert {type(outcome) for outcome in await asking} == {TimedOut}
    message = r.Msg(b"id", b"sealed")
    talk.send(
        first.answer(message),
        (second.correlation, b"another", r.Sok()),
        third.answer(b"WHAT"),
        event(ID, r.SmpEnd()),
    )
    await until(lambda: notes.events)
    assert notes.order == [(ack.command, message), (ID, r.SmpEnd())]
    talk.send(first.answer(message))
    await until(lambda: notes.reports)
    assert len(notes.late) == 1


async def test_a_late_answer_is_remembered_for_a_while(
    connect: Connect, clock: StillClock, notes: Notes
) -> None:
    """S000-66, S000-67: then it belongs to nothing."""
    link, talk = await connect(timing=Timing(answer_seconds=5.0, late_seconds=600.0))
    asking = asyncio.create_task(link.ask_all([requests.describe(ID, KEY), requests.ping()]))
    first, second = await talk.block()
    await passes()
    await clock.advance(5.0)
    await asking
    await clock.advance(599.0)
    talk.send(first.answer(r.Info(b"{}")))
    await until(lambda: notes.late)
    await clock.advance(1.0)
    talk.send(second.answer(r.Pong()))
    await until(lambda: notes.reports)
    assert len(notes.late) == 1


async def test_room_for_subscriptions_comes_back_after_a_timeout(
    connect: Connect, clock: StillClock
) -> None:
    """T11: a block that is not answered does not hold the others for ever."""
    link, talk = await connect(timing=Timing(answer_seconds=5.0, subscribing_blocks_max=1))
    asking = asyncio.create_task(link.ask_all(subs(136)))
    await talk.block()
    await passes()
    await clock.advance(5.0)
    talk.send(*granted(await talk.block()))
    outcomes = await asking
    assert {type(outcome) for outcome in outcomes[:135]} == {TimedOut}
    assert outcomes[135] == r.Sok()


# Keep-alive.

PULSE = Timing(answer_seconds=30.0, ping_seconds=600.0, pings_missed_max=3, silence_seconds=900.0)


@pytest.mark.parametrize(
    ("request_made", "reply"),
    [
        (requests.subscribe(ID, KEY), r.Sok()),
        (requests.subscribe_notifier(ID, KEY), r.Sok()),
        (requests.new_queue().request, r.Err("AUTH")),
    ],
)
async def test_a_link_with_subscriptions_asks_whether_the_router_is_there(
    connect: Connect, clock: StillClock, request_made: Request, reply: r.Reply
) -> None:
    link, talk = await connect(timing=PULSE)
    asking = asyncio.create_task(link.ask_all([request_made]))
    talk.send((await talk.one()).answer(reply))
    await asking
    for _ in range(5):
        await clock.advance(600.0)
        asked = await talk.one()
        assert isinstance(asked.command, c.Ping)
        talk.send(asked.answer(r.Pong()))
        await until(lambda: link._pulse.heard_at == clock.now)
    assert link.is_open


async def test_a_link_without_subscriptions_may_be_silent(
    connect: Connect, clock: StillClock
) -> None:
    link, talk = await connect(timing=PULSE)
    asking = asyncio.create_task(link.ask(requests.new_queue(subscribe=False).request))
    talk.send((await talk.one()).answer(r.Err("AUTH")))
    with pytest.raises(HeadgateError):
        await asking
    for _ in range(5):
        await clock.advance(600.0)
    await check_works(link, talk)
    assert len(talk.asked) == 2


async def test_data_of_any_kind_is_a_sign_of_life(
    connect: Connect, clock: StillClock, notes: Notes
) -> None:
    link, talk = await connect(timing=PULSE)
    asking = asyncio.create_task(link.ask_all(subs(1)))
    talk.send(*granted(await talk.block()))
    await asking
    for _ in range(7):
        await clock.advance(599.0)
        talk.send(event(ID, r.SmpEnd()))
        await until(lambda: notes.events)
        assert len(notes.events) == 1
        notes.events.clear()
    assert len(talk.asked) == 1
    await clock.advance(600.0)
    assert isinstance((await talk.one()).command, c.Ping)


async def test_a_router_that_is_silent_is_given_up(
    connect: Connect, clock: StillClock, notes: Notes
) -> None:
    """Three unanswered in a row, and a quarter of an hour without data."""
    link, talk = await connect(timing=PULSE)
    asking = asyncio.create_task(link.ask_all(subs(1)))
    talk.send(*granted(await talk.block()))
    await asking
    for _ in range(2):
        await clock.advance(600.0)
        await talk.one()
    await clock.advance(599.0)
    talk.send(event(ID, r.SmpEnd()))
    await until(lambda: notes.events)
    for _ in range(3):
        assert link.is_open
        await clock.advance(600.0)
        await talk.one()
    await clock.advance(29.0)
    assert link.is_open
    await clock.advance(1.0)
    await talk.over.wait()
    (loss,) = notes.losses
    assert "silent for 1830 seconds" in loss[2]


async def test_missed_pings_alone_do_not_end_a_link(connect: Connect, clock: StillClock) -> None:
    timing = Timing(
        answer_seconds=1.0, ping_seconds=10.0, pings_missed_max=3, silence_seconds=100.0
    )
    link, talk = await connect(timing=timing)
    asking = asyncio.create_task(link.ask_all(subs(1)))
    talk.send(*granted(await talk.block()))
    await asking
    for _ in range(9):
        await clock.advance(10.0)
        await talk.one()
    await clock.advance(9.0)
    assert link.is_open
    await clock.advance(1.0)
    await clock.advance(1.0)
    await talk.over.wait()
    assert not link.is_open


# Cancelling.


@pytest.mark.parametrize("blocks_max", [1, 10])
async def test_a_batch_may_be_cancelled_wherever_it_waits(
    connect: Connect, notes: Notes, blocks_max: int
) -> None:
    """S004-26: whoever asked leaves, and the link works."""
    link, talk = await connect(timing=Timing(subscribing_blocks_max=blocks_max))
    outcomes: list[list[Outcome]] = []

    async def ask() -> None:
        outcomes.append(await link.ask_all(subs(300)))

    async def answer() -> None:
        while True:
            block = await talk.block()
            answers = granted(block)
            if isinstance(block[0].command, c.Ping):
                answers = [block[0].answer(r.Pong())]
            talk.send(*answers)

    answering = asyncio.create_task(answer())
    number = 0
    while await is_cancelled_at(ask(), number):
        number += 1
        assert outcomes == []
        assert await link.ask(requests.ping()) == r.Pong()
    assert number >= 3
    assert outcomes == [[r.Sok()] * 300]
    assert notes.reports == []
    assert notes.losses == []
    answering.cancel()
    await asyncio.wait([answering])


async def test_what_a_caller_asked_before_it_left_is_answered_late(
    connect: Connect, notes: Notes
) -> None:
    """S000-67, S004-26: a block that was queued is sent, and its answers count."""
    link, talk = await connect()
    asking = asyncio.create_task(link.ask_all(subs(2)))
    first, second = await talk.block()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    message = r.Msg(b"id", b"sealed")
    talk.send(first.answer(r.Sok()), second.answer(message))
    await until(lambda: len(notes.late) == 2)
    assert notes.order == [(c.Sub(), r.Sok()), (c.Sub(), message)]
    await check_works(link, talk)


async def test_blocks_of_callers_that_left_give_their_room_back(
    connect: Connect, clock: StillClock
) -> None:
    """S004-26"""
    link, talk = await connect(timing=Timing(answer_seconds=5.0, subscribing_blocks_max=1))
    asking = asyncio.create_task(link.ask_all(subs(1)))
    await talk.block()
    asking.cancel()
    await asyncio.wait([asking])
    again = asyncio.create_task(link.ask_all(subs(1)))
    await passes()
    assert talk.blocks.empty()
    await clock.advance(5.0)
    talk.send(*granted(await talk.block()))
    assert await again == [r.Sok()]


async def test_a_caller_that_leaves_while_its_block_is_written_starts_its_time(
    connect: Connect, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S004-26: nobody else would, and the block would keep its room for ever."""
    link, talk = await connect(timing=Timing(answer_seconds=5.0, subscribing_blocks_max=1))
    with monkeypatch.context() as held:
        held.setattr(link._stream.writer, "drain", asyncio.Event().wait)
        asking = asyncio.create_task(link.ask_all(subs(1)))
        await talk.block()
        asking.cancel()
        await asyncio.wait([asking])
    again = asyncio.create_task(link.ask_all(subs(1)))
    await passes()
    assert talk.blocks.empty()
    await clock.advance(5.0)
    talk.send(*granted(await talk.block()))
    assert await again == [r.Sok()]


# The end.

Ending = Callable[[Link, Talk], None]


def cut_a_block(link: Link, talk: Talk) -> None:
    talk.send_raw(bytes(BLOCK // 2))
    talk.close()


ENDINGS: dict[str, Ending] = {
    "the router leaves": lambda link, talk: talk.drop(),
    "half a block": cut_a_block,
    "a block that does not open": lambda link, talk: talk.send_raw(bytes(BLOCK)),
    "a block without transmissions": lambda link, talk: talk.send_payload(b"\0"),
    "the client leaves": lambda link, talk: link.close(),
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_loss_is_reported_once_and_everybody_who_waits_learns_it(
    connect: Connect, notes: Notes, ending: str
) -> None:
    """Those that wait for an answer, those that wait for room, and those that come later."""
    link, talk = await connect(slot=7, timing=Timing(subscribing_blocks_max=1))
    waiting = asyncio.create_task(link.ask(requests.ping()))
    await talk.one()
    subscribing = asyncio.create_task(link.ask_all(subs(300)))
    first = await talk.block()
    queueing = asyncio.create_task(link.ask_all(subs(1)))
    talk.send(first[0].answer(r.Sok()))
    await passes()
    ENDINGS[ending](link, talk)
    with pytest.raises(NotConnected):
        await waiting
    outcomes = await subscribing
    assert len(outcomes) == 300
    assert {type(outcome) for outcome in outcomes[1:]} == {NotConnected}
    assert [type(outcome) for outcome in await queueing] == [NotConnected]
    await link.wait_closed()
    link.close()
    ((slot, session_id, reason),) = notes.losses
    assert (slot, session_id, reason) == (7, link.session_id, link.reason)
    assert reason
    assert not link.is_open
    with pytest.raises(NotConnected):
        await link.ask(requests.ping())
    assert len(notes.losses) == 1
    await talk.over.wait()


async def test_a_block_that_cannot_be_written_ends_the_link(
    connect: Connect, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is waited for that was not sent."""
    link, _ = await connect()

    async def drain() -> None:
        raise BrokenPipeError(EPIPE, "Broken pipe")

    monkeypatch.setattr(link._stream.writer, "drain", drain)
    outcomes = await link.ask_all(subs(136))
    assert {type(outcome) for outcome in outcomes} == {NotConnected}
    assert [reason for _, _, reason in notes.losses] == ["the connection broke: Broken pipe"]


async def test_a_link_is_closed_at_the_end_of_its_block(connect: Connect, notes: Notes) -> None:
    link, talk = await connect()
    async with link:
        await check_works(link, talk)
    assert [reason for _, _, reason in notes.losses] == ["closed on this side"]
    await talk.over.wait()


class Closer(Notes):
    def received(self, link: Link, entity: bytes, event: r.Reply) -> None:
        super().received(link, entity, event)
        link.close()


async def test_a_handler_may_close_its_link(connect: Connect) -> None:
    """Nothing is handed on after the loss, not even from the same block."""
    closer = Closer()
    link, talk = await connect(handler=closer)
    talk.send(event(ID, r.SmpEnd()), event(ID, r.Deld()))
    await link.wait_closed()
    assert closer.order == [(ID, r.SmpEnd()), "closed on this side"]


class Stumbler(Notes):
    def received(self, link: Link, entity: bytes, event: r.Reply) -> None:
        raise LookupError("no such queue")


async def test_a_handler_that_fails_ends_its_link(connect: Connect) -> None:
    """And is reported where failures of callbacks are."""
    reported: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: reported.append(context["exception"])
    )
    stumbler = Stumbler()
    link, talk = await connect(handler=stumbler)
    asking = asyncio.create_task(link.ask(requests.ping()))
    await talk.one()
    talk.send(event(ID, r.SmpEnd()))
    with pytest.raises(NotConnected, match="no such queue"):
        await asking
    await link.wait_closed()
    assert len(stumbler.losses) == 1
    assert [type(error) for error in reported] == [LookupError]


async def test_reading_that_is_cancelled_from_outside_ends_the_link(
    connect: Connect, notes: Notes
) -> None:
    """S004-26: as a loop does that shuts down."""
    link, _ = await connect()
    assert link._reading is not None
    link._reading.cancel()
    await link.wait_closed()
    assert link._reading.cancelled()
    assert len(notes.losses) == 1
