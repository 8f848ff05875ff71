"""The ratchet: bytes as others make them, and two parties over a channel that loses and repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha512
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.smp_ratchet import check
from headgate.crypto.kem import Kem, KemKeyPair
from headgate.errors import AlreadyDecrypted, Malformed, NotDecrypted, TooLong, TooManySkipped
from headgate.wire.smp.agent.agent_messages import ApplicationMessage as Body
from headgate.wire.smp.agent.agent_messages import MessageChain, ReplyQueues
from headgate.wire.smp.agent.ratchet import Decrypted, Ratchet, RatchetVersion
from headgate.wire.smp.agent.ratchet_messages import (
    EncryptedHeader,
    RatchetHeader,
    RatchetMessage,
)
from headgate.wire.smp.agent.ratchet_parameters import (
    KemAcceptance,
    KemProposal,
    RatchetParameters,
)
from headgate.wire.smp.agent.ratchet_start import OfferedKeys, answer_ratchet, join_ratchet
from headgate.wire.smp.agent.skipped_keys import GAP_MAX, KEPT_MAX, SkippedKey, SkippedKeys
from headgate.wire.smp.handshake import Versions
from tests.support.agent_examples import QUEUE_INFO, digest
from tests.support.ratchet_examples import (
    INITIATOR,
    JOINER,
    JOINER_FRESH,
    OFFER,
    OFFERED,
    CountingKem,
    x448,
)
from tests.support.repository import CORPORA

REPLY = ReplyQueues((QUEUE_INFO,), b"{}").encode()
HELLO = MessageChain().after_next(REPLY).number(Body(b"hello")).encode()
NOTHING = SkippedKeys()
SIZE = 100

V2, V3, BOTH = Versions(2, 2), Versions(3, 3), Versions(2, 3)


# Bytes.


def test_the_first_two_messages_of_a_joiner() -> None:
    joined = join_ratchet(OFFER, JOINER, JOINER_FRESH)
    assert joined.parameters == RatchetParameters(3, JOINER.public)
    ratchet, first = joined.ratchet.encrypt(REPLY, 14832)
    assert len(first) == 14974
    assert first[:32].hex() == "007c0003178348461d9c82966e4e05b299ee299fc8590b0131e3e95d296f624a"
    assert digest(first) == "c5645e8756c4765a1c6d8f22043f4d58c79a56e613e6ff13df89c057c9bbc1ff"
    ratchet, second = ratchet.encrypt(HELLO, 15840)
    assert len(second) == 15982
    assert second[:32].hex() == "007c00039c145b57c6bd102ba58cabf4ffc1662bc22b92b18f9d13f63fb11169"
    assert digest(second) == "1b22d939fbe6d8315ffb0b4f65a63f145c5095a93bcb5358a009b6f96258c23a"

    initiator = answer_ratchet(OFFERED, joined.parameters)
    opened = initiator.decrypt(NOTHING, first, x448(0xA3))
    assert opened.plaintext == REPLY
    assert opened.ratchet.decrypt(NOTHING, second, x448(0xA4)).plaintext == HELLO


def test_the_first_message_in_version_2() -> None:
    joined = join_ratchet(OFFER, JOINER, JOINER_FRESH, versions=V2)
    assert joined.parameters == RatchetParameters(2, JOINER.public)
    _, first = joined.ratchet.encrypt(HELLO, 15840)
    assert len(first) == 15980
    assert first[:32].hex() == "7b0002178348461d9c82966e4e05b299ee299f6933a780994f3baf9d45b28e63"
    assert digest(first) == "ec8ce6253a6dabd9a7e18134878b2936468dff3ea1a182359ecb66930e2ab9b8"
    initiator = answer_ratchet(OFFERED, joined.parameters)
    assert initiator.decrypt(NOTHING, first, x448(0xA3)).plaintext == HELLO


@pytest.mark.parametrize(
    ("versions", "kem", "header", "length"),
    [(V2, False, 123, 1), (BOTH, False, 124, 2), (BOTH, True, 2346, 2), (V2, True, 123, 1)],
)
def test_sizes_do_not_depend_on_what_is_in_them(
    versions: Versions, kem: bool, header: int, length: int
) -> None:
    joined = join_ratchet(OFFER, JOINER, JOINER_FRESH, CountingKem() if kem else None, versions)
    ratchet = joined.ratchet
    for plaintext in (b"", b"x" * 98):
        ratchet, message = ratchet.encrypt(plaintext, SIZE)
        assert len(message) == length + header + 16 + SIZE
        assert len(RatchetMessage.parse(message).header) == header


def test_a_plaintext_that_does_not_fit_changes_nothing() -> None:
    ratchet = join_ratchet(OFFER, JOINER, JOINER_FRESH).ratchet
    with pytest.raises(TooLong) as raised:
        ratchet.encrypt(b"x" * 99, SIZE)
    assert (raised.value.size, raised.value.limit) == (99, 98)
    assert ratchet.sent == 0


def test_a_key_may_be_kept_and_used_later() -> None:
    """As a store does that keeps the key in place of the bytes."""
    parties = Parties.meet()
    before = parties.joiner.ratchet
    after, key = before.advance()
    assert (after, key.seal(b"one", SIZE)) == before.encrypt(b"one", SIZE)
    assert parties.initiator.receive(key.seal(b"one", SIZE)).plaintext == b"one"


# Two parties.


def counted_keys(first: int) -> Iterator[bytes]:
    number = first
    while True:
        number += 1
        yield sha512(b"%d" % number).digest()[:56]


class Party:
    """One side, with what its store would keep."""

    def __init__(self, ratchet: Ratchet, kem: Kem | None, fresh: Iterator[bytes]) -> None:
        self.ratchet = ratchet
        self.skipped = NOTHING
        self.kem = kem
        self.fresh = fresh

    def send(self, plaintext: bytes) -> bytes:
        self.ratchet, message = self.ratchet.encrypt(plaintext, SIZE)
        return message

    def receive(self, message: bytes) -> Decrypted:
        opened = self.ratchet.decrypt(self.skipped, message, next(self.fresh), self.kem)
        self.ratchet = opened.ratchet
        self.skipped = opened.skipped
        return opened

    def refuse(self, message: bytes, error: type[Malformed] = Malformed) -> None:
        """It raises, and nothing is another than before."""
        before = (self.ratchet, self.ratchet.encode(), self.skipped)
        with pytest.raises(error):
            self.receive(message)
        assert (self.ratchet, self.ratchet.encode(), self.skipped) == before

    def restart(self) -> None:
        """What was stored is all there is."""
        again = Ratchet.decode(self.ratchet.encode())
        assert again == self.ratchet
        self.ratchet = again


class Parties(NamedTuple):
    """Initiator and joiner, right after they have agreed."""

    initiator: Party
    joiner: Party

    @classmethod
    def meet(
        cls,
        versions: tuple[Versions, Versions] = (BOTH, BOTH),
        kems: tuple[Kem | None, Kem | None] = (None, None),
        *,
        is_offered: bool = True,
    ) -> Parties:
        own, other = kems
        offered = OfferedKeys(INITIATOR, own.generate() if own and is_offered else None)
        joined = join_ratchet(offered.offer(versions[0]), JOINER, JOINER_FRESH, other, versions[1])
        ratchet = answer_ratchet(offered, joined.parameters, own, versions[0])
        return cls(
            Party(ratchet, own, counted_keys(1000)),
            Party(joined.ratchet, other, counted_keys(2000)),
        )

    def turn(self, text: bytes = b"x") -> None:
        """One message of each."""
        assert self.initiator.receive(self.joiner.send(text)).plaintext == text
        assert self.joiner.receive(self.initiator.send(text)).plaintext == text


version_mixes = st.sampled_from([(BOTH, BOTH), (V2, BOTH), (BOTH, V2), (V3, BOTH), (BOTH, V3)])
kem_mixes = st.tuples(st.booleans(), st.booleans(), st.booleans())
actions = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "deliver", "deliver", "repeat", "lose"]),
        st.booleans(),
        st.integers(0, 50),
    ),
    min_size=20,
    max_size=60,
)


@settings(deadline=None, max_examples=150)
@given(version_mixes, kem_mixes, actions)
def test_every_message_is_opened_once_whatever_the_channel_does(
    versions: tuple[Versions, Versions],
    kems: tuple[bool, bool, bool],
    steps: list[tuple[str, bool, int]],
) -> None:
    own = CountingKem() if kems[0] else None
    other = CountingKem(1_000_000) if kems[1] else None
    parties = Parties.meet(versions, (own, other), is_offered=kems[2])
    channels: dict[Party, list[tuple[bytes, bytes]]] = {party: [] for party in parties}
    delivered: dict[Party, list[bytes]] = {party: [] for party in parties}
    lost = 0
    for number, (action, is_initiator, index) in enumerate(steps):
        sender, recipient = parties if is_initiator else parties[::-1]
        channel = channels[recipient]
        if action == "send" and sender.ratchet.can_send:
            channel.append((b"%d" % number, sender.send(b"%d" % number)))
        elif action == "deliver" and channel:
            plaintext, message = channel.pop(index % len(channel))
            opened = recipient.receive(message)
            assert opened.plaintext == plaintext
            delivered[recipient].append(message)
        elif action == "repeat" and delivered[recipient]:
            recipient.refuse(delivered[recipient][index % len(delivered[recipient])], NotDecrypted)
        elif action == "lose" and channel:
            channel.pop(index % len(channel))
            lost += 1
        sender.restart()
        recipient.restart()
    for recipient, channel in channels.items():
        for plaintext, message in channel:
            assert recipient.receive(message).plaintext == plaintext
    assert sum(len(party.skipped) for party in parties) <= lost


@pytest.mark.parametrize("versions", [(V2, BOTH), (BOTH, V2), (BOTH, BOTH), (V3, BOTH)])
def test_they_write_in_the_highest_version_that_both_speak(
    versions: tuple[Versions, Versions],
) -> None:
    parties = Parties.meet(versions)
    expected = min(versions[0].highest, versions[1].highest)
    assert EncryptedHeader.parse(RatchetMessage.parse(parties.joiner.send(b"")).header).version == (
        expected
    )
    parties.turn()
    parties.turn()
    for party in parties:
        assert party.ratchet.version.current == expected


def test_a_peer_that_learns_a_version_is_followed() -> None:
    parties = Parties.meet((BOTH, V2))
    parties.turn()
    joiner = parties.joiner.ratchet
    assert joiner.version == (2, 2)
    parties.joiner.ratchet = replace(joiner, version=RatchetVersion(2, 3))
    parties.turn()
    assert [party.ratchet.version for party in parties] == [(3, 3), (3, 3)]
    parties.turn()


def test_no_version_in_common() -> None:
    with pytest.raises(Malformed, match="common"):
        join_ratchet(OFFERED.offer(V3), JOINER, JOINER_FRESH, versions=V2)
    joined = join_ratchet(OFFER, JOINER, JOINER_FRESH)
    with pytest.raises(Malformed, match="not offered"):
        answer_ratchet(OFFERED, joined.parameters, versions=V2)


def test_the_initiator_waits_for_the_first_message() -> None:
    parties = Parties.meet()
    assert [party.ratchet.can_send for party in parties] == [False, True]
    with pytest.raises(AssertionError):
        parties.initiator.send(b"")
    parties.turn()
    assert parties.initiator.ratchet.can_send


# KEM.


@pytest.fixture(params=["counting", "sntrup761"])
def make_kem(request: pytest.FixtureRequest) -> Callable[[], Kem]:
    if request.param == "counting":
        return CountingKem
    module = pytest.importorskip("headgate.crypto.sntrup761", exc_type=ImportError)
    made: Callable[[], Kem] = module.Sntrup761
    return made


def test_a_kem_that_is_accepted_at_once(make_kem: Callable[[], Kem]) -> None:
    kem = make_kem()
    offered = OfferedKeys(INITIATOR, kem.generate())
    assert isinstance(offered.offer().kem, KemProposal)
    joined = join_ratchet(offered.offer(), JOINER, JOINER_FRESH, kem)
    assert isinstance(joined.parameters.kem, KemAcceptance)
    initiator = answer_ratchet(offered, joined.parameters, kem)
    parties = Parties(
        Party(initiator, kem, counted_keys(1000)), Party(joined.ratchet, kem, counted_keys(2000))
    )
    parties.turn()
    assert [party.ratchet.is_post_quantum for party in parties] == [True, True]
    parties.turn()
    assert [party.ratchet.is_post_quantum for party in parties] == [True, True]


def test_a_kem_that_is_proposed_by_the_joiner(make_kem: Callable[[], Kem]) -> None:
    parties = Parties.meet(kems=(make_kem(), make_kem()), is_offered=False)
    parties.turn()
    # The initiator has answered the proposal, and has not been answered itself.
    assert [party.ratchet.is_post_quantum for party in parties] == [False, True]
    parties.turn()
    assert [party.ratchet.is_post_quantum for party in parties] == [True, True]


@pytest.mark.parametrize("is_offered", [True, False])
@pytest.mark.parametrize("who", [0, 1])
def test_a_kem_that_is_declined(who: int, is_offered: bool) -> None:
    """The connection works without, however often it is proposed."""
    kem = CountingKem()
    kems = (kem, None) if who == 0 else (None, kem)
    parties = Parties.meet(kems=kems, is_offered=is_offered)
    for _ in range(5):
        parties.turn()
        assert not any(party.ratchet.is_post_quantum for party in parties)
    assert parties[who].ratchet.has_kem_room
    assert not parties[1 - who].ratchet.has_kem_room


def test_a_kem_waits_for_version_3() -> None:
    parties = Parties.meet((BOTH, V2), (CountingKem(), CountingKem(100)))
    parties.turn()
    assert [party.ratchet.kem for party in parties] == [None, None]
    parties.joiner.ratchet = replace(parties.joiner.ratchet, version=RatchetVersion(2, 3))
    for _ in range(3):
        parties.turn()
    assert [party.ratchet.is_post_quantum for party in parties] == [True, True]


def test_an_acceptance_of_what_was_not_offered_is_refused() -> None:
    kem = CountingKem()
    offered = OfferedKeys(INITIATOR, kem.generate())
    joined = join_ratchet(offered.offer(), JOINER, JOINER_FRESH, kem)
    with pytest.raises(Malformed, match="not offered"):
        answer_ratchet(OFFERED, joined.parameters, kem)
    with pytest.raises(Malformed, match="not offered"):
        answer_ratchet(offered, joined.parameters)
    parties = Parties.meet(kems=(kem, kem))
    parties.turn()
    message = parties.joiner.send(b"x")
    whole = parties.initiator.ratchet
    parties.initiator.ratchet = replace(whole, kem=None)
    parties.initiator.refuse(message, NotDecrypted)
    parties.initiator.ratchet = whole
    parties.initiator.kem = None
    parties.initiator.refuse(message, NotDecrypted)
    parties.initiator.kem = kem
    assert parties.initiator.receive(message).plaintext == b"x"


def test_one_who_no_longer_wants_a_kem_goes_on_without() -> None:
    kem = CountingKem()
    parties = Parties.meet(kems=(kem, kem))
    parties.turn()
    parties.joiner.ratchet = parties.joiner.ratchet.with_kem_wanted(False)
    parties.turn()
    parties.turn()
    assert [party.ratchet.is_post_quantum for party in parties] == [False, False]
    assert len(parties.joiner.send(b"")) == 2 + 2346 + 16 + SIZE


def test_both_may_want_a_kem_later() -> None:
    parties = Parties.meet()
    parties.turn()
    for party in parties:
        party.kem = CountingKem()
        party.ratchet = party.ratchet.with_kem_wanted(True)
    for _ in range(3):
        parties.turn()
    assert [party.ratchet.is_post_quantum for party in parties] == [True, True]


# Messages that are missing.


def test_512_messages_may_be_missing_and_513_not() -> None:
    parties = Parties.meet()
    parties.turn()
    messages = [parties.joiner.send(b"%d" % number) for number in range(GAP_MAX + 2)]
    parties.initiator.refuse(messages[GAP_MAX + 1], TooManySkipped)
    opened = parties.initiator.receive(messages[GAP_MAX])
    assert opened.plaintext == b"512"
    assert [key.number for key in opened.added] == list(range(GAP_MAX))
    assert (opened.skipped.keys, opened.dropped) == (opened.added, ())
    parties.initiator.receive(messages[GAP_MAX + 1])


def test_as_many_may_be_missing_at_the_end_of_a_chain() -> None:
    parties = Parties.meet()
    parties.turn()
    parties.turn()
    first = parties.joiner.send(b"first")
    late = [parties.joiner.send(b"late %d" % number) for number in range(GAP_MAX)]
    one_more = parties.joiner.ratchet.encrypt(b"one more", SIZE)[0]
    parties.initiator.receive(first)
    answer = parties.initiator.send(b"answer")
    parties.joiner.receive(answer)
    opened = parties.initiator.receive(parties.joiner.send(b"next"))
    assert len(opened.added) == GAP_MAX
    for number, message in enumerate(late):
        opened = parties.initiator.receive(message)
        assert opened.plaintext == b"late %d" % number
        assert opened.used is not None
        assert opened.used not in opened.skipped.keys
    assert len(parties.initiator.skipped) == 0
    assert one_more.sent == GAP_MAX + 2


def test_too_many_at_the_end_of_a_chain_are_refused() -> None:
    parties = Parties.meet()
    parties.turn()
    parties.turn()
    parties.initiator.receive(parties.joiner.send(b"first"))
    for _ in range(GAP_MAX + 1):
        parties.joiner.send(b"lost")
    parties.joiner.receive(parties.initiator.send(b"answer"))
    parties.initiator.refuse(parties.joiner.send(b"next"), TooManySkipped)


def test_the_oldest_keys_go_when_there_are_too_many() -> None:
    parties = Parties.meet()
    dropped: list[SkippedKey] = []
    lost = []
    for _ in range(5):
        lost += [parties.joiner.send(b"lost") for _ in range(GAP_MAX)]
        opened = parties.initiator.receive(parties.joiner.send(b"x"))
        dropped += opened.dropped
        assert len(opened.skipped) <= KEPT_MAX
    assert len(parties.initiator.skipped) == KEPT_MAX
    assert [key.number for key in dropped] == list(range(GAP_MAX))
    parties.initiator.refuse(lost[0], AlreadyDecrypted)
    parties.initiator.refuse(lost[GAP_MAX - 1], AlreadyDecrypted)
    assert parties.initiator.receive(lost[GAP_MAX]).plaintext == b"lost"
    assert len(parties.initiator.skipped) == KEPT_MAX - 1


def test_what_is_kept_is_what_was_before_with_what_was_added_and_without_what_was_used() -> None:
    """So that a store that only writes rows keeps the same."""
    parties = Parties.meet()
    rows: dict[tuple[bytes, int], SkippedKey] = {}
    messages = [parties.joiner.send(b"%d" % number) for number in range(12)]
    for index in (3, 0, 9, 5, 2, 11, 1):
        opened = parties.initiator.receive(messages[index])
        for key in opened.added:
            rows[key.header_key, key.number] = key
        for key in (*opened.dropped, *([opened.used] if opened.used else [])):
            del rows[key.header_key, key.number]
        assert tuple(rows.values()) == opened.skipped.keys


def test_a_message_of_an_earlier_chain_is_opened_once() -> None:
    parties = Parties.meet()
    one, two, three = (parties.joiner.send(b"%d" % number) for number in range(3))
    parties.initiator.receive(three)
    parties.joiner.receive(parties.initiator.send(b"answer"))
    parties.initiator.receive(parties.joiner.send(b"next"))
    assert parties.initiator.receive(one).plaintext == b"0"
    parties.initiator.refuse(one, AlreadyDecrypted)
    assert parties.initiator.receive(two).plaintext == b"1"
    parties.initiator.refuse(one, NotDecrypted)


# What does not open.


@pytest.mark.parametrize("kem", [False, True])
def test_a_changed_byte_changes_nothing(kem: bool) -> None:
    """Wherever it is: in a new chain, in the same, and for a skipped key."""
    kems = (CountingKem(), CountingKem(100)) if kem else (None, None)
    parties = Parties.meet(kems=kems)
    skipped, first, second = (parties.joiner.send(b"%d" % number) for number in range(3))
    for message in (first, second, skipped):
        for at in range(0, len(message), 7):
            changed = bytearray(message)
            changed[at] ^= 0x55
            parties.initiator.refuse(bytes(changed))
        parties.initiator.receive(message)


def test_a_body_of_another_message_changes_nothing() -> None:
    """The header alone opens, and would begin a new chain."""
    parties = Parties.meet()
    one, two = (RatchetMessage.parse(parties.joiner.send(b"x")) for _ in range(2))
    parties.initiator.refuse(RatchetMessage(one.header, two.tagged).encode(), NotDecrypted)
    parties.initiator.receive(one.encode())
    parties.initiator.refuse(RatchetMessage(two.header, one.tagged).encode(), NotDecrypted)
    parties.initiator.receive(two.encode())


@pytest.mark.parametrize(
    "header",
    [
        RatchetHeader(3, bytes(56), None, 0, 0),
        RatchetHeader(3, x448(9), None, 0, 2**32 - 1),
        RatchetHeader(3, x448(9), None, 2**32 - 1, 0),
        RatchetHeader(3, x448(9), KemProposal(b"short"), 0, 0),
        RatchetHeader(3, x448(9), KemAcceptance(b"short", b"p" * 1158), 0, 0),
        RatchetHeader(3, x448(9), KemAcceptance(b"c" * 1039, b"p" * 1158), 0, 0),
    ],
    ids=["low order", "number", "previous", "proposal", "acceptance", "not proposed"],
)
def test_a_peer_that_writes_nonsense_into_its_header(header: RatchetHeader) -> None:
    kem = CountingKem()
    parties = Parties.meet(kems=(kem, kem))
    parties.turn()
    parties.turn()
    ratchet = parties.joiner.ratchet
    _, key = ratchet.advance()
    assert ratchet.sending is not None
    sealed = EncryptedHeader.seal(
        header, 3, ratchet.sending.header_key, bytes(16), ratchet.associated_data, 2310
    )
    message = replace(key, header=sealed.encode()).seal(b"x", SIZE)
    parties.initiator.refuse(message)
    parties.turn()


@pytest.mark.parametrize("version", [0, 1, 4, 65535])
def test_other_versions_are_malformed(version: int) -> None:
    message = RatchetMessage.parse(Parties.meet().joiner.send(b"x"))
    header = version.to_bytes(2, "big") + message.header[2:]
    with pytest.raises(Malformed, match="version"):
        EncryptedHeader.parse(header)


@given(st.binary(max_size=300), st.integers(0, 142))
def test_any_bytes_are_refused(data: bytes, cut: int) -> None:
    message = EXAMPLE.joiner.ratchet.encrypt(b"x", SIZE)[1]
    for whole in (data, b"\0\x7c" + data, message[:cut] + data):
        EXAMPLE.initiator.refuse(whole)


@given(st.binary(max_size=200), st.integers(2, 3))
def test_any_bytes_are_a_header_or_malformed(data: bytes, version: int) -> None:
    start = RatchetHeader(3, x448(1), None, 1, 2).encode(version)
    for whole in (data, start[:-9] + data, start[: len(start) - len(data)] + data):
        try:
            header = RatchetHeader.parse(whole, version)
        except Malformed:
            continue
        assert header.encode(version) == whole


def test_one_whose_store_was_restored_from_a_backup_raises_nothing_else() -> None:
    """What its peer sends may not open, nor what it sends; neither changes anything."""
    parties = Parties.meet()
    parties.turn()
    backup = parties.initiator.ratchet
    parties.turn()
    parties.initiator.receive(parties.joiner.send(b"one"))
    latest = parties.joiner.send(b"two")
    parties.initiator.ratchet = backup
    parties.initiator.refuse(latest, NotDecrypted)
    parties.joiner.refuse(parties.initiator.send(b"three"), NotDecrypted)


# The state.


@given(st.binary(max_size=100), st.integers(0, 800))
def test_any_bytes_are_a_state_or_malformed(data: bytes, cut: int) -> None:
    blob = EXAMPLE.joiner.ratchet.encode()
    for whole in (data, b"\1" + data, blob[:cut] + data + blob[cut + len(data) :]):
        try:
            ratchet = Ratchet.decode(whole)
        except Malformed:
            continue
        assert ratchet.encode() == whole


@pytest.mark.parametrize("kem", [None, CountingKem().generate()])
def test_offered_keys_are_stored_until_somebody_answers(kem: KemKeyPair | None) -> None:
    offered = OfferedKeys(INITIATOR, kem)
    blob = offered.encode()
    assert OfferedKeys.decode(blob) == offered
    for wrong in (b"\2" + blob[1:], blob[:-1], blob + b"\0", b""):
        with pytest.raises(Malformed):
            OfferedKeys.decode(wrong)


def test_a_state_of_a_later_version_is_not_guessed_at() -> None:
    blob = EXAMPLE.joiner.ratchet.encode()
    assert blob[0] == 1
    with pytest.raises(Malformed, match="does not know"):
        Ratchet.decode(b"\2" + blob[1:])


def test_secrets_are_not_shown() -> None:
    kem = CountingKem()
    parties = Parties.meet(kems=(kem, kem))
    parties.turn()
    parties.joiner.send(b"lost")
    message = parties.joiner.send(b"sesame")
    opened = parties.initiator.receive(message)
    _, key = parties.joiner.ratchet.advance()
    shown = repr((opened, parties.joiner.ratchet, key, opened.added, OFFERED))
    joined = join_ratchet(OFFER, JOINER, JOINER_FRESH)
    shown += repr(joined) + str(parties.initiator.ratchet)
    ratchet = opened.ratchet
    assert ratchet.receiving is not None
    assert ratchet.sending is not None
    assert ratchet.kem is not None
    secrets = [
        b"sesame",
        ratchet.private,
        ratchet.root_key,
        ratchet.next_sending_header_key,
        ratchet.next_receiving_header_key,
        ratchet.sending.chain_key,
        ratchet.sending.header_key,
        ratchet.receiving.chain_key,
        ratchet.receiving.header_key,
        ratchet.kem.pair.private,
        opened.added[0].message_key,
        opened.added[0].iv,
        key.key,
        key.iv,
        *(INITIATOR.first, INITIATOR.second, JOINER_FRESH),
    ]
    assert not [secret for secret in secrets if repr(secret)[2:-1] in shown]


EXAMPLE = Parties.meet()


CORPUS = CORPORA / "smp_ratchet"


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_refused_and_nothing_worse(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_the_corpus_of_the_fuzzer_finds_nothing(path: Path) -> None:
    check(path.read_bytes())
