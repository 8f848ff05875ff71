"""The name of a consumer, with settings: ``NAME?priority=10&where=EXPRESSION``."""

from __future__ import annotations

from headgate.core.model.interest import Interest
from headgate.wire.resp.codec.integers import integer
from headgate.wire.resp.codec.replies import CommandError

WHERE = b"where="
PRIORITY = b"priority="
NAME_BYTES = 1024


def read_name(text: bytes) -> tuple[bytes, Interest]:
    """Parse the name and settings of a consumer. Every library sends the name with every read, so
    the expression is never lost; no other place in the protocol has that."""
    if len(text) > NAME_BYTES:
        raise CommandError(f"ERR the name of a consumer has at most {NAME_BYTES} bytes")
    name, mark, rest = text.partition(b"?")
    if not mark:
        return text, Interest()
    priority = 0
    if rest.startswith(PRIORITY):
        number, _, rest = rest.removeprefix(PRIORITY).partition(b"&")
        priority = read_priority(number)
        if not rest:
            return name, Interest(None, priority)
    if not rest.startswith(WHERE):
        raise CommandError("ERR a consumer is NAME, NAME?where=EXPR or NAME?priority=N&where=EXPR")
    return name, Interest(read_expression(rest.removeprefix(WHERE)), priority)


def read_priority(text: bytes) -> int:
    number = integer(text, "ERR the priority of a consumer is an integer")
    if not -(2**31) <= number < 2**31:
        raise CommandError("ERR the priority of a consumer has at most 32 bits")
    return number


def read_expression(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise CommandError("ERR bad expression: it is not valid UTF-8") from None
