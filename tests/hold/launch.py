"""`headgate`, with an instrument inside that somebody outside can ask.

    python -m tests.hold.launch DESCRIPTOR BYTES serve --config ...

The descriptor is a socket over which questions come, a number and a word in a line, and answers
go, as JSON. The process may take so many bytes of memory; 0 is any number.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tests.hold.instrument import Hold, Instrument, calibrate, install

PLACES = 3
LOOP_SECONDS = 0.5
"""For the loop to do something; it is asked again."""


class Desk:
    """Answers questions, in a thread of its own."""

    def __init__(self, instrument: Instrument) -> None:
        self._instrument = instrument

    def answer(self, question: str) -> dict[str, object]:
        match question:
            case "calibrate":
                return {"unit": calibrate()}
            case "reset":
                is_done = self._in_loop(self._instrument.reset)
                return {
                    "done": is_done,
                    "cpu": self._instrument.cpu(),
                    "all": time.process_time(),
                }
            case "barrier":
                is_done = self._in_loop(lambda: None)
                return {"done": is_done, "cpu": self._instrument.cpu()}
            case "report":
                return self._report()
        return {"error": f"{question} is no question"}

    def _in_loop(self, call: Callable[[], None]) -> bool:
        """Have the loop call it; whether it did in time. The loop has gone through everything
        before it then."""
        loop, done = self._instrument.loop, threading.Event()
        assert loop is not None, "the router runs"

        def run() -> None:
            call()
            done.set()

        loop.call_soon_threadsafe(run)
        return done.wait(LOOP_SECONDS)

    def _report(self) -> dict[str, object]:
        """Whatever the loop is doing."""
        instrument = self._instrument
        seen, running, where = instrument.seen, instrument.running(), instrument.where()
        return {
            "passed": _told(seen.passed),
            "sliced": _told(seen.sliced),
            "running": running,
            "where": dict(where.most_common(PLACES)),
            "passes": seen.passes,
            "cpu": instrument.cpu(),
            "all": time.process_time(),
        }


def _told(hold: Hold) -> dict[str, object]:
    return {"cpu": hold.cpu, "gc": hold.gc, "name": hold.name}


def answer_all(desk: Desk, channel: socket.socket) -> None:
    with suppress(OSError), channel, channel.makefile("rw") as lines:
        for line in lines:
            number, question = line.split()
            answer = desk.answer(question)
            lines.write(json.dumps({"number": int(number), **answer}) + "\n")
            lines.flush()
    os._exit(1)  # nobody is there any longer who would end this process


def join(place: str) -> None:
    """Put the instrument into this process, and answer whoever listens at a place."""
    desk = Desk(install())
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(place)
    channel.set_inheritable(False)
    channel.sendall(f"{os.getpid()}\n".encode())
    threading.Thread(target=answer_all, args=[desk, channel], daemon=True).start()


def main() -> None:
    descriptor, most = int(sys.argv[1]), int(sys.argv[2])
    if most:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    desk = Desk(install())
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    threading.Thread(target=answer_all, args=[desk, channel], daemon=True).start()
    from headgate.cli import main as headgate

    sys.argv = ["headgate", *sys.argv[3:]]
    headgate()


if __name__ == "__main__":
    main()
