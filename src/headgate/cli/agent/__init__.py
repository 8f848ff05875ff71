"""``headgate agent``: encrypted queues and connections, from the command line."""

from __future__ import annotations

import click

from headgate.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "init": ("headgate.cli.agent.files", "Make the file of an agent."),
        "queue": (
            "headgate.cli.agent.queues",
            "Make, list and delete the queues that this agent reads.",
        ),
        "invite": (
            "headgate.cli.agent.connecting",
            "Print a link, and be connected with the one who uses it first.",
        ),
        "join": (
            "headgate.cli.agent.connecting",
            "Use a LINK that another agent handed out, and be connected with it.",
        ),
        "connection": (
            "headgate.cli.agent.connections",
            "List and delete connections, which invite and join make.",
        ),
        "send": ("headgate.cli.agent.sending", "Send TEXT to a connection, or to a queue."),
        "listen": (
            "headgate.cli.agent.listening",
            "Print the messages of all queues and connections, until Ctrl-C.",
        ),
        "status": (
            "headgate.cli.agent.files",
            "Print what there is at each router, and whether it answers.",
        ),
        "check": (
            "headgate.cli.agent.files",
            "Recount the tallies of services, and look for what belongs to nothing.",
        ),
        "service": ("headgate.cli.agent.files", "Be a service, or not."),
    },
)
def agent() -> None:
    """Send and receive, encrypted from end to end.

    This goes through routers of SimpleX's kind. A connection goes both ways, between two agents.
    One invites, and hands its link to the other:

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
