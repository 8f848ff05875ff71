"""A subscriber that does not read while others publish more to it than it may hold.

redis-server has no such policies, so what happens is held against the documents: who publishes to
the slow one waits, or the slow one is closed, or it loses its oldest messages; nobody else is
affected, and whatever it does get is in order.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from tests.strangers.resp_draw import multibulk
from tests.strangers.resp_frames import Frame, parse
from tests.strangers.resp_sequences import Line, Silence
from tests.support.resp_servers import Server

LIMITS = {"mailbox_soft": 512 << 10, "mailbox_hard": 1 << 20, "publish_buffer_limit": 16 << 20}
"""Small, but more than one pass of the router's loop reads from all publishers together."""
VOLUME = 16 << 20
"""Bytes of one scene: far more than the sockets' buffers and the mailbox hold together."""
UNDER_WAY = 256 << 10
"""Bytes in the socket between two workers."""
TIMEOUT_SECONDS = 60.0
ENOUGH = 30


@dataclass(frozen=True)
class Scene:
    """Who publishes how much to the slow one, in which way it listens, and how it ends."""

    seed: int
    publishers: int
    body_bytes: int
    protocol: int
    way: str
    end: str

    @property
    def each(self) -> int:
        """Messages of one publisher."""
        return VOLUME // self.body_bytes // self.publishers


def scene(seed: int) -> Scene:
    random = Random(seed)
    return Scene(
        seed,
        publishers=random.choice([1, 2, 3]),
        body_bytes=random.choice([3_000, 16_000, 70_000, 400_000]),
        protocol=random.choice([2, 3]),
        way=random.choice(["channel", "pattern", "shard"]),
        end=random.choice(["reads", "reads", "leaves", "unsubscribes", "publisher leaves"]),
    )


class Publisher:
    """Publishes numbered messages from a thread of its own, and counts the answers."""

    def __init__(self, server: Server, scene: Scene, which: int) -> None:
        self._line = Line(server.address)
        self._scene = scene
        self._which = which
        self.answers: list[Frame] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        scene = self._scene
        word = b"SPUBLISH" if scene.way == "shard" else b"PUBLISH"
        for number in range(scene.each):
            body = b"%d:%d:" % (self._which, number)
            body = body.ljust(scene.body_bytes, b".")
            self._line.send(multibulk((word, b"slow.1", body)))
        with contextlib.suppress(OSError, Silence):
            while not self._line.ended and self._line.data.count(b"\r\n") < scene.each:
                self._line.read()
        self.answers = parse(bytes(self._line.data))

    def leave(self) -> None:
        self._line.end()
        self._thread.join(TIMEOUT_SECONDS)

    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def close(self) -> None:
        self.leave()
        self._line.close()


@contextlib.contextmanager
def publishing(server: Server, scene: Scene) -> Iterator[list[Publisher]]:
    publishers = [Publisher(server, scene, which) for which in range(scene.publishers)]
    try:
        yield publishers
    finally:
        for publisher in publishers:
            publisher.close()


def slow_subscriber(server: Server, scene: Scene) -> Line:
    """Subscribed, with a small window, and not read from now on."""
    line = Line(server.address, receive_bytes=4_096)
    if scene.protocol == 3:
        line.ask(b"HELLO", b"3")
    words = {"channel": b"SUBSCRIBE", "pattern": b"PSUBSCRIBE", "shard": b"SSUBSCRIBE"}
    line.ask(words[scene.way], b"slow.*" if scene.way == "pattern" else b"slow.1")
    return line


def others_go_on(server: Server) -> None:
    """A pair of strangers to the slow one exchanges messages as ever."""
    one, other = Line(server.address), Line(server.address)
    try:
        one.ask(b"SUBSCRIBE", b"fast")
        for number in range(ENOUGH):
            body = b"%d" % number
            assert other.ask(b"PUBLISH", b"fast", body) == b":1\r\n"
            assert one.frame() == ("*", [("$", b"message"), ("$", b"fast"), ("$", body)])
        assert other.ask(b"PING") == b"+PONG\r\n"
    finally:
        one.close()
        other.close()


def numbers_heard(frames: list[Frame], scene: Scene) -> list[list[int]]:
    """The numbers of the messages of each publisher, as they came."""
    heard: list[list[int]] = [[] for _ in range(scene.publishers)]
    kinds = {"channel": b"message", "pattern": b"pmessage", "shard": b"smessage"}
    for kind, value in frames:
        assert kind == ("*" if scene.protocol == 2 else ">"), kind
        assert isinstance(value, list)
        assert value[0] == ("$", kinds[scene.way]), value[0]
        body = value[-1][1]
        assert isinstance(body, bytes)
        assert len(body) == scene.body_bytes
        which, number, rest = body.split(b":", 2)
        assert not rest.strip(b".")
        heard[int(which)].append(int(number))
    return heard


def field(control: Line, name: bytes) -> int:
    """A number of INFO."""
    for line in control.ask(b"INFO").split(b"\r\n"):
        if line.startswith(name + b":"):
            return int(line.partition(b":")[2])
    raise AssertionError(f"INFO has no {name!r}")


def eventually(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < end, f"still not: {what}"
        time.sleep(0.005)


def nothing_is_left(control: Line) -> None:
    """Everybody has left: no channel, no session, no byte that waits."""
    eventually(lambda: control.ask(b"CLIENT", b"LIST").count(b"id=") == 1, "all have left")
    for question in (b"CHANNELS", b"SHARDCHANNELS"):
        assert control.ask(b"PUBSUB", question) == b"*0\r\n"
    assert control.ask(b"PUBSUB", b"NUMPAT") == b":0\r\n"
    for name in (b"blocked_clients", b"dispatch_queue_subscriber_bytes", b"slow_clients"):
        assert field(control, name) == 0, name


def play_wait(server: Server, control: Line, scene: Scene) -> None:
    """Publishers to the slow one wait, and nobody else; all of it arrives once it reads."""
    slow = slow_subscriber(server, scene)
    with publishing(server, scene) as publishers:
        eventually(lambda: field(control, b"blocked_clients") >= 1, "a publisher waits")
        others_go_on(server)
        if server.workers > 1:  # it waited for a link, and may wait for the slow one in a moment
            eventually(lambda: field(control, b"blocked_clients") >= 1, "a publisher waits again")
        else:
            assert field(control, b"blocked_clients") >= 1
        assert field(control, b"dispatch_queue_subscriber_bytes") <= most_waiting(
            scene, server.workers
        )
        gone = scene.end == "publisher leaves"
        if gone:
            publishers[0].leave()
        if scene.end == "leaves":
            slow.close()
        elif scene.end == "unsubscribes":
            slow.send(multibulk((b"UNSUBSCRIBE",)) + multibulk((b"PUNSUBSCRIBE",)))
            slow.send(multibulk((b"SUNSUBSCRIBE",)) + multibulk((b"PING", b"over")))
            heard = numbers_heard(until_over(slow), scene)
            assert all(numbers == list(range(len(numbers))) for numbers in heard), heard
        else:
            _reads_all(slow, scene, gone=gone)
        eventually(lambda: all(p.is_done() for p in publishers), "all have published")
        for publisher in publishers[1 if gone else 0 :]:
            assert len(publisher.answers) == scene.each
            if scene.end == "reads":
                assert set(map(repr, publisher.answers)) == {repr((":", 1))}
    slow.close()
    nothing_is_left(control)


def play_close(server: Server, control: Line, scene: Scene) -> None:
    """Nobody waits; the slow one is closed, and what it got before is whole and in order."""
    slow = slow_subscriber(server, scene)
    with publishing(server, scene) as publishers:
        eventually(lambda: all(p.is_done() for p in publishers), "all have published")
        others_go_on(server)
        for publisher in publishers:
            assert len(publisher.answers) == scene.each
            assert publisher.answers == sorted(publisher.answers, key=repr, reverse=True)
        assert publishers[0].answers[-1] == (":", 0)
    frames = list(iter(slow.frame, None))
    heard = numbers_heard(frames, scene)
    assert all(numbers == list(range(len(numbers))) for numbers in heard), heard
    assert sum(map(len, heard)) < scene.each * scene.publishers
    slow.close()
    nothing_is_left(control)


def play_drop(server: Server, control: Line, scene: Scene) -> None:
    """Nobody waits; the slow one gets the newest, in order, and loses some that are older."""
    slow = slow_subscriber(server, scene)
    with publishing(server, scene) as publishers:
        eventually(lambda: all(p.is_done() for p in publishers), "all have published")
        others_go_on(server)
        for publisher in publishers:
            assert publisher.answers == [(":", 1)] * scene.each
    slow.send(fence(server))
    heard = numbers_heard(until_over(slow), scene)
    assert all(numbers == sorted(set(numbers)) for numbers in heard), heard
    assert sum(map(len, heard)) < scene.each * scene.publishers
    assert any(numbers[-1:] == [scene.each - 1] for numbers in heard), "the newest is lost"
    slow.close()
    nothing_is_left(control)


def _reads_all(slow: Line, scene: Scene, *, gone: bool) -> None:
    """The slow one reads what those publish who stayed, and loses nothing of it."""
    staying = range(1 if gone else 0, scene.publishers)
    frames: list[Frame] = []
    last = [(b"%d:%d:" % (which, scene.each - 1)) for which in staying]
    while last:
        frame = slow.frame()
        assert frame is not None, "closed"
        frames.append(frame)
        value = frame[1]
        assert isinstance(value, list)
        body = value[-1][1]
        assert isinstance(body, bytes)
        last = [start for start in last if not body.startswith(start)]
    for which, numbers in enumerate(numbers_heard(frames, scene)):
        assert numbers == list(range(scene.each if which in staying else len(numbers)))


def most_waiting(scene: Scene, workers: int) -> int:
    """The limit of a mailbox, and one message for each publisher. A link to another worker has such
    a mailbox, too, and what its socket holds may still come from there."""
    mailbox = LIMITS["mailbox_hard"] + (scene.body_bytes + 200) * scene.publishers
    return mailbox * workers + UNDER_WAY * (workers - 1)


def fence(server: Server) -> bytes:
    """What is answered with the word over, behind all that was published before, wherever."""
    return multibulk((b"PING" if server.workers == 1 else b"UNSUBSCRIBE", b"over"))


def until_over(slow: Line) -> list[Frame]:
    """The messages up to the answer of a fence; confirmations of leaving are left out."""
    frames: list[Frame] = []
    while True:
        frame = slow.frame()
        assert frame is not None, "closed"
        kind, value = frame
        if value == b"over" or (isinstance(value, list) and ("$", b"over") in value):
            return frames
        assert isinstance(value, list), (kind, value)
        word = value[0][1]
        if not (isinstance(word, bytes) and word.endswith(b"unsubscribe")):
            frames.append(frame)


PLAYS = {"wait": play_wait, "close": play_close, "drop-oldest": play_drop}
