"""Counts of what is published: by channel, the busiest by name."""

from __future__ import annotations

from headgate.core.channels.audience import BARE, Kind
from headgate.core.channels.channel_counts import COUNTED_MOST
from headgate.core.channels.channels import Channels
from headgate.core.model.ids import Channel, SessionId
from headgate.core.model.limits import Limits

NEWS, SPORT = Channel(b"news"), Channel(b"sport")
EXACT = Kind.EXACT


def test_what_was_published_is_counted_by_channel_and_the_rest_in_one() -> None:
    """The limit journal_channels_per_second, at and one above."""
    channels = Channels(Limits(journal_channels_per_second=2))
    channels.subscribe(SessionId(1), EXACT, [NEWS], BARE)
    channels.publish(EXACT, [(NEWS, b"12")] * 3 + [(SPORT, b"1")] * 2)
    assert [(c.channel, c.published, c.size, c.deliveries) for c in channels.counted(1.0)] == [
        (NEWS, 3, 6, 3),
        (SPORT, 2, 2, 0),
    ]
    assert channels.counted(2.0) == []
    channels.publish(EXACT, [(NEWS, b"1")] * 3 + [(SPORT, b"1")] * 2)
    channels.publish(EXACT, [(Channel(b"%d" % n), b"x") for n in range(30)])
    *named, other = channels.counted(3.0)
    assert [count.channel for count in named] == [NEWS, SPORT]
    assert (other.channel, other.published, other.receivers_max) == (b"*other*", 30, 0)


def test_so_many_channels_are_counted_apart() -> None:
    """A publisher that uses each name once makes no more of them than that."""
    channels = Channels(Limits(journal_channels_per_second=1))
    channels.publish(EXACT, [(Channel(b"%d" % n), b"x") for n in range(COUNTED_MOST)])
    assert channels.published == COUNTED_MOST
    channels.publish(EXACT, [(NEWS, b"x")] * 5)
    named, other = channels.counted(1.0)
    assert (named.published, other.channel, other.published) == (1, b"*other*", COUNTED_MOST + 4)
    assert other.channels == COUNTED_MOST


def test_who_left_is_not_counted_among_the_receivers() -> None:
    """Not even if nothing was published between a count and that somebody left."""
    channels = Channels(Limits())
    for session in (1, 2):
        channels.subscribe(SessionId(session), EXACT, [NEWS], BARE)
    channels.publish(EXACT, [(NEWS, b"x")])
    assert [count.receivers_max for count in channels.counted(1.0)] == [2]
    channels.unsubscribe(SessionId(2), EXACT, [NEWS])
    channels.publish(EXACT, [(NEWS, b"x")])
    assert [count.receivers_max for count in channels.counted(2.0)] == [1]
