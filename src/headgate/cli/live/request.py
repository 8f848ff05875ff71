"""``headgate request``: ask the admin port anything, with the token of a context."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO
from urllib.parse import urlencode

import click

from headgate.cli.admin import API, Answer
from headgate.cli.output import emit, json_option
from headgate.cli.terminal import clean
from headgate.cli.which_router import Asked, router_options

METHODS = ("GET", "POST", "DELETE")
BODY_BYTES = 16 * 1024 * 1024
"""A longer body is for no path of the admin port."""


class Field(click.ParamType[tuple[str, object]]):
    """``NAME=VALUE``; a value that is JSON is taken as such, any other is a text."""

    name = "field"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, object]:
        name, has_value, text = str(value).partition("=")
        if not name or not has_value:
            self.fail(f"{value!a}: write NAME=VALUE", param, ctx)
        try:
            return name, json.loads(text)
        except ValueError:
            return name, text


@click.command()
@click.argument("path")
@click.option(
    "--method",
    type=click.Choice(METHODS, case_sensitive=False),
    help="GET unless there is something to send, else POST.",
)
@click.option(
    "--field",
    "fields",
    multiple=True,
    type=Field(),
    metavar="NAME=VALUE",
    help="Of the query, or of the JSON that is sent (with --method POST); any number of times.",
)
@click.option(
    "--input",
    "source",
    type=click.File("rb"),
    metavar="FILE",
    help="Send what is in this file; - is standard input.",
)
@click.option("--stream", is_flag=True, help="Print events as they come, for live and tail.")
@router_options
@json_option
def request(
    path: str,
    method: str | None,
    fields: tuple[tuple[str, object], ...],
    source: BinaryIO | None,
    stream: bool,
    asked: Asked,
    as_json: bool,
) -> None:
    """Ask the admin port anything, with the token of the context.

    PATH is one of the API, version 1, as "sessions" or "domains/work"; with a slash before it, it
    is any path of the admin port, as /metrics. A request other than GET has the operator's token,
    if the configuration has one. JSON is printed over several lines, with --json on one.

    \b
    Example:
      headgate request sessions --field limit=1
      headgate request expression --method POST --field 'expression=n > 1' --field 'properties={}'
      headgate request /metrics
      headgate request live --stream
    """
    body = None if source is None else source.read(BODY_BYTES)
    method = (method or ("GET" if body is None else "POST")).upper()
    given = dict(fields)
    target = path if path.startswith("/") else f"{API}/{path}"
    if body is not None and given:
        raise click.UsageError("--input is the whole body; leave out --field")
    if method == "GET":
        if body is not None:
            raise click.UsageError("with GET nothing is sent; say --method POST")
        target += _query(target, given)
    elif body is None:
        body = json.dumps(given).encode()
    admin = asked.admin() if method == "GET" else asked.operator()
    if stream:
        if method != "GET":
            raise click.UsageError("a stream is asked with GET")
        for event in admin.stream(target):
            emit([{"event": event.kind, "data": event.content}], json.dumps, as_json=True)
        return
    _print(admin.raw(method, target, body or b""), as_json)


def _query(target: str, given: Mapping[str, object]) -> str:
    if not given:
        return ""
    texts = {n: v if isinstance(v, str) else json.dumps(v) for n, v in given.items()}
    return ("&" if "?" in target else "?") + urlencode(texts)


def _print(answer: Answer, as_json: bool) -> None:
    if answer.is_json:
        content: Any = json.loads(answer.body)
        indent = None if as_json else 2
        click.echo(json.dumps(content, ensure_ascii=False, indent=indent))
        return
    text = answer.body.decode(errors="backslashreplace")
    if as_json:
        click.echo(json.dumps({"text": text}, ensure_ascii=False))
        return
    lines = text.splitlines() if sys.stdout.isatty() else None
    click.echo(text if lines is None else "\n".join(map(clean, lines)), nl=lines is not None)
