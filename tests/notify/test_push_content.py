"""What is pushed: sealed, in JSON, the newest last, and never too large."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.crypto.hsalsa20 import hsalsa20
from headgate.errors import Malformed
from headgate.notify.apns import BODY_BYTES_MAX
from headgate.notify.push_content import (
    ENTRIES_MAX,
    PADDED,
    TEXT_BYTES_MAX,
    CheckPush,
    CodePush,
    MessagesPush,
    NoticeEntry,
    Push,
    apns_json,
    entries_text,
    open_push,
    parse_entries,
    parse_push,
    seal,
    seal_code,
    seal_entries,
    web_push_json,
)
from headgate.notify.web_push import PLAINTEXT_BYTES_MAX
from tests.support.ntf_examples import CODE, METADATA, NONCE, ROUTER, router_addresses
from tests.support.smp_examples import NOTIFIER, SECONDS

SECRET = bytes.fromhex("3c528e9fd39731b15d10de8feb5f71d3f65b73c993581dedb03315a9ed177730")
KEY = hsalsa20(SECRET)
ENTRY = NoticeEntry(ROUTER.text, NOTIFIER, SECONDS, NONCE, METADATA)
ENTRY_TEXT = (
    "smp://mr2ahu8oDg5hvmjC-C6p_Yc4YsFC-JJi5IDZOU7fqAg=@relay.example:5223/"
    "wMHCw8TFxsfIycrLzM3Oz9DR0tPU1dbX 1700000000 0NHS09TV1tfY2drb3N3e3-Dh4uPk5ebn "
    + urlsafe_b64encode(METADATA).decode()
)


def test_an_entry_has_its_text() -> None:
    assert ENTRY.text == ENTRY_TEXT
    assert len(ENTRY.text) == 339
    assert NoticeEntry.parse(ENTRY_TEXT) == ENTRY


@pytest.mark.parametrize(
    ("text", "start", "digest"),
    [
        (
            CODE,
            "2033e517237d83f20893e0297e0747a5300ca8e0054f90ca29c07ec79efa432d",
            "8ff223098392398b5e237725bd641b430513770e9024c18b87e8b19b540e46b8",
        ),
        (
            ENTRY_TEXT.encode(),
            "73a09e42ebefd597a0c8f5d7ba63185e317f5b0cf7f63b60c235c42f7c04f7cf",
            "1e29e64888c5a93b5a407d01af52657b2e087968eed222c1928ca13eab8d0f72",
        ),
    ],
)
def test_what_is_sealed_has_its_bytes(text: bytes, start: str, digest: str) -> None:
    sealed = seal(KEY, NONCE, text, 3072)
    assert (len(sealed), sealed[:32].hex(), sha256(sealed).hexdigest()) == (3088, start, digest)
    assert open_push(KEY, CodePush(NONCE, sealed)) == text


def entry(number: int, router: str = ROUTER.text) -> NoticeEntry:
    return NoticeEntry(router, bytes([number]) * 24, SECONDS + number, NONCE, METADATA)


def test_six_entries_fit_also_with_an_onion_host() -> None:
    onion = ROUTER.text.replace("relay.example", f"relay.example,{'a' * 56}.onion")
    for router in (ROUTER.text, onion):
        entries = [entry(number, router) for number in range(6)]
        assert parse_entries(entries_text(entries)) == entries


def test_of_eight_the_six_newest_are_pushed_the_newest_last() -> None:
    entries = [entry(number) for number in range(8)]
    shuffled = [entries[at] for at in (3, 7, 0, 5, 1, 6, 4, 2)]
    assert parse_entries(entries_text(shuffled)) == entries[2:]


def test_of_one_second_the_last_one_is_the_newest() -> None:
    entries = [NoticeEntry(ROUTER.text, bytes([n]), SECONDS, NONCE, METADATA) for n in range(8)]
    assert parse_entries(entries_text(entries)) == entries[2:]


def test_what_does_not_fit_is_left_out_the_oldest_first() -> None:
    router = ROUTER.text.replace("relay.example", "relay.example" + ",other.example" * 20)
    entries = [entry(number, router) for number in range(6)]
    text = entries_text(entries)
    left = parse_entries(text)
    assert len(text) <= TEXT_BYTES_MAX < len(text) + 1 + len(entries[0].text)
    assert left == entries[-len(left) :]
    assert 1 < len(left) < 6


def test_an_entry_that_fills_the_push_fits_and_one_more_byte_does_not() -> None:
    filler = TEXT_BYTES_MAX - len(ENTRY.text)
    longest = NoticeEntry("x" * filler + ROUTER.text, NOTIFIER, SECONDS, NONCE, METADATA)
    longer = NoticeEntry("x" + longest.router, NOTIFIER, SECONDS, NONCE, METADATA)
    assert len(entries_text([longest])) == TEXT_BYTES_MAX
    push = seal_entries(KEY, NONCE, [longest])
    assert (len(push.sealed), open_push(KEY, push)) == (PADDED + 16, longest.text.encode())
    assert entries_text([longer]) == entries_text([]) == b""


def test_what_stands_between_two_entries_takes_room_too() -> None:
    def two(filler: int) -> list[NoticeEntry]:
        older = NoticeEntry("x" * filler + ROUTER.text, NOTIFIER, SECONDS - 1, NONCE, METADATA)
        return [older, ENTRY]

    filler = TEXT_BYTES_MAX - 2 * len(ENTRY.text) - 1
    assert len(entries_text(two(filler))) == TEXT_BYTES_MAX
    assert entries_text(two(filler + 1)) == ENTRY_TEXT.encode()


PUSHES: dict[str, tuple[Push, dict[str, object], dict[str, object]]] = {
    "code": (
        seal_code(KEY, NONCE, CODE),
        {"content-available": 1},
        {"nonce": "0NHS09TV1tfY2drb3N3e3-Dh4uPk5ebn", "verification": seal(KEY, NONCE, CODE)},
    ),
    "messages": (
        seal_entries(KEY, NONCE, [ENTRY]),
        {
            "alert": "Encrypted message or another app event",
            "category": "NTF_CAT_CHECK_MESSAGE",
            "mutable-content": 1,
        },
        {
            "message": seal(KEY, NONCE, ENTRY_TEXT.encode()),
            "nonce": "0NHS09TV1tfY2drb3N3e3-Dh4uPk5ebn",
        },
    ),
    "periodic": (CheckPush(), {"content-available": 1}, {"checkMessages": True}),
}


@pytest.mark.parametrize("name", PUSHES)
def test_a_push_has_its_json(name: str) -> None:
    push, aps, data = PUSHES[name]
    fields = {
        key: urlsafe_b64encode(each).decode() if isinstance(each, bytes) else each
        for key, each in data.items()
    }

    def written(each: dict[str, object]) -> bytes:
        return json.dumps(each, separators=(",", ":"), sort_keys=True).encode()

    assert web_push_json(push) == written(fields)
    assert apns_json(push) == written({"aps": aps, "notificationData": fields})
    assert parse_push(web_push_json(push)) == parse_push(apns_json(push)) == push


def test_the_periodic_push_is_written_out() -> None:
    assert apns_json(CheckPush()) == (
        b'{"aps":{"content-available":1},"notificationData":{"checkMessages":true}}'
    )
    assert web_push_json(CheckPush()) == b'{"checkMessages":true}'


def test_the_largest_push_is_what_both_providers_take() -> None:
    push = seal_entries(KEY, NONCE, [entry(number) for number in range(6)])
    assert PADDED == 2880
    assert len(apns_json(push)) == 4054 <= BODY_BYTES_MAX
    assert len(web_push_json(push)) == 3921 <= PLAINTEXT_BYTES_MAX
    upstream = MessagesPush(NONCE, seal(KEY, NONCE, b"", 3072))
    assert len(apns_json(upstream)) == 4310 > BODY_BYTES_MAX


@given(st.integers(0, 6))
def test_a_provider_does_not_see_how_many_messages_there_are(count: int) -> None:
    push = seal_entries(KEY, NONCE, [entry(number) for number in range(count)])
    assert len(push.sealed) == PADDED + 16


def test_nobody_else_can_open_a_push() -> None:
    with pytest.raises(Malformed):
        open_push(hsalsa20(bytes(32)), seal_code(KEY, NONCE, CODE))


entries = st.builds(
    NoticeEntry,
    router_addresses.map(lambda address: address.text),
    st.binary(min_size=1, max_size=24),
    st.integers(0, 2**40),
    st.binary(min_size=24, max_size=24),
    st.binary(max_size=255),
)


@given(entries)
def test_an_entry_is_read_as_it_was_written(entry: NoticeEntry) -> None:
    assert NoticeEntry.parse(entry.text) == entry


@given(st.lists(entries, min_size=1, max_size=10))
def test_the_newest_is_always_there_and_the_last(several: list[NoticeEntry]) -> None:
    text = entries_text(several)
    left = parse_entries(text)
    assert len(text) <= TEXT_BYTES_MAX
    assert len(left) <= ENTRIES_MAX
    in_order = sorted(several, key=lambda entry: entry.seconds)
    assert left == in_order[-len(left) :]


@pytest.mark.parametrize(
    "text",
    [
        ENTRY_TEXT + " more",
        ENTRY_TEXT.replace(" ", "  ", 1),
        ENTRY_TEXT.replace("1700000000", "now"),
        ENTRY_TEXT.replace("1700000000", "-"),
        ENTRY_TEXT.replace("1700000000", "1" * 20),
        ENTRY_TEXT.replace("smp://", ""),
        ENTRY_TEXT.replace("wMHC", "!!!!"),
        ENTRY_TEXT + ";",
        ENTRY_TEXT + "ä",
    ],
)
def test_what_is_no_entry_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        parse_entries(text.encode())


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"{}",
        b'{"notificationData":[]}',
        b'{"nonce":"AAAA","message":"AAAA"}',
        b'{"nonce":"0NHS09TV1tfY2drb3N3e3-Dh4uPk5ebn"}',
        b'{"nonce":"0NHS09TV1tfY2drb3N3e3-Dh4uPk5ebn","message":1}',
        b'{"nonce":1,"message":"AAAA"}',
        b'{"checkMessages":false}',
    ],
)
def test_what_is_no_push_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_push(data)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_entries_or_malformed(data: bytes) -> None:
    for text in (data, ENTRY_TEXT.encode() + data, ENTRY_TEXT.encode() + b";" + data):
        try:
            read = parse_entries(text)
        except Malformed:
            continue
        assert read


ITEMS = st.none() | st.booleans() | st.integers() | st.text()
FIELDS = st.dictionaries(
    st.sampled_from(["nonce", "message", "verification", "checkMessages", "notificationData"]),
    ITEMS | st.just("0NHS09TV1tfY2drb3N3e3-Dh4uPk5ebn") | st.dictionaries(st.text(), ITEMS),
)


@given(
    st.binary(max_size=200)
    | st.builds(json.dumps, FIELDS | st.lists(ITEMS)).map(str.encode)
    | st.just(b"[" * 100_000)
)
def test_any_bytes_are_a_push_or_malformed(data: bytes) -> None:
    try:
        push = parse_push(data)
    except Malformed:
        return
    assert parse_push(web_push_json(push)) == push
