"""Following a query until it ends, or until a signal says so."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOOK_SECONDS = 0.1
"""Between two looks whether a batch is done. The next one may have begun meanwhile, and is then
repeated by the next run."""


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
    noted: list[int] | None = None,
) -> bool:
    """Wait until a query ends, and raise what ended it; whether it ended by itself. A signal has it
    end after the batch that is at work, a second one at once, and so does whoever asks for it. An
    uncommitted batch is repeated by the next run. Ctrl-C is also an interruption of the caller, who
    may have noted signals since before the query was started."""
    asked = False
    with heeding_signals() if noted is None else nullcontext(noted) as heard:
        while query.isActive and not heard and not asked:
            query.awaitTermination(1)
            each_second()
            asked = is_asked()
        before = _batches(query)
        while len(heard) < 2 and _is_at_work(query) and _batches(query) == before:
            query.awaitTermination(LOOK_SECONDS)  # type: ignore[arg-type]  # parts of it will do
        query.stop()
    each_second()
    if signal.SIGINT in heard:
        raise KeyboardInterrupt
    if heard or asked:
        return False
    if error := query.exception():
        raise error
    return True


def _is_at_work(query: StreamingQuery) -> bool:
    return query.isActive and bool(query.status["isTriggerActive"])


def _batches(query: StreamingQuery) -> int:
    """The last batch that is done; -1 if there is none."""
    progress = query.lastProgress
    return progress.batchId if progress is not None else -1
