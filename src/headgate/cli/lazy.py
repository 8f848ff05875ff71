"""A group of commands that are imported when they are called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that imports a command when it is called, so that each starts fast."""

    def __init__(self, *args: Any, lazy: Mapping[str, str], **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self.lazy = lazy
        """Names of commands, and the modules that have them under these names."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, module in self.lazy.items() if find_spec(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        attribute = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(self.lazy[cmd_name]), attribute)
        return command
