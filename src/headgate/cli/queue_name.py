"""The name of a shared queue on the command line."""

from __future__ import annotations

from urllib.parse import quote

import click

SCHEME = "bmq://"
"""The beginning of the name of a queue, which no name of a channel has."""

FORM = f"{SCHEME}DOMAIN/QUEUE"


class QueueName(click.ParamType[str]):
    """``DOMAIN/QUEUE``, as it is or behind ``bmq://``."""

    name = "queue"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        from headgate.core.model.queue_uri import parse_uri
        from headgate.errors import Refused

        try:
            return parse_uri(SCHEME + str(value).removeprefix(SCHEME)).canonical
        except Refused as error:
            text = f"{value!a}: {error}; write DOMAIN/QUEUE or bmq://DOMAIN/QUEUE"
            self.fail(text, param, ctx)


def path_of(uri: str) -> str:
    """Where the API has a shared queue."""
    domain, _, name = uri.removeprefix(SCHEME).partition("/")
    return f"/domains/{quote(domain, safe='')}/queues/{quote(name, safe='')}"


queue_argument = click.argument("queue", metavar="DOMAIN/QUEUE", type=QueueName())
