"""The busiest channels of the last ten seconds, from what the core counts every second."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from heapq import nlargest
from itertools import islice

from headgate.core.channels.audience import Kind
from headgate.core.channels.channel_counts import OTHER
from headgate.core.channels.channels import Channels
from headgate.core.facts import ChannelCounted
from headgate.server.desk.answers import ChannelRow
from headgate.server.desk.asking import shown_bytes

SECONDS = 10
CHANNELS_MAX = 1000
NAME_BYTES = 256
"""A channel with a longer name is not shown: ten seconds of them would be much."""
PATTERNS_SHOWN = 10


class ChannelRate:
    """The counts of one channel over the last seconds."""

    __slots__ = ("bytes", "channel", "deliveries", "published", "receivers")

    def __init__(self, channel: bytes) -> None:
        self.channel = channel
        self.published = 0
        self.bytes = 0
        self.deliveries = 0
        self.receivers = 0


class ChannelRates:
    """Sums over the last seconds, by channel. The router hands over what it counted, once a
    second."""

    def __init__(self) -> None:
        self._seconds: deque[list[ChannelCounted]] = deque(maxlen=SECONDS)
        self._sums: dict[bytes, ChannelRate] | None = None
        self.has_counted = False

    def observe(self, counted: Iterable[ChannelCounted]) -> None:
        """Keep the counts of a second, of its busiest channels."""
        short = (each for each in counted if len(each.channel) <= NAME_BYTES)
        second = nlargest(CHANNELS_MAX, short, key=lambda each: each.published)
        self._seconds.append(second)
        self._sums = None
        self.has_counted = self.has_counted or bool(second)

    @property
    def seconds(self) -> int:
        """The number of seconds counted, of the last ones."""
        return len(self._seconds)

    def sums(self) -> dict[bytes, ChannelRate]:
        """By channel, of the last seconds."""
        if self._sums is None:
            sums: dict[bytes, ChannelRate] = {}
            for second in self._seconds:
                for each in second:
                    rate = sums.get(each.channel)
                    if rate is None:
                        rate = sums[each.channel] = ChannelRate(each.channel)
                    rate.published += each.published
                    rate.bytes += each.size
                    rate.deliveries += each.deliveries
                    rate.receivers = max(rate.receivers, each.receivers_max)
            self._sums = sums
        return self._sums

    def top(self, most: int, channels: Channels) -> list[ChannelRow]:
        """The busiest of the last second that was counted."""
        last = self._seconds[-1] if self._seconds else []
        names = list(islice(dict.fromkeys(each.channel for each in last), most))
        if not names:
            return []
        sums = self.sums()
        return [self.row(sums[name], channels) for name in names]

    def row(self, rate: ChannelRate, channels: Channels) -> ChannelRow:
        span = max(1, len(self._seconds))
        is_other = rate.channel == OTHER
        kind = Kind.EXACT
        if not is_other and not channels.subscribers(Kind.EXACT, rate.channel):
            kind = Kind.SHARDED if channels.subscribers(Kind.SHARDED, rate.channel) else kind
        heard = () if is_other else islice(channels.patterns_of(rate.channel), PATTERNS_SHOWN)
        return ChannelRow(
            channel=shown_bytes(rate.channel),
            kind="other" if is_other else "sharded" if kind is Kind.SHARDED else "exact",
            rate=rate.published / span,
            bytes_per_s=rate.bytes / span,
            receivers=rate.receivers,
            deliveries_per_s=rate.deliveries / span,
            patterns_hearing=[shown_bytes(each) for each in heard],
        )


ChannelKey = Callable[[ChannelRate], float]
"""The order of channels."""
SORTS: dict[str, ChannelKey] = {
    "rate": lambda each: each.published,
    "bytes": lambda each: each.bytes,
    "receivers": lambda each: each.receivers,
    "deliveries": lambda each: each.deliveries,
}
