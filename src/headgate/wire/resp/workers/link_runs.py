"""Runs of messages on a link, from its data to the sessions of this worker.

Compiled, no object is made for any of them; and a message that a read cut in two is recognized, so
that its beginning can be kept until the rest comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from headgate.compiled import part
from headgate.core.channels.audience import Kind
from headgate.core.channels.channels import Channels
from headgate.wire.resp.codec.publish_runs import run_in

Delivered: TypeAlias = tuple[int, bool]
"""Where the messages end that were delivered, and whether another one follows that is cut: whole
so far, and without its end."""


def deliver_each(
    channels: Channels, kind: Kind, names: Sequence[bytes], bodies: Sequence[bytes]
) -> None:
    """Deliver messages of another worker to the sessions here, in their order."""
    if names.count(names[0]) == len(names):
        channels.deliver(kind, names[0], bodies)
        return
    for name, run in groupby(zip(names, bodies, strict=True), itemgetter(0)):
        channels.deliver(kind, name, [body for _, body in run])


def pure_deliver_run(channels: Channels, data: bytes) -> Delivered:
    """Deliver the PUBLISHes at the start of a link's data while nobody watches. One that is cut is
    left to the parser."""
    run = run_in(data)
    if run is None:
        return 0, False
    names, bodies, end = run
    deliver_each(channels, Kind.EXACT, names, bodies)
    return end, False


deliver_run = part("headgate.wire.resp._plain", "deliver_run", pure_deliver_run)
