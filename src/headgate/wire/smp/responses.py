"""Effects of the core as transmissions to a client."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from headgate.core import effects as e
from headgate.core.model.message import NOTIFY, Message
from headgate.core.model.parties import Parties
from headgate.crypto.box import NONCE_BYTES
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.blocks import TRANSMISSION
from headgate.wire.smp.codec.sealed import (
    message_plaintext,
    notice_plaintext,
    quota_plaintext,
    seal_message,
    seal_notice,
)
from headgate.wire.smp.codec.transmissions import encode_unsigned
from headgate.wire.smp.errors import error_text
from headgate.wire.smp.requests import RequestRef

NOBODY = RequestRef(b"", b"")
"""Stands for the request of effects that no request asked for."""

LATER = (e.End, e.Deleted, e.ServiceEnd, e.WatchEnd, e.WatchDeleted)
"""Effects that are collected and sent a little later: a client that lost many queues gets them in a
few blocks."""

GRANTED = (e.Granted, e.Watching, e.ServiceGranted)
"""Effects that give a client a queue, or the queues of a service."""

UNREADABLE = "STORE unreadable"

STANDINGS = {
    e.Standing.NONE: None,
    e.Standing.SUBSCRIBED: "subThread",
    e.Standing.GETTING: "prohibitSub",
}


class Responses:
    """Encodes the answers and events of one session.

    Owned by the session, whose version decides the bytes.
    """

    __slots__ = ("_draw", "_version")

    def __init__(self, version: int, draw: Callable[[int], bytes]) -> None:
        self._version = version
        self._draw = draw

    def encode(self, asked: RequestRef, reply: r.Reply) -> bytes:
        """The transmission of an answer to a request."""
        return encode_unsigned(
            asked.correlation, asked.entity, r.encode_reply(reply, self._version)
        )

    def encode_effect(self, effect: e.Effect) -> bytes:
        """The transmission of an effect. A very long correlation id may leave no room for the
        answer."""
        transmission = ENCODERS[type(effect)](self, effect)
        if len(transmission) > TRANSMISSION:
            return self.encode(request_of(e.ref_of(effect)), r.Err("LARGE_MSG"))
        return transmission

    def _event(self, entity: bytes, reply: r.Reply) -> bytes:
        # S000-13: an effect without a request has no correlation id.
        return encode_unsigned(b"", entity, r.encode_reply(reply, self._version))

    def _done(self, effect: e.Done | e.Receipt) -> bytes:
        return self.encode(request_of(effect.ref), r.Ok())

    def _failed(self, effect: e.Failed) -> bytes:
        return self.encode(request_of(effect.ref), r.Err(error_text(effect.error)))

    def _granted(self, effect: e.Granted | e.Watching) -> bytes:
        asked = request_of(effect.ref)
        return self.encode(asked, asked.answer or r.Sok(effect.service))

    def _delivered(self, effect: e.Deliver) -> bytes:
        message = effect.message
        assert effect.parties is not None, "a queue of this wire has parties"
        reply = r.Msg(message.id, _sealed(effect.parties, message))
        correlation = b"" if effect.ref is None else request_of(effect.ref).correlation
        return encode_unsigned(correlation, effect.queue, r.encode_reply(reply, self._version))

    def _amended(self, effect: e.Amended) -> bytes:
        asked, parties = request_of(effect.ref), effect.parties
        if asked.answer is not None:
            return self.encode(asked, asked.answer)
        assert parties.link is not None, "it was read by its link"
        return self.encode(asked, r.Lnk(parties.sender, parties.link.fixed, parties.link.user))

    def _inspected(self, effect: e.Inspected) -> bytes:
        return self.encode(request_of(effect.ref), r.Info(_info(effect)))

    def _noticed(self, effect: e.Noticed) -> bytes:
        notice, nonce = effect.notice, self._draw(NONCE_BYTES)
        plaintext = notice_plaintext(notice.message, int(notice.arrived))
        return self._event(
            notice.notifier, r.NMsg(nonce, seal_notice(notice.secret, nonce, plaintext))
        )

    def _service_granted(self, effect: e.ServiceGranted) -> bytes:
        return self.encode(request_of(effect.ref), r.Soks(effect.tally))


def request_of(ref: object) -> RequestRef:
    assert isinstance(ref, RequestRef), "requests of this wire have their own refs"
    return ref


def _sealed(parties: Parties, message: Message) -> bytes:
    seconds = int(message.arrived)
    if message.is_marker:
        plaintext = quota_plaintext(seconds)
    else:
        plaintext = message_plaintext(seconds, bool(message.properties.get(NOTIFY)), message.body)
    return seal_message(parties.secret, message.id, plaintext)


def _info(effect: e.Inspected) -> bytes:
    """The description of a queue in the words of the protocol."""
    parties, head = effect.parties, effect.head
    info: dict[str, object] = {
        "qiSnd": parties is not None and parties.sender_key is not None,
        "qiNtf": parties is not None and parties.notifier is not None,
    }
    standing = STANDINGS[effect.standing]
    if standing is not None:
        sub: dict[str, object] = {"qSubThread": standing}
        if effect.delivered is not None:
            sub["qDelivered"] = b64encode(effect.delivered).decode()
        info["qiSub"] = sub
    info["qiSize"] = effect.messages
    if head is not None:
        at = datetime.fromtimestamp(int(head.arrived), UTC)
        info["qiMsg"] = {
            "msgId": b64encode(head.id).decode(),
            "msgTs": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "msgType": "quota" if head.is_marker else "message",
        }
    return json.dumps(info, separators=(",", ":")).encode()


ENCODERS: dict[type[Any], Callable[[Responses, Any], bytes]] = {
    e.Done: Responses._done,
    e.Receipt: Responses._done,
    e.Failed: Responses._failed,
    e.Granted: Responses._granted,
    e.Watching: Responses._granted,
    e.Deliver: Responses._delivered,
    e.Amended: Responses._amended,
    e.Inspected: Responses._inspected,
    e.Noticed: Responses._noticed,
    e.ServiceGranted: Responses._service_granted,
    e.SweepDone: lambda answers, _: answers._event(b"", r.Alls()),
    e.Damaged: lambda answers, effect: answers._event(effect.queue, r.Err(UNREADABLE)),
    e.End: lambda answers, effect: answers._event(effect.queue, r.SmpEnd()),
    e.Deleted: lambda answers, effect: answers._event(effect.queue, r.Deld()),
    e.WatchEnd: lambda answers, effect: answers._event(effect.notifier, r.SmpEnd()),
    e.WatchDeleted: lambda answers, effect: answers._event(effect.notifier, r.Deld()),
    e.ServiceEnd: lambda answers, effect: answers._event(effect.service, r.Ends(effect.tally)),
}
