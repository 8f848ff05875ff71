"""The log of a pass and its blobs, compiled and not: the same of the same."""

from __future__ import annotations

import gc
import random
import weakref

import pytest

from fuzz.compiled_ways import PURE, Ways, check_open, check_passes, compiled
from headgate.core.channels.audience import Framing

BOTH = compiled()
EACH = [pytest.param(PURE, id="pure")] + ([pytest.param(BOTH[0], id="compiled")] if BOTH else [])
needs_compiled = pytest.mark.skipif(BOTH is None, reason="there was no compiler")

RESP = Framing(b"*3\r\n$%d\r\n".__mod__, b"\r\n", (b"*3\r\n$", b"\r\n"))
BARE = Framing(lambda size: b"", b"")


@needs_compiled
@pytest.mark.parametrize("first", range(0, 600, 100))
def test_both_ways_make_the_same_blobs(first: int) -> None:
    """S002-31, S002-33, S002-40, RESP-43: every byte, to everybody, in its order."""
    assert BOTH is not None
    for seed in range(first, first + 100):
        check_passes(random.Random(seed), BOTH[0])
        check_open(random.Random(seed), BOTH[0])


@pytest.mark.parametrize("ways", EACH)
@pytest.mark.parametrize(("frames", "size"), [(2, 1000), (1000, 20)])
def test_a_run_ends_where_no_more_may_be_joined(ways: Ways, frames: int, size: int) -> None:
    """`publish_frames` and `publish_bytes`: beyond them another pass begins."""
    heard = ways.heard()
    heard.moment, heard.receivers = 1, 2
    heard.frame_groups = (ways.group(BARE, (1, 2)),)
    log, counts = ways.log(1, frames, size), list[int]()
    names, bodies = [b"c"] * 9, [b"x" * 10] * 9
    assert log.run({b"c": heard}, 1, names, bodies, 0, counts) == 3
    assert log.is_full
    assert log.run({b"c": heard}, 1, names, bodies, 3, counts) == 3
    assert (counts, len(log), heard.published, heard.size) == ([2] * 3, 3, 3, 30)


@pytest.mark.parametrize("ways", EACH)
def test_a_run_ends_at_a_channel_that_is_not_known_or_not_of_this_moment(ways: Ways) -> None:
    heard, log, counts = ways.heard(), ways.log(1, 10, 10), list[int]()
    heard.moment = 1
    assert log.run({b"c": heard}, 1, [b"c", b"d"], [b"", b""], 0, counts) == 1
    assert log.run({b"c": heard}, 2, [b"c", b"d"], [b"", b""], 0, counts) == 0
    assert counts == [0]


@pytest.mark.parametrize("ways", EACH)
def test_what_somebody_took_meanwhile_is_not_written_again(ways: Ways) -> None:
    """S002-40: a pass that is taken while another is written has what is left of both."""
    lines = {session: ways.line() for session in (1, 2, 3)}
    left, right = ways.group(RESP, (1, 2)), ways.group(RESP, (2, 3))
    passes = [ways.log(number, 10, 1000) for number in (1, 2)]
    for log in passes:
        log.add((left, right), b"%d" % log.number)
    outer = passes[0].blobs(lines.__getitem__)
    frames = [b"*3\r\n$1\r\n%d\r\n" % number for number in (1, 2)]
    assert next(outer) == (frames[0], (1,), 1)
    assert list(passes[1].blobs(lines.__getitem__)) == [
        (frames[1], (1,), 1),
        (frames[0] * 2 + frames[1] * 2, (2,), 4),
        (b"".join(frames), (3,), 2),
    ]
    assert list(outer) == []


@needs_compiled
def test_wrong_types_are_refused_and_break_nothing() -> None:
    """What is compiled is asked by Python, and says no as Python does."""
    assert BOTH is not None
    ways, codec, _ = BOTH
    group, log, heard = ways.group(RESP, (1,)), ways.log(1, 9, 99), ways.heard()
    for wrong in (
        lambda: ways.group((1, b"", None), (1,)) and ways.group((1, 2, 3), (1,)),
        lambda: ways.group(Framing(b"%d".__mod__, b"", (b"", 1)), (1,)),  # type: ignore[arg-type]
        lambda: ways.line(1),
        lambda: log.add([group], b""),
        lambda: log.add((group, 1), b""),
        lambda: log.add((group,), "text"),
        lambda: log.add_all(1, []),
        lambda: log.add_all(group, ["text"]),
        lambda: log.run({b"c": 1}, 1, [b"c"], [b""], 0, []),
        lambda: log.run({}, 1, ["c"], [b""], 0, []),
        lambda: log.run({}, 1, [b"c"], ["c"], 0, []),
        lambda: log.run({}, 1, 1, [b"c"], 0, []),
        lambda: setattr(heard, "frame_groups", [group]),
        lambda: setattr(heard, "frame_groups", (1,)),
        lambda: group.framed([1]),
        lambda: codec.pipeline("text"),
        lambda: codec.run_in(1),
    ):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="starts"):
        log.run({}, 1, [b"c"], [b""], -1, [])
    log.add((group, ways.group(RESP, (1,))), b"x")
    with pytest.raises(TypeError, match="Line"):
        next(log.blobs(lambda session: []))
    with pytest.raises(ZeroDivisionError):
        next(log.blobs(lambda session: 1 // 0))
    with pytest.raises(ZeroDivisionError):
        ways.group(Framing(lambda size: b"" * (1 // 0), b""), (1,)).framed([b""])


@needs_compiled
def test_who_holds_itself_is_collected() -> None:
    """A framing may hold what is published by it."""
    assert BOTH is not None

    class Lead:
        def __init__(self) -> None:
            self.group = BOTH[0].group(Framing(self, b""), (1,)) if BOTH else None
            self.heard = BOTH[0].heard() if BOTH else None
            self.log = BOTH[0].log(1, 1, 1) if BOTH else None

        def __call__(self, size: int) -> bytes:
            return b""

    lead = Lead()
    assert lead.heard is not None
    assert lead.log is not None
    lead.heard.frame_groups = (lead.group,)
    lead.log.add((lead.group,), b"")
    gone = weakref.ref(lead)
    del lead
    gc.collect()
    assert gone() is None


@needs_compiled
def test_numbers_that_repeat_let_go_of_nobody_too_early() -> None:
    """What a pass has logged it holds, whatever it is called."""
    assert BOTH is not None
    ways = BOTH[0]
    lines = {session: ways.line() for session in (1, 2)}
    for number in (0, 1, 1):
        left, right = ways.group(RESP, (1,)), ways.group(RESP, (2, 1))
        first, second = ways.log(number, 9, 99), ways.log(number, 9, 99)
        for log in (first, second):
            log.add((left, right), b"x")
        del left, right
        gc.collect()
        for log in (second, first):
            frames = b"*3\r\n$1\r\nx\r\n"
            found = {who: blob for blob, (who,), _ in log.blobs(lines.__getitem__)}
            assert found == {1: frames * 2, 2: frames}


@needs_compiled
def test_blobs_are_not_asked_for_while_their_lines_are_found() -> None:
    assert BOTH is not None
    ways = BOTH[0]
    log, line, refused = ways.log(1, 9, 99), ways.line(), list[int]()

    def line_of(session: int) -> object:
        with pytest.raises(RuntimeError, match="while their lines are found"):
            next(blobs)
        refused.append(session)
        return line

    log.add((ways.group(RESP, (1,)), ways.group(RESP, (1, 1))), b"x")
    blobs = log.blobs(line_of)
    assert len(list(blobs)) == 1
    assert refused == [1, 1, 1]
