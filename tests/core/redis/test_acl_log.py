"""The log of what was refused."""

from __future__ import annotations

from headgate.core.redis.acl_log import GROUPED, MOST, AclLog


def add(denials: AclLog, object: bytes, now: float = 0.0, client: str = "c") -> None:
    denials.add("key", "toplevel", object, "bob", client, now)


def test_a_repetition_among_the_latest_is_counted_and_comes_first() -> None:
    denials = AclLog()
    for object in (b"a", b"b", b"a"):
        add(denials, object, client=f"client of {object!r}")
    assert [(d.object, d.count, d.number) for d in denials.last(9)] == [(b"a", 2, 0), (b"b", 1, 1)]
    for number in range(GROUPED):
        add(denials, b"%d" % number)
    add(denials, b"a")
    assert denials.last(1)[0].count == 1


def test_so_many_are_kept() -> None:
    denials = AclLog()
    for number in range(MOST + 5):
        add(denials, b"%d" % number)
    assert len(denials.last(1000)) == MOST
    assert denials.last(-1) == []
    denials.reset()
    assert denials.last(1000) == []
