"""What cannot be read, and what says too little or too much about itself."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter

import pytest

from headgate.client.smp.recipient import Key, Kind, Request, make_key, spki
from headgate.crypto import proof
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.blocks import BLOCK, pack
from headgate.wire.smp.codec.encoding import string
from headgate.wire.smp.codec.replies import Err, Pong
from headgate.wire.smp.codec.transmissions import Transmission, encode
from headgate.wire.smp.handshake import Versions
from tests.support.smp_asking import AUTH, OK, SOK, asks, one, receive
from tests.support.smp_asking import BLOCK as BAD_BLOCK
from tests.support.smp_router import Rig

pytestmark = pytest.mark.parametrize("store_url", ["memory"], indirect=True)

UNKNOWN = Err("CMD UNKNOWN")
SYNTAX = Err("CMD SYNTAX")
NO_AUTH = Err("CMD NO_AUTH")
HAS_AUTH = Err("CMD HAS_AUTH")
NO_ENTITY = Err("CMD NO_ENTITY")

KINDS: tuple[Kind, ...] = ("ed25519", "ed448", "x25519")


async def test_words_that_are_no_commands_are_unknown(router: Rig) -> None:
    """ACC-86"""
    client = await router.connect()
    queue = await client.new_queue()
    words = [b"", b"HELLO", b"HELLO there", b"SUB=", b"sub", b"SUBSUBSUBSUB", b"OK", b"PONG"]
    words += [b"MSG x", b"IDS x", b"SOK 0", b"ERR AUTH", b"END", b"DELD", b"INFO {}", b"NMSG x"]
    assert await client.ask(*map(queue.asks, words)) == [UNKNOWN] * len(words)


async def test_what_a_version_does_not_know_is_unknown_in_it(router: Rig) -> None:
    """ACC-86"""
    client = await router.connect(versions=Versions(7, 8))
    queue = await client.new_queue()
    for command in (b"SKEY " + string(spki(make_key())), b"LGET", b"SUBS", b"RSLV x"):
        assert await asks(client, queue, command) == UNKNOWN


async def test_wrong_parameters_are_a_mistake_of_syntax(router: Rig) -> None:
    """ACC-87"""
    client = await router.connect()
    queue = await client.new_queue()
    key = string(spki(make_key()))
    x448 = string(bytes.fromhex("3042300506032b656f033900") + secrets.token_bytes(56))
    wrong = [b"SUB ", b"SUB x", b"GET ", b"KEY", b"KEY ", b"KEY " + key + b"x", b"KEY " + key[:-1]]
    wrong += [b"KEY " + x448, b"RKEY \0", b"ACK", b"ACK \5abc", b"NKEY " + key + key, b"SEND"]
    wrong += [b"SEND T", b"SEND X body", b"SUBS", b"OFF ", b"DEL x", b"LSET \1x"]
    assert await client.ask(*map(queue.asks, wrong)) == [SYNTAX] * len(wrong)
    assert await one(client, Request(b"PING ")) == SYNTAX
    dh = spki(secrets.token_bytes(32))
    new = [b"NEW", b"NEW ", b"NEW " + key, b"NEW " + key + key + b"0S00"]
    new += [b"NEW " + key + string(dh) + b"0X00", b"NEW " + key + string(dh) + b"0S0"]
    new += [b"NEW " + key + string(dh) + b"0S00x", b"NEW " + key + string(dh) + b"1\1@S00"]
    requests = [Request(command, key=make_key()) for command in new]
    assert await client.ask(*requests) == [SYNTAX] * len(new)


async def test_a_weak_key_makes_no_queue(router: Rig) -> None:
    """ACC-87: one that gives everybody the same secret."""
    client = await router.connect()
    key = make_key()
    weak = spki(secrets.token_bytes(32))[:12] + bytes(32)
    assert await one(client, Request(c.New(spki(key), weak, None, True), key=key)) == SYNTAX


async def test_what_a_command_has_to_name_is_looked_at_first(router: Rig) -> None:
    """ACC-88: before anything is looked up, so the ids may be anybody's."""
    client = await router.connect()
    key, id = make_key(), secrets.token_bytes(24)
    new = c.New(spki(key), spki(secrets.token_bytes(32)), None, True)
    notifier = c.NKey(spki(key), spki(secrets.token_bytes(32)))
    recipients: list[c.Command] = [c.Sub(), c.SmpGet(), c.SmpAck(b""), notifier]
    recipients += [c.Key(spki(key)), c.RKey((spki(key),))]
    recipients += [c.LSet(id, b"", b""), c.LDel(), c.NDel(), c.Off(), c.Del(), c.Que()]
    recipients += [c.SKey(spki(key)), c.LKey(spki(key)), c.NSub()]
    cases: list[tuple[Request, Err]] = [
        (Request(new), NO_AUTH),
        (Request(new, id, key), HAS_AUTH),
        (Request(c.SmpSend(False, b"")), NO_ENTITY),
        (Request(c.SmpSend(False, b""), b"", key), NO_ENTITY),
        (Request(c.LGet()), NO_ENTITY),
        (Request(c.LGet(), id, key), HAS_AUTH),
        (Request(c.Ping(), b"", key), HAS_AUTH),
        (Request(c.Ping(), id), HAS_AUTH),
    ]
    for command in recipients:
        cases += [(Request(command, id), NO_AUTH), (Request(command, b"", key), NO_AUTH)]
    assert await client.ask(*(request for request, _ in cases)) == [error for _, error in cases]


async def test_a_ping_is_answered(router: Rig) -> None:
    """ACC-89: also by what is asked of others, and refused here."""
    client = await router.connect()
    assert await one(client, Request(c.Ping())) == Pong()
    proxy = c.Prxy((b"smp.example.com",), b"5223", bytes(32))
    assert await one(client, Request(proxy)) == Err("PROXY BASIC_AUTH")
    forward = c.PFwd(19, spki(secrets.token_bytes(32)), b"sealed")
    assert await one(client, Request(forward, b"session")) == Err("PROXY NO_SESSION")
    assert await one(client, Request(c.RFwd(b"sealed"))) == Err("CRYPTO")


@pytest.mark.parametrize("version", [10, 19])
async def test_garbage_is_told_and_the_session_goes_on(router: Rig, version: int) -> None:
    """ACC-90"""
    client = await router.connect(versions=Versions(7, version))
    queue = await client.new_queue()
    ping = client.encode(Request(c.Ping()))
    (good,) = pack([ping])
    for payload in (
        b"",
        b"\0",
        b"\1",
        b"\2" + good[1:],
        good + b"x",
        good[:-1],
        b"\1\xff\xff" + ping,
    ):
        await client.send_block(payload)
        assert await client.event() == (b"", BAD_BLOCK)
    assert await client.send(queue, b"hello") == OK
    assert await receive(client, queue) == [b"hello"]


async def test_a_block_that_does_not_decrypt_is_told_and_the_next_one_does(router: Rig) -> None:
    """ACC-90: the chain of keys has made its step."""
    client = await router.connect()
    (payload,) = pack([client.encode(Request(c.Ping(), correlation=b"lost"))])
    block = bytearray(client.seal(payload))
    block[100] ^= 1
    await client.send_raw(bytes(block))
    assert await client.event() == (b"", BAD_BLOCK)
    assert await one(client, Request(c.Ping())) == Pong()


async def test_a_transmission_that_cannot_be_read_leaves_the_others_alone(router: Rig) -> None:
    """ACC-90, ACC-50: one without sense, one with an authorization of no known length."""
    client = await router.connect()
    queue = await client.new_queue()
    odd = Transmission(b"x" * 63, None, b"odd", queue.id, b"SUB")
    (payload,) = pack(
        [
            client.encode(queue.asks(c.Sub())),
            b"\5",
            encode(odd, client.version),
            client.encode(Request(c.SmpSend(False, b"hello"), queue.sender)),
        ]
    )
    await client.send_block(payload)
    told = [await client.event() for _ in range(5)]
    assert sorted(reply.tag for _, reply in told) == [b"ERR", b"ERR", b"MSG", b"OK", b"SOK"]
    assert [event for event in told if isinstance(event[1], Err)] == [(b"", BAD_BLOCK)] * 2
    assert (queue.id, SOK) in told
    assert (queue.sender, OK) in told


async def test_a_correlation_may_be_anything(router: Rig) -> None:
    client = await router.connect()
    queue = await client.new_queue("x25519")
    for correlation in (b"1", b"x" * 24, b"y" * 255):
        sub = Request(c.Sub(), queue.id, queue.key, correlation=correlation)
        assert await one(client, sub) == SOK
    (payload,) = pack([client.encode(Request(c.Sub(), queue.id, queue.key, correlation=b""))])
    await client.send_block(payload)
    assert await client.event() == (queue.id, SOK)


async def test_a_stream_that_ends_in_the_middle_of_a_block_ends_the_session(router: Rig) -> None:
    """SMP-7: what is not whole was not asked."""
    client, other = await router.connect(), await router.connect()
    queue = await client.new_queue()
    (payload,) = pack([client.encode(queue.asks(c.Del()))])
    await client.send_raw(client.seal(payload)[: BLOCK // 2])
    await asyncio.sleep(0.05)
    client.close()
    await client.closed()
    assert await asks(other, queue, c.Sub()) == SOK
    assert await other.send(queue, b"hello") == OK
    assert await receive(other, queue) == [b"hello"]
    assert router.router.gauges()["sessions"] == 1


@pytest.mark.parametrize("signs", KINDS)
@pytest.mark.parametrize("has", KINDS)
async def test_no_queue_and_a_wrong_key_cost_the_same(
    router: Rig, monkeypatch: pytest.MonkeyPatch, has: Kind, signs: Kind
) -> None:
    """ACC-72: the same checks are made, with the same kind of key, whatever is wrong."""
    checks: Counter[str] = Counter()
    is_signature, is_authenticator = proof._is_signature, proof.Verifier._is_authenticator

    def signature(key: bytes, *rest: bytes) -> bool:
        checks[str(len(key))] += 1
        return is_signature(key, *rest)

    def authenticator(verifier: proof.Verifier, *rest: bytes) -> bool:
        checks["authenticator"] += 1
        return is_authenticator(verifier, *rest)

    client = await router.connect()
    queue = await client.new_queue(has)
    sender: Key = make_key(has)
    secured = await client.new_queue()
    await asks(client, secured, c.Key(spki(sender)))
    monkeypatch.setattr(proof, "_is_signature", signature)
    monkeypatch.setattr(proof.Verifier, "_is_authenticator", authenticator)
    wrong, nowhere = make_key(signs), secrets.token_bytes(24)
    counts = []
    for command, known in ((c.Sub(), queue.id), (c.SmpSend(False, b""), secured.sender)):
        for entity in (known, nowhere):
            checks.clear()
            assert await one(client, Request(command, entity, wrong)) == AUTH
            counts.append(checks.copy())
    assert counts == [counts[0]] * 4
    assert counts[0].total() == (1 if router.front is None else 2), "one on each worker"
