"""The command line: each command parses, calls one function of the library, and prints.

Data goes to standard output, everything else to standard error. Exit codes: 0 done, 1 failed,
2 misused, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from headgate.errors import HeadgateError


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
        command: click.Command = getattr(import_module(self.lazy[cmd_name]), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401
        """An error is one line that says what to do next, unless a traceback was asked for."""
        try:
            return super().invoke(ctx)
        except HeadgateError as error:
            if ctx.params["debug"]:
                raise
            click.echo(f"headgate: {error}", err=True)
            ctx.exit(1)
        except KeyboardInterrupt:
            ctx.exit(130)


@click.group(
    cls=LazyGroup,
    lazy={
        "serve": "headgate.cli.serve",
        "check": "headgate.cli.serve",
        "config": "headgate.cli.config",
        "pub": "headgate.cli.channels",
        "sub": "headgate.cli.channels",
        "expr": "headgate.cli.expr",
        "journal": "headgate.cli.journal",
        "simulate": "headgate.cli.simulate",
        "demo": "headgate.cli.demo",
    },
    context_settings={"max_content_width": 100},
)
@click.version_option(package_name="headgate", message="headgate %(version)s")
@click.option("--debug", is_flag=True, envvar="HEADGATE_DEBUG", help="Show tracebacks of errors.")
def cli(debug: bool) -> None:
    """Headgate routes messages: queues, services, channels and predicates.

    Start with "headgate demo" to see it work, or with "headgate config default >
    headgate.toml" and "headgate serve".
    """


def main() -> None:
    """The console script."""
    cli(prog_name="headgate")
