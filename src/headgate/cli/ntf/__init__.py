"""``headgate ntf``: a server that wakes devices, from the command line."""

from __future__ import annotations

import click

from headgate.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "init": "headgate.cli.ntf.making",
        "serve": "headgate.cli.ntf.serving",
        "check": "headgate.cli.ntf.serving",
        "config": "headgate.cli.ntf.settings",
        "tokens": "headgate.cli.ntf.looking",
        "routers": "headgate.cli.ntf.looking",
        "audit": "headgate.cli.ntf.looking",
        "push-test": "headgate.cli.ntf.pushing",
    },
)
def ntf() -> None:
    """Wake sleeping devices: a notification server for apps of SimpleX's kind.

    Apps register a device and the notifiers of their queues. The server subscribes to these at
    their routers, and pushes to the device when one has a message. It learns neither who writes nor
    what.

    \b
      headgate ntf init --host push.example.org
      headgate ntf serve

    Everything is kept in the folder ntf of the current directory, unless a configuration says
    otherwise; tokens, routers, audit and check can look into it while the server runs.
    """
