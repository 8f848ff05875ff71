"""What agents write inside the ratchet, and what numbers and hashes show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import Malformed
from headgate.wire.smp.agent.agent_messages import (
    AgentContent,
    ApplicationMessage,
    ConnectionInfo,
    ContinueSending,
    Finding,
    Integrity,
    MessageChain,
    MessageReceipt,
    MessageReceipts,
    NumberedMessage,
    PeerHello,
    QueueRotation,
    RatchetReady,
    ReplyQueues,
    RotationStep,
    SkippedIds,
    content_hash,
    parse_content,
)
from tests.support.agent_examples import (
    QUEUE_INFO,
    QUEUE_INFO_BYTES,
    ROUTER,
    ROUTER_BYTES,
    queue_infos,
    routers,
)
from tests.support.smp_examples import SENDER, int64s, larges, strings

REPLY = ReplyQueues((QUEUE_INFO,), b"{}")
HELLO_BYTES = bytes.fromhex(
    "4d00000000000000022004c42011d6cfc353959b6f72614fc791638c4837a85754fd3a3e5f91b40c7c21"
    "4d68656c6c6f"
)
HELLO_HASH = bytes.fromhex("b4400db801bbf7f5b16ce14f2469fb16603f44aca00b1066a62f481c2cff26a1")


def test_a_joiner_names_its_queue() -> None:
    assert REPLY.encode() == b"D\x01" + QUEUE_INFO_BYTES + b"{}"
    assert len(REPLY.encode()) == 130
    assert parse_content(REPLY.encode()) == REPLY


def test_the_first_message_has_number_2_and_the_hash_of_the_confirmation() -> None:
    chain = MessageChain().after_next(REPLY.encode())
    message = chain.number(ApplicationMessage(b"hello"))
    assert message.encode() == HELLO_BYTES
    assert parse_content(HELLO_BYTES) == message
    assert chain.check(message) is Integrity.OK
    assert chain.after_next(HELLO_BYTES) == MessageChain(2, HELLO_HASH)
    assert content_hash(HELLO_BYTES) == HELLO_HASH


@pytest.mark.parametrize(
    ("message", "encoded"),
    [
        (PeerHello(), "48"),
        (
            MessageReceipts((MessageReceipt(2, HELLO_HASH),)),
            f"5601000000000000000220{HELLO_HASH.hex()}0000",
        ),
        (ContinueSending(ROUTER, SENDER), f"5143{ROUTER_BYTES.hex()}18{SENDER.hex()}"),
        (RatchetReady(5), "450000000000000005"),
        (QueueRotation(RotationStep.ADD, b"more"), "51416d6f7265"),
        (QueueRotation(RotationStep.KEY, b""), "514b"),
        (QueueRotation(RotationStep.USE, b""), "5155"),
        (QueueRotation(RotationStep.TEST, b""), "5154"),
        (ApplicationMessage(b""), "4d"),
    ],
)
def test_messages(
    message: PeerHello | MessageReceipts | ContinueSending | RatchetReady | QueueRotation,
    encoded: str,
) -> None:
    assert message.encode().hex() == encoded
    numbered = NumberedMessage(7, HELLO_HASH, message)
    assert parse_content(numbered.encode()) == numbered


def test_lengths() -> None:
    assert len(MessageReceipts((MessageReceipt(2, HELLO_HASH),)).encode()) == 45
    assert len(ContinueSending(ROUTER, SENDER).encode()) == 80


@pytest.mark.parametrize(
    ("id", "hash", "finding"),
    [
        (6, b"last", Integrity.OK),
        (6, b"else", Integrity.BAD_HASH),
        (6, b"", Integrity.BAD_HASH),
        (7, b"else", SkippedIds(6, 6)),
        (10, b"last", SkippedIds(6, 9)),
        (5, b"last", Integrity.DUPLICATE),
        (4, b"last", Integrity.BAD_ID),
        (-1, b"last", Integrity.BAD_ID),
    ],
)
def test_what_a_number_and_a_hash_show(id: int, hash: bytes, finding: Finding) -> None:
    assert MessageChain(5, b"last").check(NumberedMessage(id, hash, PeerHello())) == finding


def test_a_chain_goes_on_from_what_came() -> None:
    chain = MessageChain(5, b"last").after(9, b"plaintext")
    assert chain == MessageChain(9, content_hash(b"plaintext"))


receipts = st.builds(MessageReceipt, int64s, strings, larges)
messages = st.one_of(
    st.just(PeerHello()),
    st.builds(ApplicationMessage, larges),
    st.builds(MessageReceipts, st.lists(receipts, min_size=1, max_size=4).map(tuple)),
    st.builds(ContinueSending, routers, strings),
    st.builds(QueueRotation, st.sampled_from(RotationStep), larges),
    st.builds(RatchetReady, int64s),
)
contents = st.one_of(
    st.builds(ConnectionInfo, larges),
    st.builds(ReplyQueues, st.lists(queue_infos, min_size=1, max_size=3).map(tuple), larges),
    st.builds(NumberedMessage, int64s, strings, messages),
)


@given(contents)
def test_contents_are_read_as_they_were_written(content: AgentContent) -> None:
    assert parse_content(content.encode()) == content


PREFIX = b"M" + bytes(8) + b"\0"


@given(st.binary(max_size=80), st.sampled_from([b"", b"D\1", b"I", PREFIX, PREFIX + b"V", b"MQC"]))
def test_any_bytes_are_contents_or_malformed(data: bytes, prefix: bytes) -> None:
    try:
        content = parse_content(prefix + data)
    except Malformed:
        return
    if not isinstance(content, ReplyQueues):  # whose purpose may have been left out
        assert parse_content(content.encode()) == content


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"X",
        b"D\0{}",
        b"M",
        PREFIX,
        PREFIX + b"X",
        PREFIX + b"Q",
        PREFIX + b"QX",
        PREFIX + b"Hmore",
        PREFIX + b"V\0",
        PREFIX + b"E" + bytes(9),
    ],
)
def test_what_agents_do_not_write_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_content(data)


def test_bodies_are_not_shown() -> None:
    shown = repr(
        (NumberedMessage(1, b"", ApplicationMessage(b"sesame")), ConnectionInfo(b"sesame"))
    )
    assert "sesame" not in shown
    assert "sesame" not in repr(ReplyQueues((), b"sesame"))
