"""Who is up, by whichever of its queues."""

from __future__ import annotations

from headgate.agent.engine.announcements import Announcements


def test_a_connection_comes_up_once() -> None:
    """S000-72."""
    some = Announcements()
    some.hold(b"x")
    some.hold(b"x")
    assert some.raise_up([b"x", b"x"]) == (b"x",)
    assert some.raise_up([b"x"]) == ()


def test_a_connection_goes_down_with_its_last_queue() -> None:
    """S000-82."""
    some = Announcements()
    for _ in range(3):
        some.hold(b"x")
    some.raise_up([b"x"])
    assert some.release([b"x"]) == ()
    assert some.release([b"x", b"x"]) == (b"x",)
    assert some.raise_up([b"x"]) == (b"x",)


def test_who_was_never_up_does_not_go_down() -> None:
    some = Announcements()
    some.hold(b"x")
    assert some.release([b"x"]) == ()
