"""``headgate ntf serve`` and ``headgate ntf check``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from headgate.cli.ntf.place import ntf_config_option
from headgate.cli.output import json_option
from headgate.cli.serve import print_findings
from headgate.ntf_server.check import findings
from headgate.ntf_server.config import load_ntf_config
from headgate.ntf_server.serve import serve_ntf


@click.command()
@ntf_config_option
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="HEADGATE_NTF_READY_FILE",
    metavar="FILE",
    help="Write the addresses as JSON to FILE once everything listens; remove it at the end.",
)
def serve(config: Path | None, ready_file: Path | None) -> None:
    """Run the notification server until it is told to stop.

    It needs no configuration: its identity, its key for Web Push and its store are made at the
    first start, and the line "serving" of the log has the address that apps need. It listens on
    this machine alone until [listen.ntf] host says otherwise.

    SIGTERM and Ctrl-C stop it cleanly; what hangs is given up after a quarter of a minute. SIGHUP
    makes it read its certificates and the log level again; a file that is wrong changes nothing.
    Log lines go to standard error.
    """
    serve_ntf(load_ntf_config(config, os.environ), ready_file)


@click.command()
@ntf_config_option
@json_option
@click.pass_context
def check(ctx: click.Context, config: Path | None, as_json: bool) -> None:
    """Look whether the notification server could start.

    If not, it says what to do. Prints a line each for the configuration, the state directory, the
    store, the admin port, the listener, the identity and the providers. Exits with 3 if something
    is wrong. It can be used while the server runs.
    """
    ctx.exit(print_findings(lambda: findings(load_ntf_config(config, os.environ)), as_json))
