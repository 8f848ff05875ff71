"""Who gets what a router sends."""

from __future__ import annotations

import asyncio

import pytest

from headgate.client.smp import requests
from headgate.client.smp.recipient import make_key, spki
from headgate.client.smp.waiting import Outcome
from headgate.core.model.tally import Tally
from headgate.errors import BadService, NotConnected, Refused, RequestRefused, UnexpectedReply
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.transmissions import encode_unsigned
from tests.client.smp.conftest import Connect
from tests.support.smp_peer import Notes, event, until

KEY = make_key()
ID = b"recipient"
OTHER = b"somebody else"


async def test_answers_reach_their_callers_in_whatever_order_they_come(connect: Connect) -> None:
    """S000-64: 200 callers, answered in reverse order."""
    link, talk = await connect()
    callers = [asyncio.create_task(link.ask(requests.describe(b"%d" % n, KEY))) for n in range(200)]
    await until(lambda: len(talk.asked) == 200)
    talk.send(*(asked.answer(r.Info(asked.entity)) for asked in reversed(talk.asked)))
    answers = await asyncio.gather(*callers)
    assert answers == [r.Info(b"%d" % n) for n in range(200)]


async def test_events_keep_their_place_among_answers(connect: Connect, notes: Notes) -> None:
    """S000-64, S000-65: in one block, the second answer comes after the event before it."""
    link, talk = await connect()

    def each(place: int, outcome: Outcome) -> None:
        notes.order.append((place, outcome))

    asking = asyncio.create_task(
        link.ask_all([requests.subscribe(b"%d" % n, KEY) for n in range(3)], each=each)
    )
    first, second, third = await talk.block()
    message = r.Msg(b"id", b"sealed")
    talk.send(
        third.answer(r.Sok()),
        event(b"2", message),
        first.answer(r.Sok()),
        event(b"5", r.SmpEnd()),
        event(b"5", r.Deld()),
        event(b"", r.Alls()),
        event(b"service", r.Ends(Tally(1))),
        event(b"6", r.Err("STORE unreadable")),
        second.answer(message),
    )
    assert await asking == [r.Sok(), message, r.Sok()]
    assert notes.order == [
        (2, r.Sok()),
        (b"2", message),
        (0, r.Sok()),
        (b"5", r.SmpEnd()),
        (b"5", r.Deld()),
        (b"", r.Alls()),
        (b"service", r.Ends(Tally(1))),
        (b"6", r.Err("STORE unreadable")),
        (1, message),
    ]


async def test_an_unknown_correlation_is_reported_once_and_the_session_goes_on(
    connect: Connect, notes: Notes
) -> None:
    """S000-66"""
    link, talk = await connect()
    asking = asyncio.create_task(link.ask(requests.ping()))
    asked = await talk.one()
    talk.send((b"nobody's", ID, r.Ok()), asked.answer(r.Pong()))
    assert await asking == r.Pong()
    (report,) = notes.reports
    assert (report.correlation, report.entity, report.reply) == (b"nobody's", ID, r.Ok())
    again = asyncio.create_task(link.ask(requests.ping()))
    talk.send((await talk.one()).answer(r.Pong()))
    assert await again == r.Pong()
    assert len(notes.order) == 1


async def test_an_answer_comes_once(connect: Connect, notes: Notes) -> None:
    """S000-66: a second one belongs to nothing."""
    link, talk = await connect()
    asking = asyncio.create_task(link.ask(requests.ping()))
    asked = await talk.one()
    talk.send(asked.answer(r.Pong()), asked.answer(r.Pong()))
    assert await asking == r.Pong()
    await until(lambda: notes.reports)
    assert [report.correlation for report in notes.reports] == [asked.correlation]


@pytest.mark.parametrize(
    "sent",
    [
        encode_unsigned(b"", ID, b"WHAT"),
        encode_unsigned(b"", ID, b"MSG "),
        encode_unsigned(b"", b"", b"END"),
        encode_unsigned(b"", ID, b"OK"),
        encode_unsigned(b"nobody's", ID, b"WHAT"),
        b"",
        b"\1a",
    ],
)
async def test_what_cannot_be_read_or_belongs_to_nothing_costs_nothing_else(
    connect: Connect, notes: Notes, sent: bytes
) -> None:
    """S000-66"""
    link, talk = await connect()
    asking = asyncio.create_task(link.ask(requests.ping()))
    asked = await talk.one()
    good = encode_unsigned(asked.correlation, b"", b"PONG")
    ended = encode_unsigned(b"", ID, b"END")
    talk.send_transmissions([sent, good, ended])
    assert await asking == r.Pong()
    assert len(notes.reports) == 1
    assert notes.events == [(ID, r.SmpEnd())]


@pytest.mark.parametrize(
    ("entity", "reply"),
    [(OTHER, r.Ok()), (OTHER, r.Sok()), (ID, r.Pong()), (ID, r.Info(b"{}")), (ID, b"WHAT")],
)
async def test_a_caller_trusts_no_answer_that_is_not_its_own(
    connect: Connect, entity: bytes, reply: r.Reply | bytes
) -> None:
    """S000-64: another entity, another kind, or nothing that is known."""
    link, talk = await connect()
    asking = asyncio.create_task(link.ask_all([requests.subscribe(ID, KEY), requests.ping()]))
    first, second = await talk.block()
    talk.send((first.correlation, entity, reply), second.answer(r.Pong()))
    wrong, right = await asking
    assert isinstance(wrong, UnexpectedReply)
    assert right == r.Pong()
    assert link.is_open


async def test_a_new_queue_and_an_error_may_be_about_something_else(connect: Connect) -> None:
    """S000-64: a queue has no id before it is made."""
    link, talk = await connect()
    new = requests.new_queue()
    asking = asyncio.create_task(link.ask_all([new.request, requests.subscribe(ID, KEY)]))
    first, second = await talk.block()
    ids = r.Ids(ID, b"sender", spki(b"d" * 32))
    talk.send((first.correlation, ID, ids), (second.correlation, b"", r.Err("AUTH")))
    made, refused = await asking
    assert made == ids
    assert isinstance(refused, RequestRefused)
    assert refused.error == "AUTH"


async def test_one_request_of_a_batch_fails_alone(connect: Connect) -> None:
    link, talk = await connect()
    asking = asyncio.create_task(
        link.ask_all(
            [
                requests.subscribe(ID, KEY),
                requests.send(b"sender", bytes(16_384)),
                requests.subscribe_service(b"service", Tally(1)),
                requests.subscribe(OTHER, KEY),
            ]
        )
    )
    first, second = await talk.block()
    talk.send(first.answer(r.Err("AUTH")), second.answer(r.Sok()))
    refused, large, no_service, granted = await asking
    assert isinstance(refused, RequestRefused)
    assert isinstance(large, Refused)
    assert isinstance(no_service, BadService)
    assert granted == r.Sok()


async def test_a_batch_that_cannot_be_sent_at_all(connect: Connect) -> None:
    link, _ = await connect()
    assert await link.ask_all([]) == []
    with pytest.raises(BadService, match="no service"):
        await link.ask(requests.subscribe_service(b"service", Tally(1)))


async def test_an_error_is_raised_to_who_asks_one_thing(connect: Connect) -> None:
    link, talk = await connect()
    asking = asyncio.create_task(link.ask(requests.subscribe(ID, KEY)))
    talk.send((await talk.one()).answer(r.Err("BLOCKED reason=spam")))
    with pytest.raises(RequestRefused, match="BLOCKED reason=spam") as raised:
        await asking
    assert raised.value.error == "BLOCKED reason=spam"


async def test_a_caller_of_each_outcome_also_learns_of_a_loss(connect: Connect) -> None:
    link, talk = await connect()
    outcomes: dict[int, Outcome] = {}
    asking = asyncio.create_task(
        link.ask_all(
            [requests.subscribe(b"%d" % n, KEY) for n in range(2)], each=outcomes.__setitem__
        )
    )
    first, _ = await talk.block()
    talk.send(first.answer(r.Sok()))
    await until(lambda: outcomes)
    talk.drop()
    granted, lost = await asking
    assert granted == r.Sok()
    assert isinstance(lost, NotConnected)
    assert outcomes == {0: granted, 1: lost}


def test_every_command_that_is_spoken_has_its_answers() -> None:
    proxied = {c.Prxy, c.PFwd, c.RFwd, c.Rslv}
    spoken: set[type] = {type(command) for command in c.BARE.values()}
    spoken |= {c.New, c.Key, c.SKey, c.RKey, c.LSet, c.LKey, c.NKey, c.SmpAck, c.SmpSend}
    assert set(requests.ANSWERS) == spoken
    assert not requests.is_answer(c.Ping(), r.Ok())
    assert requests.is_answer(b"any bytes", r.Ok())
    assert all(requests.is_answer(c.Rslv(b"name"), reply) for reply in (r.Ok(), r.Pong()))
    assert proxied.isdisjoint(requests.ANSWERS)
    with pytest.raises(UnexpectedReply, match="OK is no answer to NEW"):
        requests.new_queue().made(r.Ok())
