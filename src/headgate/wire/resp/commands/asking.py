"""HG.EXPLAIN and HG.EXPR: who would get an entry and why, and what an expression makes of it.

Nothing is changed by asking. People with a Redis client have redis-cli, and no token of the admin
port.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from headgate.core.model.domain import Domain, Mode
from headgate.core.model.message import NO_PROPERTIES, Properties, check
from headgate.core.shared.explain import Explanation, explain
from headgate.core.shared.explanation_text import head_line, outcome_lines
from headgate.core.turn.slices import Slices
from headgate.errors import ExpressionError
from headgate.expr.parser import ExpressionLimits
from headgate.expr.predicate import Failure, compile_expression
from headgate.wire.resp.codec.replies import (
    NOTHING,
    OK,
    CommandError,
    Parts,
    Reply,
    Simple,
    Verbatim,
)
from headgate.wire.resp.commands.stream_commands import stream_of
from headgate.wire.resp.commands.table import CommandTable
from headgate.wire.resp.streams.bodies import BodyReader
from headgate.wire.resp.streams.fields import read_fields

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = CommandTable()

PLAIN: Final = Domain("", Mode.PRIORITY)
"""For fields that no domain has declared."""
COMPILE_STEPS: Final = 5000
"""Of an expression of as many operators as there is room for."""


def _properties(session: RespSession, domain: Domain, words: list[bytes], name: str) -> Properties:
    """The properties of an entry with these fields, as expressions read them."""
    if not words:
        return NO_PROPERTIES
    if len(words) % 2:
        raise CommandError(f"ERR wrong number of arguments for '{name}' command")
    limits = session.hub.broker.limits
    message = read_fields(domain, b"", words, BodyReader(limits))
    check(message, limits)
    return message.properties


@table.command(
    "hg.explain",
    -2,
    flags=("readonly", "admin"),
    categories=("admin", "slow", "dangerous"),
    keys=(1, 1, 1),
    is_sliced=True,
)
def hg_explain(session: RespSession, args: list[bytes]) -> Reply:
    hub = session.hub
    stream = stream_of(session, args[0])
    properties = _properties(session, stream.domain, args[1:], "hg.explain")
    shared = hub.broker.shard.shared
    found = shared.queues.get(stream.queue)
    readers = shared.pulling.readers
    slices = explain(stream.domain, found, properties, hub.broker.sessions, readers)
    shown = {
        name: {"hex": item.hex()} if isinstance(item, bytes) else item
        for name, item in properties.items()
    }
    return Parts(_explained(slices, stream.queue.decode(), shown))


def _explained(
    slices: Slices[Explanation], queue: str, properties: Mapping[str, object]
) -> Iterator[Reply]:
    while True:
        try:
            next(slices)
        except StopIteration as end:
            row = {**asdict(end.value), "queue": queue, "properties": properties}
            break
        yield NOTHING
    lines = [head_line(row), *outcome_lines(row)]
    yield Verbatim("\n".join(map(_clean, lines)) + "\n")


def _clean(line: str) -> str:
    """Without what a terminal would obey: names are those of clients."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


@table.command("hg.expr", -2, flags=("fast",), categories=("fast",), steps=COMPILE_STEPS)
def hg_expr(session: RespSession, args: list[bytes]) -> Reply:
    limits = session.hub.broker.limits
    bounds = ExpressionLimits(limits.expression_bytes, limits.expression_operators)
    try:
        predicate = compile_expression(args[0], bounds)
    except ExpressionError as error:
        raise CommandError(f"ERR bad expression at {error.offset}: {error.message}") from None
    if len(args) == 1:
        return OK
    found = predicate.evaluate(_properties(session, PLAIN, args[1:], "hg.expr"))
    if isinstance(found, Failure):
        return Simple(f"no value: {found.value.lower()}")
    return Simple("match" if found else "no match")
