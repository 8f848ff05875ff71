"""A process that was told to end does end, whatever in it hangs.

A thread of its own waits, because the event loop may be what hangs: in a write to a disk that
does not answer, or behind a thread that waits for a server for ever.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

SPEAK_SECONDS = 1.0
"""How long the last words may take: whoever hangs may hold what they need."""


class Deadline:
    """Ends the process some seconds after it was started, unless it is cancelled before."""

    def __init__(
        self,
        seconds: float,
        last_words: Callable[[], None],
        end: Callable[[int], None] = os._exit,
    ) -> None:
        self._seconds = seconds
        self._last_words = last_words
        self._end = end
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Count from here on. To start it again changes nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._wait, name="deadline", daemon=True)
            self._thread.start()

    def cancel(self) -> None:
        """The end came by itself."""
        self._over.set()

    def _wait(self) -> None:
        if self._over.wait(self._seconds):
            return
        speaking = threading.Thread(target=self._last_words, name="last words", daemon=True)
        speaking.start()
        speaking.join(SPEAK_SECONDS)
        self._end(1)
