"""Effects of the core as transmissions to a client."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from headgate.core import effects as e
from headgate.core.message import NOTIFY, Message
from headgate.core.parties import Parties
from headgate.wire.smp import replies as r
from headgate.wire.smp.blocks import TRANSMISSION
from headgate.wire.smp.bodies import message_plaintext, notice_plaintext, quota_plaintext
from headgate.wire.smp.box import NONCE_BYTES, seal_message, seal_notice
from headgate.wire.smp.errors import error_text
from headgate.wire.smp.requests import Asked
from headgate.wire.smp.transmissions import encode_unsigned

NOBODY = Asked(b"", b"")
"""Stands for the request of what nobody asked for."""

LATER = (e.End, e.Deleted, e.ServiceEnd, e.WatchEnd, e.WatchDeleted)
"""Effects that are collected, and told a little later: a client that lost many queues is told
in a few blocks."""

UNREADABLE = "STORE unreadable"

STANDINGS = {
    e.Standing.NONE: None,
    e.Standing.SUBSCRIBED: "subThread",
    e.Standing.GETTING: "prohibitSub",
}


class Answers:
    """How one session says things."""

    __slots__ = ("_draw", "_version")

    def __init__(self, version: int, draw: Callable[[int], bytes]) -> None:
        self._version = version
        self._draw = draw

    def encode(self, asked: Asked, reply: r.Reply) -> bytes:
        """The answer to a request."""
        return encode_unsigned(
            asked.correlation, asked.entity, r.encode_reply(reply, self._version)
        )

    def tell(self, effect: e.Effect) -> bytes:
        """What the core says, as a transmission. Whoever asks with a very long correlation may
        leave no room for the answer."""
        told = TELLERS[type(effect)](self, effect)
        if len(told) > TRANSMISSION:
            return self.encode(_asked(getattr(effect, "ref", None)), r.Err("LARGE_MSG"))
        return told

    def _event(self, entity: bytes, reply: r.Reply) -> bytes:
        return encode_unsigned(b"", entity, r.encode_reply(reply, self._version))

    def _done(self, effect: e.Done | e.Receipt) -> bytes:
        return self.encode(_asked(effect.ref), r.Ok())

    def _failed(self, effect: e.Failed) -> bytes:
        return self.encode(_asked(effect.ref), r.Err(error_text(effect.error)))

    def _granted(self, effect: e.Granted | e.Watching) -> bytes:
        asked = _asked(effect.ref)
        return self.encode(asked, asked.answer or r.Sok(effect.service))

    def _delivered(self, effect: e.Deliver) -> bytes:
        message = effect.message
        assert effect.parties is not None, "a queue of this wire has parties"
        reply = r.Msg(message.id, _sealed(effect.parties, message))
        correlation = b"" if effect.ref is None else _asked(effect.ref).correlation
        return encode_unsigned(correlation, effect.queue, r.encode_reply(reply, self._version))

    def _amended(self, effect: e.Amended) -> bytes:
        asked, parties = _asked(effect.ref), effect.parties
        if asked.answer is not None:
            return self.encode(asked, asked.answer)
        assert parties.link is not None, "it was read by its link"
        return self.encode(asked, r.Lnk(parties.sender, parties.link.fixed, parties.link.user))

    def _inspected(self, effect: e.Inspected) -> bytes:
        return self.encode(_asked(effect.ref), r.Info(_info(effect)))

    def _noticed(self, effect: e.Noticed) -> bytes:
        notice, nonce = effect.notice, self._draw(NONCE_BYTES)
        plaintext = notice_plaintext(notice.message, int(notice.arrived))
        return self._event(
            notice.notifier, r.NMsg(nonce, seal_notice(notice.secret, nonce, plaintext))
        )

    def _service_granted(self, effect: e.ServiceGranted) -> bytes:
        return self.encode(_asked(effect.ref), r.Soks(effect.tally))


def _asked(ref: object) -> Asked:
    assert isinstance(ref, Asked), "requests of this wire have their own refs"
    return ref


def _sealed(parties: Parties, message: Message) -> bytes:
    seconds = int(message.arrived)
    if message.is_marker:
        plaintext = quota_plaintext(seconds)
    else:
        plaintext = message_plaintext(seconds, bool(message.properties.get(NOTIFY)), message.body)
    return seal_message(parties.secret, message.id, plaintext)


def _info(effect: e.Inspected) -> bytes:
    """What there is to say of a queue, in the words that clients know."""
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


TELLERS: dict[type[Any], Callable[[Answers, Any], bytes]] = {
    e.Done: Answers._done,
    e.Receipt: Answers._done,
    e.Failed: Answers._failed,
    e.Granted: Answers._granted,
    e.Watching: Answers._granted,
    e.Deliver: Answers._delivered,
    e.Amended: Answers._amended,
    e.Inspected: Answers._inspected,
    e.Noticed: Answers._noticed,
    e.ServiceGranted: Answers._service_granted,
    e.SweepDone: lambda answers, _: answers._event(b"", r.Alls()),
    e.Damaged: lambda answers, effect: answers._event(effect.queue, r.Err(UNREADABLE)),
    e.End: lambda answers, effect: answers._event(effect.queue, r.End()),
    e.Deleted: lambda answers, effect: answers._event(effect.queue, r.Deld()),
    e.WatchEnd: lambda answers, effect: answers._event(effect.notifier, r.End()),
    e.WatchDeleted: lambda answers, effect: answers._event(effect.notifier, r.Deld()),
    e.ServiceEnd: lambda answers, effect: answers._event(effect.service, r.Ends(effect.tally)),
}
