"""Fields of entries, and properties and bodies of messages."""

from __future__ import annotations

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.body_paths import read_path
from headgate.core.model.domain import Domain
from headgate.core.model.limits import Limits
from headgate.core.model.message import Fields, Message, PropertyValue
from headgate.core.model.property_type import PropertyType
from headgate.store.blobs import decode_properties, encode_properties
from headgate.wire.resp.codec.replies import CommandError
from headgate.wire.resp.streams.bodies import BodyReader
from headgate.wire.resp.streams.fields import BODY_BYTES, read_fields, write_entry

PLAIN = Domain.priority("d")


def read(*words: bytes, domain: Domain = PLAIN) -> Message:
    return read_fields(domain, b"id", words, BodyReader(Limits()))


def written(message: Message) -> list[bytes]:
    reader = hiredis.Reader()
    reader.feed(b"".join(write_entry(b"1-1", message)))
    id, fields = reader.gets()
    assert id == b"1-1"
    found: list[bytes] = fields
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"007", "007"),
        (b"1.5", "1.5"),
        (b"+1", "+1"),
        (b"-0", "-0"),
        (b"9223372036854775808", "9223372036854775808"),
        (b"-7", -7),
        (b"0", 0),
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"true", True),
        (b"false", False),
        (b"True", "True"),
        (b"", ""),
        (b"\xff", b"\xff"),
        (b"a\r\nb\0", "a\r\nb\0"),
    ],
)
def test_a_value_has_the_type_it_looks_like(text: bytes, value: PropertyValue) -> None:
    """Check 4."""
    found = read(b"x", text, b"y", b"1").properties["x"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("words", "name", "body"),
    [
        ((b"own", b"1", b"data", b"2"), "own", b"1"),
        ((b"message", b"1", b"data", b"2", b"body", b"3"), "body", b"3"),
        ((b"x", b"1"), "x", b"1"),
        ((b"x", b"1", b"y", b"z" * (BODY_BYTES + 1)), "y", b"z" * (BODY_BYTES + 1)),
        ((b"x", b"1", b"y", b"z" * BODY_BYTES), "", b""),
        ((b"data", b"", b"x", b"1"), "", b""),
    ],
)
def test_which_field_is_the_body(words: tuple[bytes, ...], name: str, body: bytes) -> None:
    """Check 6: each case of the rule."""
    message = read(*words, domain=Domain.priority("d", body_field="own"))
    assert isinstance(message.properties, Fields)
    assert (message.properties.body, message.body) == (name, body)


@pytest.mark.parametrize(
    ("type", "right", "wrong"),
    [
        ("int64", b"12", b"012"),
        ("int32", b"2147483647", b"2147483648"),
        ("short", b"-32768", b"-32769"),
        ("char", b"127", b"128"),
        ("bool", b"true", b"1"),
        ("string", b"12345", b"\xff"),
    ],
)
def test_declared_fields_have_their_type_or_are_refused(
    type: str, right: bytes, wrong: bytes
) -> None:
    """Check 7."""
    declared = PropertyType[type.upper()]
    domain = Domain.priority("d", fields={"x": declared})
    message = read(b"x", right, b"data", b"b", domain=domain)
    assert isinstance(message.properties, Fields)
    assert message.properties.types == bytes([declared])
    assert written(message) == [b"x", right, b"data", b"b"]
    with pytest.raises(CommandError, match=f"ERR field 'x' is not an? {type}"):
        read(b"x", wrong, b"data", b"b", domain=domain)


def test_what_cannot_be_a_message_is_refused_with_its_reason() -> None:
    """Check 8."""
    with pytest.raises(CommandError, match="twice"):
        read(b"x", b"1", b"x", b"2")
    with pytest.raises(CommandError, match="empty"):
        read(b"", b"1", b"x", b"2")
    with pytest.raises(CommandError, match="UTF-8"):
        read(b"\xff", b"1", b"x", b"2")
    many = [word for n in range(256) for word in (b"f%d" % n, b"v")]
    with pytest.raises(CommandError, match="at most 255 fields"):
        read(*many)
    assert len(read(*many[2:]).properties) == 255


names = st.text(min_size=1, max_size=8).map(lambda text: text.encode(errors="replace"))


@given(
    st.dictionaries(names, st.binary(max_size=20) | st.from_regex(rb"-?[0-9]{1,20}"), min_size=1)
)
def test_what_is_taken_comes_back(fields: dict[bytes, bytes]) -> None:
    """Check 5: equal names and bytes, the body last; also from the store."""
    words = [word for pair in fields.items() for word in pair]
    message = read(*words)
    stored = decode_properties(encode_properties(message.properties))
    for found in (message, Message(message.id, message.body, 0.0, stored)):
        back = written(found)
        assert dict(zip(back[::2], back[1::2], strict=True)) == fields
        kept = [name for name in fields if name.decode() != getattr(found.properties, "body", "")]
        assert back[::2][: len(kept)] == kept


def test_a_message_of_another_wire_has_its_body_last() -> None:
    """Check 9."""
    message = Message(b"id", b"content", 0.0, {"n": 5, "ok": True, "raw": b"\0"})  # type: ignore[arg-type]
    assert written(message) == [b"n", b"5", b"ok", b"true", b"raw", b"\0", b"body", b"content"]
    assert written(Message(b"id", b"", 0.0)) == [b"body", b""]  # type: ignore[arg-type]


TASKS = Domain.priority(
    "tasks",
    properties={"task": read_path("task_name"), "amount": read_path("kwargs.amount:int64")},
)
TASK = b'{"task_name": "mail", "args": [], "kwargs": {"amount": 5}}'


def test_properties_in_a_body_are_no_fields() -> None:
    """Check 6: expressions see them, and readers get what was added, also from the store."""
    message = read(b"data", TASK, domain=TASKS)
    assert message.properties == {"task": "mail", "amount": 5}
    assert written(message) == [b"data", TASK]
    kept = decode_properties(encode_properties(message.properties))
    again = Message(message.id, message.body, 0.0, kept)
    assert kept == message.properties
    assert written(again) == [b"data", TASK]


def test_a_field_wins_over_the_body() -> None:
    message = read(b"amount", b"7", b"data", TASK, domain=TASKS)
    assert message.properties == {"amount": 7, "task": "mail"}
    assert written(message) == [b"amount", b"7", b"data", TASK]


def test_bodies_that_cannot_be_read_are_counted() -> None:
    bodies = BodyReader(Limits(json_bytes=len(TASK)))
    for body in (b"no", TASK, TASK + b" ", b'{"kwargs": {"amount": "x"}}'):
        read_fields(TASKS, b"id", (b"data", body), bodies)
    [fact] = bodies.counted(3.0)
    assert (fact.at, fact.domain, fact.bodies, fact.unfit) == (3.0, "tasks", 2, 1)
    assert bodies.counted(4.0) == []


def test_a_body_brings_no_more_properties_than_a_message_has() -> None:
    bodies = BodyReader(Limits(message_properties=1))
    message = read_fields(TASKS, b"id", (b"data", TASK), bodies)
    assert message.properties == {"task": "mail"}


@pytest.mark.parametrize("past", [None, (1.5, 2)])
def test_a_large_body_is_sent_as_it_is(past: tuple[float, int] | None) -> None:
    """And not copied, whatever stands around it."""
    body = b"x" * 100_000
    message = read(b"n", b"1", b"data", body)
    pieces = write_entry(b"1-1", message, past)
    assert any(piece is message.body for piece in pieces)
    reader = hiredis.Reader()
    reader.feed(b"".join(pieces))
    assert reader.gets() == [b"1-1", [b"n", b"1", b"data", body], *([1500, 2] if past else [])]
