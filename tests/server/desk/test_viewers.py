from __future__ import annotations

import asyncio

import pytest

from headgate.server.admin.responses import Refusal
from headgate.server.desk.viewers import RETRY, VIEWERS_MAX, Viewers


async def test_a_viewer_that_sleeps_has_the_two_newest_ticks() -> None:
    viewers = Viewers()
    stream = viewers.stream()
    assert await anext(stream) == RETRY
    assert not viewers.want_facts
    for number in range(1000):
        viewers.send(b"tick %d\n\n" % number)
    assert [await anext(stream), await anext(stream)] == [b"tick 998\n\n", b"tick 999\n\n"]
    await stream.aclose()  # type: ignore[attr-defined]
    assert len(viewers) == 0


async def test_who_comes_between_two_ticks_has_the_last_one() -> None:
    viewers = Viewers()
    first = viewers.stream()
    await anext(first)
    viewers.send(b"tick\n\n")
    second = viewers.stream()
    assert await anext(second) == RETRY + b"tick\n\n"
    for stream in (first, second):
        await stream.aclose()  # type: ignore[attr-defined]
    third = viewers.stream()
    assert await anext(third) == RETRY  # what was there has grown old
    await third.aclose()  # type: ignore[attr-defined]


async def test_all_have_the_same_bytes_and_end_together() -> None:
    viewers = Viewers()
    streams = [viewers.stream() for _ in range(VIEWERS_MAX)]
    for stream in streams:
        viewers.check_room()
        await anext(stream)
    with pytest.raises(Refusal, match="look already"):
        viewers.check_room()
    tick = b"tick\n\n"
    viewers.send(tick)
    assert all([await anext(stream) is tick for stream in streams])
    viewers.send(tick)
    viewers.end()

    async def rest(stream: object) -> list[bytes]:
        return [each async for each in stream]  # type: ignore[attr-defined]

    assert await asyncio.gather(*map(rest, streams)) == [[]] * VIEWERS_MAX
    with pytest.raises(Refusal, match="the router stops"):
        viewers.check_room()


async def test_who_wants_facts_has_them_before_the_tick() -> None:
    viewers = Viewers()
    plain, curious = viewers.stream(), viewers.stream(wants_facts=True)
    for stream in (plain, curious):
        await anext(stream)
    assert viewers.want_facts
    viewers.send(b"tick\n\n", b"fact\n\n")
    assert [await anext(plain), await anext(curious)] == [b"tick\n\n", b"fact\n\ntick\n\n"]
    for stream in (plain, curious):
        await stream.aclose()  # type: ignore[attr-defined]
