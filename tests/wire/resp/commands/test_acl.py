"""Access rules on the wire: what is refused in which words, and whom a change of rules cuts off."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest

from headgate.core.facts import AccessDenied, AuthenticationFailed
from headgate.wire.resp.codec.replies import bulk
from headgate.wire.resp.commands.acl import CATEGORIES
from tests.support.resp_hub import House

NO_COMMAND = "NOPERM this user has no permissions to run the '{}' command"
NO_KEY = "NOPERM this user has no permissions to access one of the keys used as arguments"
NO_CHANNEL = "NOPERM this user has no permissions to access one of the channels used as arguments"


class Client:
    """A connection, and what came out of it."""

    def __init__(self, world: House, *user: str) -> None:
        self.world = world
        self.raw = b""
        self.closed: str | None = None
        self.reader = hiredis.Reader(encoding="utf-8", errors="surrogateescape")
        opened, _ = world.hub.broker.open_session("resp", "", world.clock())
        self.session = world.hub.connect(opened.id, self, "127.0.0.1:1", "127.0.0.1:2")
        if user:
            assert self.ask("AUTH", *user) == "OK"

    def ask(self, *command: str | bytes) -> Any:  # noqa: ANN401
        """Send one command, let the pass end; return the first frame that came."""
        self.send(*command)
        self.world.end_pass()
        return self.next()

    def send(self, *command: str | bytes) -> None:
        words = [word.encode() if isinstance(word, str) else word for word in command]
        self.session.receive(b"*%d\r\n" % len(words) + b"".join(map(bulk, words)))

    def next(self) -> Any:  # noqa: ANN401
        """The next frame, an error as its text, or False if there is none."""
        frame = self.reader.gets()
        return str(frame) if isinstance(frame, hiredis.ReplyError) else frame

    def write(self, blob: bytes) -> None:
        assert self.closed is None, "nothing is written after the end"
        self.raw += blob
        self.reader.feed(blob)

    def deliver(self, blob: bytes, messages: int) -> None:
        self.write(blob)

    is_full = False

    def pause(self, *, may_leave: bool = True) -> None: ...

    def resume(self) -> None: ...

    def close(self, reason: str, *, at_once: bool = False) -> None:
        self.closed = reason
        self.world.hub.broker.close_session(self.session.id, reason, self.world.clock())
        self.world.hub.disconnect(self.session.id)


@pytest.fixture
def world() -> House:
    return House()


@pytest.fixture
def admin(world: House) -> Client:
    return Client(world)


def bob(admin: Client, *rules: str) -> Client:
    """A connection of a user with these rules."""
    assert admin.ask("ACL", "SETUSER", "bob", "on", ">pw", *rules) == "OK"
    return Client(admin.world, "bob", "pw")


# What is refused.


def test_a_command_that_the_rules_do_not_allow_is_refused(admin: Client) -> None:
    """RESP-79."""
    client = bob(admin, "+@pubsub", "-publish", "allchannels")
    assert client.ask("PUBLISH", "a", "b") == NO_COMMAND.format("publish")
    assert client.ask("CLIENT", "ID") == NO_COMMAND.format("client|id")
    assert client.ask("SUBSCRIBE", "a") == ["subscribe", "a", 1]


def test_a_channel_has_to_match_and_one_that_does_not_refuses_them_all(admin: Client) -> None:
    """RESP-77."""
    client = bob(admin, "+@pubsub", "&f*o")
    assert client.ask("SUBSCRIBE", "bar") == NO_CHANNEL
    assert client.ask("SUBSCRIBE", "foo", "bar") == NO_CHANNEL
    assert client.ask("SSUBSCRIBE", "foo", "bar") == NO_CHANNEL
    assert not client.session.interests
    assert client.ask("PUBLISH", "bar", "foo") == NO_CHANNEL
    assert client.ask("SPUBLISH", "bar", "foo") == NO_CHANNEL
    assert client.ask("PUBLISH", "foo", "bar") == 0
    assert client.ask("SPUBLISH", "fo", "bar") == 0
    assert client.ask("SSUBSCRIBE", "foo") == ["ssubscribe", "foo", 1]
    assert client.ask("SUBSCRIBE", "foo", "fo") == ["subscribe", "foo", 1]


def test_a_pattern_has_to_be_allowed_letter_by_letter(admin: Client) -> None:
    """RESP-77."""
    client = bob(admin, "+@pubsub", "&f*o", "&news.*")
    assert client.ask("PSUBSCRIBE", "foo") == NO_CHANNEL
    assert client.ask("PSUBSCRIBE", "news.x*") == NO_CHANNEL
    assert client.ask("PSUBSCRIBE", "news.*", "*") == NO_CHANNEL
    assert client.ask("PSUBSCRIBE", "news.*", "f*o") == ["psubscribe", "news.*", 1]


@pytest.mark.parametrize("command", ["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"])
def test_unsubscribing_needs_no_right_to_the_channel(admin: Client, command: str) -> None:
    """RESP-78."""
    client = bob(admin, "+@pubsub")
    assert client.ask(command, "any") == [command.lower(), "any", 0]


def test_a_key_has_to_match_and_one_that_does_not_refuses_them_all(admin: Client) -> None:
    client = bob(admin, "+@all", "~k*")
    assert client.ask("SET", "k1", "other") == "OK"
    assert client.ask("GET", "other") == NO_KEY
    assert client.ask("MSET", "k1", "a", "other", "b") == NO_KEY
    assert client.ask("DEL", "other", "k1") == NO_KEY
    assert client.ask("GET", "k1") == "other"


def test_the_command_is_looked_at_first(admin: Client) -> None:
    client = bob(admin)
    assert client.ask("SUBSCRIBE", "a") == NO_COMMAND.format("subscribe")
    assert client.ask("GET", "a") == NO_COMMAND.format("get")


def test_access_is_looked_at_before_subscriber_mode_and_after_arity(admin: Client) -> None:
    client = bob(admin, "+subscribe", "allchannels")
    assert client.ask("SUBSCRIBE", "a") == ["subscribe", "a", 1]
    assert client.ask("GET", "a") == NO_COMMAND.format("get")
    assert client.ask("GET") == "ERR wrong number of arguments for 'get' command"


def test_what_is_refused_is_a_fact(world: House, admin: Client) -> None:
    client = bob(admin, "+subscribe")
    client.ask("PUBLISH", "a", "b")
    client.ask("SUBSCRIBE", "a")
    denied = [fact for fact in world.facts if isinstance(fact, AccessDenied)]
    assert denied == [
        AccessDenied(world.now, client.session.id, "bob", "publish"),
        AccessDenied(world.now, client.session.id, "bob", "subscribe"),
    ]


# What a change does to who is there.


def test_new_rules_hold_for_open_connections_at_once(admin: Client) -> None:
    client = bob(admin, "+@all", "~*", "&*")
    assert client.ask("PUBLISH", "a", "b") == 0
    admin.ask("ACL", "SETUSER", "bob", "-publish")
    assert client.ask("PUBLISH", "a", "b") == NO_COMMAND.format("publish")
    assert client.closed is None


@pytest.mark.parametrize(
    "command", [("SUBSCRIBE", "news"), ("PSUBSCRIBE", "n*"), ("SSUBSCRIBE", "news")]
)
def test_who_is_subscribed_to_what_was_taken_away_is_cut_off(
    admin: Client, command: tuple[str, str]
) -> None:
    """RESP-78."""
    client = bob(admin, "+@pubsub", "&n*", "&other")
    idle, elsewhere = Client(admin.world, "bob", "pw"), Client(admin.world, "bob", "pw")
    elsewhere.ask("SUBSCRIBE", "other")
    client.ask(*command)
    assert admin.ask("ACL", "SETUSER", "bob", "resetchannels", "&n*", "&other") == "OK"
    assert client.closed is None
    assert admin.ask("ACL", "SETUSER", "bob", "resetchannels", "&other") == "OK"
    assert client.closed == "access rules changed"
    assert idle.closed is None
    assert elsewhere.closed is None


def test_who_was_subscribed_before_it_became_a_user_stays_while_nothing_is_taken_away(
    admin: Client,
) -> None:
    """RESP-78: rules that allow no less than before cut nobody off."""
    admin.ask("ACL", "SETUSER", "eve", "on", ">pw", "+@all", "~*", "resetchannels", "&other")
    client = Client(admin.world)
    assert client.ask("HELLO", "3")
    client.ask("SUBSCRIBE", "news")
    assert client.ask("AUTH", "eve", "pw") == "OK"
    admin.ask("ACL", "SETUSER", "eve", "-get", "&more")
    assert client.closed is None
    admin.ask("ACL", "SETUSER", "eve", "resetchannels", "&other")
    assert client.closed == "access rules changed"


def test_without_the_command_a_subscription_stays(admin: Client) -> None:
    client = bob(admin, "+@pubsub", "&news")
    client.ask("SUBSCRIBE", "news")
    admin.ask("ACL", "SETUSER", "bob", "-subscribe")
    assert client.closed is None
    assert admin.ask("PUBLISH", "news", "1") == 1
    assert client.next() == ["message", "news", "1"]


def test_the_connections_of_a_deleted_user_are_closed(admin: Client) -> None:
    """RESP-78."""
    client = bob(admin)
    assert admin.ask("ACL", "DELUSER", "bob", "nobody") == 1
    assert client.closed == "access rules changed"
    assert admin.closed is None
    assert Client(admin.world).ask("AUTH", "bob", "pw") == (
        "WRONGPASS invalid username-password pair or user is disabled."
    )


def test_who_deletes_itself_is_answered_and_then_closed(world: House, admin: Client) -> None:
    """And what it sent behind that is not carried out."""
    client = bob(admin, "+@all", "&*")
    client.session.receive(b"ACL DELUSER bob\r\nPUBLISH a b\r\n")
    world.end_pass()
    assert client.next() == 1
    assert client.next() is False
    assert client.closed == "access rules changed"


def test_who_deletes_itself_and_is_gone_before_the_end_is_not_closed_twice(
    world: House, admin: Client
) -> None:
    client = bob(admin, "+acl")
    client.send("ACL", "DELUSER", "bob")
    client.close("hung up")
    world.end_pass()
    assert client.closed == "hung up"


def test_the_default_user_cannot_be_deleted(admin: Client) -> None:
    client = bob(admin)
    answer = admin.ask("ACL", "DELUSER", "bob", "default")
    assert answer == "ERR The 'default' user cannot be removed"
    assert client.closed is None


# What can be asked.


def test_whoami_is_the_name_of_the_user(admin: Client) -> None:
    assert admin.ask("ACL", "WHOAMI") == "default"
    assert bob(admin, "+acl").ask("ACL", "WHOAMI") == "bob"


def test_cat_lists_categories_and_the_commands_of_one(admin: Client) -> None:
    """RESP-79."""
    assert admin.ask("ACL", "CAT") == list(CATEGORIES)
    commands = admin.ask("ACL", "CAT", "PubSub")
    assert {name for name in commands if not name.startswith("pubsub|")} == {
        *("publish", "subscribe", "unsubscribe", "psubscribe", "punsubscribe"),
        *("spublish", "ssubscribe", "sunsubscribe"),
    }
    assert admin.ask("ACL", "CAT", "geo") == []
    assert admin.ask("ACL", "CAT", "nope") == "ERR Unknown category 'nope'"
    assert admin.ask("ACL", "CAT", "a", "b") == (
        "ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP."
    )


def test_every_category_of_a_command_can_be_ruled_on(world: House) -> None:
    parts = [part for entry in world.hub.table for part in (entry, *entry.subcommands.values())]
    assert {category for part in parts for category in part.categories} <= {*CATEGORIES}


def test_a_user_is_described_by_its_rules(admin: Client) -> None:
    bob(admin, "+@pubsub", "-publish", "&f*o", "~k*", "+get")
    digest = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4"
    assert admin.ask("ACL", "GETUSER", "bob") == [
        *("flags", ["on"], "passwords", [digest]),
        *("commands", "-@all +@pubsub -publish +get"),
        *("keys", "~k*", "channels", "&f*o", "selectors", []),
    ]
    assert admin.ask("ACL", "GETUSER", "default") == [
        *("flags", ["on", "nopass"], "passwords", [], "commands", "+@all"),
        *("keys", "~*", "channels", "&*", "selectors", []),
    ]
    assert admin.ask("ACL", "GETUSER", "nobody") is None
    assert admin.ask("ACL", "USERS") == ["bob", "default"]
    assert admin.ask("ACL", "LIST") == [
        f"user bob on #{digest} ~k* resetchannels &f*o -@all +@pubsub -publish +get",
        "user default on nopass ~* &* +@all",
    ]


def test_a_description_is_a_map_for_who_speaks_the_third_version(admin: Client) -> None:
    admin.ask("HELLO", "3")
    assert admin.ask("ACL", "GETUSER", "default")["flags"] == ["on", "nopass"]
    assert b"%6\r\n$5\r\nflags\r\n~2\r\n$2\r\non\r\n" in admin.raw


def test_a_bad_rule_is_quoted_as_it_came(admin: Client) -> None:
    admin.ask("ACL", "SETUSER", "bob", "on", b"+\xff")
    assert admin.raw == (
        b"-ERR Error in ACL SETUSER modifier '+\xff': Unknown command or category name in ACL\r\n"
    )
    assert admin.ask("ACL", "GETUSER", "bob") is None


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (("bob", "get", "k"), "OK"),
        (("bob", "get", "z"), "This user has no permissions to access the 'z' key"),
        (("bob", "publish", "a", "b"), "This user has no permissions to run the 'publish' command"),
        (("bob", "client", "id"), "This user has no permissions to run the 'client|id' command"),
        (("bob", "subscribe", "x"), "This user has no permissions to access the 'x' channel"),
        (("bob", "psubscribe", "foo"), "This user has no permissions to access the 'foo' channel"),
        (("bob", "unsubscribe", "x"), "OK"),
        (("nobody", "get", "k"), "ERR User 'nobody' not found"),
        (("bob", "nope", "x"), "ERR Command 'nope' not found"),
        (("bob", "client", "nope"), "ERR Command 'client' not found"),
        (("bob", "get"), "ERR wrong number of arguments for 'get' command"),
        (("bob", "client"), "ERR wrong number of arguments for 'client' command"),
    ],
)
def test_a_dry_run_says_what_would_be_refused(
    world: House, admin: Client, command: tuple[str, ...], answer: str
) -> None:
    bob(admin, "+@pubsub", "-publish", "&f*o", "~k*", "+get")
    assert admin.ask("ACL", "DRYRUN", *command) == answer
    assert not any(isinstance(fact, AccessDenied) for fact in world.facts)


# The log.


def logged(admin: Client, *args: str) -> list[dict[str, Any]]:
    return [dict(zip(row[::2], row[1::2], strict=True)) for row in admin.ask("ACL", "LOG", *args)]


def test_the_log_tells_what_was_refused_lately_the_last_first(world: House, admin: Client) -> None:
    client = bob(admin, "+get", "+publish", "+multi", "+exec", "~k*", "&c*")
    client.ask("SET", "a", "b")
    client.ask("GET", "a")
    client.ask("PUBLISH", "x", "m")
    client.ask("AUTH", "bob", "wrong")
    world.now += 1.5
    rows = logged(admin)
    told = [tuple(row[key] for key in ("reason", "context", "object", "username")) for row in rows]
    assert told == [
        ("auth", "toplevel", "AUTH", "bob"),
        ("channel", "toplevel", "x", "bob"),
        ("key", "toplevel", "a", "bob"),
        ("command", "toplevel", "set", "bob"),
    ]
    assert {row["count"] for row in rows} == {1}
    assert rows[0]["age-seconds"] == "1.5"
    assert f"id={client.session.id} addr=127.0.0.1:1 " in rows[0]["client-info"]
    assert [row["entry-id"] for row in rows] == [3, 2, 1, 0]
    assert rows[0]["timestamp-created"] == int((world.now - 1.5) * 1000)
    assert logged(admin, "1") == rows[:1]
    assert logged(admin, "-1") == []
    assert admin.ask("ACL", "LOG", "reset") == "OK"
    assert logged(admin) == []
    assert admin.ask("ACL", "LOG", "x") == "ERR value is not an integer or out of range"


def test_what_is_refused_again_is_counted_and_is_the_last(world: House, admin: Client) -> None:
    """For a minute; and a refusal inside of a transaction is another one."""
    client = bob(admin, "+multi", "+exec", "+auth")
    client.ask("GET", "a")
    client.ask("SET", "a", "b")
    world.now += 59
    client.ask("GET", "b")
    assert [(row["object"], row["count"]) for row in logged(admin)] == [("get", 2), ("set", 1)]
    world.now += 61
    client.ask("GET", "b")
    assert [(row["object"], row["count"]) for row in logged(admin)][:2] == [("get", 1), ("get", 2)]
    for words in (("MULTI",), ("AUTH", "bob", "x"), ("EXEC",)):
        client.ask(*words)
    assert logged(admin, "1")[0]["context"] == "multi"


def test_the_log_is_bounded_whatever_is_refused(admin: Client) -> None:
    client = bob(admin, "+get")
    for number in range(200):
        client.ask("GET", f"{number}" * 1000)
    rows = logged(admin, "1000")
    assert len(rows) == 128
    assert max(len(row["object"]) for row in rows) == 128


# Wrong passwords.


def test_a_wrong_password_is_a_fact_with_the_address_and_without_what_was_said(
    world: House, admin: Client
) -> None:
    """A name that nobody has may be a password in the wrong place."""
    client = bob(admin)
    client.ask("AUTH", "bob", "guess")
    client.ask("AUTH", "sesame", "guess")
    client.ask("HELLO", "3", "AUTH", "bob", "guess")
    failed = [fact for fact in world.facts if isinstance(fact, AuthenticationFailed)]
    assert [(fact.wire, fact.name, fact.user) for fact in failed] == [
        ("resp", "127.0.0.1:1", "bob"),
        ("resp", "127.0.0.1:1", ""),
        ("resp", "127.0.0.1:1", "bob"),
    ]
    assert "sesame" not in repr(world.facts) + repr(logged(admin))
    assert [row["object"] for row in logged(admin)] == ["HELLO", "AUTH", "AUTH"]


def test_answers_to_wrong_passwords_come_later_and_later_and_with_them_what_is_behind(
    world: House, admin: Client
) -> None:
    """Three are answered at once. A session that had its share is closed, with the answer."""
    client, other = bob(admin), bob(admin)
    client.session.receive(b"AUTH bob wrong\r\n" * 20 + b"PING\r\n")
    world.end_pass()
    for _ in range(3):
        world.end_pass()
        assert str(client.next()).startswith("WRONGPASS")
    waits = []
    while client.closed is None:
        assert client.next() is False
        assert other.closed is None
        [seconds] = world.pass_time()
        waits.append(seconds)
        assert str(client.next()).startswith("WRONGPASS")
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert client.closed == "too many wrong passwords"
    assert client.next() is False
    assert len(world.facts_of("AuthenticationFailed")) == 10


def test_a_broken_request_behind_a_wrong_password_does_not_get_the_answer_sooner(
    world: House, admin: Client
) -> None:
    client = bob(admin)
    for _ in range(3):
        client.ask("AUTH", "bob", "wrong")
    client.session.receive(b"AUTH bob wrong\r\n*x\r\n")
    world.end_pass()
    assert client.next() is False
    assert client.closed is None
    world.pass_time()
    assert str(client.next()).startswith("WRONGPASS")
    assert str(client.next()).startswith("ERR Protocol error")


def test_in_a_transaction_only_so_many_passwords_are_tried(world: House, admin: Client) -> None:
    client = bob(admin, "+multi", "+exec")
    client.ask("MULTI")
    for number in range(20):
        client.ask("AUTH", "bob", "pw" if number == 15 else "wrong")
    client.ask("EXEC")
    world.pass_time()
    answers = client.next() or []
    assert len(answers) == 20
    assert all(str(answer).startswith("WRONGPASS") for answer in answers)
    assert client.closed == "too many wrong passwords"


def test_who_hangs_up_before_the_answer_keeps_its_place_until_then(
    world: House, admin: Client
) -> None:
    client = bob(admin)
    for _ in range(3):
        client.ask("AUTH", "bob", "wrong")
    client.send("AUTH", "bob", "wrong")
    assert world.suspects[-1] == client.session.id
    before = world.known_sessions.count(client.session.id)
    client.close("closed by the client")
    assert world.known_sessions.count(client.session.id) == before
    world.pass_time()
    assert world.known_sessions.count(client.session.id) == before + 1


# The file.


class Paper:
    """A file of users in memory."""

    path = "users.acl"

    def __init__(self, text: bytes = b"") -> None:
        self.text = text
        self.error: OSError | None = None

    def read(self) -> bytes:
        if self.error is not None:
            raise self.error
        return self.text

    def write(self, users: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.text = users


@pytest.fixture
def paper(world: House) -> Paper:
    world.hub.user_file = paper = Paper()
    return paper


def test_users_are_saved_and_loaded(world: House, admin: Client, paper: Paper) -> None:
    bob(admin, "+get", "~k*")
    assert admin.ask("ACL", "SAVE") == "OK"
    assert paper.text.splitlines() == [line.encode() for line in admin.ask("ACL", "LIST")]
    assert b"pw" not in paper.text
    before = admin.ask("ACL", "LIST")
    admin.ask("ACL", "SETUSER", "bob", "off")
    admin.ask("ACL", "SETUSER", "carol", "on", "nopass")
    assert admin.ask("ACL", "LOAD") == "OK"
    assert admin.ask("ACL", "LIST") == before


def test_a_load_closes_those_who_lost_something_and_nobody_else(
    admin: Client, paper: Paper
) -> None:
    gone, fewer, same = (Client(admin.world) for _ in range(3))
    for client, name in ((gone, "gone"), (fewer, "fewer"), (same, "same")):
        admin.ask("ACL", "SETUSER", name, "on", "nopass", "&*", "+@all")
        client.ask("AUTH", name, "")
        client.ask("SUBSCRIBE", "news")
    paper.text = b"user fewer on nopass &other +@all\nuser same on nopass &* +@all\n"
    assert admin.ask("ACL", "LOAD") == "OK"
    assert (gone.closed, fewer.closed, same.closed) == (
        "access rules changed",
        "access rules changed",
        None,
    )
    assert admin.closed is None
    assert admin.ask("ACL", "USERS") == ["default", "fewer", "same"]


def test_a_list_with_mistakes_changes_nothing_and_all_of_them_are_said(
    admin: Client, paper: Paper
) -> None:
    before = admin.ask("ACL", "LIST")
    paper.text = b"hello\nuser\nuser a b on\nuser bad on +nope >sec\n\nuser b on\nuser b on\n"
    assert admin.ask("ACL", "LOAD") == (
        "ERR users.acl:1 should start with user keyword followed by the username."
        " users.acl:2 should start with user keyword followed by the username."
        " users.acl:3: Syntax error."
        " users.acl:4: Error in applying operation '+nope': Unknown command or category name in"
        " ACL. WARNING: Duplicate user 'b' found on line 7."
        " WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
    )
    assert admin.ask("ACL", "LIST") == before


def test_without_a_file_or_with_one_that_fails_the_answer_says_so(
    world: House, admin: Client
) -> None:
    for word in ("SAVE", "LOAD"):
        assert "set acl_file in [listen.resp]" in admin.ask("ACL", word)
    world.hub.user_file = paper = Paper()
    paper.error = OSError(28, "No space left on device")
    assert "users.acl: No space left on device" in admin.ask("ACL", "SAVE")
    assert "opening file 'users.acl': No space left" in admin.ask("ACL", "LOAD")


def test_a_password_is_drawn(admin: Client) -> None:
    assert admin.ask("ACL", "GENPASS") == bytes(range(32)).hex()
    assert admin.ask("ACL", "GENPASS", "5") == "01"
    assert admin.ask("ACL", "GENPASS", "12") == "020"
    wrong = "ERR ACL GENPASS argument must be the number of bits for the output password"
    for bits in ("0", "-1", "4097"):
        assert admin.ask("ACL", "GENPASS", bits).startswith(wrong)


def test_help_names_every_subcommand(world: House, admin: Client) -> None:
    lines = admin.ask("ACL", "HELP")
    entry = world.hub.table.get(b"acl")
    assert entry is not None
    for name in entry.subcommands:
        assert any(line.split()[0] == name.decode() for line in lines)


def test_very_many_names_are_not_compared_with_very_many_patterns(
    world: House, admin: Client
) -> None:
    """The limit command_steps: a name is compared with one pattern after another."""
    patterns = [f"~{number}:*" for number in range(100)]
    assert admin.ask("ACL", "SETUSER", "bob", "on", "nopass", "+@all", "&a*", *patterns) == "OK"
    bob = Client(world, "bob", "")
    most = world.hub.broker.limits.command_steps // 100
    keys = [f"99:{number}" for number in range(most)]
    assert bob.ask("DEL", *keys) == 0
    assert bob.ask("DEL", *keys, "99:one more").startswith("ERR limit command_steps")
    assert bob.ask("SUBSCRIBE", *("a" for _ in range(most + 1)))[0] == "subscribe"


def test_users_are_listed_in_parts() -> None:
    house = House()
    guest = house.guest()
    for number in range(200):
        guest.raw("ACL", "SETUSER", f"u{number}")
    house.step = 0.001
    guest.session.receive(b"*2\r\n$3\r\nACL\r\n$4\r\nLIST\r\n")
    assert guest.session.parts is not None
    while guest.paused:
        house.end_pass()
    assert guest.received.startswith(b"*201\r\n")
    assert guest.received.count(b"user u") == 200


@pytest.mark.parametrize(
    "rules",
    [[f"~p{number}" for number in range(5001)], ["~" + "*a" * 4000] * 7],
    ids=["many", "long"],
)
def test_rules_that_take_long_to_read_are_refused(rules: list[str]) -> None:
    """The limit command_steps."""
    told = House().guest().ask("ACL", "SETUSER", "u", *rules)
    assert told.startswith("ERR limit command_steps of 25000 reached")
