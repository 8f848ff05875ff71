"""Following a query until it ends, or until a signal says so."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def heeding_signals() -> Iterator[list[int]]:
    """Note the signals that ask to end. They interrupt nothing: whoever is amid a call to Java
    would leave a trace of it, and no answer."""
    heard: list[int] = []
    before = [signal.signal(each, lambda number, frame: heard.append(number)) for each in SIGNALS]
    try:
        yield heard
    finally:
        for each, handler in zip(SIGNALS, before, strict=True):
            signal.signal(each, handler)


def follow(
    query: StreamingQuery,
    each_second: Callable[[], None],
    is_asked: Callable[[], bool] = lambda: False,
) -> None:
    """Wait until a query ends, and raise what ended it. A signal stops it, and so does whoever asks
    for it; what is not committed is repeated by the next run."""
    asked = False
    with heeding_signals() as heard:
        while query.isActive and not heard and not asked:
            query.awaitTermination(1)
            each_second()
            asked = is_asked()
        query.stop()
    if heard:
        raise KeyboardInterrupt
    if asked:
        return
    if error := query.exception():
        raise error
