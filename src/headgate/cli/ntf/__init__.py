"""``headgate ntf``: a server that wakes devices, from the command line."""

from __future__ import annotations

import click

from headgate.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "init": (
            "headgate.cli.ntf.making",
            "Make the server's identity, and print the address that apps need.",
        ),
        "serve": (
            "headgate.cli.ntf.serving",
            "Run the notification server until it is told to stop.",
        ),
        "check": ("headgate.cli.ntf.serving", "Look whether the notification server could start."),
        "config": (
            "headgate.cli.ntf.settings",
            "Look at the configuration of the notification server.",
        ),
        "tokens": ("headgate.cli.ntf.looking", "Count the tokens, by provider and status."),
        "routers": ("headgate.cli.ntf.looking", "Print every router that apps named."),
        "audit": (
            "headgate.cli.ntf.looking",
            "Recount the tallies of services, and look for what belongs to nothing.",
        ),
        "push-test": (
            "headgate.cli.ntf.pushing",
            "Push once to a Web Push endpoint, and print the answer.",
        ),
    },
)
def ntf() -> None:
    """Wake sleeping devices: a notification server.

    It is for apps of SimpleX's kind. Apps register a device and the notifiers of their queues. The
    server subscribes to these at their routers, and pushes to the device when one has a message. It
    learns neither who writes nor what.

    \b
      headgate ntf init --host push.example.org
      headgate ntf serve

    Everything is kept in the folder ntf of the current directory, unless a configuration says
    otherwise; tokens, routers, audit and check can look into it while the server runs.
    """
