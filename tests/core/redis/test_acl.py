"""Users and their rules: what is allowed, what is refused, what a bad rule leaves unchanged."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.model.limits import Limits
from headgate.core.redis.acl import AccessControl, AccessError, User
from headgate.errors import LimitReached

KNOWN = {"get", "publish", "subscribe", "client", "client|id", "client|list", "@pubsub", "@slow"}
PUBSUB = ("pubsub", "slow")


def user(*rules: bytes) -> User:
    return AccessControl().set_user(b"bob", rules, KNOWN)


def refusal(*rules: bytes) -> str:
    with pytest.raises(AccessError) as refused:
        user(*rules)
    return str(refused.value)


# Who somebody is.


def test_without_a_password_everybody_is_the_default_user_who_may_do_everything() -> None:
    access = AccessControl()
    entrant = access.entrant()
    assert entrant is not None
    assert entrant.name == "default"
    assert entrant.is_unrestricted
    assert not access.needs_password
    assert access.authenticate(b"default", b"whatever") is entrant


def test_with_a_password_nobody_is_anybody_before_it_was_said() -> None:
    access = AccessControl("secret")
    assert access.entrant() is None
    assert access.needs_password
    assert access.authenticate(b"default", b"wrong") is None
    said = access.authenticate(b"default", b"secret")
    assert said is not None
    assert said.is_unrestricted


def test_the_password_of_the_default_user_can_change_and_go() -> None:
    access = AccessControl("old")
    access.set_default_password("new \udcff")
    assert access.authenticate(b"default", b"old") is None
    assert access.authenticate(b"default", b"new \xff") is not None
    access.set_default_password(None)
    assert access.entrant() is not None


def test_a_default_user_that_is_off_is_nobody() -> None:
    access = AccessControl()
    access.set_user(b"default", [b"off"])
    assert access.entrant() is None
    assert access.authenticate(b"default", b"") is None


def test_a_new_user_is_off_and_may_do_nothing() -> None:
    access = AccessControl()
    bob = access.set_user(b"bob", [])
    assert access.authenticate(b"bob", b"") is None
    assert not bob.may_run("get", ("fast",))
    assert not bob.may_use_key(b"k")
    assert not bob.may_use_channel(b"c")
    assert not bob.may_use_pattern(b"*")
    assert not bob.is_unrestricted


def test_a_user_that_is_on_but_has_no_password_can_be_nobody() -> None:
    access = AccessControl()
    access.set_user(b"bob", [b"on"])
    assert access.authenticate(b"bob", b"") is None


def test_any_of_several_passwords_will_do_until_it_is_removed() -> None:
    access = AccessControl()
    digest = sha256(b"three").hexdigest().encode()
    bob = access.set_user(b"bob", [b"on", b">one", b">two", b"#" + digest])
    for password in (b"one", b"two", b"three"):
        assert access.authenticate(b"bob", password) is bob
    access.set_user(b"bob", [b"<one", b"!" + digest])
    assert access.authenticate(b"bob", b"one") is None
    assert access.authenticate(b"bob", b"two") is bob
    assert access.authenticate(b"bob", b"three") is None


def test_nopass_forgets_passwords_and_a_password_ends_nopass() -> None:
    access = AccessControl()
    bob = access.set_user(b"bob", [b"on", b">one", b"nopass"])
    assert access.authenticate(b"bob", b"anything") is bob
    access.set_user(b"bob", [b">two"])
    assert access.authenticate(b"bob", b"anything") is None
    assert access.authenticate(b"bob", b"one") is None
    assert access.authenticate(b"bob", b"two") is bob
    access.set_user(b"bob", [b"resetpass"])
    assert access.authenticate(b"bob", b"two") is None


def test_passwords_are_kept_as_digests() -> None:
    bob = user(b">secret")
    assert list(bob.rules.passwords) == [sha256(b"secret").hexdigest()]
    assert b"secret" not in bytes(bob)


def test_nobody_is_a_user_that_does_not_exist() -> None:
    assert AccessControl().authenticate(b"nobody", b"") is None
    assert AccessControl().authenticate(b"\xff", b"") is None


# Commands.


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ((b"+publish",), {"publish"}),
        ((b"+@pubsub",), {"publish", "subscribe"}),
        ((b"+@pubsub", b"-publish"), {"subscribe"}),
        ((b"-publish", b"+@pubsub"), {"publish", "subscribe"}),
        ((b"+publish", b"-@pubsub"), set()),
        ((b"allcommands", b"-@pubsub"), {"get", "client|id", "client|list"}),
        ((b"+@all", b"-client"), {"get", "publish", "subscribe"}),
        ((b"+client",), {"client|id", "client|list"}),
        ((b"+client|id",), {"client|id"}),
        ((b"+client", b"-client|id"), {"client|list"}),
        ((b"-client|id", b"+client"), {"client|id", "client|list"}),
        ((b"+client|id", b"-client"), set()),
        ((b"+@all", b"-@all"), set()),
        ((b"+publish", b"nocommands"), set()),
        ((b"+PUBLISH", b"+@PubSub", b"-Subscribe"), {"publish"}),
        ((b"+publish", b"reset"), set()),
    ],
)
def test_the_last_rule_that_speaks_of_a_command_decides(
    rules: tuple[bytes, ...], allowed: set[str]
) -> None:
    bob = user(*rules)
    commands = {
        "get": ("fast",),
        "publish": ("pubsub", "fast"),
        "subscribe": PUBSUB,
        "client|id": ("slow",),
        "client|list": ("admin",),
    }
    assert {name for name, of in commands.items() if bob.may_run(name, of)} == allowed


def test_a_command_whose_name_begins_like_another_is_not_meant() -> None:
    bob = AccessControl().set_user(b"bob", [b"+get"], {"get", "getex"})
    assert not bob.may_run("getex", ("fast",))


def test_what_one_rule_makes_superfluous_is_not_kept() -> None:
    rules = (b"+client|id", b"-client|list", b"+@pubsub", b"+client", b"-@pubsub", b"-client|id")
    assert user(*rules).rules.command_text == "-@all +client -@pubsub -client|id"
    assert user(*rules, b"+@all").rules.command_text == "+@all"


# Keys and channels.


def test_a_channel_has_to_match_a_pattern_of_the_rules() -> None:
    """RESP-77."""
    bob = user(b"&f*o", b"&news.?")
    assert bob.may_use_channel(b"foo")
    assert bob.may_use_channel(b"news.1")
    assert not bob.may_use_channel(b"other")
    assert not bob.may_use_channel(b"news.12")


def test_a_pattern_has_to_be_one_of_the_rules_letter_by_letter() -> None:
    """RESP-77."""
    bob = user(b"&news.*", b"&f*o")
    assert bob.may_use_pattern(b"news.*")
    assert not bob.may_use_pattern(b"news.x*")
    assert not bob.may_use_pattern(b"foo")
    assert not bob.may_use_pattern(b"*")


@pytest.mark.parametrize("rule", [b"allchannels", b"&*", b"AllChannels"])
def test_who_may_use_all_channels_may_use_all_patterns(rule: bytes) -> None:
    bob = user(b"&x", rule)
    assert bob.may_use_channel(b"any")
    assert bob.may_use_pattern(b"a[n]*")
    assert not user(rule, b"resetchannels").may_use_channel(b"any")


def test_keys_are_matched_by_patterns_of_their_own() -> None:
    bob = user(b"~k*", b"&c*")
    assert bob.may_use_key(b"k1")
    assert not bob.may_use_key(b"c1")
    assert not bob.may_use_channel(b"k1")
    assert user(b"~*").may_use_key(b"any")
    assert not user(b"allkeys", b"resetkeys").may_use_key(b"any")


def test_unrestricted_is_who_may_use_all_commands_keys_and_channels() -> None:
    everything = (b"+@all", b"~*", b"&*")
    assert user(*everything).is_unrestricted
    assert user(*everything, b"+get").is_unrestricted
    assert not user(*everything, b"-get").is_unrestricted
    assert not user(*everything, b"resetkeys").is_unrestricted
    assert not user(*everything, b"resetchannels").is_unrestricted
    assert not user(b"~*", b"&*", b"+get").is_unrestricted


# Changing.


def test_a_changed_user_is_the_same_user() -> None:
    """Sessions hold it, and are under the new rules at once."""
    access = AccessControl()
    bob = access.set_user(b"bob", [b"+@all", b"~*", b"&*"])
    assert access.set_user(b"bob", [b"resetchannels", b"&news"]) is bob
    assert not bob.is_unrestricted
    assert not bob.may_use_channel(b"sport")
    assert bob.may_run("get", ())


def test_a_bad_rule_changes_nothing_of_the_user() -> None:
    access = AccessControl()
    rules = [b"on", b">pw", b"+get", b"~k", b"&c"]
    bob = access.set_user(b"bob", rules, KNOWN)
    before = bytes(bob)
    with pytest.raises(AccessError):
        access.set_user(b"bob", [b"off", b"nopass", b"-get", b"resetkeys", b"&d", b"+nope"], KNOWN)
    assert bytes(bob) == before
    with pytest.raises(AccessError):
        access.set_user(b"eve", [b"on", b"+nope"], KNOWN)
    assert access.get(b"eve") is None


@pytest.mark.parametrize("rule", [b"+nope", b"-nope", b"+@nope", b"+", b"+client|nope", b"+get|x"])
def test_a_rule_on_an_unknown_command_or_category_is_refused(rule: bytes) -> None:
    text = f"Error in ACL SETUSER modifier '{rule.decode()}'"
    assert refusal(rule) == f"{text}: Unknown command or category name in ACL"


@pytest.mark.parametrize("rule", [b"bad", b"", b"&a b", b"~a\0", b"%R~x", b"(+get)", b"on "])
def test_what_is_no_rule_is_refused(rule: bytes) -> None:
    assert refusal(rule) == f"Error in ACL SETUSER modifier '{rule.decode()}': Syntax error"


@pytest.mark.parametrize("rule", [b"<pw", b"!" + b"a" * 64])
def test_a_password_that_is_not_there_cannot_be_removed(rule: bytes) -> None:
    assert refusal(rule).endswith(
        ": The password you are trying to remove from the user does not exist"
    )


@pytest.mark.parametrize("digest", [b"abc", b"A" * 64, b"a" * 65, b"a" * 64 + b"\n"])
def test_a_digest_is_64_hexadecimal_digits(digest: bytes) -> None:
    assert ": The password hash must be exactly 64 characters" in refusal(b"#" + digest)


def test_a_pattern_beside_all_is_refused() -> None:
    assert refusal(b"allkeys", b"~x") == (
        "Error in ACL SETUSER modifier '~x': Adding a pattern after the * pattern (or the 'allkeys'"
        " flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty"
        " list of patterns"
    )
    assert refusal(b"&*", b"&x") == (
        "Error in ACL SETUSER modifier '&x': Adding a pattern after the * pattern (or the"
        " 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to"
        " start with an empty list of channels"
    )


@pytest.mark.parametrize("name", [b"a b", b"a\0", b"a\n", b"\xff"])
def test_a_name_that_would_spoil_a_list_is_refused(name: bytes) -> None:
    with pytest.raises(AccessError, match="Usernames"):
        AccessControl().set_user(name, [])


def test_deleted_users_are_returned_and_unknown_names_are_passed_over() -> None:
    access = AccessControl()
    bob = access.set_user(b"bob", [b"on", b"nopass"])
    assert access.delete_users([b"bob", b"nobody", b"bob"]) == [bob]
    assert access.get(b"bob") is None
    assert access.authenticate(b"bob", b"") is None
    assert access.set_user(b"bob", []) is not bob


def test_the_default_user_stays_and_so_do_those_named_with_it() -> None:
    access = AccessControl()
    access.set_user(b"bob", [])
    with pytest.raises(AccessError, match="The 'default' user cannot be removed"):
        access.delete_users([b"bob", b"default"])
    assert [user.name for user in access.users()] == ["bob", "default"]


# Lists.


def test_a_line_that_redis_made_is_understood() -> None:
    line = b"on nopass sanitize-payload ~* resetchannels &news -@all +@pubsub"
    bob = AccessControl().set_user(b"bob", line.split(), KNOWN)
    assert bytes(bob) == b"user bob on nopass ~* resetchannels &news -@all +@pubsub"


def test_the_lines_of_a_list_are_those_of_redis() -> None:
    access = AccessControl()
    access.set_user(
        b"bob", [b"on", b">pw", b"+@pubsub", b"-publish", b"&f*o", b"~k*", b"~l"], KNOWN
    )
    access.set_user(b"ann", [])
    assert [bytes(user) for user in access.users()] == [
        b"user ann off resetchannels -@all",
        b"user bob on #30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4 ~k* ~l"
        b" resetchannels &f*o -@all +@pubsub -publish",
        b"user default on nopass ~* &* +@all",
    ]


RULES = (
    b"on off nopass resetpass >one >two allkeys resetkeys ~a* allchannels resetchannels &a* &b"
    b" +@all -@all +publish -get +@pubsub -@slow +client -client|id reset"
)


@given(st.lists(st.sampled_from(RULES.split()), max_size=12))
def test_a_line_read_as_rules_makes_the_same_user(rules: list[bytes]) -> None:
    access = AccessControl()
    try:
        bob = access.set_user(b"bob", rules, KNOWN)
    except AccessError:
        return
    _, _, *again = bytes(bob).split(b" ")
    assert bytes(access.set_user(b"bob", [b"reset", *again], KNOWN)) == bytes(bob)
    assert bytes(AccessControl().set_user(b"bob", again, KNOWN)) == bytes(bob)


# Limits.


def test_there_are_so_many_users_and_no_more() -> None:
    access = AccessControl(limits=Limits(users=2))
    access.set_user(b"bob", [])
    with pytest.raises(LimitReached, match="users"):
        access.set_user(b"eve", [])
    access.set_user(b"bob", [b"on"])
    access.delete_users([b"bob"])
    access.set_user(b"eve", [])


def test_a_user_has_so_many_rules_and_no_more() -> None:
    access = AccessControl(limits=Limits(rules_per_user=4))
    four = [b">pw", b"+get", b"~k", b"&c"]
    bob = access.set_user(b"bob", four, KNOWN)
    access.set_user(b"bob", four, KNOWN)
    with pytest.raises(LimitReached, match="rules_per_user"):
        access.set_user(b"bob", [b"&d"])
    assert not bob.may_use_channel(b"d")
    access.set_user(b"bob", [b"resetkeys", b"&d"])
    assert bob.may_use_channel(b"d")
