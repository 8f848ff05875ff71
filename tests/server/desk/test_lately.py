from __future__ import annotations

from headgate.core import facts as f
from headgate.core.model.ids import WHOLE, MessageId, QueueId, ServiceId, SessionId
from headgate.server.desk.answers import Point
from headgate.server.desk.attention import Moment
from headgate.server.desk.findings import findings
from headgate.server.desk.lately import HANDSHAKES_MIN, KEPT_MAX, LATELY_SECONDS, Lately

SERVICE = ServiceId(b"service-id-of-24-bytes..")


def test_what_happened_is_counted_and_forgotten_after_ten_minutes() -> None:
    lately = Lately()
    for at in (1.0, 2.0):
        lately.take(f.LimitReached(at, "sessions", 10, SessionId(1)))
    lately.take(f.ServiceSubscribed(3.0, SERVICE, SessionId(1), 5, "count"))
    lately.take(f.ServiceSubscribed(3.0, SERVICE, SessionId(1), 5, "none"))
    lately.take(f.Poisoned(4.0, QueueId(b"bmq://orders/q"), WHOLE, MessageId(b"m"), 3))
    found = {
        each.kind: (each.about, each.count, each.first) for each in lately.happened(5.0).values()
    }
    assert found == {
        "limit": ("sessions", 2, 1.0),
        "drift": (SERVICE[:8].hex(), 1, 3.0),
        "poisoned": ("bmq://orders/q", 1, 4.0),
    }
    moment = Moment(5.0, Point(), [], [], [], has_journal=True, happened=lately.happened(5.0))
    assert {each.kind for each in findings(moment)} == set(found)
    assert set(lately.happened(LATELY_SECONDS + 2.5)) == {
        f"drift {SERVICE[:8].hex()}",
        "poisoned bmq://orders/q",
    }
    assert lately.happened(LATELY_SECONDS + 5) == {}


def test_a_handshake_that_fails_now_and_then_is_nobodys_worry() -> None:
    lately = Lately()
    for _ in range(HANDSHAKES_MIN - 1):
        lately.take(f.HandshakeFailed(1.0, "smp", "no shared cipher"))
    assert lately.happened(1.0) == {}
    lately.take(f.HandshakeFailed(1.0, "smp", "no shared cipher"))
    [found] = lately.happened(1.0).values()
    assert found.about == "smp: no shared cipher"


def test_only_so_much_is_remembered() -> None:
    lately = Lately()
    for number in range(10 * KEPT_MAX):
        lately.take(f.LimitReached(1.0, f"limit-{number}", 10, SessionId(1)))
    assert len(lately.happened(1.0)) == KEPT_MAX
