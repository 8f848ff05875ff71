from __future__ import annotations

from headgate.core.channels.audience import BARE, Kind
from headgate.core.channels.channel_counts import OTHER
from headgate.core.channels.channels import Channels
from headgate.core.facts import ChannelCounted
from headgate.core.model.ids import SessionId
from headgate.core.model.limits import Limits
from headgate.server.desk.channel_rates import CHANNELS_MAX, NAME_BYTES, SECONDS, ChannelRates


def counted(channel: bytes, published: int) -> ChannelCounted:
    return ChannelCounted(1.0, channel, 1, published, 10 * published, 2 * published, 2)


def test_rates_are_those_of_the_last_ten_seconds() -> None:
    rates, channels = ChannelRates(), Channels(Limits())
    assert rates.top(8, channels) == []
    channels.subscribe(SessionId(1), Kind.SHARDED, [b"b"], BARE)
    channels.subscribe(SessionId(1), Kind.PATTERN, [b"a*"], BARE)
    for second in range(SECONDS + 5):
        rates.observe([counted(b"a", 2), counted(b"b", 30), counted(b"old", int(second == 0))])
    first, second_row = rates.top(2, channels)
    assert (first.channel, first.kind, first.rate) == ("b", "sharded", 30.0)
    assert (second_row.channel, second_row.kind) == ("a", "exact")
    assert (second_row.bytes_per_s, second_row.deliveries_per_s) == (20.0, 4.0)
    assert second_row.patterns_hearing == ["a*"]
    assert rates.sums()[b"old"].published == 0


def test_what_is_kept_is_bounded() -> None:
    rates, channels = ChannelRates(), Channels(Limits())
    many = [counted(b"%d" % n, 1) for n in range(2 * CHANNELS_MAX)]
    rates.observe([*many, counted(b"x" * (NAME_BYTES + 1), 9), counted(OTHER, 5)])
    assert len(rates.sums()) == CHANNELS_MAX
    [top] = rates.top(1, channels)
    assert (top.kind, top.patterns_hearing) == ("other", [])
