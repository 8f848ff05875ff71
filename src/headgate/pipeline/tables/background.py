"""Work beside the batches of a query, in a thread that ends with them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def in_background(name: str, work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run work in a thread until what is inside has ended, however it does. The event that it is
    given is set then, and the thread is waited for: work looks at it between two rounds, and keeps
    its own failures to itself."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,), name=name)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
