"""``headgate init``."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import click

from headgate.cli.config import config_option
from headgate.cli.output import emit, json_option
from headgate.server.config import load_config
from headgate.server.config.sections import ListenSmp
from headgate.server.identity import Identity


@click.command()
@config_option
@click.option(
    "--host",
    default=socket.gethostname,
    metavar="NAME",
    help="The name or address by which clients reach the router.  [default: this machine's name]",
)
@json_option
def init(config: Path | None, host: str, as_json: bool) -> None:
    """Make the router's identity, and print the address that clients need.

    SimpleX clients know a router by the fingerprint of its certificate, which is part of its
    address. The identity is made once, by this command or by the first start, in the state
    directory; if it is there already, it is left as it is and its address printed. Keep a copy:
    whoever loses it loses the address, and ca.key is needed only to make a new leaf.
    """
    settings = load_config(config, os.environ)
    folder = settings.directory / settings.smp.identity
    identity = Identity.open(folder, host, time.time())
    listen = settings.listen.smp or ListenSmp()
    row = {
        "address": identity.address(host, listen.port),
        "fingerprint": identity.fingerprint_text,
        "folder": str(folder),
    }
    emit([row], lambda shown: str(shown["address"]), as_json)
