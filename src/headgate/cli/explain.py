"""``headgate explain``: who would get a message, and why the others would not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.admin import Admin
from headgate.cli.config_file import load
from headgate.cli.output import emit, json_option, readable
from headgate.cli.properties import property_option
from headgate.cli.queue_name import path_of, queue_argument
from headgate.cli.terminal import clean
from headgate.cli.units import counted
from headgate.cli.which_router import Asked, router_options
from headgate.core.shared.explanation_text import columns, head_line, outcome_lines
from headgate.errors import ConfigError, HeadgateError, NotARouter, RouterError

if TYPE_CHECKING:
    from headgate.core.model.message import Declared, PropertyValue
    from headgate.server.config import Config


class HexId(click.ParamType[bytes]):
    """The id of a message."""

    name = "id"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> bytes:
        try:
            return bytes.fromhex(str(value))
        except ValueError:
            self.fail(f"{value!a}: an id is written in hex, two digits per byte", param, ctx)


@click.command()
@queue_argument
@property_option
@click.option(
    "--message",
    type=HexId(),
    metavar="ID",
    help="Take the properties of this message from the journal, and tell what happened to it.",
)
@click.option(
    "--aside",
    metavar="APP",
    help='Take the properties of a message that this app put aside; "" if there are no apps.',
)
@router_options
@json_option
def explain(
    queue: str,
    properties: Declared,
    message: bytes | None,
    aside: str | None,
    asked: Asked,
    as_json: bool,
) -> None:
    """Say who would get a message, and why the others would not.

    The router is asked what it would do with a message that came to the queue now: which apps
    would be spared it, which subscriptions match, in the order in which they are tried, and who
    has room. Nothing is sent, and nothing changes.
    """
    if sum((bool(properties), message is not None, aside is not None)) > 1:
        raise click.UsageError(
            "a --message has its own properties, and so has what is --aside; leave out --property"
        )
    admin = asked.admin()
    row: dict[str, Any] = {"queue": queue}
    sent: Mapping[str, PropertyValue] = properties
    if message is not None:
        history = _history(load(asked.config), queue, message)
        sent = history[0].get("properties", {})
        row["message"] = message.hex()
        row["history"] = history
    row["properties"] = {name: _plain(item) for name, item in sent.items()}
    if aside is not None:
        found = _put_aside(admin, queue, aside)
        row |= {"message": found["message"], "properties": found["properties"]}
    try:
        row |= _ask(admin, {"queue": queue, "properties": row["properties"]})
    except HeadgateError:
        if message is not None:
            emit([row], _text, as_json)
        raise
    emit([row], _text, as_json)


# The router.


def _put_aside(admin: Admin, queue: str, app: str) -> dict[str, Any]:
    """The oldest message that an app put aside."""
    rows: list[dict[str, Any]] = admin.get(f"{path_of(queue)}/aside", app=app, limit=1)["rows"]
    if not rows:
        raise HeadgateError(f"nothing of {queue} is put aside")
    return rows[0]


def _ask(admin: Admin, question: Mapping[str, object]) -> dict[str, Any]:
    try:
        return admin.plain("POST", "/explain", question)
    except RouterError as error:
        if error.status in (404, 405):
            raise NotARouter(
                f"what answers at {admin.url} is not a router that can explain"
            ) from None
        raise


def _plain(item: PropertyValue) -> object:
    return {"hex": item.hex()} if isinstance(item, bytes) else item


# The journal.


def _history(settings: Config, queue: str, message: bytes) -> list[dict[str, Any]]:
    """The facts about a message of a queue, beginning with its acceptance, with the names of
    sessions beside their numbers."""
    from headgate.server.state_directory import journal_settings

    journal = journal_settings(settings)
    if journal is None:
        raise ConfigError("this configuration keeps no journal; say the properties instead")
    import pyarrow.compute as pc

    facts = list(_facts(journal.directory, pc.field("message") == message))
    queues = {readable(fact["queue"]) for fact in facts}
    here = [fact for fact in facts if fact["queue"] == queue.encode()]
    while here and here[0]["kind"] != "Accepted":
        del here[0]
    if not here:
        where = f"; it is one of {', '.join(sorted(queues))}" if queues else ""
        raise HeadgateError(
            f"the journal in {journal.directory} does not tell of a message {message.hex()} of"
            f" {queue}{where}. What happens is in it a second later"
        )
    sessions = {fact["session"] for fact in here if "session" in fact}
    opened = (pc.field("kind") == "SessionOpened") & pc.field("session").isin(sorted(sessions))
    names = [
        (fact["number"], fact["session"], fact["name"])
        for fact in (_facts(journal.directory, opened) if sessions else ())
    ]
    return [_row(fact, names) for fact in here]


def _facts(directory: Path, wanted: object) -> Iterator[dict[str, Any]]:
    """The facts of the journal for which an expression of pyarrow is true."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from headgate.journal.segments import segments

    for segment in segments(directory):
        try:
            rows = pq.read_table(segment.path, filters=wanted).to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise HeadgateError(
                f"{segment.path.name} cannot be read: {error}; headgate journal verify tells more"
            ) from None
        for row in rows:
            yield {name: item for name, item in row.items() if item is not None}


def _row(fact: Mapping[str, Any], names: Sequence[tuple[int, int, str]]) -> dict[str, Any]:
    row = {
        name: item.hex() if isinstance(item, bytes) else item
        for name, item in fact.items()
        if name not in ("queue", "body")
    }
    if "session" in fact:
        # Numbers are given again after a restart: it is the last one that had it.
        before = names[: bisect_left(names, (fact["number"],))]
        row["name"] = next((n for _, s, n in reversed(before) if s == fact["session"]), "")
    if "properties" in fact:
        row["properties"] = {
            name: next(item for item in kinds.values() if item is not None)
            for name, kinds in fact["properties"]
        }
    return row


# For people.


def _text(row: Mapping[str, Any]) -> str:
    return "\n".join(lines(row))


def lines(row: Mapping[str, Any]) -> Iterator[str]:
    """A queue, the properties of a message and what the router says of them, in lines that a
    terminal can be given: names, expressions and texts are those of clients."""
    for line in _lines(row):
        yield clean(line)


def _lines(row: Mapping[str, Any]) -> Iterator[str]:
    yield head_line(row)
    if "history" in row:
        yield ""
        yield f"What happened to {row['message']}:"
        yield from columns((_moment(fact), *_happened(fact)) for fact in row["history"])
    if "apps" not in row:
        return
    if "history" in row:
        yield ""
        yield "What would happen to it now:"
    yield from outcome_lines(row)


def _who(row: Mapping[str, Any]) -> str:
    name = f" ({row['name']})" if row["name"] else ""
    return f"session {row['session']}{name}"


def _moment(fact: Mapping[str, Any]) -> str:
    at = datetime.fromtimestamp(fact["at"], UTC)
    return at.replace(tzinfo=None).isoformat(" ", "milliseconds")


def _happened(fact: Mapping[str, Any]) -> tuple[str, str, str]:
    """The event, its app, and more about it."""
    app, who = fact.get("app", ""), _who(fact) if "session" in fact else ""
    match fact["kind"]:
        case "Accepted":
            return "accepted", app, f"{fact['size']} bytes"
        case "AutoConfirmed":
            return "auto-confirmed", app, "none of the app's expressions was true"
        case "Delivered":
            again = f", after {fact['attempts']} lost with it" if fact["attempts"] else ""
            return "delivered", app, f"to {who}{again}"
        case "PutAside":
            matched = "those who matched had no room" if fact["matched"] else "nobody matched"
            return "put aside", app, matched
        case "Confirmed":
            return "confirmed", app, f"by {who} after {fact['seconds']:.3f} s"
        case "Returned":
            how = "was lost" if fact["lost"] else "closed the queue"
            return "returned", app, f"{who} {how}"
        case "Missed":
            return "missed", app, f"the mailbox of {who} had no room"
        case "Poisoned":
            return "dropped", app, f"{counted(fact['attempts'], 'session')} lost with it"
        case "Expired":
            return "expired", app, f"after {fact['seconds']:.0f} s"
        case "Repeated":
            return "sent again", app, "and not stored again"
        case kind:
            return kind, app, who
