"""Finding a command, or the error that Redis has for it."""

from __future__ import annotations

import pytest

from headgate.wire.resp.codec.replies import CommandError
from headgate.wire.resp.commands.all_commands import COMMANDS


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([b"ping"], "ping"),
        ([b"PiNg", b"x"], "ping"),
        ([b"client", b"SetName", b"x"], "client|setname"),
        ([b"COMMAND"], "command"),
        ([b"COMMAND", b"COUNT"], "command|count"),
    ],
)
def test_a_command_is_found_in_any_case(words: list[bytes], name: str) -> None:
    assert COMMANDS.find(words).name == name


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([b"GET"], "ERR wrong number of arguments for 'get' command"),
        ([b"GET", b"a", b"b"], "ERR wrong number of arguments for 'get' command"),
        ([b"PUBSUB"], "ERR wrong number of arguments for 'pubsub' command"),
        ([b"CLIENT"], "ERR wrong number of arguments for 'client' command"),
        ([b"CLIENT", b"Foo"], "ERR unknown subcommand 'Foo'. Try CLIENT HELP."),
        ([b"CLIENT", b"ID", b"x"], "ERR wrong number of arguments for 'client|id' command"),
        ([b"Foo"], "ERR unknown command 'Foo', with args beginning with: "),
        ([b"foo", b"a", b"b"], "ERR unknown command 'foo', with args beginning with: 'a' 'b' "),
        ([b"f\0o", b"a\0b"], "ERR unknown command 'f', with args beginning with: 'a' "),
        (
            [b"foo", b"a" * 125, b"b"],
            f"ERR unknown command 'foo', with args beginning with: '{'a' * 125}' ",
        ),
    ],
)
def test_what_cannot_be_run_has_the_text_of_redis(words: list[bytes], error: str) -> None:
    """RESP-12, RESP-38, RESP-52."""
    with pytest.raises(CommandError) as refused:
        COMMANDS.find(words)
    assert str(refused.value) == error


def test_a_long_command_is_quoted_in_part() -> None:
    with pytest.raises(CommandError) as refused:
        COMMANDS.find([b"x" * 1000, *[b"y" * 100] * 50])
    assert len(str(refused.value)) < 400


def test_names_can_be_looked_up() -> None:
    entry = COMMANDS.get(b"client|id")
    assert entry is not None
    assert entry.name == "client|id"
    assert COMMANDS.get(b"nosuch") is None
    assert COMMANDS.get(b"client|nosuch") is None


@pytest.mark.parametrize(
    ("name", "arity", "flags", "categories"),
    [
        ("publish", 3, {"loading", "fast"}, {"pubsub", "fast"}),
        ("spublish", 3, {"loading", "fast"}, {"pubsub", "fast"}),
        ("subscribe", -2, {"noscript", "loading"}, {"pubsub", "slow"}),
        ("psubscribe", -2, {"noscript", "loading"}, {"pubsub", "slow"}),
        ("ssubscribe", -2, {"noscript", "loading"}, {"pubsub", "slow"}),
        ("unsubscribe", -1, {"noscript", "loading"}, {"pubsub", "slow"}),
        ("punsubscribe", -1, {"noscript", "loading"}, {"pubsub", "slow"}),
        ("sunsubscribe", -1, {"noscript", "loading"}, {"pubsub", "slow"}),
        ("pubsub", -1, {"loading", "fast"}, {"slow"}),
        ("pubsub|channels", -2, {"pubsub", "loading"}, {"pubsub", "slow"}),
        ("pubsub|numsub", -2, {"pubsub", "loading"}, {"pubsub", "slow"}),
        ("pubsub|numpat", 2, {"pubsub", "loading"}, {"pubsub", "slow"}),
    ],
)
def test_the_commands_of_the_document_are_registered_as_it_says(
    name: str, arity: int, flags: set[str], categories: set[str]
) -> None:
    """S002-82, S002-83, S002-84."""
    entry = COMMANDS.get(name.encode())
    assert entry is not None
    assert (entry.arity, set(entry.categories)) == (arity, categories)
    assert flags <= set(entry.flags)
