"""``headgate cheat``: commands that are used most, to copy."""

from __future__ import annotations

import click

from headgate.cli.output import emit, json_option
from headgate.cli.terminal import styled

SHEETS = {
    "start": (
        ("headgate config default > headgate.toml", "a configuration with every key"),
        ("headgate check", "could it start?"),
        ("headgate serve --ready-file ready.json", "run it"),
        ("headgate completion bash --install", "TAB"),
    ),
    "look": (
        ("headgate top", "what needs attention now"),
        ("headgate session ls --slow", "who does not keep up, and who waits"),
        ("headgate channel ls --limit 10", "the busiest channels"),
        ("headgate queue show shop.orders/incoming", "why a queue grows"),
        ("headgate domain aside shop.orders/incoming", "what nobody wants, and why"),
        ("headgate explain shop.orders/incoming --property kind=express", "who would get it"),
        ("headgate session ls --watch --columns name,mailbox_bytes", "a list, again and again"),
        ("headgate expr repl --property kind=express", "try expressions, one after another"),
        ("headgate request sessions --field limit=1", "anything else of the API"),
    ),
    "pubsub": (
        ("headgate pub news hello", "publish on a channel"),
        ("headgate sub --pattern 'news.*'", "listen"),
        ("headgate sub --url rediss://ann@router.example.org:6379 news", "with TLS and a user"),
        ("headgate pub bmq://shop.orders/incoming x --property kind=express", "post to a queue"),
        ("headgate sub bmq://shop.orders/incoming --where 'kind == \"express\"'", "read from it"),
        ("headgate channel tail 'ticks.*'", "a sample of what goes by"),
    ),
    "act": (
        ("headgate session close 15 --reason 'stuck since noon'", "close a session"),
        ("headgate queue purge shop.orders/incoming", "remove its messages"),
        ("headgate log-level debug --minutes 5", "more in the log, for a while"),
        ("headgate config diff --running", "what a reload would change"),
        ("headgate reload", "read the configuration again"),
        ("headgate drain", "take no new sessions"),
    ),
    "routers": (
        ("headgate context add prod --url https://router.example.org:8222 --use", "name a router"),
        ("headgate login", "keep its token"),
        ("headgate --help", "all commands"),
        ("headgate context show", "which router is asked, and why"),
        ("headgate --version; headgate version --json", "what is installed"),
    ),
    "trouble": (
        ("headgate check --nagios", "one line for a monitoring system"),
        ("headgate support --out support.tar.gz", "what to send with a question"),
        ("headgate cert ls", "certificates that end soon"),
        ("headgate journal verify", "is the journal whole?"),
        ("headgate store check", "is the store sound? (while no router uses it)"),
        ("headgate docs HeadgatePutAside", "what the docs say about an alert, an error, a command"),
        ("headgate bench rtt", "how long a message takes"),
    ),
}


@click.command()
@click.argument("noun", required=False, type=click.Choice(list(SHEETS)))
@json_option
def cheat(noun: str | None, as_json: bool) -> None:
    """Print the commands that are used most, to copy."""
    rows = [
        {"about": title, "command": command, "does": text}
        for title, lines in SHEETS.items()
        if noun in (None, title)
        for command, text in lines
    ]
    if as_json:
        emit(rows, str, as_json=True)
        return
    for title in dict.fromkeys(row["about"] for row in rows):
        here = [row for row in rows if row["about"] == title]
        click.echo(styled(f"{title}", bold=True))
        for row in here:
            click.echo(f"  {row['command']:<66}  {row['does']}")
