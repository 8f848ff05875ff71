"""``headgate agent``: encrypted queues and connections, from the command line."""

from __future__ import annotations

import click

from headgate.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "init": "headgate.cli.agent.files",
        "queue": "headgate.cli.agent.queues",
        "invite": "headgate.cli.agent.connecting",
        "join": "headgate.cli.agent.connecting",
        "connection": "headgate.cli.agent.connections",
        "send": "headgate.cli.agent.sending",
        "listen": "headgate.cli.agent.listening",
        "status": "headgate.cli.agent.files",
        "check": "headgate.cli.agent.files",
        "service": "headgate.cli.agent.files",
    },
)
def agent() -> None:
    """Send and receive, encrypted from end to end, through routers of SimpleX's kind.

    A connection goes both ways, between two agents. One invites, and hands its link to the other:

    \b
      headgate agent init --router smp://FINGERPRINT@relay.example.org
      headgate agent invite --name anna --wait
      headgate agent send anna hello

    The other one joins, and listens:

    \b
      headgate agent init --router smp://FINGERPRINT@relay.example.org
      headgate agent join 'simplex:/invitation#/?...' --name bob
      headgate agent listen

    A queue goes one way, from one sender to one recipient, and is for programs that share no more
    than its address, which "headgate agent queue new" prints.

    Everything is kept in one file, which one command at a time may use; status, check and
    queue list can look into it meanwhile.
    """
