"""``headgate serve`` and ``headgate check``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli.config_file import config_option, load
from headgate.cli.output import emit, json_option
from headgate.cli.which_router import Asked, router_options
from headgate.errors import ConfigError

if TYPE_CHECKING:
    from headgate.server.config import Config
    from headgate.server.wires.wire import Finding

WARNING = "warning: "
"""The beginning of a text that is only a warning."""


@click.command()
@config_option
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="HEADGATE_READY_FILE",
    metavar="FILE",
    help="Write the addresses as JSON to FILE once everything listens; remove it at the end.",
)
def serve(config: Path | None, ready_file: Path | None) -> None:
    """Run the router until it is told to stop.

    SIGTERM and Ctrl-C stop it cleanly; what hangs is given up after a quarter of a minute. SIGHUP
    makes it read the domains, the log level and the certificates of its configuration again; a
    file that is wrong changes nothing. Log lines go to standard error.
    """
    serve_router(load(config), ready_file)


@click.command()
@click.option(
    "--nagios",
    is_flag=True,
    help="Ask the router that runs instead, and print one line for a monitoring system.",
)
@router_options
@json_option
@click.pass_context
def check(ctx: click.Context, nagios: bool, asked: Asked, as_json: bool) -> None:
    """Look whether the router could start, and say what to do.

    Prints a line each for the configuration, the state directory, the store, the admin port,
    every listener with its certificate, and the file descriptors. Exits with 3 if something is
    wrong. It can be used while the router runs.

    With --nagios the router that runs is asked what needs attention, and the exit codes are those
    of a Nagios plugin: 0 OK, 1 WARNING, 2 CRITICAL (also if no router answers), 3 UNKNOWN.
    """
    if nagios:
        from headgate.cli.live.nagios import print_state

        ctx.exit(print_state(asked, as_json))
    from headgate.server.check import findings

    ctx.exit(print_findings(lambda: findings(load(asked.config)), as_json))


def serve_router(config: Config, ready_file: Path | None) -> None:
    """Run the router."""
    from headgate.server.serve import serve as serve_until_stopped

    serve_until_stopped(config, ready_file)


def print_findings(look: Callable[[], Iterator[Finding]], as_json: bool) -> int:
    """Print what is found as it is found; return the exit code."""
    from headgate.server.wires.wire import Finding

    failed: list[Finding] = []

    def found() -> Iterator[Finding]:
        try:
            yield from look()
        except ConfigError as error:
            yield Finding("config", False, str(error))

    for finding in found():
        if not finding.ok:
            failed.append(finding)
        emit([asdict(finding) | {"warns": finding.warns}], _finding_line, as_json)
    return 3 if failed else 0


def _finding_line(row: Mapping[str, object]) -> str:
    mark = "FAIL" if not row["ok"] else "warn" if row["warns"] else "ok  "
    return f"{mark}  {row['name']:<11}  {str(row['text']).removeprefix(WARNING)}"
