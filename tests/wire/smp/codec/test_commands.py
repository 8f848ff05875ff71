"""Commands in every version: their bytes, what is wrong with others, and who may give them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.smp_commands import check
from headgate.core.model.parties import Purpose
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.commands import (
    BadCommand,
    Command,
    LSet,
    New,
    NewLink,
    NKey,
    RKey,
    SmpAck,
    SmpSend,
    Subs,
    check_credentials,
    encode_command,
    parse_command,
)
from tests.support.repository import CORPORA
from tests.support.smp_examples import (
    LINK,
    LONG_KEY,
    MESSAGE,
    NOTIFIER_DH,
    NOTIFIER_KEY,
    RECIPIENT_DH,
    RECIPIENT_KEY,
    SENDER,
    SENDER_KEY,
    TALLY,
    VERSIONS,
    X448_KEY,
    dh_keys,
    larges,
    purposes,
    queue_keys,
    strings,
    tallies,
)

CORPUS = CORPORA / "smp_commands"

KEYS = (
    "4e4557202c302a300506032b65700321008a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b4"
    "0f6f5c2c302a300506032b656e0321007b0d47d93427f8311160781c7c733fd89f88970aef490d8aa0ee19a4cb8a"
    "1b14"
)

EXAMPLES: dict[str, tuple[Command, int, str]] = {
    "NEW v8": (New(RECIPIENT_KEY, RECIPIENT_DH, None, True), 8, KEYS + "53"),
    "NEW v8 with a password": (
        New(RECIPIENT_KEY, RECIPIENT_DH, b"pass", True),
        8,
        KEYS + "410470617373" + "53",
    ),
    "NEW v9": (
        New(RECIPIENT_KEY, RECIPIENT_DH, None, True, Purpose.MESSAGING),
        9,
        KEYS + "305354",
    ),
    "NEW": (
        New(RECIPIENT_KEY, RECIPIENT_DH, None, True, Purpose.MESSAGING),
        19,
        KEYS + "3053314d3030",
    ),
    "NEW with a notifier": (
        New(
            *(RECIPIENT_KEY, RECIPIENT_DH, b"pass", False, Purpose.CONTACT),
            notifier=NKey(NOTIFIER_KEY, NOTIFIER_DH),
        ),
        19,
        KEYS
        + "31047061737343314330312c302a300506032b65700321008a875fff1eb38451577acd5afee405456568"
        "dd7c89e090863a0557bc7af49f172c302a300506032b656e032100219e4d800da968d2a5fcb009c784f4746c71"
        "38edb9ee4844b739e830b05cf424",
    ),
    "SUBS": (Subs(TALLY), 19, "53554253200000000000000002106d91253224465d5e85d6ce0ff1795879"),
    "SEND": (SmpSend(False, b"hello"), 19, "53454e4420462068656c6c6f"),
    "ACK": (SmpAck(MESSAGE), 19, "41434b2018808182838485868788898a8b8c8d8e8f9091929394959697"),
    "RKEY": (
        RKey((RECIPIENT_KEY, NOTIFIER_KEY)),
        19,
        "524b455920022c302a300506032b65700321008a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf374"
        "8801b40f6f5c2c302a300506032b65700321008a875fff1eb38451577acd5afee405456568dd7c89e090863a05"
        "57bc7af49f17",
    ),
    "LSET": (
        LSet(LINK, b"fixed data", b"user data"),
        19,
        "4c5345542018e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7000a6669786564206461746100"
        "09757365722064617461",
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_commands_have_their_bytes(name: str) -> None:
    """WIRE-13, WIRE-14, WIRE-15, WIRE-16, WIRE-23, WIRE-25, WIRE-32, WIRE-33, WIRE-34."""
    command, version, data = EXAMPLES[name]
    assert encode_command(command, version).hex() == data
    assert parse_command(bytes.fromhex(data), version) == command


passwords = st.text("abcXYZ019!#-._~", max_size=20).map(str.encode)
new_links = st.builds(NewLink, strings, larges, larges)
contact_links = st.builds(NewLink, strings, larges, larges, strings)
notifiers = st.builds(NKey, queue_keys, dh_keys)


@st.composite
def news(draw: st.DrawFn, version: int) -> New:
    """NEW with as much as the version has words for."""
    purpose = link = notifier = None
    if version >= 9:
        purpose = draw(purposes if version < 15 else st.none() | purposes)
    if version >= 15 and purpose is not None:
        links = new_links if purpose is Purpose.MESSAGING else contact_links
        link = draw(st.none() | links)
    if version >= 17:
        notifier = draw(st.none() | notifiers)
    password = draw(st.none() | passwords)
    subscribe = draw(st.booleans())
    return New(draw(queue_keys), draw(dh_keys), password, subscribe, purpose, link, notifier)


def commands(version: int) -> st.SearchStrategy[Command]:
    expected = tallies if version >= 19 else st.none()
    every: dict[type[Command], st.SearchStrategy[Command]] = {
        New: news(version),
        Subs: st.builds(Subs, expected),
        c.NSubs: st.builds(c.NSubs, expected),
        c.Key: st.builds(c.Key, queue_keys),
        c.SKey: st.builds(c.SKey, queue_keys),
        RKey: st.builds(RKey, st.lists(queue_keys, min_size=1, max_size=5).map(tuple)),
        LSet: st.builds(LSet, strings, larges, larges),
        c.LKey: st.builds(c.LKey, queue_keys),
        NKey: notifiers,
        SmpAck: st.builds(SmpAck, strings),
        SmpSend: st.builds(SmpSend, st.booleans(), st.binary()),
        c.Prxy: st.builds(
            *(c.Prxy, st.lists(strings, min_size=1, max_size=3).map(tuple), strings, strings),
            st.none() | passwords,
        ),
        c.PFwd: st.builds(c.PFwd, st.integers(0, 65535), dh_keys, st.binary()),
        c.RFwd: st.builds(c.RFwd, st.binary()),
        c.Rslv: st.builds(c.Rslv, strings),
    }
    bare = [type(one) for one in c.BARE.values() if type(one) not in every]
    every |= {kind: st.builds(kind) for kind in bare}
    assert len(every) == 25, "every command has a strategy"
    return st.one_of([every[kind] for kind in every if c.SINCE.get(kind.tag, 0) <= version])


@pytest.mark.parametrize("version", [*VERSIONS, 20])
@given(st.data())
@settings(max_examples=80, deadline=None)
def test_a_command_is_read_as_it_was_written(version: int, data: st.DataObject) -> None:
    command = data.draw(commands(version))
    assert parse_command(encode_command(command, version), version) == command


def kind_of_error(data: bytes, version: int = 19) -> str:
    with pytest.raises(BadCommand) as caught:
        parse_command(data, version)
    return caught.value.kind


REPLIES = "IDS SOK SOKS OK MSG ALLS NID NMSG END DELD ENDS LNK INFO PONG ERR PKEY PRES RRES RNAME"


@pytest.mark.parametrize("tag", REPLIES.split())
def test_what_a_router_says_is_no_command(tag: str) -> None:
    """ACC-86."""
    assert kind_of_error(tag.encode()) == "UNKNOWN"
    assert kind_of_error(tag.encode() + b" \0") == "UNKNOWN"


@pytest.mark.parametrize(
    "data",
    [b"", b" ", b" SUB", b"SUB=", b"sub", b"HELLO", b"HELLO x", b"SUBSCRIBE x", b"\xff" * 9000],
)
def test_another_word_is_no_command(data: bytes) -> None:
    """ACC-86."""
    assert kind_of_error(data) == "UNKNOWN"


@pytest.mark.parametrize("tag", ["SUB", "NSUB", "LGET", "LDEL", "NDEL", "GET", "OFF", "DEL"])
def test_a_command_of_one_word_has_nothing_behind_it(tag: str) -> None:
    """ACC-87."""
    assert kind_of_error(tag.encode() + b" ") == "SYNTAX"
    assert kind_of_error(tag.encode() + b" x") == "SYNTAX"


@pytest.mark.parametrize("tag", sorted(c.PARAMETERS), ids=bytes.decode)
def test_parameters_must_be_there(tag: bytes) -> None:
    """ACC-87."""
    version = 20 if tag == c.Rslv.tag else 19
    assert kind_of_error(tag, version) == "SYNTAX"
    if tag != c.RFwd.tag:
        assert kind_of_error(tag + b" ", version) == "SYNTAX"


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_parameter_may_be_cut_or_followed_by_more(name: str) -> None:
    """ACC-87."""
    command, version, text = EXAMPLES[name]
    data = bytes.fromhex(text)
    start = len(command.tag) + 1
    ends = range(start, data.index(b"F") + 2 if isinstance(command, SmpSend) else len(data))
    assert {kind_of_error(data[:end], version) for end in ends} == {"SYNTAX"}
    if not isinstance(command, SmpSend):
        assert kind_of_error(data + b"\0", version) == "SYNTAX"


def with_key(key: bytes) -> bytes:
    return bytes((len(key),)) + key


@pytest.mark.parametrize("tag", ["KEY", "SKEY", "LKEY"])
def test_a_queue_takes_keys_of_three_kinds_only(tag: str) -> None:
    """ACC-87."""
    for key in (RECIPIENT_KEY, SENDER_KEY, LONG_KEY):
        command = parse_command(tag.encode() + b" " + with_key(key), 19)
        assert isinstance(command, (c.Key, c.SKey, c.LKey))
        assert (command.tag, command.key) == (tag.encode(), key)
    for key in (b"", X448_KEY, RECIPIENT_KEY[:-1], b"0" * 44):
        assert kind_of_error(tag.encode() + b" " + with_key(key)) == "SYNTAX"


@pytest.mark.parametrize(
    "data",
    [
        b"RKEY \0",
        b"RKEY \1" + with_key(X448_KEY),
        b"NKEY " + with_key(NOTIFIER_KEY) + with_key(NOTIFIER_KEY),
        b"PFWD \0\7" + with_key(NOTIFIER_KEY) + b"x",
        b"PRXY \0\0\0" + b"0",
        b"SEND Xx body",
        b"SEND T",
        b"SUBS \0\0\0\0\0\0\0\1\x0f" + bytes(15),
        bytes.fromhex(KEYS + "3058314d3030"),
        bytes.fromhex(KEYS + "3053315830"),
        bytes.fromhex(KEYS + "3053324d3030"),
    ],
)
def test_parameters_of_another_form_are_a_mistake(data: bytes) -> None:
    """ACC-87."""
    assert kind_of_error(data) == "SYNTAX"


@pytest.mark.parametrize("character", " @:/\n\x00\x7f\x80\xa0\xad")
def test_a_password_holds_what_an_address_can_hold(character: str) -> None:
    def new(password: bytes) -> bytes:
        return bytes.fromhex(KEYS) + b"1" + with_key(password) + b"S00"

    command = parse_command(new("pass-wörd".encode("latin-1")), 19)
    assert isinstance(command, New)
    assert command.password == b"pass-w\xf6rd"
    assert kind_of_error(new(b"pass" + character.encode("latin-1"))) == "SYNTAX"


def test_an_old_password_has_a_letter_before_it() -> None:
    command = New(RECIPIENT_KEY, RECIPIENT_DH, b"pass", False)
    assert encode_command(command, 7) == bytes.fromhex(KEYS) + b"A\4passC"
    assert parse_command(bytes.fromhex(KEYS) + b"A\4passC", 7) == command


def test_the_link_of_a_contact_is_chosen_by_the_client() -> None:
    link = NewLink(SENDER, b"fixed", b"user", LINK)
    contact = New(RECIPIENT_KEY, RECIPIENT_DH, None, True, Purpose.CONTACT, link)
    tail = with_key(SENDER) + b"\0\5fixed" + b"\0\4user"
    assert encode_command(contact, 16) == bytes.fromhex(KEYS) + b"0S1C1" + with_key(LINK) + tail
    link = NewLink(SENDER, b"fixed", b"user")
    messaging = New(RECIPIENT_KEY, RECIPIENT_DH, None, True, Purpose.MESSAGING, link)
    assert encode_command(messaging, 17) == bytes.fromhex(KEYS) + b"0S1M1" + tail + b"0"


def test_flags_of_later_versions_are_ignored() -> None:
    assert parse_command(b"SEND T body of words", 19) == SmpSend(True, b"body of words")
    assert parse_command(b"SEND Fabc body", 19) == SmpSend(False, b"body")


def test_what_follows_a_name_is_ignored() -> None:
    assert parse_command(b"RSLV \4namemore", 20) == c.Rslv(b"name")


@pytest.mark.parametrize("kind", [Subs, c.NSubs])
def test_a_service_says_what_it_expects_from_version_19_on(
    kind: type[Subs] | type[c.NSubs],
) -> None:
    """S001-5, S001-6."""
    bare, full = kind.tag, encode_command(kind(TALLY), 19)
    for version in (16, 17, 18):
        assert parse_command(bare, version) == kind(None)
        assert encode_command(kind(TALLY), version) == bare
        assert kind_of_error(full, version) == "SYNTAX"
        assert kind_of_error(bare + b" ", version) == "SYNTAX"
    assert parse_command(full, 19) == kind(TALLY)
    assert kind_of_error(bare, 19) == "SYNTAX"


SINCE = {
    8: ["PRXY", "PFWD", "RFWD"],
    9: ["SKEY"],
    15: ["RKEY", "LSET", "LKEY", "LGET", "LDEL"],
    16: ["SUBS", "NSUBS"],
    20: ["RSLV"],
}


@pytest.mark.parametrize(
    ("tag", "since"), [(tag, since) for since, tags in SINCE.items() for tag in tags]
)
def test_a_command_is_unknown_before_its_version(tag: str, since: int) -> None:
    """ACC-86, S001-4"""
    bare = tag.encode()
    for data in (bare, bare + b" ", bare + b" \x01\x02"):
        assert kind_of_error(data, since - 1) == "UNKNOWN"
    if tag != "RFWD":
        assert kind_of_error(bare + b" ", since) == "SYNTAX"


OTHERS = "SUB GET ACK KEY RKEY LSET LDEL NKEY NDEL OFF DEL QUE SKEY LKEY NSUB SUBS NSUBS"
CREDENTIALS: dict[str, tuple[str | None, str | None, str | None, str | None]] = {
    # with both, the entity only, the authorization only, neither
    **dict.fromkeys(OTHERS.split(), (None, "NO_AUTH", "NO_AUTH", "NO_AUTH")),
    "NEW": ("HAS_AUTH", "NO_AUTH", None, "NO_AUTH"),
    "SEND": (None, None, "NO_ENTITY", "NO_ENTITY"),
    "LGET": ("HAS_AUTH", None, "NO_ENTITY", "NO_ENTITY"),
    "PFWD": ("HAS_AUTH", None, "NO_ENTITY", "NO_ENTITY"),
    "PING": ("HAS_AUTH", "HAS_AUTH", "HAS_AUTH", None),
    "PRXY": ("HAS_AUTH", "HAS_AUTH", "HAS_AUTH", None),
    "RFWD": ("HAS_AUTH", "HAS_AUTH", "HAS_AUTH", None),
    "RSLV": ("HAS_AUTH", "HAS_AUTH", "HAS_AUTH", None),
}

ONE_OF_EACH: list[Command] = [
    *c.BARE.values(),
    *(command for command, version, _ in EXAMPLES.values() if version == 19),
    *(kind(RECIPIENT_KEY) for kind in (c.Key, c.SKey, c.LKey)),
    NKey(NOTIFIER_KEY, NOTIFIER_DH),
    c.Prxy((b"host",), b"5223", bytes(32)),
    c.PFwd(19, RECIPIENT_DH, b"sealed"),
    c.RFwd(b"sealed"),
    c.Rslv(b"name"),
]


@pytest.mark.parametrize("tag", CREDENTIALS)
def test_a_command_names_and_proves_what_it_needs(tag: str) -> None:
    """ACC-88."""
    command = next(one for one in ONE_OF_EACH if one.tag == tag.encode())
    shapes = [(True, True), (True, False), (False, True), (False, False)]
    assert tuple(check_credentials(command, *shape) for shape in shapes) == CREDENTIALS[tag]


def test_the_credentials_of_every_command_are_known() -> None:
    assert {tag.encode() for tag in CREDENTIALS} == {*c.BARE, *c.PARAMETERS}


tagged = st.builds(
    lambda tag, rest: tag + b" " + rest,
    st.sampled_from(sorted({*c.BARE, *c.PARAMETERS})),
    st.binary(max_size=200),
)


@settings(deadline=None)
@given(st.binary(max_size=200) | tagged)
def test_garbage_is_refused_and_nothing_worse(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_the_corpus_of_the_fuzzer_finds_nothing(path: Path) -> None:
    check(path.read_bytes())
