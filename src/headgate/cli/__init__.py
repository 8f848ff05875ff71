"""The command line: each command parses, calls one function of the library, and prints.

Data goes to standard output, everything else to standard error. Exit codes: 0 done, 1 failed,
2 misused, 3 found something, 4 no router answers, 5 not allowed, 130 interrupted.
"""

from __future__ import annotations

import os
from typing import Any

import click

from headgate.cli.lazy import LazyGroup
from headgate.errors import HeadgateError, NoRouter, NotAllowed


class Commands(LazyGroup):
    """All commands. An error of one is a line that says what to do next, unless a traceback was
    asked for."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401
        try:
            return super().invoke(ctx)
        except HeadgateError as error:
            if ctx.params["debug"]:
                raise
            click.echo(f"headgate: {error}", err=True)
            ctx.exit(_code(error))
        except KeyboardInterrupt:
            ctx.exit(130)


def _code(error: HeadgateError) -> int:
    match error:
        case NoRouter():
            return 4
        case NotAllowed():
            return 5
        case _:
            return 1


@click.group(
    cls=Commands,
    lazy={
        "serve": "headgate.cli.serve",
        "check": "headgate.cli.serve",
        "init": "headgate.cli.init",
        "config": "headgate.cli.config",
        "pub": "headgate.cli.pubsub",
        "sub": "headgate.cli.pubsub",
        "expr": "headgate.cli.expr",
        "explain": "headgate.cli.explain",
        "queues": "headgate.cli.queues",
        "agent": "headgate.cli.agent",
        "ntf": "headgate.cli.ntf",
        "journal": "headgate.cli.journal",
        "pipeline": "headgate.cli.pipeline",
        "store": "headgate.cli.store",
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
    os.umask(0o077)  # for what Spark and other libraries write too


def main() -> None:
    """The console script."""
    cli(prog_name="headgate")
