"""``headgate demo``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from headgate.cli.config import config_option
from headgate.errors import ConfigError
from headgate.server import scene
from headgate.server.config import load_config
from headgate.server.config.sections import ListenResp
from headgate.server.listener import bind
from headgate.server.router import Router
from headgate.server.serve import serve


@click.command()
@config_option
@click.option("--once", is_flag=True, help="End after the scene instead of going on to serve.")
def demo(config: Path | None, once: bool) -> None:
    """Start the router, play a short scene, and go on serving.

    The scene sends messages through a queue, a fan-out and routed orders, and prints what each
    subscriber received and why. Everything is on this machine: the store is in ./var unless
    the configuration says otherwise. Ctrl-C stops the router.
    """
    settings = load_config(config, os.environ)
    quiet = replace(settings, log=replace(settings.log, level="warning"))
    if quiet.listen.resp is None:
        resp = ListenResp()
        resp = replace(resp, port=free_port(resp.port))
        quiet = replace(quiet, listen=replace(quiet.listen, resp=resp))
    folder = os.path.relpath(settings.directory)

    async def play(router: Router, addresses: Mapping[str, str]) -> bool:
        click.echo(f"The router is running; its store is {settings.store.url} in {folder}.\n")
        await scene.play(router, click.echo)
        if once:
            return False
        click.echo("\nIt goes on serving. In another terminal, try:")
        host, _, port = addresses["resp"].rpartition(":")
        click.echo(f"  redis-cli -h {host} -p {port} subscribe news")
        click.echo(f"  redis-cli -h {host} -p {port} publish news 'rain tomorrow'")
        click.echo(f"  curl {addresses['admin']}/status.json")
        click.echo(f"  {sys.argv[0]} expr check 'amount >= 1000 && kind == \"express\"'")
        click.echo("Ctrl-C stops it.")
        return True

    serve(quiet, None, domains=scene.DOMAINS, play=play)


def free_port(wanted: int) -> int:
    """This port, or 0 for any other if somebody has it."""
    try:
        bind("listen.resp", "127.0.0.1", wanted).close()
    except ConfigError:
        return 0
    return wanted
