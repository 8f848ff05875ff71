"""What holds the router's event loop, measured in its own thread and in CPU.

The loop is held from one look at its sockets to the next: in between nobody else is served. Such a
*pass* serves many clients, one after another, and so it consists of *slices*: what one socket
brought, one callback, one step of a task. With one client that does something, the pass is what
that client costs everybody; with a crowd, a slice is.

The clock is that of the thread's CPU, so that a busy machine does not count. `install` puts the
instrument into a router's process before it starts; nothing in the router knows of it.
"""

from __future__ import annotations

import asyncio
import gc
import select
import sys
import threading
import time
from asyncio.events import Handle
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any, Final, SupportsIndex

from headgate.server.net import poller

BETWEEN: Final = "the loop itself"
SAMPLE_SECONDS: Final = 0.005
SAMPLE_CPU: Final = 0.02
"""A pass that has taken so much is looked at, to say where it is."""
FRAMES: Final = 4
PACKAGE: Final = "headgate"

UNITS: Final = 20_000
"""Of `work`, one measurement."""
MEASUREMENTS: Final = 5


@dataclass
class Hold:
    """The longest of something so far."""

    cpu: float = 0.0
    gc: float = 0.0
    """Of which Python looked for cycles."""
    name: str = ""


@dataclass
class Seen:
    """What was seen since the last reset."""

    passed: Hold = field(default_factory=Hold)
    """The longest pass, named by its longest slice."""
    sliced: Hold = field(default_factory=Hold)
    """The longest slice."""
    where: Counter[str] = field(default_factory=Counter)
    """Functions in which the longest pass was found, and how often."""
    passes: int = 0


class Instrument:
    def __init__(self) -> None:
        self.seen = Seen()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.clock_id = 0
        """Of the loop's thread, for others."""
        self.thread = 0
        self.is_passing = False
        self.started = 0.0
        """CPU at which the pass began."""
        self._mark = 0.0
        """CPU up to which everything is accounted for."""
        self._inside = 0
        self._name = BETWEEN
        self._gc = self._gc_slice = 0.0
        self._gc_began = 0.0
        self._longest = Hold()
        self._samples: Counter[str] = Counter()

    def reset(self) -> None:
        """In the loop's thread."""
        self.seen = Seen()
        self.started = self._mark = time.thread_time()
        self._longest = Hold()
        self._gc = self._gc_slice = 0.0

    # Passes.

    def began(self) -> None:
        """The sockets were looked at."""
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
            self.thread = threading.get_ident()
            self.clock_id = time.pthread_getcpuclockid(self.thread)
        self.started = self._mark = time.thread_time()
        self._longest = Hold()
        self._gc = self._gc_slice = 0.0
        self._samples = Counter()
        self.is_passing = True

    def ended(self) -> None:
        """They are looked at again."""
        if not self.is_passing:
            return
        self._account()
        self.is_passing = False
        seen, cpu = self.seen, self._mark - self.started
        seen.passes += 1
        if cpu > seen.passed.cpu:
            seen.passed = Hold(cpu, self._gc, self._longest.name)
            seen.where = self._samples

    # Slices.

    def enter(self, name: str) -> bool:
        """Whether this is a slice, and not inside of one."""
        self._inside += 1
        if self._inside > 1:
            return False
        self._account()
        self._name = name
        return True

    def leave(self) -> None:
        if self._inside == 1:
            self._account()
            self._name = BETWEEN
        self._inside -= 1

    def _account(self) -> None:
        now = time.thread_time()
        cpu, self._mark = now - self._mark, now
        if cpu > self._longest.cpu:
            self._longest = Hold(cpu, self._gc_slice, self._name)
            if cpu > self.seen.sliced.cpu:
                self.seen.sliced = self._longest
        self._gc_slice = 0.0

    def measured(self, call: Callable[..., Any]) -> Callable[..., Any]:
        name = name_of(call)

        def run(*arguments: object) -> None:
            self.enter(name)
            try:
                call(*arguments)
            finally:
                self.leave()

        return run

    # From elsewhere.

    def collecting(self, phase: str, info: dict[str, int]) -> None:
        """Python looks for cycles, in whichever thread."""
        if threading.get_ident() != self.thread:
            return
        if phase == "start":
            self._gc_began = time.thread_time()
        else:
            took = time.thread_time() - self._gc_began
            self._gc += took
            self._gc_slice += took

    def cpu(self) -> float:
        """Of the loop's thread so far; for other threads."""
        return time.clock_gettime(self.clock_id) if self.clock_id else 0.0

    def running(self) -> float:
        """CPU of the pass that is not over yet; for other threads."""
        return self.cpu() - self.started if self.is_passing else 0.0

    def sample(self) -> None:
        """Note where a long pass is; for another thread."""
        samples = self._samples
        if self.running() > SAMPLE_CPU:
            frame = sys._current_frames().get(self.thread)
            if frame is not None and self.is_passing:
                samples[place_of(frame)] += 1

    def where(self) -> Counter[str]:
        """Of the longest pass, which may be the one that is not over yet."""
        return self._samples if self.running() > self.seen.passed.cpu else self.seen.where


class Epoll:
    """epoll that tells when it is asked."""

    def __init__(self, instrument: Instrument) -> None:
        self._instrument = instrument
        self._epoll = select.epoll()
        self.register = self._epoll.register
        self.modify = self._epoll.modify
        self.unregister = self._epoll.unregister
        self.fileno = self._epoll.fileno
        self.close = self._epoll.close

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        self._instrument.ended()
        found = self._epoll.poll(timeout, maxevents)
        self._instrument.began()
        return found


class Select:
    """The module `select` as the poller sees it."""

    def __init__(self, instrument: Instrument) -> None:
        self._instrument = instrument

    def __getattr__(self, name: str) -> object:
        return getattr(select, name)

    def epoll(self) -> Epoll:
        return Epoll(self._instrument)


class Calls(list[Callable[..., Any]]):
    """What is to be done when everybody was served, each a slice."""

    def __init__(self, instrument: Instrument) -> None:
        super().__init__()
        self._instrument = instrument

    def append(self, call: Callable[..., Any]) -> None:
        super().append(self._instrument.measured(call))

    def insert(self, at: SupportsIndex, call: Callable[..., Any]) -> None:
        super().insert(at, self._instrument.measured(call))


def install() -> Instrument:
    """Have the loops of this process tell an instrument."""
    instrument = Instrument()

    class MeasuredPoller(poller.Poller):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "calls" and value == []:
                value = Calls(instrument)
            super().__setattr__(name, value)

        def add(self, fileno: int, ready: poller.Ready, *more: Any, **named: Any) -> None:  # noqa: ANN401
            super().add(fileno, instrument.measured(ready), *more, **named)

    run = Handle._run

    def measured_run(self: Handle) -> None:
        instrument.enter(name_of(self._callback))  # type: ignore[attr-defined]
        try:
            run(self)
        finally:
            instrument.leave()

    vars(poller).update(select=Select(instrument), Poller=MeasuredPoller)
    Handle._run = measured_run  # type: ignore[method-assign]
    gc.callbacks.append(instrument.collecting)
    threading.Thread(target=_sampling, args=[instrument], daemon=True).start()
    return instrument


def _sampling(instrument: Instrument) -> None:
    while True:
        time.sleep(SAMPLE_SECONDS)
        if instrument.clock_id:
            instrument.sample()


def name_of(call: Any) -> str:  # noqa: ANN401
    """Of a callback, in the words of the code."""
    while isinstance(call, partial):
        call = call.func
    owner = getattr(call, "__self__", None)
    if isinstance(owner, asyncio.Task):
        coroutine = owner.get_coro()
        return f"task {getattr(coroutine, '__qualname__', owner.get_name())}"
    return getattr(call, "__qualname__", None) or type(call).__name__


def place_of(frame: FrameType | None) -> str:
    """The innermost functions of the router, and what they call outside of it."""
    names: list[str] = []
    outside = ""
    while frame is not None and len(names) < FRAMES:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(PACKAGE):
            names.append(f"{module.removeprefix(PACKAGE + '.')}.{frame.f_code.co_name}")
        elif not names and not outside:
            outside = f"{module}.{frame.f_code.co_name} < "
        frame = frame.f_back
    return outside + " < ".join(names)


# What a machine can do.


def work(units: int) -> int:
    """A fixed piece of work of the kind that the router does: calls, dictionaries, bytes, sets."""
    known: dict[bytes, tuple[int, bytes]] = {}
    total = 0
    for number in range(units):
        name = b"channel:%d" % (number & 1023)
        found = known.get(name)
        if found is None:
            known[name] = number, name
        else:
            total += _part(found, number)
    return total


def _part(found: tuple[int, bytes], number: int) -> int:
    first, name = found
    return len(name) if number - first else 0


def calibrate() -> float:
    """CPU seconds that the fixed work takes here and now, the median of several times."""
    took = []
    for _ in range(MEASUREMENTS):
        before = time.thread_time()
        work(UNITS)
        took.append(time.thread_time() - before)
    return sorted(took)[MEASUREMENTS // 2]
