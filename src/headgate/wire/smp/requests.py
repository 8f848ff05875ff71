"""Requests of a client as commands of the core, or answered directly where none is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from headgate.core import commands as core
from headgate.core.model.domain import SMP_DOMAIN
from headgate.core.model.ids import MessageId, QueueId, ServiceId, SessionId
from headgate.core.model.message import NO_PROPERTIES, NOTIFY, Message
from headgate.core.model.parties import (
    Address,
    Change,
    ChangeKeys,
    DropLink,
    DropNotifier,
    Link,
    Notifier,
    Parties,
    Party,
    ReadLink,
    Secure,
    SetLink,
    SetNotifier,
    Suspend,
)
from headgate.core.model.value import value
from headgate.crypto.box import public_of, shared_key
from headgate.crypto.keys import KeyKind, encode_key, raw_key
from headgate.crypto.proof import Verifier, link_sender
from headgate.errors import HeadgateError, Malformed
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.sealed import body_max
from headgate.wire.smp.codec.transmissions import SIGNATURE, Transmission
from headgate.wire.smp.errors import error_text
from headgate.wire.smp.handshake import Role
from headgate.wire.smp.proofs import Claim

ID_BYTES = 24
NOWHERE = QueueId(b"")
NOTIFYING = {NOTIFY: True}
OK = r.Ok()


class RequestPort(Protocol):
    """The port of requests: random bytes and the router's settings."""

    def now(self) -> float: ...

    def draw(self, length: int) -> bytes:
        """Random bytes."""
        ...

    def creating(self, password: bytes | None) -> HeadgateError | None:
        """The reason why this password may not create queues now, or None."""
        ...


@value
class RequestRef:
    """A request, with the data that its answer needs."""

    correlation: bytes
    entity: bytes
    answer: r.Reply | None = None
    """The answer for success, where the effect does not determine it."""


class RequestReader:
    """Reads the requests of one session, after its handshake.

    Owned by the session. A request becomes one command, or an answer where no queue is needed for
    it.
    """

    __slots__ = ("_role", "_service", "_session", "_shell", "_verifier", "_version")

    def __init__(
        self,
        shell: RequestPort,
        session: SessionId,
        version: int,
        verifier: Verifier,
        role: Role | None = None,
        service: ServiceId | None = None,
    ) -> None:
        self._shell = shell
        self._session = session
        self._version = version
        self._verifier = verifier
        self._role = role
        self._service = service

    def read(self, asked: Transmission, signed: bytes) -> core.Command | r.Reply:
        """The command of a transmission, or the answer if there is no command."""
        try:
            command = c.parse_command(asked.command, self._version)
        except c.BadCommand as error:
            return r.Err(f"CMD {error.kind}")
        # ACC-53, ACC-88: before any look-up.
        wrong = c.check_credentials(command, bool(asked.entity), bool(asked.authorization))
        if wrong is not None:
            return r.Err(f"CMD {wrong}")
        claim = Claim(self._verifier, self._role, command, asked, signed, self._version)
        make = MAKERS.get(type(command))
        if make is None:
            return REFUSED[type(command)]
        try:
            return make(self, command, asked, claim)
        except Malformed:  # a key with which every shared secret is the same
            return r.Err("CMD SYNTAX")

    # Each of these makes a command of the core.

    def _new(self, new: c.New, asked: Transmission, claim: Claim) -> core.Command | r.Reply:
        error = (
            claim.of_session() or claim.of_party((new.key,)) or self._shell.creating(new.password)
        )
        if error is not None:
            return r.Err(error_text(error))
        if self._service is not None and not new.subscribe:
            return r.Err("CMD PROHIBITED")
        if new.link is not None and new.link.sender != link_sender(asked.correlation):
            return r.Err("CMD PROHIBITED")
        draw = self._shell.draw
        private = draw(32)
        link = None
        if new.link is not None:
            link = Link(new.link.id or draw(ID_BYTES), new.link.fixed, new.link.user)
        notifier, notified = None, None
        if new.notifier is not None:
            # ACC-82: made as by an NKEY.
            notifier, notified = self._notifier(new.notifier)
        parties = Parties(
            keys=(new.key,),
            secret=shared_key(private, raw_key(new.dh)),
            sender=draw(ID_BYTES) if new.link is None else new.link.sender,
            purpose=new.purpose,
            link=link,
            notifier=notifier,
        )
        queue = QueueId(draw(ID_BYTES))
        ids = r.Ids(
            queue,
            parties.sender,
            encode_key(KeyKind.X25519, public_of(private)),
            new.purpose,
            link.id if link is not None else None,
            self._service,
            notified,
        )
        # ACC-1: the answer names no entity, and has ids and a key.
        ref = RequestRef(asked.correlation, b"", ids)
        return core.Create(
            self._session, ref, queue, SMP_DOMAIN, new.subscribe, self._service, parties
        )

    def _notifier(self, asked: c.NKey) -> tuple[Notifier, r.Nid]:
        private = self._shell.draw(32)
        # ACC-74: another id each time.
        id = self._shell.draw(ID_BYTES)
        secret = shared_key(private, raw_key(asked.dh))
        return (
            Notifier(id, asked.key, secret),
            r.Nid(id, encode_key(KeyKind.X25519, public_of(private))),
        )

    def _sub(self, _: c.Sub, asked: Transmission, claim: Claim) -> core.Command:
        return core.Subscribe(
            self._session, _ref(asked), QueueId(asked.entity), self._service, claim
        )

    def _nsub(self, _: c.NSub, asked: Transmission, claim: Claim) -> core.Command:
        return core.Watch(self._session, _ref(asked), asked.entity, self._service, claim)

    def _subs(
        self, command: c.Subs | c.NSubs, asked: Transmission, claim: Claim
    ) -> core.Command | r.Reply:
        error = claim.of_session()
        if error is not None:
            return r.Err(error_text(error))
        if (
            self._service is None
            or asked.entity != self._service
            or len(asked.authorization) != SIGNATURE
            # S001-17, ACC-59: by the key of this session only.
            or not self._verifier.service(claim.signed, asked.authorization)
        ):
            return r.Err("SERVICE")
        return core.SubscribeService(
            self._session,
            _ref(asked),
            self._service,
            command.expected,
            isinstance(command, c.Subs),
        )

    def _get(self, _: c.SmpGet, asked: Transmission, claim: Claim) -> core.Command:
        return core.Get(self._session, _ref(asked), QueueId(asked.entity), claim)

    def _ack(self, ack: c.SmpAck, asked: Transmission, claim: Claim) -> core.Command:
        messages = (MessageId(ack.message_id),) if ack.message_id else ()
        queue = QueueId(asked.entity)
        return core.Confirm(self._session, _ref(asked), queue, messages, proof=claim)

    def _send(self, send: c.SmpSend, asked: Transmission, claim: Claim) -> core.Command | r.Reply:
        # ACC-14, ACC-15: the longest body is accepted, one byte more is LARGE_MSG.
        if len(send.body) > body_max(self._version):
            return r.Err("LARGE_MSG")
        message = Message(
            MessageId(self._shell.draw(ID_BYTES)),
            send.body,
            self._shell.now(),
            NOTIFYING if send.notify else NO_PROPERTIES,
        )
        via = Address(Party.SENDER, asked.entity)
        return core.Send(self._session, _ref(asked), NOWHERE, message, via, claim)

    def _del(self, _: c.Del, asked: Transmission, claim: Claim) -> core.Command:
        return core.Delete(self._session, _ref(asked), QueueId(asked.entity), claim)

    def _que(self, _: c.Que, asked: Transmission, claim: Claim) -> core.Command:
        return core.Inspect(self._session, _ref(asked), QueueId(asked.entity), claim)

    def _nkey(self, command: c.NKey, asked: Transmission, claim: Claim) -> core.Command:
        notifier, answer = self._notifier(command)
        ref = _ref(asked, answer)
        queue = QueueId(asked.entity)
        return core.Amend(self._session, ref, queue, SetNotifier(notifier), proof=claim)

    def _amend(
        self, command: c.Command, asked: Transmission, claim: Claim
    ) -> core.Command | r.Reply:
        change, party = _change(command)
        # ACC-8, ACC-18: each party is known by its own id only.
        if party is Party.RECIPIENT:
            queue, via = QueueId(asked.entity), None
        else:
            queue, via = NOWHERE, Address(party, asked.entity)
        ref = _ref(asked, None if party is Party.LINK else OK)
        return core.Amend(self._session, ref, queue, change, via, claim)


def _ref(asked: Transmission, answer: r.Reply | None = None) -> RequestRef:
    # ACC-9, ACC-19: the answer names the id of the request.
    return RequestRef(asked.correlation, asked.entity, answer)


def _change(command: c.Command) -> tuple[Change, Party]:
    """The fields that a command changes, and the party that asks for it."""
    match command:
        case c.Key(key):
            return Secure(key), Party.RECIPIENT
        case c.SKey(key):
            return Secure(key, by_sender=True), Party.SENDER
        case c.RKey(keys):
            return ChangeKeys(keys), Party.RECIPIENT
        case c.LSet(link, fixed, user):
            return SetLink(Link(link, fixed, user)), Party.RECIPIENT
        case c.LKey(key):
            return ReadLink(key), Party.LINK
        case c.LGet():
            return ReadLink(), Party.LINK
        case c.LDel():
            return DropLink(), Party.RECIPIENT
        case c.NDel():
            return DropNotifier(), Party.RECIPIENT
        case c.Off():
            return Suspend(), Party.RECIPIENT
        case _:
            raise AssertionError("every other command has a maker of its own")


MAKERS: dict[
    type[Any], Callable[[RequestReader, Any, Transmission, Claim], core.Command | r.Reply]
] = {
    c.New: RequestReader._new,
    c.Sub: RequestReader._sub,
    c.NSub: RequestReader._nsub,
    c.Subs: RequestReader._subs,
    c.NSubs: RequestReader._subs,
    c.SmpGet: RequestReader._get,
    c.SmpAck: RequestReader._ack,
    c.SmpSend: RequestReader._send,
    c.Del: RequestReader._del,
    c.Que: RequestReader._que,
    c.NKey: RequestReader._nkey,
    **dict.fromkeys(
        (c.Key, c.SKey, c.RKey, c.LSet, c.LKey, c.LGet, c.LDel, c.NDel, c.Off), RequestReader._amend
    ),
}

REFUSED: dict[type[Any], r.Reply] = {
    # ACC-89: PING is answered PONG.
    c.Ping: r.Pong(),
    # This router is no proxy, and resolves no names.
    c.Prxy: r.Err("PROXY BASIC_AUTH"),
    c.PFwd: r.Err("PROXY NO_SESSION"),
    c.RFwd: r.Err("CRYPTO"),
    c.Rslv: r.Err("NAME NO_RESOLVER"),
}
"""Commands that are refused without any look-up."""
