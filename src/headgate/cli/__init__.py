"""The command line: each command parses, calls one function of the library, and prints.

Data goes to standard output, everything else to standard error. Exit codes: 0 done, 1 failed,
2 misused, 3 found something, 4 no router answers, 5 not allowed, 130 interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from headgate.cli.lazy import Lazy, LazyGroup
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


SECTIONS: Mapping[str, Lazy] = {
    "To run a router": {
        "serve": ("headgate.cli.serve", "Run the router until it is told to stop."),
        "check": ("headgate.cli.serve", "Look whether the router could start, and say what to do."),
        "init": ("headgate.cli.init", "Make the router's identity, and print its address."),
        "cert": ("headgate.cli.cert", "Look at certificates, and make new leaves."),
        "config": ("headgate.cli.config", "Look at the configuration."),
        "store": ("headgate.cli.store", "Check, tidy and copy what the router keeps."),
        "demo": ("headgate.cli.demo", "Start the router, play a short scene, and go on serving."),
    },
    "To look at one that runs": {
        "top": ("headgate.cli.live.top", "Watch what needs attention, live."),
        "ls": ("headgate.cli.live.kinds", "List what there is, by its kind."),
        "show": ("headgate.cli.live.kinds", "Show one thing, by its kind and name."),
        "session": ("headgate.cli.live.session", "Look at sessions, and close one."),
        "channel": (
            "headgate.cli.live.channel",
            "Look at channels, and at what is published on them.",
        ),
        "pattern": ("headgate.cli.live.channel", "Look at patterns."),
        "queue": ("headgate.cli.live.queue", "List, look into, empty and remove shared queues."),
        "service": (
            "headgate.cli.live.service",
            "Look at services, their tallies and their sweeps.",
        ),
        "domain": ("headgate.cli.live.domain", "Look at domains, and at what nobody wants."),
        "explain": (
            "headgate.cli.explain",
            "Say who would get a message, and why the others would not.",
        ),
        "expr": ("headgate.cli.expr", "Check and try subscription expressions."),
        "request": (
            "headgate.cli.live.request",
            "Ask the admin port anything, with the token of the context.",
        ),
    },
    "To have something done": {
        "drain": (
            "headgate.cli.live.doing",
            "Take no new sessions, so that the router can be stopped.",
        ),
        "undrain": ("headgate.cli.live.doing", "Take new sessions again."),
        "reload": ("headgate.cli.live.doing", "Have the router read its configuration again."),
        "log-level": ("headgate.cli.live.doing", "Log more, or less, for some minutes."),
        "support": ("headgate.cli.live.support", "Pack what to send with a question."),
    },
    "To send and receive": {
        "pub": ("headgate.cli.pubsub", "Publish BODY on a channel, or post it to a queue."),
        "sub": ("headgate.cli.pubsub", "Print what is published on channels, or is in a queue."),
        "agent": ("headgate.cli.agent", "Send and receive, encrypted from end to end."),
        "bench": ("headgate.cli.bench", "Measure how much a router does, and how soon."),
        "ntf": ("headgate.cli.ntf", "Wake sleeping devices: a notification server."),
    },
    "To ask what happened": {
        "journal": (
            "headgate.cli.journal",
            "Look at the facts that a router or a server wrote down.",
        ),
        "pipeline": (
            "headgate.cli.pipeline",
            "Tables of what happened, and questions to them, on Spark.",
        ),
        "simulate": ("headgate.cli.simulate", "Play worlds, and watch that promises hold."),
    },
    "For this command line": {
        "context": ("headgate.cli.context", "Give routers names, and choose one."),
        "login": ("headgate.cli.context", "Keep the token of a router in a context."),
        "completion": ("headgate.cli.completion", "Have a shell complete commands and options."),
        "docs": ("headgate.cli.docs", "Print a page of the docs, or what they say about a word."),
        "cheat": ("headgate.cli.cheat", "Print the commands that are used most, to copy."),
        "version": ("headgate.cli.version", "Print the version, and what it runs on."),
    },
}


@click.group(
    cls=Commands,
    sections=SECTIONS,
    hidden={"queues": "queue"},
    hints={"help": "--help", "list": "ls", "start": "serve", "status": "top", "subscribe": "sub"},
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
