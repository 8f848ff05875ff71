"""Check of a domain's stored messages against the mode that it has now."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.model.domain import Domain, Mode
from headgate.core.turn.store_requests import Listed

BY_HAND = "the mode of a domain changes with a restart, when none of its queues holds a message"


def fits(domain: Domain, listed: Listed) -> bool:
    """Whether a stored queue fits the mode of its domain. A queue without apps holds messages for
    all consumers, a fanout queue for its apps, and a broadcast stores none. An empty queue fits any
    mode."""
    if listed.is_whole is None:
        return True
    if domain.mode is Mode.BROADCAST:
        return False
    return listed.is_whole is not (domain.mode is Mode.FANOUT)


def complaint(domain: Domain, listed: Iterable[Listed]) -> str | None:
    """A complaint about messages that a domain would lose, with advice; None if it loses none."""
    lost = [each for each in listed if not fits(domain, each)]
    if not lost:
        return None
    messages = sum(each.messages for each in lost)
    before = "priority" if lost[0].is_whole else "fanout"
    name = lost[0].queue.decode(errors="backslashreplace")
    return (
        f"domains.{domain.name}.mode is {domain.mode.value}, but the store has {messages}"
        f" message{'' if messages == 1 else 's'} in {len(lost)}"
        f" queue{'' if len(lost) == 1 else 's'} of it from when it was {before}, such as {name};"
        f" they would be lost: set the mode back to {before}, let them be read or remove them with"
        " headgate queue purge, then change it; or use a domain with another name"
    )
