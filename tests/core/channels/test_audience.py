"""Who hears a channel, and in which form."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.channels.audience import BARE, Audience, FrameGroup, Framing, Kind
from headgate.core.model.ids import SessionId

A, B = SessionId(1), SessionId(2)


@given(st.lists(st.binary(max_size=3), min_size=1, max_size=6), st.binary(max_size=2))
def test_a_run_is_framed_as_its_messages_are(bodies: list[bytes], tail: bytes) -> None:
    """S002-33: in one blob, whether the bodies are as long or not."""
    frame_group = FrameGroup(Framing(b"%d:".__mod__, tail), (A,))
    assert frame_group.framed(bodies) == b"".join([b"%d:%b%b" % (len(b), b, tail) for b in bodies])


def test_an_audience_is_of_the_very_moments_it_was_made_of() -> None:
    """S002-4: an equal roster of a later moment is another one."""
    roster = {A: BARE, B: BARE}
    audience = Audience([(Kind.EXACT, b"c", roster)], b"c")
    assert audience.receivers == 2
    assert [set(frame_group.sessions) for frame_group in audience.frame_groups] == [{A, B}]
    assert audience.is_of([(Kind.EXACT, b"c", roster)])
    assert not audience.is_of([(Kind.EXACT, b"c", dict(roster))])
    assert not audience.is_of([])
    assert Audience([], b"c").is_of([])
