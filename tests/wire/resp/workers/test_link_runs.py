"""Runs of messages on a link: compiled and not, whole and cut, the same is delivered."""

from __future__ import annotations

from random import Random

import pytest

from headgate.core.channels.audience import BARE, Kind
from headgate.core.channels.channels import Channels
from headgate.core.model.ids import SessionId
from headgate.core.model.limits import Limits
from headgate.wire.resp.workers import link_frames as frames
from headgate.wire.resp.workers.link_runs import deliver_run, pure_deliver_run
from tests.support.resp_crew import Crew, CrewLink

LONG = b"n" * 5_000
"""A name that is not taken apart at once."""
CHANNELS = (b"a", b"b", b"news", b"", LONG)
needs_compiled = pytest.mark.skipif(
    deliver_run is pure_deliver_run, reason="there was no compiler, or it is not wanted"
)


def published(draw: Random) -> bytes:
    size = draw.choice((0, 1, 64, 64, 3_000))
    return frames.frame(frames.PUBLISH, draw.choice(CHANNELS[:4]), draw.randbytes(size))


def house(draw: Random) -> Channels:
    most = draw.choice((3, 1_000)), draw.choice((200, 1 << 20))
    channels = Channels(Limits(publish_frames=most[0], publish_bytes=most[1]))
    for number in range(draw.randrange(6)):
        kind, name = draw.choice(((Kind.EXACT, b"a"), (Kind.EXACT, b"news"), (Kind.PATTERN, b"n*")))
        channels.subscribe(SessionId(number), kind, [name], BARE)
    return channels


def taken(channels: Channels) -> dict[SessionId, bytes]:
    found: dict[SessionId, bytes] = {}
    for blob, sessions, _ in channels.take():
        for session in sessions:
            found[session] = found.get(session, b"") + blob
    return found


@needs_compiled
@pytest.mark.parametrize("first", range(0, 300, 100))
def test_both_ways_deliver_the_same_and_end_at_the_same_place(first: int) -> None:
    for seed in range(first, first + 100):
        draw = Random(seed)
        data = b"".join(published(draw) for _ in range(draw.choice((1, 2, 40, 200))))
        data += draw.choice((b"", frames.BEAT_FRAME, published(draw)[: draw.randrange(20)]))
        quick, slow = house(Random(seed)), house(Random(seed))
        for _ in range(2):
            assert deliver_run(quick, data)[0] == pure_deliver_run(slow, data)[0]
            assert taken(quick) == taken(slow)
            for each in (quick, slow):
                each.subscribe(SessionId(9), Kind.EXACT, [b"b"], BARE)
        assert quick.totals() == slow.totals() == (0, 0)


@needs_compiled
def test_what_is_cut_is_told_from_what_is_something_else() -> None:
    channels = Channels(Limits())
    whole = frames.frame(frames.PUBLISH, b"news", b"x" * 100)
    for end in range(1, len(whole)):
        assert deliver_run(channels, whole + whole[:end]) == (len(whole), True)
    for other in (
        frames.BEAT_FRAME,
        frames.frame(frames.PUBLISH, LONG, b"x"),
        frames.frame(frames.PUBLISH, b"news"),
        b"*3\r\n$7\r\nPUBLISH\r\n$x",
        b"*3\r\n$7\r\nPUBLISH\r\n$1234567890",
        b"*3\r\n$7\r\nPUBLISH\r\n$1\rx",
        b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nax$1\r\n",
    ):
        assert deliver_run(channels, whole + other) == (len(whole), False)


@needs_compiled
def test_what_is_no_channels_or_no_bytes_is_refused() -> None:
    for wrong in ((Channels(Limits()), "text"), (1, b""), (Channels(Limits()),)):
        with pytest.raises(TypeError):
            deliver_run(*wrong)


def carry_cut(link: CrewLink, draw: Random) -> None:
    """Hand over what was sent as reads that end anywhere."""
    data = b"".join(link.sent)
    link.sent.clear()
    while data:
        end = draw.choice((1, 7, 30, 100, 5_000, 100_000))
        link.other.session.receive(data[:end])
        data = data[end:]


@pytest.mark.parametrize("seed", range(60))
def test_wherever_reads_end_each_message_comes_once_and_in_order(seed: int) -> None:
    """Also between other frames, and where some are taken at once and others are not."""
    draw = Random(seed)
    crew = Crew(2)
    subscriber, publisher = crew.guest(1), crew.guest(0)
    for channel in CHANNELS:
        subscriber.ask("SUBSCRIBE", channel)
    sent: list[bytes] = []
    for number in range(draw.choice((1, 5, 60))):
        if draw.random() < 0.1:
            crew.links[0, 1].write(draw.choice((frames.BEAT_FRAME, frames.ease(SessionId(5)))))
        body = b"%d." % number + b"x" * draw.choice((0, 90, 90, 3_000, 80_000))
        kind = draw.choice((b"PUBLISH", b"PUBLISH", b"SPUBLISH"))
        channel = draw.choice(CHANNELS)
        if kind == frames.PUBLISH:
            sent.append(body)
        publisher.session.receive(frames.frame(kind, channel, body))
        if draw.random() < 0.3:
            publisher.house.end_pass()
            carry_cut(crew.links[0, 1], draw)
    publisher.house.end_pass()
    carry_cut(crew.links[0, 1], draw)
    crew.settle()
    assert not crew.links[1, 0].ended
    _, *received = subscriber.received.split(b"message\r\n")
    assert [each.split(b"\r\n")[3] for each in received] == sent
    assert subscriber.house.hub.channels.totals()[0] == 0
