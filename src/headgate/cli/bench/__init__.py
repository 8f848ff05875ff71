"""``headgate bench``: how much a router does, and how soon, from where the command runs."""

from __future__ import annotations

import click

from headgate.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "pub": ("headgate.cli.bench.channels", "Publish as fast as the router takes it."),
        "sub": ("headgate.cli.bench.channels", "Publish to subscribers, and count what comes."),
        "queue": ("headgate.cli.bench.queues", "Post to a queue, read and confirm."),
        "route": ("headgate.cli.bench.queues", "Post to a queue with many expressions."),
        "rtt": ("headgate.cli.bench.latency", "Measure how long one message takes."),
    },
)
def bench() -> None:
    """Measure how much a router does, and how soon.

    One client, in one process of Python, which is often what is measured: compare numbers of one
    machine with each other. Channels and queues are made for the purpose and have names of their
    own, but the load is real: think before doing this to a router that others use.
    """
