"""``headgate expr impact`` and ``compare``: what expressions would do to recent messages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from headgate.cli.live.known import naming
from headgate.cli.output import emit, json_option
from headgate.cli.queue_name import QueueName, path_of
from headgate.cli.terminal import clean
from headgate.cli.units import count
from headgate.cli.which_router import Asked, router_options
from headgate.errors import ExpressionError, HeadgateError


@click.command()
@click.argument("expression", metavar="EXPR")
@click.option(
    "--queue", required=True, type=QueueName(), metavar="DOMAIN/QUEUE", help="Whose messages."
)
@click.option("--app", default="", help="The app of the new subscription, if there are apps.")
@click.option("--priority", type=int, default=0, show_default=True, help="That it would have.")
@router_options
@json_option
def impact(
    expression: str, queue: str, app: str, priority: int, asked: Asked, as_json: bool
) -> None:
    """Say what an expression would take from whom.

    It is tried on the last messages of the domain, which the router remembers without bodies, as if
    somebody subscribed with it now.
    """
    _check(expression)
    question = {
        "expression": expression,
        "queue": queue,
        "domain": queue.removeprefix("bmq://").partition("/")[0],
        "app": app,
        "priority": priority,
    }
    admin = asked.admin()
    with naming(admin, queue, app):
        admin.get(path_of(queue))  # of a domain that is not there, no messages came lately either
    found = admin.post("/expression", question)
    if not found["ok"]:
        raise HeadgateError(found["message"])
    emit([{**question, **found}], _impact_text, as_json)


def _check(expression: str) -> None:
    """Say what is wrong with an expression, before anybody is asked."""
    from headgate.expr.explain import caret
    from headgate.expr.predicate import compile_expression

    try:
        compile_expression(expression)
    except ExpressionError as error:
        raise click.UsageError(f"the expression is wrong\n{caret(error)}") from None


def _match(matching: int, recent: int) -> str:
    if recent == 1:
        return f"The last message {'matches' if matching else 'does not match'}."
    verb = "matches" if matching == 1 else "match"
    return f"{count(matching)} of the last {count(recent)} messages {verb}."


def _impact_text(row: Mapping[str, Any]) -> str:
    tried = row["tried"] or {"true": 0, "name": 0, "type": 0, "arithmetic": 0}
    lines = [_match(tried["true"], row["recent"])]
    undecided = {
        "lack a property": tried["name"],
        "have one of another type": tried["type"],
        "cannot be computed": tried["arithmetic"],
    }
    lines += [f"  {count(number)} {why}" for why, number in undecided.items() if number]
    for each in row["impact"]:
        whom = each["expression"] or "a subscription without an expression"
        if each["priority"] is None:
            lines.append(f"It takes {count(each['count'])} that nobody gets now.")
        elif each["shares"]:
            lines.append(f"It shares {count(each['count'])} with {whom} (same priority).")
        else:
            lines.append(
                f"With priority {row['priority']} it takes {count(each['count'])} from {whom}"
                f" (priority {each['priority']})."
            )
    lines += [f"warning: {text}" for text in row["warnings"]]
    return "\n".join(map(clean, lines))


@click.command()
@click.argument("before", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("after", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--domain", required=True, help="On whose recent messages both are tried.")
@router_options
@json_option
@click.pass_context
def compare(
    ctx: click.Context, before: Path, after: Path, domain: str, asked: Asked, as_json: bool
) -> None:
    """Say what another set of subscriptions changes.

    BEFORE and AFTER are files of subscriptions: a JSON object on each line, with app, expression
    and priority. Exits with 3 if a message would go elsewhere.
    """
    question = {"domain": domain, "before": _read(before), "after": _read(after)}
    found = asked.admin().post("/expressions/compare", question)
    emit([found], _compared_text, as_json)
    ctx.exit(3 if found["moved"] else 0)


def _read(path: Path) -> list[dict[str, object]]:
    from headgate.pipeline.routing.subscriptions import Subscriptions

    return [
        {"app": each.app, "expression": each.expression, "priority": each.priority}
        for each in Subscriptions.read(path).consumers
    ]


def _compared_text(row: Mapping[str, Any]) -> str:
    recent, unchanged = count(row["recent"]), count(row["unchanged"])
    orphaned, newly = count(row["orphaned"]), count(row["newly_matched"])
    lines = [
        f"{unchanged} of the last {recent} messages go where they went;"
        f" {orphaned} would go to nobody, {newly} to somebody at last."
    ]
    for moved in row["moved"]:
        app = f"{moved['app']}: " if moved["app"] else ""
        old, new = moved["before"] or "nobody", moved["after"] or "nobody"
        lines.append(f"{app}{count(moved['count'])} from {old} to {new}")
        properties = moved["sample"]["properties"]
        shown = ", ".join(f"{name}={value}" for name, value in properties.items())
        lines.append(f"  for example {shown or 'one without properties'}")
    return "\n".join(map(clean, lines))
