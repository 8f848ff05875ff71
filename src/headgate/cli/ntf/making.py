"""``headgate ntf init``."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from headgate.cli.ntf.place import ntf_config_option
from headgate.cli.output import emit, json_option
from headgate.ntf_server.config import load_ntf_config
from headgate.ntf_server.from_config import address_of, host_name, web_push_settings
from headgate.ntf_server.pushing.providers import web_push_public_key
from headgate.server.identity import Identity, keep_host


@click.command()
@ntf_config_option
@click.option(
    "--host",
    metavar="NAME",
    help="The name or address by which apps reach the server. It is kept, and part of the address"
    " that serve prints.  [default: what was kept, or this machine's name]",
)
@json_option
def init(config: Path | None, host: str | None, as_json: bool) -> None:
    """Make the server's identity, and print the address that apps need.

    Its key for Web Push is made too. Apps know a server by the fingerprint of its certificate,
    which is part of its address. The identity is made once, by this command or by the first start,
    in the state directory; if it is there already, it is left as it is and its address printed.
    Keep a copy: whoever loses it loses the address, and whoever loses the key loses the devices.

    \b
    Example:
      headgate ntf init --host push.example.org
    """
    settings = load_ntf_config(config, os.environ)
    identity = Identity.open(settings.identity, host or host_name(settings), time.time())
    if host:
        keep_host(settings.identity, host)
    row = {
        "address": address_of(settings, identity).text,
        "fingerprint": identity.fingerprint_text,
        "folder": str(settings.identity),
    }
    if settings.ntf.webpush.enabled:
        row["web_push_key"] = web_push_public_key(web_push_settings(settings))
    emit([row], lambda shown: str(shown["address"]), as_json)
