"""The same bytes to the router and to redis-server; the replies are compared byte for byte.

What is not compared, or not byte for byte, and why:

* HELLO: ``server``, ``version`` and ``id`` differ by nature; the rest of the reply is compared.
* Messages to oneself in RESP3: since 7.2 they come after the reply to PUBLISH; redis-server 7.0
  sends them before it, and inside the reply to EXEC. On such connections pushes and replies are
  compared as two streams, and who subscribes does not publish in a transaction.
* A connection without replies that is to be closed: redis-server 7.0 forgets to. Not drawn.
* After CLIENT REPLY SKIP an empty request is what is skipped there: not drawn.
* Arguments with a NUL are cut there when an error quotes them: not drawn where that may happen.
* The order of PUBSUB CHANNELS, of KEYS, of leaving all channels at once, and of the copies for
  several patterns is that of a hash table; they are compared sorted.
* TTL is asked at slightly different moments: only the kind of the reply is compared. Keys have
  deadlines that are far away or over.
* DBSIZE counts keys whose time is over until they are swept: not drawn.
* CLIENT ID, LIST and INFO, INFO, COMMAND without INFO, CONFIG GET of settings that only one of
  them has, SLOWLOG, DEBUG and the like describe the server, and are not drawn.
* The arity of PUBSUB is -1 here, so that ``PUBSUB`` alone passes the table; its text is equal.
* CLIENT SETINFO and NO-TOUCH came with 7.2: not drawn.
* CONFIG SET notify-keyspace-events takes other values here: not drawn.
* EVAL, streams, lists and whatever is no string: the router has none of them.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable
from itertools import groupby
from random import Random

import pytest

from tests.support.resp_client import Client, Frame, FrameReader, HungUp
from tests.support.resp_script import CONNECTIONS, Script
from tests.support.resp_servers import Dial, Server, eventually

SEEDS = range(24)
STEPS = 400
REMEMBERED = 12


def in_streams(frames: list[bytes]) -> list[list[bytes]]:
    """Replies and pushes apart."""
    return [
        [frame for frame in frames if not frame.startswith(b">")],
        [frame for frame in frames if frame.startswith(b">")],
    ]


def patterns_sorted(frames: list[tuple[bytes, Frame]]) -> list[bytes]:
    """The bytes of the frames, the copies of one message for several patterns in order."""
    found: list[bytes] = []
    for _, group in groupby(frames, key=lambda pair: message_of(pair[1]) or pair[0]):
        found += sorted(raw for raw, _ in group)
    return found


def message_of(frame: Frame) -> object:
    is_copy = isinstance(frame, list) and len(frame) == 4 and frame[0] == b"pmessage"
    return repr(frame[3]) if is_copy and isinstance(frame, list) else None


class Pair:
    """A connection to each server."""

    def __init__(self, dial: Dial, redis: Server, headgate: Server) -> None:
        self.redis = dial(redis)
        self.headgate = dial(headgate)

    def send(self, data: bytes) -> None:
        self.redis.send_raw(data)
        self.headgate.send_raw(data)

    def frames(self) -> tuple[list[tuple[bytes, Frame]], list[tuple[bytes, Frame]]]:
        """What Redis has sent by now, and as many frames of the router."""
        reader = FrameReader(io.BytesIO(self.redis.available()))
        expected: list[tuple[bytes, Frame]] = []
        while True:
            try:
                frame = reader.read()
            except HungUp as end:
                if end.args != (b"",):
                    raise
                break
            expected.append((reader.raw, frame))
        came: list[tuple[bytes, Frame]] = []
        for _ in expected:
            try:
                raw = self.headgate.read_raw()
            except (TimeoutError, HungUp, ConnectionResetError) as error:
                came.append((b"", repr(error).encode()))
                break
            came.append((raw, FrameReader(io.BytesIO(raw)).read()))
        return expected, came


@pytest.mark.parametrize("seed", SEEDS)
def test_the_replies_are_those_of_redis(
    seed: int, redis: Server, headgate: Server, dial: Dial
) -> None:
    """RESP-1..RESP-45, RESP-51, RESP-52, RESP-65, wherever Redis decides them."""
    controls = [dial(redis), dial(headgate)]
    for control in controls:
        control.ask("FLUSHALL")
        eventually(lambda c=control: is_quiet(c), "earlier tests are over")  # type: ignore[misc]
    script = Script(Random(seed))
    pairs = [Pair(dial, redis, headgate) for _ in range(CONNECTIONS)]
    history: deque[str] = deque(maxlen=REMEMBERED)
    for number in range(STEPS):
        which = script.random.randrange(CONNECTIONS)
        step = script.step(which)
        history.append(f"{number}: connection {which}: {step.data!r}")
        pairs[which].send(step.data)
        for control in controls:
            # Two round trips elsewhere: the step is done, and its replies are written.
            control.ask("PING")
            control.ask("PING")
        for other, pair in enumerate(pairs):
            expected, came = pair.frames()
            told = (step.compare if other == which else None, script.states[other].three)
            assert compared(came, *told) == compared(expected, *told), (
                f"seed {seed}, connection {other}, after\n" + "\n".join(history)
            )
        if step.closes:
            assert pairs[which].headgate.until_closed() == [], f"seed {seed}: {history[-1]}"
            pairs[which].redis.close()
            pairs[which] = Pair(dial, redis, headgate)
    for other, pair in enumerate(pairs):
        assert pair.headgate.available() == b"", f"seed {seed}, connection {other}: surplus"


def is_quiet(control: Client) -> bool:
    return control.ask("PUBSUB", "CHANNELS") == [] and control.ask("PUBSUB", "NUMPAT") == 0


def compared(
    frames: list[tuple[bytes, Frame]],
    compare: Callable[[list[Frame]], object] | None,
    three: bool,
) -> object:
    if compare is not None:
        return compare([frame for _, frame in frames])
    raw = patterns_sorted(frames)
    return in_streams(raw) if three else raw
