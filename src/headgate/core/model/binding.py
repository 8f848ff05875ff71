"""How channels and domains are bound: channels feed domains, and domains speak on channels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from headgate.core.model.body_paths import BodyPath
from headgate.core.model.ids import QueueId
from headgate.core.model.message import Message, Properties, PropertyValue
from headgate.core.model.value import EMPTY, value

WHEN_FULL: Final = ("refuse", "drop", "wait")
KINDS_FED: Final = ("plain", "sharded")
SPOKEN_AS: Final = ("body", "json")
FEEDS_MAX: Final = 64
"""Of a domain, and patterns of a feed: each new channel is compared with all of them."""
HOLE = re.compile(r"\{([^{}]*)\}")
"""A property in the name of a channel."""

Paths: TypeAlias = Mapping[str, BodyPath]


@value
class ChannelFeed:
    """Channels on which whatever is published goes into a queue of a domain, too."""

    channels: tuple[str, ...]
    """As patterns, of the kind that PSUBSCRIBE has."""
    queue: str = ""
    """The queue; empty for one that is called as the channel."""
    channel_property: str = "channel"
    """The property that has the channel's name; empty for none."""
    properties: Paths = EMPTY
    """Properties in a JSON body."""
    id: BodyPath | None = None
    """Where in the body the id of the message is, by which a repeated one is recognised."""
    when_full: str = "refuse"
    """What happens if the domain is full: PUBLISH is refused, or the domain goes without, or the
    publisher waits for room."""
    kinds: tuple[str, ...] = ("plain",)


@value
class Spoken:
    """A message that is to be heard on a channel, now that it is stored."""

    channel: bytes
    message: Message
    queue: QueueId
    form: str = "body"
    is_sharded: bool = False
    is_fed: bool = False
    """Whether it was published on that channel, by somebody who can wait for slow sessions."""


def spoken_channel(template: str, properties: Properties) -> bytes | None:
    """The channel that a message is spoken on; none if it does not have a property in its name."""

    def text_of(found: re.Match[str]) -> str:
        return _text(properties[found[1]])

    try:
        return HOLE.sub(text_of, template).encode()
    except KeyError:
        return None


def _text(item: PropertyValue) -> str:
    if isinstance(item, bool):
        return "true" if item else "false"
    return item.decode(errors="replace") if isinstance(item, bytes) else str(item)
