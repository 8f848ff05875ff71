"""The end of a process that does not end by itself."""

from __future__ import annotations

import threading

from headgate.server import deadline as module
from headgate.server.deadline import Deadline

PATIENCE = 20.0


class Process:
    def __init__(self) -> None:
        self.said = 0
        self.code: int | None = None
        self.ended = threading.Event()

    def speak(self) -> None:
        self.said += 1

    def end(self, code: int) -> None:
        self.code = code
        self.ended.set()


def test_a_process_that_hangs_says_why_and_ends() -> None:
    process = Process()
    deadline = Deadline(0.0, process.speak, process.end)
    deadline.start()
    deadline.start()
    assert process.ended.wait(PATIENCE)
    assert (process.said, process.code) == (1, 1)


def test_last_words_that_hang_do_not_hold_the_end() -> None:
    process, never = Process(), threading.Event()

    def hang() -> None:
        never.wait(PATIENCE)

    seconds, module.SPEAK_SECONDS = module.SPEAK_SECONDS, 0.01
    try:
        Deadline(0.0, hang, process.end).start()
        assert process.ended.wait(PATIENCE)
    finally:
        module.SPEAK_SECONDS = seconds
        never.set()


def test_a_process_that_ended_by_itself_is_left_alone() -> None:
    process = Process()
    deadline = Deadline(PATIENCE, process.speak, process.end)
    deadline.start()
    deadline.cancel()
    assert deadline._thread is not None
    deadline._thread.join(PATIENCE)
    assert not deadline._thread.is_alive()
    assert process.code is None
