"""A publisher that does not stop, and how its messages are told."""

from __future__ import annotations

import threading

from tests.support.resp_client import Client, Frame
from tests.support.resp_servers import items_of


class Flood:
    """Publishes numbered messages from a thread of its own, until it is told to stop."""

    def __init__(self, publisher: Client, channel: str, size: int = 1) -> None:
        self._publisher = publisher
        self._channel = channel
        self._padding = b"." * size
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0
        self._thread.start()

    def _run(self) -> None:
        while not self._end.is_set():
            batch = range(self.sent, self.sent + 20)
            words = [b"%d%b" % (number, self._padding) for number in batch]
            self._publisher.pipeline([("PUBLISH", self._channel, word) for word in words])
            self.sent += 20

    def stop(self) -> None:
        self._end.set()
        self._thread.join()


def numbered(frame: Frame) -> int:
    word = items_of(frame)[-1]
    assert isinstance(word, bytes)
    return int(word.rstrip(b"."))


def is_message(frame: Frame) -> bool:
    """Whether a frame is a message of an exact channel."""
    return isinstance(frame, list) and frame[:1] == [b"message"]
