"""Counts of messages published, by channel."""

from __future__ import annotations

from headgate.core.channels.audience import Audience
from headgate.core.facts import ChannelCounted
from headgate.core.model.ids import Channel
from headgate.core.model.limits import Limits

OTHER = Channel(b"*other*")
COUNTED_MOST = 10
"""Channels counted separately, as a multiple of those named in facts: enough to find the busiest,
and a bound."""


class ChannelCounts:
    """Messages, bytes and deliveries by channel since they were last taken, and totals.

    Owned by the channels. Audiences count while they are published to; `Channels` adds their counts
    here before it reports them or drops an audience.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_channel: dict[bytes, list[int]] = {}
        """Messages, bytes, deliveries, most receivers."""
        self.published = 0
        self.deliveries = 0

    def add(self, channel: bytes, heard: Audience) -> None:
        """Add the counts of an audience. One without messages since then adds nothing; its
        receivers may have left."""
        published, size = heard.published, heard.size
        if not published:
            return
        deliveries = published * heard.receivers
        heard.published = heard.size = 0
        self.published += published
        self.deliveries += deliveries
        count = self._by_channel.get(channel)
        if count is None:
            if len(self._by_channel) >= COUNTED_MOST * self._limits.journal_channels_per_second:
                channel = OTHER
            count = self._by_channel.setdefault(channel, [0, 0, 0, 0])
        count[0] += published
        count[1] += size
        count[2] += deliveries
        count[3] = max(count[3], heard.receivers)

    def take(self, at: float) -> list[ChannelCounted]:
        """The counts since the last call: the busiest channels by name, all others in one."""
        counts, self._by_channel = self._by_channel, {}
        rest = [counts.pop(OTHER)] if OTHER in counts else []
        most = self._limits.journal_channels_per_second
        busiest = sorted(counts.items(), key=lambda item: -item[1][0])
        result = [_counted(at, channel, [count]) for channel, count in busiest[:most]]
        rest += [count for _, count in busiest[most:]]
        return [*result, _counted(at, OTHER, rest)] if rest else result


def _counted(at: float, channel: bytes, counts: list[list[int]]) -> ChannelCounted:
    published, size, deliveries, receivers = zip(*counts, strict=True)
    return ChannelCounted(
        at, channel, len(counts), sum(published), sum(size), sum(deliveries), max(receivers)
    )
