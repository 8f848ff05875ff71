"""A router that is looked at while it works: run by `bench.queues_router`, not by hand.

The kernel interrupts the loop's thread after each few milliseconds of its CPU, and what it is at
is noted. So a library's time is its caller's, waiting costs nothing, and the work is hardly slower
for being looked at: a profiler that follows every call would double the share of whatever calls
much. Of the other threads, which are the store's, the CPU is known and nothing else.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import TypeAlias

import headgate
from headgate.cli import main

OURS = str(Path(headgate.__file__).parent)

EVERY_NANOSECONDS = 1_000_000
"""Of CPU. The kernel rounds it up to its own tick."""
THREAD_CPU = 3
"""linux/time.h; the clock of the thread that makes the timer."""
ROWS = 25
"""How many functions are told of."""

Groups: TypeAlias = tuple[tuple[str, str, str], ...]

GROUPS: Groups = (
    ("crypto/box.py", "seal_message", "sealing messages"),
    ("crypto/box.py", "BlockCipher", "sealing and opening blocks"),
    ("crypto/proof.py", "", "checking signatures"),
    ("crypto/keys.py", "", "checking signatures"),
    ("wire/smp/proofs.py", "", "checking signatures"),
    # What several groups call is charged to the one that called it.
    ("crypto/box.py", "", ""),
    ("wire/smp/codec/encoding.py", "pad", ""),
    ("wire/smp/codec/encoding.py", "unpad", ""),
    ("headgate/wire/", "", "parsing and encoding"),
    ("server/net/openssl.py", "", "TLS and sockets"),
    ("server/net/tls.py", "", "TLS and sockets"),
    ("/OpenSSL/", "", "TLS and sockets"),
    ("server/net/connection.py", "", "connections"),
    ("server/net/poller.py", "", "connections"),
    ("server/wires/smp.py", "", "connections"),
    ("core/delivery/mailbox.py", "", "connections"),
    ("headgate/core/", "", "turn and core"),
    ("server/driver.py", "", "turn and core"),
    ("server/router.py", "", "turn and core"),
    ("headgate/store/", "", "store"),
    ("psycopg", "", "store"),
    ("server/log.py", "", "metrics, log, admin"),
    ("server/admin/", "", "metrics, log, admin"),
    ("journal/sealer_process.py", "", "metrics, log, admin"),
    ("/asyncio/", "", "asyncio"),
    ("selectors.py", "", "asyncio"),
    ("concurrent/futures/", "", "asyncio"),
)
"""Part of a file's path, how the function's name begins, and whose time it is."""
OTHER = "other"
STORE_THREAD = "store's thread"


class Times(ctypes.Structure):
    """An itimerspec: after how long, and how long between."""

    _fields_ = [(name, ctypes.c_long) for name in ("again_s", "again_ns", "first_s", "first_ns")]


class Timer:
    """Sends SIGALRM to whoever makes it, as long as it works. Python has timers of the process
    only: these would also go off when the store's thread works."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._id = ctypes.c_void_p()
        # Without a sigevent, the signal is SIGALRM.
        self._check(self._libc.timer_create(THREAD_CPU, None, ctypes.byref(self._id)))

    def every(self, nanoseconds: int) -> None:
        """0 stops it."""
        times = ctypes.byref(Times(0, nanoseconds, 0, nanoseconds))
        self._check(self._libc.timer_settime(self._id, 0, times, None))

    @staticmethod
    def _check(result: int) -> None:
        if result:
            raise OSError(ctypes.get_errno(), "no timer")


class Sampler:
    def __init__(self, path: Path, groups: Groups = GROUPS) -> None:
        self._path = path
        self._of = groups
        self._timer = Timer()
        self._is_running = False
        self._known: dict[CodeType, str] = {}
        self._groups: Counter[str] = Counter()
        self._functions: Counter[str] = Counter()
        self._main = self._all = 0.0

    def toggle(self, number: int, frame: FrameType | None) -> None:
        self._is_running = not self._is_running
        self._timer.every(EVERY_NANOSECONDS if self._is_running else 0)
        main, whole = time.thread_time(), time.process_time()
        if self._is_running:
            self._main, self._all = main, whole
        else:
            self._write(main - self._main, whole - self._all)

    def look(self, number: int, frame: FrameType | None) -> None:
        self._groups[self._group(frame)] += 1
        self._functions[self._name(frame)] += 1

    def _group(self, frame: FrameType | None) -> str:
        while frame is not None:
            found = self._known.get(frame.f_code)
            if found is None:
                found = self._known[frame.f_code] = _group_of(frame.f_code, self._of)
            if found:
                return found
            frame = frame.f_back
        return OTHER

    @staticmethod
    def _name(frame: FrameType | None) -> str:
        """The function, and its caller if it is of a library."""
        assert frame is not None, "the loop's thread runs Python"
        code = frame.f_code
        name = f"{Path(code.co_filename).name}:{code.co_qualname}"
        caller = frame.f_back
        while not code.co_filename.startswith(OURS) and caller is not None:
            code = caller.f_code
            if code.co_filename.startswith(OURS):
                return f"{name} < {Path(code.co_filename).name}:{code.co_qualname}"
            caller = caller.f_back
        return name

    def _write(self, main: float, whole: float) -> None:
        """What was seen, as seconds of CPU."""
        samples = self._groups.total()
        each = main / max(samples, 1)
        groups = {name: count * each for name, count in self._groups.most_common()}
        functions = {name: count * each for name, count in self._functions.most_common(ROWS)}
        groups[STORE_THREAD] = whole - main
        seen = {"samples": samples, "groups": groups, "functions": functions}
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(seen))
        part.replace(self._path)
        self._groups.clear()
        self._functions.clear()


def _group_of(code: CodeType, groups: Groups) -> str:
    for path, name, group in groups:
        if path in code.co_filename and code.co_qualname.startswith(name):
            return group
    return ""


if __name__ == "__main__":
    sampler = Sampler(Path(sys.argv.pop(1)))
    signal.signal(signal.SIGALRM, sampler.look)
    signal.signal(signal.SIGVTALRM, sampler.toggle)
    main()
