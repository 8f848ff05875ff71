from __future__ import annotations

from headgate.core.facts import Expired
from headgate.core.model.domain import Domain
from headgate.core.model.ids import MessageId, QueueId
from headgate.server.desk.expiry_lag import SECONDS, ExpiryLag

DOMAINS = {
    "orders": Domain.priority("orders", message_ttl=60.0),
    "smp": Domain.exclusive("smp", message_ttl=600.0),
}


def expired(queue: bytes, age: float) -> Expired:
    return Expired(1.0, QueueId(queue), MessageId(b"m"), age)


def test_a_message_is_late_by_what_it_was_older_than_its_domain_allows() -> None:
    lag = ExpiryLag(DOMAINS)
    lag.take(expired(b"bmq://orders/q", 70.0))
    lag.take(expired(b"bmq://orders/q", 61.0))
    assert lag.seconds == 0.0, "a second is told of when it is over"
    lag.pass_second()
    assert lag.seconds == 10.0
    lag.take(expired(b"\x00" * 24, 900.0))
    lag.take(expired(b"bmq://gone/q", 1e6))
    lag.pass_second()
    assert lag.seconds == 300.0


def test_what_was_late_is_forgotten_after_ten_seconds() -> None:
    lag = ExpiryLag(DOMAINS)
    lag.take(expired(b"bmq://orders/q", 500.0))
    for _ in range(SECONDS):
        lag.pass_second()
    assert lag.seconds == 440.0
    lag.pass_second()
    assert lag.seconds == 0.0
