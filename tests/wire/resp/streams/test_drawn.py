"""Drawn words after the names of commands on streams: an answer, or a wait, and never a mistake."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.model.domain import Domain
from tests.support.resp_hub import House

COMMANDS = [
    *(b"XADD", b"XACK", b"XLEN", b"XREADGROUP", b"XREAD", b"XPENDING", b"XCLAIM", b"XAUTOCLAIM"),
    *(b"XTRIM", b"XDEL", b"XRANGE", b"XGROUP", b"XINFO", b"XSETID"),
]
WORDS = [
    *(b"s", b"t", b"jobs/q", b"x", b"g", b"h", b"c", b"c?where=a == 1", b"c?priority=x"),
    *(b"*", b">", b"$", b"0", b"1", b"-1", b"5-5", b"(0-0", b"-", b"+", b"", b"\xff"),
    *(
        b"GROUP",
        b"STREAMS",
        b"COUNT",
        b"BLOCK",
        b"NOACK",
        b"WHERE",
        b"PRIORITY",
        b"a == 1",
        b"a ==",
    ),
    *(b"MAXLEN", b"MINID", b"~", b"=", b"LIMIT", b"NOMKSTREAM", b"IDLE", b"TIME", b"RETRYCOUNT"),
    *(b"FORCE", b"JUSTID", b"LASTID", b"CREATE", b"MKSTREAM", b"CREATECONSUMER", b"DELCONSUMER"),
    *(b"CONSUMERS", b"GROUPS", b"STREAM", b"a", b"b", b"data"),
]
WELL_BEGUN = [
    [b"XREADGROUP", b"GROUP", b"g", b"c"],
    [b"XADD", b"s"],
    [b"XCLAIM", b"s", b"g", b"c", b"0"],
    [b"XAUTOCLAIM", b"s", b"g", b"c", b"0", b"0"],
    [b"XPENDING", b"s", b"g"],
]

word = st.sampled_from(WORDS) | st.binary(max_size=6)
begun = st.sampled_from(WELL_BEGUN) | st.sampled_from(COMMANDS).map(lambda name: [name])
command = st.tuples(begun, st.lists(word, max_size=8)).map(lambda parts: [*parts[0], *parts[1]])


@settings(deadline=None, max_examples=200)
@given(st.lists(command, min_size=1, max_size=6))
def test_every_command_is_answered_or_waits(commands: list[list[bytes]]) -> None:
    """Check 77."""
    house = House(domains=[Domain.fanout("jobs", "g", "h", streams=("s", "t"))])
    guest = house.guest()
    for each in commands:
        answer = guest.raw(*each)
        waits = guest.session.awaited is not None and guest.session.awaited.waiting is not None
        assert bool(answer) is not waits
        assert guest.ended == ""
        if waits:
            guest = house.guest()
