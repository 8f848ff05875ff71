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
"""Most feeds of a domain, and patterns of a feed: each new channel is compared with all of them."""
HOLE = re.compile(r"\{([^{}]*)\}")
"""A property in the name of a channel."""

Paths: TypeAlias = Mapping[str, BodyPath]


@value
class ChannelFeed:
    """Channels whose messages also go into a queue of a domain."""

    channels: tuple[str, ...]
    """The channels, as patterns of the kind that PSUBSCRIBE has."""
    queue: str = ""
    """The queue; empty for one with the name of the channel."""
    channel_property: str = "channel"
    """The property for the name of the channel; empty for none."""
    properties: Paths = EMPTY
    """Properties in a JSON body."""
    id: BodyPath | None = None
    """The path of the message's id in the body, by which a repeated message is recognised."""
    when_full: str = "refuse"
    """The policy for a full domain: PUBLISH is refused, or the message is left out, or the
    publisher waits for room."""
    kinds: tuple[str, ...] = ("plain",)


@value
class Spoken:
    """A message to publish on a channel, now that it is stored."""

    channel: bytes
    message: Message
    queue: QueueId
    form: str = "body"
    is_sharded: bool = False
    is_fed: bool = False
    """Whether it was published on that channel, by a session that can wait for slow receivers."""


def spoken_channel(template: str, properties: Properties) -> bytes | None:
    """The channel for a message; None if it lacks a property in the name."""

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
