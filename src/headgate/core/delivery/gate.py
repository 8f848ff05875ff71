"""The unconfirmed deliveries of one subscription, within its window."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from headgate.core.model.ids import MessageId
from headgate.core.model.value import value
from headgate.core.model.window import Window

K = TypeVar("K", bound=Hashable)


@value
class ShutGate:
    """The gate of an exclusive queue, which admits one message, while it is shut: what it admitted,
    and when."""

    message: MessageId
    at: float


class Gate(Generic[K]):
    """Open while its subscription may be given another message.

    A gate that became full opens again when four fifths of its window are reached, rounded up: a
    window of ten resumes at eight, one of three after a single confirm. The check is made before a
    delivery, so the last message may go over the bytes of the window, and a message larger than the
    window reaches a subscription without unconfirmed ones.
    """

    __slots__ = ("full", "held", "outstanding", "size", "window")

    def __init__(self, window: Window) -> None:
        self.window = window
        self.outstanding: dict[K, tuple[int, float]] = {}
        """Size and time of each unconfirmed delivery."""
        self.size = 0
        # BMQ-46: an empty window pauses.
        self.full = window.messages <= 0 or window.bytes == 0
        """Whether it reached its window, and has not fallen back far enough since."""
        self.held = False
        """Whether it is shut for another reason: the session's mailbox has no room."""

    @property
    def is_open(self) -> bool:
        return not (self.full or self.held)

    def admit(self, key: K, size: int, now: float) -> None:
        assert self.is_open, "admit() while the gate is shut"
        self.outstanding[key] = (size, now)
        self.size += size
        self.full = self._is_full()

    def hold(self, key: K, size: int, at: float) -> None:
        """Take over a delivery that was made through another gate."""
        self.outstanding[key] = (size, at)
        self.size += size

    def confirm(self, key: K) -> bool:
        """Remove a delivery that was made through this gate; return whether there was one."""
        found = self.outstanding.pop(key, None)
        if found is None:
            return False
        self.size -= found[0]
        if self.full:
            bytes_ = self.window.bytes
            self.full = (
                self._is_full()
                # BMQ-44: a window of ten, once full, opens again at eight.
                or len(self.outstanding) > _low(self.window.messages)
                or (bytes_ is not None and self.size > _low(bytes_))
            )
        return True

    def resize(self, window: Window) -> None:
        """Change the window; unconfirmed deliveries count at once."""
        self.window = window
        # BMQ-47: a larger window opens at once, without a confirm.
        self.full = self._is_full()

    def unadmit(self, key: K, was_full: bool) -> None:
        """Undo an `admit`."""
        self.size -= self.outstanding.pop(key)[0]
        self.full = was_full

    def unconfirm(self, key: K, delivery: tuple[int, float], was_full: bool) -> None:
        """Undo a `confirm`."""
        self.outstanding[key] = delivery
        self.size += delivery[0]
        self.full = was_full

    def _is_full(self) -> bool:
        bytes_ = self.window.bytes
        # BMQ-43, BMQ-45: checked after a delivery, so one message may be larger than the window.
        return len(self.outstanding) >= self.window.messages or (
            bytes_ is not None and self.size >= bytes_
        )


def _low(limit: int) -> int:
    return -(-limit * 4 // 5)
