"""``headgate drain``, ``undrain``, ``reload`` and ``log-level``."""

from __future__ import annotations

import click

from headgate.cli.confirming import confirm, reason_option, yes_option
from headgate.cli.live.actions import print_action
from headgate.cli.output import json_option
from headgate.cli.units import counted
from headgate.cli.which_router import Asked, router_options

LEVELS = ("debug", "info", "warning", "error")


@click.command()
@reason_option
@yes_option
@router_options
@json_option
def drain(reason: str, yes: bool, asked: Asked, as_json: bool) -> None:
    """Take no new sessions, so that the router can be stopped.

    Its /readyz says 503 from then on, so that traffic goes elsewhere. "headgate undrain" takes it
    back.
    """
    admin = asked.operator()
    left = counted(admin.act("/drain", {"dry_run": True})["count"], "session")
    confirm(yes, f"Let the router at {admin.url} take no new sessions, and keep {left}?")
    print_action(admin.act("/drain", {"confirm": "drain", "reason": reason}), as_json)


@click.command()
@reason_option
@router_options
@json_option
def undrain(reason: str, asked: Asked, as_json: bool) -> None:
    """Take new sessions again."""
    done = asked.operator().act("/undrain", {"confirm": "undrain", "reason": reason})
    print_action(done, as_json)


@click.command()
@reason_option
@router_options
@json_option
def reload(reason: str, asked: Asked, as_json: bool) -> None:
    """Have the router read its configuration again.

    It takes over domains, the log level and certificates, and says which other keys wait for a
    restart. "headgate config diff --running" says before what would change.
    """
    done = asked.operator().act("/reload", {"confirm": "reload", "reason": reason})
    print_action(done, as_json)


@click.command("log-level")
@click.argument("level", type=click.Choice(LEVELS))
@click.option(
    "--minutes",
    type=click.FloatRange(0.1, 24 * 60),
    default=10.0,
    show_default=True,
    help="Then it is again what the configuration says.",
)
@reason_option
@router_options
@json_option
def log_level(level: str, minutes: float, reason: str, asked: Asked, as_json: bool) -> None:
    """Log more, or less, for some minutes."""
    wanted = {"confirm": level, "reason": reason, "level": level, "minutes": minutes}
    print_action(asked.operator().act("/log-level", wanted), as_json)
