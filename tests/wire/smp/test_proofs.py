"""Whether a command is from whom it should be, and what whoever it is not from learns."""

from __future__ import annotations

from collections import Counter

import pytest

from headgate.client.smp.recipient import Request, spki
from headgate.core.model.parties import Purpose
from headgate.core.model.tally import NOTHING
from headgate.crypto import proof
from headgate.crypto.box import shared_key
from headgate.crypto.keys import SigningKey
from headgate.crypto.proof import authenticator
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.transmissions import Transmission, signed
from headgate.wire.smp.handshake import Role
from tests.support.smp_session import SmpSessionClient, digest, make_key
from tests.support.smp_transcript import SmpTranscript

AUTH = r.Err("AUTH")
SERVICE = r.Err("SERVICE")
PROHIBITED = r.Err("CMD PROHIBITED")
KINDS = ["", "448:", "x:"]
IDS = ["ed25519", "ed448", "x25519"]


def sign(
    client: SmpSessionClient,
    request: Request,
    *,
    fingerprint: bytes = b"",
    by: SigningKey | None = None,
    over_fingerprint: bool = False,
) -> Transmission:
    """A request that is signed as it says here: by its key behind a fingerprint, and by somebody
    in the place of the service."""
    bare = client.transmission(Request(request.command, request.entity))
    over, key = signed(client.session_id, bare), request.key
    assert key is not None, "somebody signs"
    if isinstance(key, bytes):
        shared = shared_key(key, client.router_key)
        authorization = authenticator(shared, bare.correlation, fingerprint + over)
    else:
        authorization = key.sign(fingerprint + over)
    second = None
    if by is not None:
        second = by.sign(fingerprint + over if over_fingerprint else over)
    return Transmission(authorization, second, bare.correlation, bare.entity, bare.command)


def new(key: str) -> Request:
    own = make_key(key)
    return Request(c.New(spki(own), spki(digest("dh")), None, True, Purpose.MESSAGING), key=own)


# The parties of a queue.


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_party_has_a_key_of_any_kind(kind: str) -> None:
    """ACC-16: recipient and sender, each refused with another key of the same kind."""
    SmpTranscript().play(f"""
        a> NEW q key={kind}own
        a< IDS q q.snd
        a> SUB q; SUB q by {kind}eve; KEY q {kind}bob
        a< SOK q; ERR q AUTH; OK q
        b> SEND q one by {kind}eve; SEND q one by {kind}bob; SEND q two
        b< ERR q.snd AUTH; OK q.snd; ERR q.snd AUTH
        a< * MSG q one
        a> ACK q one by {kind}eve; ACK q one
        a< ERR q AUTH; OK q
    """)


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_command_that_brings_its_key_is_signed_by_it(kind: str) -> None:
    """ACC-16, ACC-17, ACC-83: SKEY and LKEY."""
    SmpTranscript().play(f"""
        a> NEW q; NEW p link
        a< IDS q q.snd; IDS p p.snd p.lnk
        b> SKEY q {kind}bob by {kind}eve; SKEY q {kind}bob; SKEY nowhere {kind}bob
        b< ERR q.snd AUTH; OK q.snd; ERR nowhere.snd AUTH
        b> LKEY p {kind}bob by {kind}eve; LKEY p {kind}bob; LKEY nowhere {kind}bob
        b< ERR p.lnk AUTH; LNK p.lnk p.snd fixed user; ERR nowhere.lnk AUTH
        b> SEND q one by {kind}bob; SEND p two by {kind}bob
        b< OK q.snd; OK p.snd
        a< * MSG q one
        a< * MSG p two
    """)


def test_each_party_has_its_own_id() -> None:
    """ACC-8, ACC-18, ACC-25, ACC-28: a key is worth nothing under the id of another party."""
    SmpTranscript().play("""
        a> NEW q contact link notifier
        a< IDS q q.snd q.lnk q.ntf
        a> SUB q of q.snd; SUB q of q.lnk; SUB q of q.ntf
        a< ERR q.snd AUTH; ERR q.lnk AUTH; ERR q.ntf AUTH
        a> SEND q one of q; NSUB q of q; LGET q of q.snd
        a< ERR q AUTH; ERR q AUTH; ERR q.snd AUTH
        a> NSUB q by q.key; NSUB q
        a< ERR q.ntf AUTH; SOK q.ntf
    """)


def test_a_queue_without_a_notifier_has_no_key_of_one() -> None:
    """ACC-79"""
    SmpTranscript().play("""
        a> NEW q
        a< IDS q q.snd
        a> NSUB q; NSUB q of q
        a< ERR q.ntf AUTH; ERR q AUTH
    """)


def test_what_was_signed_for_one_session_is_worth_nothing_in_another() -> None:
    """S001-21: the session is part of it, for signatures and authenticators."""
    play = SmpTranscript()
    play.play("""
        a> NEW q; NEW p key=x:own
        a< IDS q q.snd; IDS p p.snd
        b> PING
        b< PONG
    """)
    first, second = play.clients["a"], play.clients["b"]
    for queue in play.queues.values():
        sent = first.transmission(queue.asks(c.Sub()))
        assert second.ask(sent) == [AUTH]
        assert first.ask(sent) == [r.Sok()]


@pytest.mark.parametrize("signs", KINDS, ids=IDS)
@pytest.mark.parametrize("has", KINDS, ids=IDS)
def test_no_queue_and_a_wrong_key_cost_the_same(
    monkeypatch: pytest.MonkeyPatch, has: str, signs: str
) -> None:
    """ACC-72: the same checks are made, with the same kind of key, whatever is wrong."""
    checks: Counter[str] = Counter()
    is_signature, is_authenticator = proof._is_signature, proof.Verifier._is_authenticator

    def signature(key: bytes, *rest: bytes) -> bool:
        checks[str(len(key))] += 1
        return is_signature(key, *rest)

    def counted(verifier: proof.Verifier, *rest: bytes) -> bool:
        checks["authenticator"] += 1
        return is_authenticator(verifier, *rest)

    play = SmpTranscript()
    play.play(f"""
        a> NEW q key={has}own
        a< IDS q q.snd
        a> KEY q {has}bob
        a< OK q
    """)
    monkeypatch.setattr(proof, "_is_signature", signature)
    monkeypatch.setattr(proof.Verifier, "_is_authenticator", counted)
    counts = []
    for line in ("SUB q", "SUB nowhere", "SEND q one", "SEND nowhere one"):
        checks.clear()
        client = play.clients["a"]
        assert client.ask(play.request(client, f"{line} by {signs}eve")) == [AUTH]
        counts.append(checks.copy())
    assert counts == [counts[0]] * 4
    assert counts[0].total() == 1


# Services.


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
@pytest.mark.parametrize("command", ["NEW", "SUB", "NSUB"])
def test_what_ties_a_queue_to_a_service_is_signed_by_both(kind: str, command: str) -> None:
    """ACC-51, ACC-56, S001-19, S001-20, S001-21: each of the two is missing once, and wrong in
    every way; a refused command leaves no trace."""
    play = SmpTranscript()
    role = Role.NOTIFIER if command == "NSUB" else Role.MESSAGING
    client, other = (play.connect(name, service=name.upper(), role=role) for name in "st")
    play.play(f"""
        a> NEW q key={kind}own notifier={kind}notified
        a< IDS q q.snd q.ntf
    """)
    identity, stranger = client.service, other.service
    assert identity is not None
    assert stranger is not None
    request = new(f"{kind}new") if command == "NEW" else play.request(client, f"{command} q")
    bad = Request(request.command, request.entity, make_key(f"{kind}eve"))
    own, mine = identity.fingerprint, client.service_key

    def answer(sent: Transmission) -> r.Reply:
        (reply,) = client.ask(sent)
        return reply

    assert answer(sign(client, request, fingerprint=own)) == SERVICE
    assert answer(sign(client, request)) == SERVICE
    assert answer(sign(client, bad, fingerprint=own)) == SERVICE
    for wrong in (identity.private, other.service_key):
        assert answer(sign(client, request, fingerprint=own, by=wrong)) == SERVICE
    twice = sign(client, request, fingerprint=own, by=mine, over_fingerprint=True)
    assert answer(twice) == SERVICE
    assert answer(sign(client, request, by=mine)) == AUTH
    assert answer(sign(client, request, fingerprint=stranger.fingerprint, by=mine)) == AUTH
    assert answer(sign(client, bad, fingerprint=own, by=mine)) == AUTH
    everything = c.NSubs(NOTHING) if command == "NSUB" else c.Subs(NOTHING)
    assert client.ask(Request(everything, client.service_id))[0] == r.Soks(NOTHING)
    good = answer(sign(client, request, fingerprint=own, by=mine))
    assert getattr(good, "service", None) == client.service_id


def test_no_other_command_takes_the_signature_of_a_service() -> None:
    """SMP-36, S001-22: signed twice it is refused; signed once it is done as ever."""
    play = SmpTranscript()
    play.connect("s", service="S")
    play.play("""
        s> NEW q contact link
        s< IDS q q.snd q.lnk as S
        s> KEY q bob +service; RKEY q q.key bob +service; LSET q more +service; NKEY q +service
        s< ERR q SERVICE; ERR q SERVICE; ERR q SERVICE; ERR q SERVICE
        s> GET q +service; ACK q +service; QUE q +service; OFF q +service; DEL q +service
        s< ERR q SERVICE; ERR q SERVICE; ERR q SERVICE; ERR q SERVICE; ERR q SERVICE
        s> LDEL q +service; NDEL q +service; SEND q one by bob +service
        s< ERR q SERVICE; ERR q SERVICE; ERR q.snd SERVICE
        s> KEY q bob; LSET q more; SEND q one by bob
        s< OK q; OK q; OK q.snd; * MSG q one
        s> ACK q one; LGET q; OFF q; DEL q
        s< OK q; LNK q.lnk q.snd fixed more; OK q; OK q
    """)


def test_a_plain_session_has_no_signature_of_a_service() -> None:
    """ACC-75, S001-19: neither for a command that a service signs nor for any other."""
    play = SmpTranscript()
    play.play("""
        a> NEW q notifier
        a< IDS q q.snd q.ntf
        a> NEW p +service; SUB q +service; NSUB q +service; DEL q +service
        a< ERR SERVICE; ERR q SERVICE; ERR q.ntf SERVICE; ERR q SERVICE
        a> SUB q; NSUB q
        a< SOK q; SOK q.ntf
    """)


def test_each_role_has_its_commands() -> None:
    """ACC-64: those of another are prohibited."""
    play = SmpTranscript()
    play.connect("s", service="S")
    play.connect("n", service="N", role=Role.NOTIFIER)
    play.connect("p", service="P", role=Role.PROXY)
    play.play("""
        a> NEW q notifier
        a< IDS q q.snd q.ntf
        s> NSUB q; NSUBS; NSUB nowhere
        s< ERR q.ntf CMD PROHIBITED; ERR S CMD PROHIBITED; ERR nowhere.ntf AUTH
        n> NEW p; SUB q; ACK q; DEL q; SEND q one; SUBS; SUB nowhere; PING
        n< ERR CMD PROHIBITED; ERR q CMD PROHIBITED; ERR q CMD PROHIBITED; \
ERR q CMD PROHIBITED; ERR q.snd CMD PROHIBITED; ERR N CMD PROHIBITED; ERR nowhere AUTH; PONG
        p> SUB q; NSUB q; SUBS; NSUBS; PING
        p< ERR q CMD PROHIBITED; ERR q.ntf CMD PROHIBITED; ERR P CMD PROHIBITED; \
ERR P CMD PROHIBITED; PONG
    """)


def test_a_service_is_subscribed_by_its_own_session_alone() -> None:
    """ACC-53, ACC-59, S001-17: not about nothing, not another's, not by a plain session, nor with a
    second signature, nor with another key of whatever kind."""
    play = SmpTranscript()
    play.connect("s", service="S")
    play.connect("t", service="T")
    play.play("""
        s> SUBS of nothing
        s< ERR CMD NO_AUTH
        s> SUBS of T; SUBS by eve; SUBS by x:eve; SUBS by 448:eve; SUBS +service
        s< ERR T SERVICE; ERR S SERVICE; ERR S SERVICE; ERR S SERVICE; ERR S SERVICE
        a> SUBS of S by eve; NSUBS of S by eve
        a< ERR S SERVICE; ERR S SERVICE
        s> SUBS
        s< SOKS S 0
        s< * ALLS
    """)


def test_only_the_key_of_this_session_signs_for_the_service() -> None:
    """S001-17, S001-18: neither that of the certificate, nor that of a session before, nor what
    was signed there."""
    play = SmpTranscript()
    earlier, client = play.connect("s", service="S"), play.connect("t", service="S")
    assert client.service is not None
    everything = c.Subs(NOTHING)
    for wrong in (client.service.private, earlier.service_key):
        assert client.ask(Request(everything, client.service_id, wrong)) == [SERVICE]
    replayed = earlier.transmission(Request(everything, earlier.service_id))
    assert client.ask(replayed) == [SERVICE]
    assert client.ask(Request(everything, client.service_id))[0] == r.Soks(NOTHING)


def test_the_service_is_looked_at_before_the_queue_only_where_there_is_one() -> None:
    """ACC-64, S001-19: of a queue that does not exist nobody learns more than AUTH."""
    play = SmpTranscript()
    play.connect("s", service="S")
    play.play("""
        a> NEW q
        a< IDS q q.snd
        s> SUB q -service; SUB nowhere -service
        s< ERR q SERVICE; ERR nowhere AUTH
    """)


def test_no_right_is_refused_before_a_prohibition() -> None:
    """ACC-41: whoever may not read a queue does not learn that it is being read."""
    play = SmpTranscript()
    play.play("""
        a> NEW q
        a< IDS q q.snd
        a> GET q by eve; GET q
        a< ERR q AUTH; ERR q CMD PROHIBITED
    """)
    assert play.clients["a"].ask(play.request(play.clients["a"], "GET q")) == [PROHIBITED]
