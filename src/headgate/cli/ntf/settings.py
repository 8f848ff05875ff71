"""``headgate ntf config``: what can be configured, and what is."""

from __future__ import annotations

import os
from pathlib import Path

import click

from headgate.cli.config.showing import print_effective
from headgate.cli.ntf.place import ntf_config_option
from headgate.cli.output import json_option
from headgate.ntf_server.config import default_text, load_ntf_config


@click.group()
def config() -> None:
    """Look at the configuration of the notification server."""


@config.command()
def default() -> None:
    """Print a configuration file with every key, its default and what it means."""
    click.echo(default_text(), nl=False)


@config.command()
@ntf_config_option
@json_option
def show(config: Path | None, as_json: bool) -> None:
    """Print the effective values, and where each came from.

    Secrets are not shown. Warnings go to standard error.
    """
    print_effective(load_ntf_config(config, os.environ), as_json)
