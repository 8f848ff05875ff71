"""Which queue a key is."""

from __future__ import annotations

import pytest

from headgate.core.model.domain import Domain
from headgate.wire.resp.codec.replies import CommandError
from headgate.wire.resp.streams.keys import StreamKeys

DOMAINS = {
    "jobs": Domain.fanout("jobs", "g", streams=("taskiq", "mail.*", "app:*")),
    "late": Domain.priority("late", streams=("mail.x",)),
    "plain": Domain.priority("plain"),
    "smp": Domain.exclusive("smp"),
}


@pytest.mark.parametrize(
    ("key", "queue"),
    [
        (b"taskiq", b"bmq://jobs/taskiq"),
        (b"mail.x", b"bmq://jobs/mail.x"),
        (b"app:events", b"bmq://jobs/app~3Aevents"),
        (b"mail.~", b"bmq://jobs/mail.~7E"),
        (b"plain/q", b"bmq://plain/q"),
        (b"plain/a~b", b"bmq://plain/a~b"),
        (b"plain/a b", b"bmq://plain/a~20b"),
    ],
)
def test_a_key_is_a_queue(key: bytes, queue: bytes) -> None:
    """Check 17: the queue that other wires know."""
    keys = StreamKeys(DOMAINS)
    assert keys.find(key).queue == queue
    assert keys.find(key) is keys.find(key)


def test_a_key_that_nobody_takes_is_refused() -> None:
    """Check 17."""
    keys = StreamKeys(DOMAINS)
    with pytest.raises(CommandError, match="no domain takes the stream 'x'; name it in streams"):
        keys.find(b"x")
    with pytest.raises(CommandError, match="the queue 'smp/q' is not for this wire"):
        keys.find(b"smp/q")
    with pytest.raises(CommandError, match="1 to 64 characters"):
        keys.find(b"mail." + b"x" * 60)
    with pytest.raises(CommandError, match="1 to 64 characters"):
        keys.find(b"plain/")


def test_new_settings_hold_at_once() -> None:
    domains = dict(DOMAINS)
    keys = StreamKeys(domains)
    keys.find(b"taskiq")
    domains["jobs"] = Domain.fanout("jobs", "g")
    with pytest.raises(CommandError):
        keys.find(b"taskiq")
    assert keys.find(b"mail.x").domain.name == "late"
