"""``headgate init``."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import click

from headgate.cli.config_file import config_option
from headgate.cli.output import emit, json_option
from headgate.server.config import load_config
from headgate.server.config.sections import ListenSmp
from headgate.server.identity import Identity, keep_host, kept_host


@click.command()
@config_option
@click.option(
    "--host",
    metavar="NAME",
    help="The name or address by which clients reach the router. It is kept, and part of the"
    " address that serve prints.  [default: what was kept, or this machine's name]",
)
@json_option
def init(config: Path | None, host: str | None, as_json: bool) -> None:
    """Make the router's identity, and print its address.

    SimpleX clients know a router by the fingerprint of its certificate, which is part of its
    address. The identity is made once, by this command or by the first start, in the state
    directory; if it is there already, it is left as it is and its address printed. Keep a copy:
    whoever loses it loses the address, and ca.key is needed only to make a new leaf.
    """
    settings = load_config(config, os.environ)
    folder = settings.directory / settings.smp.identity
    name = host or kept_host(folder) or socket.gethostname()
    identity = Identity.open(folder, name, time.time())
    if host:
        keep_host(folder, host)
    listen = settings.listen.smp or ListenSmp()
    row = {
        "address": identity.address(name, listen.port),
        "fingerprint": identity.fingerprint_text,
        "folder": str(folder),
    }
    emit([row], lambda shown: str(shown["address"]), as_json)
