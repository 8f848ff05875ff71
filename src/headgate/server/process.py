"""Process: what a server shows of itself to whoever started it, and the signals it is sent.

Every server of Headgate has the same: SIGTERM and SIGINT stop it, a second one ends it at once,
SIGHUP reloads it, and a file says that it is ready.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from headgate.errors import ConfigError

logger = logging.getLogger("headgate")


@contextmanager
def handling_signals(
    loop: asyncio.AbstractEventLoop,
    stop: asyncio.Event,
    end: Callable[[], None],
    reload: Callable[[], None],
) -> Iterator[None]:
    def ask(number: signal.Signals) -> None:
        if stop.is_set():  # asked twice: do not wait any longer
            os._exit(128 + number)
        end()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask, number)
    loop.add_signal_handler(signal.SIGHUP, reload)
    for number in (signal.SIGUSR1, signal.SIGUSR2):  # or they would end the process
        fields = {"signal": number.name, "advice": "SIGHUP reloads, SIGTERM stops"}
        loop.add_signal_handler(
            number, partial(logger.info, "a signal without a meaning", extra={"fields": fields})
        )
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)


@contextmanager
def ready_file(path: Path, content: object) -> Iterator[None]:
    """A file that is there, whole, while the router is ready."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(json.dumps(content) + "\n")
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise ConfigError(f"the ready file {path} cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
