"""``headgate serve`` and ``headgate check``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import click

from headgate.cli.config_file import config_option
from headgate.cli.output import emit, json_option
from headgate.errors import ConfigError
from headgate.server.check import findings
from headgate.server.config import load_config
from headgate.server.serve import serve as serve_router
from headgate.server.wires.wire import Finding


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
    serve_router(load_config(config, os.environ), ready_file)


@click.command()
@config_option
@json_option
@click.pass_context
def check(ctx: click.Context, config: Path | None, as_json: bool) -> None:
    """Look whether the router could start, and say what to do.

    Prints a line each for the configuration, the state directory, the store, the admin port,
    every listener with its certificate, and the file descriptors. Exits with 3 if something is
    wrong. It can be used while the router runs.
    """
    ctx.exit(print_findings(lambda: findings(load_config(config, os.environ)), as_json))


def print_findings(look: Callable[[], Iterator[Finding]], as_json: bool) -> int:
    """Print what is found as it is found; return the exit code."""
    failed: list[Finding] = []

    def found() -> Iterator[Finding]:
        try:
            yield from look()
        except ConfigError as error:
            yield Finding("config", False, str(error))

    for finding in found():
        if not finding.ok:
            failed.append(finding)
        emit(
            [asdict(finding)],
            lambda row: f"{'ok  ' if row['ok'] else 'FAIL'}  {row['name']:<11}  {row['text']}",
            as_json,
        )
    return 3 if failed else 0
