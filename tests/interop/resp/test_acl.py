"""Users: which commands and channels they may use."""

from __future__ import annotations

import pytest

from tests.support.resp_client import OK, Client, Error, Frame, Simple, Word
from tests.support.resp_servers import Connect, Server, eventually, items_of, mapping, text_of

NO_CHANNEL = "NOPERM this user has no permissions to access one of the channels used as arguments"


def refused(reply: Frame) -> bool:
    """Redis words it differently from version to version; clients look at the code."""
    return isinstance(reply, Error) and reply.code == "NOPERM"


def user(connect: Connect, name: str, *rules: str, protocol: int = 2) -> Client:
    """A connection of a new user with these rules."""
    connect().ask("ACL", "SETUSER", name, "on", ">secret", *rules)
    client = connect(protocol)
    assert client.ask("AUTH", name, "secret") == OK
    return client


def test_channels_are_allowed_by_pattern(connect: Connect, name: str) -> None:
    """RESP-77."""
    client = user(connect, name, "+subscribe", "+psubscribe", "+ssubscribe", "&f*o")
    assert client.ask("SUBSCRIBE", "foo") == [b"subscribe", b"foo", 1]
    assert refused(client.ask("SUBSCRIBE", "bar"))
    assert refused(client.ask("SUBSCRIBE", "foo", "bar", "fo"))
    assert refused(client.ask("SSUBSCRIBE", "bar"))
    assert client.ask("SSUBSCRIBE", "fo") == [b"ssubscribe", b"fo", 1]
    assert client.ask("SUBSCRIBE", "fxo") == [b"subscribe", b"fxo", 2]


def test_the_texts_of_a_refusal(connect: Connect, name: str) -> None:
    """RESP-77, RESP-79."""
    client = user(connect, name, "+subscribe", "&news")
    assert client.ask("SUBSCRIBE", "other") == Error(NO_CHANNEL)
    assert client.ask("PUBLISH", "news", "x") == Error(
        "NOPERM this user has no permissions to run the 'publish' command"
    )
    assert client.ask("PUBSUB", "CHANNELS") == Error(
        "NOPERM this user has no permissions to run the 'pubsub|channels' command"
    )


def test_a_pattern_is_allowed_only_as_it_is_written(connect: Connect, name: str) -> None:
    """RESP-77."""
    client = user(connect, name, "+psubscribe", "&news.*", "&f*o")
    assert client.ask("PSUBSCRIBE", "news.*") == [b"psubscribe", b"news.*", 1]
    assert refused(client.ask("PSUBSCRIBE", "news.x*"))
    assert refused(client.ask("PSUBSCRIBE", "news.it"))
    assert refused(client.ask("PSUBSCRIBE", "foo"))
    assert refused(client.ask("PSUBSCRIBE", "f*o", "*"))
    assert client.ask("PSUBSCRIBE", "f*o") == [b"psubscribe", b"f*o", 2]


def test_all_channels_may_be_allowed(connect: Connect, name: str) -> None:
    """RESP-77."""
    client = user(connect, name, "+@pubsub", "allchannels")
    assert client.ask("PUBLISH", name, "x") == 0
    assert client.ask("PSUBSCRIBE", "anything*") == [b"psubscribe", b"anything*", 1]
    assert client.ask("SUBSCRIBE", name) == [b"subscribe", name.encode(), 2]


def test_publishing_needs_the_channel_too(connect: Connect, name: str) -> None:
    """RESP-77."""
    client = user(connect, name, "+publish", "+spublish", "&a*")
    assert client.ask("PUBLISH", "ab", "x") == 0
    assert client.ask("SPUBLISH", "ab", "x") == 0
    assert refused(client.ask("PUBLISH", "b", "x"))
    assert refused(client.ask("SPUBLISH", "b", "x"))


@pytest.mark.parametrize("command", ["unsubscribe", "punsubscribe", "sunsubscribe"])
def test_leaving_needs_no_channel(connect: Connect, name: str, command: str) -> None:
    """RESP-78."""
    client = user(connect, name, f"+{command}")
    assert client.ask(command, "anything") == [command.encode(), b"anything", 0]
    assert client.ask(command) == [command.encode(), None, 0]


def test_rights_come_before_the_rule_of_subscriber_mode(connect: Connect, name: str) -> None:
    """RESP-77."""
    client = user(connect, name, "+subscribe", "allchannels")
    client.ask("SUBSCRIBE", name)
    assert refused(client.ask("GET", "k"))


def test_who_loses_a_channel_is_cut(connect: Connect, name: str) -> None:
    """RESP-78."""
    admin = connect()
    loser = user(connect, name, "+@pubsub", "+ping", "&a", "&b")
    keeper = user(connect, name)
    idle = user(connect, name)
    loser.ask("SUBSCRIBE", "a")
    keeper.ask("SUBSCRIBE", "b")
    assert admin.ask("ACL", "SETUSER", name, "resetchannels", "&b") == OK
    assert loser.until_closed() == []
    assert keeper.before_fence() == []
    assert idle.ask("PUBLISH", "b", "x") == 1


def test_who_loses_a_pattern_is_cut(connect: Connect, name: str) -> None:
    """RESP-78."""
    client = user(connect, name, "+@pubsub", "&a*")
    client.ask("PSUBSCRIBE", "a*")
    assert connect().ask("ACL", "SETUSER", name, "resetchannels", "&ab*") == OK
    assert client.until_closed() == []


def test_a_user_that_is_deleted_is_cut(connect: Connect, name: str) -> None:
    """RESP-78."""
    admin, client = connect(), user(connect, name, "+@pubsub", "allchannels")
    client.ask("SUBSCRIBE", name)
    assert admin.ask("ACL", "DELUSER", name) == 1
    assert client.until_closed() == []
    eventually(lambda: admin.ask("PUBLISH", name, "x") == 0, "the subscription is gone")
    assert admin.ask("ACL", "DELUSER", name) == 0
    assert refused_login(connect(), name)


def refused_login(client: Client, name: str) -> bool:
    reply = client.ask("AUTH", name, "secret")
    return isinstance(reply, Error) and reply.code == "WRONGPASS"


def test_who_loses_the_command_keeps_the_subscription(connect: Connect, name: str) -> None:
    """RESP-78."""
    admin = connect()
    client = user(connect, name, "+subscribe", "+unsubscribe", "allchannels")
    client.ask("SUBSCRIBE", name)
    assert admin.ask("ACL", "SETUSER", name, "-subscribe", "-unsubscribe") == OK
    assert admin.ask("PUBLISH", name, "x") == 1
    assert client.read() == [b"message", name.encode(), b"x"]
    assert refused(client.ask("UNSUBSCRIBE", name))
    assert refused(client.ask("SUBSCRIBE", name))


def test_the_category_of_channels(client: Client, server: Server) -> None:
    """RESP-79, S002-84."""
    commands = {str(command) for command in items_of(client.ask("ACL", "CAT", "pubsub"))}
    # Redis also files the questions under it.
    assert {command for command in commands if "|" not in command} == {
        str(word)
        for word in (
            b"publish",
            b"spublish",
            b"subscribe",
            b"psubscribe",
            b"ssubscribe",
            b"unsubscribe",
            b"punsubscribe",
            b"sunsubscribe",
        )
    }
    categories = items_of(client.ask("ACL", "CAT"))
    assert {b"pubsub", b"fast", b"slow", b"read", b"write"} <= {
        category for category in categories if isinstance(category, bytes)
    }
    assert client.ask("ACL", "CAT", "nosuch") == Error("ERR Unknown category 'nosuch'")


def test_publishing_needs_the_command(connect: Connect, name: str) -> None:
    """RESP-79."""
    client = user(connect, name, "+@pubsub", "-publish", "allchannels")
    assert refused(client.ask("PUBLISH", name, "x"))
    assert client.ask("SPUBLISH", name, "x") == 0
    assert connect().ask("ACL", "SETUSER", name, "+publish") == OK
    assert client.ask("PUBLISH", name, "x") == 0


def test_a_new_user_may_nothing(connect: Connect, name: str) -> None:
    """RESP-79."""
    admin, client = connect(), connect()
    assert admin.ask("ACL", "SETUSER", name) == OK
    assert refused_login(client, name)
    admin.ask("ACL", "SETUSER", name, "on", ">secret")
    assert client.ask("AUTH", name, "wrong") != OK
    assert client.ask("AUTH", name, "secret") == OK
    commands: list[list[Word]] = [["PING"], ["PUBLISH", name, "x"], ["SUBSCRIBE", name]]
    for words in commands:
        assert refused(client.ask(*words))


def test_users_are_told(connect: Connect, name: str) -> None:
    admin = connect()
    client = user(connect, name, "+acl|whoami", "+@pubsub", "&a*", "&b", "~k*")
    assert client.ask("ACL", "WHOAMI") == name.encode()
    assert admin.ask("ACL", "WHOAMI") == b"default"
    assert name.encode() in items_of(admin.ask("ACL", "USERS"))
    lines = [text_of(line) for line in items_of(admin.ask("ACL", "LIST"))]
    assert any(line.startswith(f"user {name} on ") for line in lines)
    told = mapping(admin.ask("ACL", "GETUSER", name))
    flags = items_of(told[b"flags"])
    assert b"on" in flags
    assert told[b"channels"] == b"&a* &b"
    assert told[b"keys"] == b"~k*"
    assert len(items_of(told[b"passwords"])) == 1
    assert admin.ask("ACL", "GETUSER", "nobody") is None


def test_what_a_user_may_do_is_tried_out(connect: Connect, name: str) -> None:
    """RESP-79."""
    admin = connect()
    user(connect, name, "+publish", "&a*")
    assert admin.ask("ACL", "DRYRUN", name, "PUBLISH", "ab", "x") == OK
    for words in (["PUBLISH", "b", "x"], ["SUBSCRIBE", "a"]):
        reply = admin.ask("ACL", "DRYRUN", name, *words)
        assert isinstance(reply, bytes), "a text, not an error"
        assert b"no permissions" in reply


def test_a_wrong_rule_changes_nothing(connect: Connect, name: str) -> None:
    admin = connect()
    reply = admin.ask("ACL", "SETUSER", name, "on", "nosuchrule")
    assert reply == Error("ERR Error in ACL SETUSER modifier 'nosuchrule': Syntax error")
    users = items_of(admin.ask("ACL", "USERS"))
    assert name.encode() not in users
    assert admin.ask("ACL", "SETUSER", name, "+nosuch") == Error(
        "ERR Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL"
    )
    assert admin.ask("ACL", "SETUSER", name, "+@nosuch") == Error(
        "ERR Error in ACL SETUSER modifier '+@nosuch': Unknown command or category name in ACL"
    )
    assert admin.ask("ACL", "DELUSER", "default") == Error(
        "ERR The 'default' user cannot be removed"
    )
    assert admin.ask("PING") == Simple("PONG")


# The log, the file and passwords.


def log_rows(client: Client) -> list[dict[str, Frame]]:
    return [
        {text_of(key): item for key, item in mapping(row).items()}
        for row in items_of(client.ask("ACL", "LOG"))
    ]


def test_the_log_has_what_was_refused(connect: Connect, name: str) -> None:
    admin = connect()
    admin.ask("ACL", "LOG", "RESET")
    client = user(connect, name, "+get", "+publish", "~k", "&c")
    for command in (("SET", "a", "b"), ("GET", "x"), ("PUBLISH", "y", "z"), ("GET", "x")):
        assert refused(client.ask(*command))
    assert isinstance(connect().ask("AUTH", name, "wrong"), Error)
    rows = log_rows(admin)
    keys = ("reason", "context", "object", "username", "count")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        (b"auth", b"toplevel", b"AUTH", name.encode(), 1),
        (b"key", b"toplevel", b"x", name.encode(), 2),
        (b"channel", b"toplevel", b"y", name.encode(), 1),
        (b"command", b"toplevel", b"set", name.encode(), 1),
    ]
    assert b" cmd=auth " in rows[0]["client-info"]  # type: ignore[operator]
    assert admin.ask("ACL", "LOG", "RESET") == OK
    assert admin.ask("ACL", "LOG") == []


def test_a_password_is_drawn(connect: Connect) -> None:
    client = connect()
    drawn = client.ask("ACL", "GENPASS")
    assert isinstance(drawn, bytes)
    assert len(drawn) == 64
    assert drawn != client.ask("ACL", "GENPASS")
    assert len(client.ask("ACL", "GENPASS", "5")) == 2  # type: ignore[arg-type]
    assert client.ask("ACL", "GENPASS", "0") == Error(
        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive"
        " number up to 4096"
    )


def test_without_a_file_users_are_neither_saved_nor_loaded(connect: Connect) -> None:
    client = connect()
    for word in ("SAVE", "LOAD"):
        answer = client.ask("ACL", word)
        assert isinstance(answer, Error)
        assert "is not configured to use an ACL file" in str(answer)
