"""``headgate config``: what can be configured, what is, and what would change."""

from __future__ import annotations

import click

from headgate.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "default": ("headgate.cli.config.showing", "Print a configuration file with every key."),
        "show": (
            "headgate.cli.config.showing",
            "Print the effective values, and where each came from.",
        ),
        "validate": ("headgate.cli.config.showing", "Say whether a configuration can be used."),
        "diff": ("headgate.cli.config.diff", "Say what differs from another file, or the default."),
    },
)
def config() -> None:
    """Look at the configuration."""
