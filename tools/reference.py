"""The pages of docs/reference, written from the code: ``python -m tools.reference``."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from importlib import import_module
from textwrap import dedent
from types import ModuleType

import click

from headgate import errors
from headgate.cli import cli as root
from headgate.core.facts import CONFIRM_SECONDS, KINDS
from headgate.core.ntf_facts import NTF_KINDS
from headgate.ntf_server import metrics as ntf_described
from headgate.ntf_server.config import default_text as ntf_default_text
from headgate.pipeline.tables.tables import TABLES, Table
from headgate.server.admin.metrics import (
    BUILD,
    COUNTED,
    DOMAIN_GAUGES,
    GAUGES,
    LABELLED,
    SUMMED,
    TOTALS,
    WORKER_GAUGES,
    Described,
    full_name,
)
from headgate.server.admin.process_metrics import ProcessMetrics
from headgate.server.admin.responses import CODES
from headgate.server.config import default_text
from headgate.server.desk.actions import ACTIONS
from headgate.server.desk.openapi import document
from headgate.server.desk.routes.all_paths import PATHS
from headgate.wire.resp.commands.all_commands import FAMILIES
from headgate.wire.resp.commands.table import CommandEntry
from tests.support.repository import DOCS
from tools.parameters import table

FOLDER = DOCS / "reference"
NTF_FACTS = """\
## Of a notification server

They are in its own journal. Tokens and notifiers are named by digests; devices, keys and what was
sealed are in none.
"""
EXIT_CODES = {
    0: "Done.",
    1: "Failed; the line on standard error says what to do.",
    2: "Misused: an option or an argument is wrong. `--help` has the right ones.",
    3: "Found something: `check`, `session ls --slow`, `domain aside`; `expr test`: no match.",
    4: "No router answers. `headgate context show` says which was asked, and why that one.",
    5: "Not allowed: the token is wrong, or is not the operator's. See `headgate login`.",
    130: "Interrupted, with Ctrl-C.",
}
EXPRESSION_CODES = {
    "SYNTAX": "It cannot be read. `headgate expr check` points at the place.",
    "TOO_LONG": "It has more than 128 bytes of UTF-8.",
    "TOO_COMPLEX": "It has more than 64 operators, or too many parentheses in one another.",
    "NO_PROPERTIES": "It names no property, so it is the same for every message.",
    "NAME": "The message lacks a property that was needed; it does not match.",
    "TYPE": "A value is of a type that does not fit, or no boolean; it does not match.",
    "ARITHMETIC": "Division by zero, or an integer of more than 64 bits; it does not match.",
}
NOTE = "<!-- Written by `python -m tools.reference`; a test compares. -->\n"


def cli() -> str:
    """Every command's ``--help``."""
    head = """\
    # The command line

    Data goes to standard output, everything else to standard error. Exit codes are 0 done,
    1 failed, 2 misused, 3 found something, 4 no router answers, 5 not allowed and 130 interrupted.
    An error is one line that says what to do next; `headgate --debug COMMAND` shows the traceback.
    """
    return _page(head, _commands(root, "headgate", None))


def _commands(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(
        command, info_name=name, parent=parent, terminal_width=90, **command.context_settings
    )
    path = context.command_path
    yield f"## `{path}`\n"
    yield f"```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None, "a listed command exists"
            yield from _commands(found, child, context)


def config() -> str:
    """The default file."""
    head = """\
    # The configuration

    One TOML file, named with `--config`, or `headgate.toml` in the current directory. This is
    what `headgate config default` prints; `headgate config show` prints the values in effect
    and where each came from, without the secrets.

    An unknown key, section or `HEADGATE_*` variable is an error, so that a slip of the pen does
    not become a default. `SIGHUP` makes a running router read the domains and the log level
    again; the log says which other changes need a restart.
    """
    return _page(head, [f"```toml\n{default_text()}```\n"])


def metrics() -> str:
    """Every metric."""
    head = """\
    # Metrics

    On `/metrics` of the admin port, in the Prometheus text format. A scrape reads numbers that
    the router keeps anyway and never touches the store. What it costs does not grow with queues
    and sessions, and no label has an unbounded value: the first 32 domains have one, and the rest
    is "other". Queues and sessions are in the [API](../admin.md#the-api).
    """
    counters = [*COUNTED.values(), *SUMMED, *LABELLED, *TOTALS.values()]
    gauges = [BUILD, *GAUGES.values(), *DOMAIN_GAUGES.values(), *WORKER_GAUGES.values()]
    process = [
        f"### `{family.name}{'_total' * (family.type == 'counter')}`\n\n"
        f"{family.documentation} A {family.type}.\n"
        for family in ProcessMetrics().collect()
    ]
    described = _metrics(gauges, counters, [CONFIRM_SECONDS])
    return _page(head, [*described, "## The process\n", *process])


def error_page() -> str:
    """What goes wrong, by the names that commands, programs and the admin port have for it."""
    head = """\
    # Errors

    What commands exit with, what programs catch, what the admin port answers, and what is wrong
    with an expression. `headgate docs NAME` prints one of these without a network.
    """
    exits = [f"### Exit code {code}\n\n{text}\n" for code, text in EXIT_CODES.items()]
    found = [each for _, each in inspect.getmembers(errors, inspect.isclass)]
    classes = [
        f"### `{each.__name__}`\n\n{inspect.cleandoc(each.__doc__ or '')} A kind of"
        f" `{each.__mro__[1].__name__}`.\n"
        for each in found
        if issubclass(each, errors.HeadgateError)
    ]
    statuses = "\n".join(f"| {status} | `{code}` |" for status, code in CODES.items())
    failures = [f"### `{code}`\n\n{text}\n" for code, text in EXPRESSION_CODES.items()]
    return _page(
        head,
        [
            "## Exit codes\n",
            *exits,
            "## Of an expression\n",
            *failures,
            "## Of the admin port\n",
            'An answer that is none has `{"error", "code", "hint"}`: what is wrong, a word for'
            " programs, and what to do. The word is that of the status, or a better one.\n",
            f"| status | `code` |\n|---|---|\n{statuses}\n",
            "## Exceptions\n",
            "All are in `headgate.errors`.\n",
            *classes,
        ],
    )


def ntf_config() -> str:
    """The default file of a notification server."""
    head = """\
    # The configuration of a notification server

    One TOML file, named with `--config`, or `ntf.toml` in the current directory. None is needed.
    This is what `headgate ntf config default` prints; `headgate ntf config show` prints the values
    in effect and where each came from, without the secrets.

    An unknown key, section or `HEADGATE_*` variable is an error, so that a slip of the pen does
    not become a default. `SIGHUP` makes a running server read the certificates and the log level
    again; the log says which other changes need a restart.
    """
    return _page(head, [f"```toml\n{ntf_default_text()}```\n"])


def ntf_metrics() -> str:
    """Every metric of a notification server."""
    head = """\
    # Metrics of a notification server

    On `/metrics` of its admin port, in the Prometheus text format. A scrape reads what the server
    counts anyway; tokens and subscriptions are counted every five seconds, if something changed.
    No label names a token, a notifier or a router.
    """
    counters = [*ntf_described.TOTALS, ntf_described.LIMITS, ntf_described.HANDSHAKES]
    gauges = [BUILD, *ntf_described.GAUGES]
    return _page(head, _metrics(gauges, counters, [ntf_described.PUSH_SECONDS]))


def _metrics(
    gauges: Iterable[Described], counters: Iterable[Described], histograms: Iterable[Described]
) -> Iterator[str]:
    yield "## Gauges: what is now\n"
    yield from (_metric(f"headgate_{d.name}", "gauge", d) for d in gauges)
    yield "## Counters: what happened since the start\n"
    yield from (_metric(f"headgate_{d.name}_total", "counter", d) for d in counters)
    yield "## Histograms: how long it took\n"
    yield from (_metric(full_name(d), "histogram", d) for d in histograms)


def _metric(name: str, kind: str, described: Described) -> str:
    labels = ", ".join(f"`{label}`" for label in described.labels)
    return f"### `{name}`\n\n{described.help} A {kind}{', by ' + labels if labels else ''}.\n"


def facts() -> str:
    """Every fact and its fields."""
    head = """\
    # Facts

    What happened, written once and read by the metrics, the log and the journal. Facts carry
    no secrets, and a body only where its domain says so (`journal_bodies`); `at` is the time of
    the turn, in seconds since 1970.
    """
    modules = dict.fromkeys(kind.__module__ for kind in KINDS)
    parts = [part for module in modules for part in _facts_of(module)]
    return _page(head, [*parts, NTF_FACTS, *map(_fact, NTF_KINDS)])


def _facts_of(module: str) -> Iterator[str]:
    about = (import_module(module).__doc__ or "").removeprefix("Facts o").rstrip(".")
    yield f"## O{about}\n"
    yield from (_fact(kind) for kind in KINDS if kind.__module__ == module)


def _fact(kind: type) -> str:
    rows = "\n".join(f"| `{f.name}` | `{f.type}` |" for f in fields(kind))
    return (
        f"### `{kind.__name__}`\n\n{inspect.getdoc(kind)}\n\n| field | type |\n|---|---|\n{rows}\n"
    )


def tables() -> str:
    """The guide to the pipeline, with its tables written anew."""
    text = (FOLDER / "../pipeline.md").read_text()
    before, _, rest = text.partition("<!-- tables -->\n")
    _, _, after = rest.partition("<!-- end -->\n")
    parts = "\n".join(map(_table, TABLES.values()))
    return f"{before}<!-- tables -->\n{parts}<!-- end -->\n{after}"


def redis_commands() -> str:
    """The page for Redis users, with its commands written anew."""
    text = (FOLDER / "../redis.md").read_text()
    before, _, rest = text.partition("<!-- commands -->\n")
    _, _, after = rest.partition("<!-- end -->\n")
    families = "\n".join(map(_family, FAMILIES))
    return f"{before}<!-- commands -->\n{families}<!-- end -->\n{after}"


def _family(module: ModuleType) -> str:
    about, _, _ = (module.__doc__ or "").partition("\n")
    entries = [entry for whole in module.table for entry in (whole.subcommands.values() or [whole])]
    rows = "\n".join(map(_command_row, sorted(entries, key=lambda entry: entry.name)))
    head = "| command | words | while subscribed (RESP2) | in MULTI |\n|---|---|---|---|"
    return f"{about}\n\n{head}\n{rows}\n"


def _command_row(entry: CommandEntry) -> str:
    words = f"{entry.arity}" if entry.arity >= 0 else f"{-entry.arity} or more"
    marks = ("yes" if entry.while_subscribed else "", "queued" if entry.is_queued else "at once")
    return f"| `{entry.name.upper().replace('|', ' ')}` | {words} | {marks[0]} | {marks[1]} |"


def _table(table: Table) -> str:
    head = f"### `{table.name}`\n\n{table.about}\n"
    if table.name == "facts":
        return f"{head}Its columns are the fields of [facts](reference/facts.md).\n"
    rows = "\n".join(
        f"| `{name}` | `{type_}` | {about} |" for name, (type_, about) in table.columns.items()
    )
    return f"{head}\n| column | type | |\n|---|---|---|\n{rows}\n"


def _page(head: str, parts: Iterable[str]) -> str:
    return "\n".join([NOTE, dedent(head), *parts])


def openapi() -> str:
    """The API of the admin port."""
    described = document([*PATHS, *ACTIONS], "1")
    return json.dumps(described, indent=1, ensure_ascii=False) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli,
    "config.md": config,
    "metrics.md": metrics,
    "facts.md": facts,
    "errors.md": error_page,
    "openapi.json": openapi,
    "ntf-config.md": ntf_config,
    "ntf-metrics.md": ntf_metrics,
    "../pipeline.md": tables,
    "../redis.md": redis_commands,
    "../../src/headgate/cli/parameters.json": lambda: table(root),
}

if __name__ == "__main__":
    for name, render in PAGES.items():
        (FOLDER / name).write_text(render())
