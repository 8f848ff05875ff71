"""The requests of a client to a router, by party.

Each is a command, the id by which its party knows the entity, and the party's key. `ANSWERS` has
the possible answers.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Final

from headgate.client.smp.recipient import Key, LinkData, Queue, Request, make_key, spki
from headgate.core.model.parties import Purpose
from headgate.core.model.tally import Tally
from headgate.crypto.box import shared_key
from headgate.crypto.keys import raw_key
from headgate.crypto.proof import link_sender
from headgate.errors import UnexpectedReply
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r

CORRELATION_BYTES: Final = 24
PRIVATE_BYTES: Final = 32

SUBSCRIBING: Final = (c.Sub, c.NSub)
"""Commands with one queue each, so that many may be needed; their answers may bring a message
each."""

SUBSCRIBING_ALL: Final = (c.Subs, c.NSubs)

ANSWERS: Final[dict[type[c.Command], tuple[type[r.Reply], ...]]] = {
    c.New: (r.Ids,),
    c.Sub: (r.Sok, r.Ok, r.Msg),
    c.NSub: (r.Sok, r.Ok),
    c.Subs: (r.Soks,),
    c.NSubs: (r.Soks,),
    c.SmpGet: (r.Msg, r.Ok),
    c.SmpAck: (r.Ok, r.Msg),
    c.SmpSend: (r.Ok,),
    c.Key: (r.Ok,),
    c.SKey: (r.Ok,),
    c.RKey: (r.Ok,),
    c.LSet: (r.Ok,),
    c.LDel: (r.Ok,),
    c.LKey: (r.Lnk,),
    c.LGet: (r.Lnk,),
    c.NKey: (r.Nid,),
    c.NDel: (r.Ok,),
    c.Off: (r.Ok,),
    c.Del: (r.Ok,),
    c.Que: (r.Info,),
    c.Ping: (r.Pong,),
}
"""The successful answers to a command. A command that is missing here may be answered with
anything."""


def is_answer(command: c.Command | bytes, reply: r.Reply) -> bool:
    """Whether a reply can be the answer to a command."""
    if isinstance(command, bytes) or isinstance(reply, r.Err):
        return True
    answers = ANSWERS.get(type(command))
    return answers is None or isinstance(reply, answers)


def begins_subscription(command: c.Command | bytes) -> bool:
    """Whether events may follow: then the link is kept alive."""
    if isinstance(command, c.New):
        return command.subscribe
    return isinstance(command, SUBSCRIBING + SUBSCRIBING_ALL)


# The recipient of a queue.


@dataclass(slots=True)
class NewQueue:
    """A queue to be made, with the private keys of its recipient."""

    request: Request
    key: Key = field(repr=False)
    dh: bytes = field(repr=False)
    notifier_key: Key | None = field(default=None, repr=False)

    def made(self, ids: r.Reply) -> Queue:
        """The queue, by the router's answer."""
        if not isinstance(ids, r.Ids):
            raise UnexpectedReply(f"{ids.tag.decode()} is no answer to NEW")
        queue = Queue(ids, self.key, shared_key(self.dh, raw_key(ids.dh)), self.notifier_key)
        if ids.notifier is not None:
            queue.notice_secret = shared_key(self.dh, raw_key(ids.notifier.dh))
        return queue


def new_queue(
    key: Key | None = None,
    *,
    subscribe: bool = True,
    purpose: Purpose | None = Purpose.MESSAGING,
    link: LinkData | None = None,
    notifier_key: Key | None = None,
    password: bytes | None = None,
    correlation: bytes | None = None,
) -> NewQueue:
    """NEW, with fresh keys. The sender's id of a queue with a link is derived from the correlation
    id, so that is drawn here, unless the caller passes it."""
    key = make_key() if key is None else key
    dh = secrets.token_bytes(PRIVATE_BYTES)
    correlation = secrets.token_bytes(CORRELATION_BYTES) if correlation is None else correlation
    linked = None
    if link is not None:
        linked = c.NewLink(link_sender(correlation), link.fixed, link.user, link.id)
    notified = None if notifier_key is None else c.NKey(spki(notifier_key), spki(dh))
    new = c.New(spki(key), spki(dh), password, subscribe, purpose, linked, notified)
    return NewQueue(Request(new, key=key, correlation=correlation), key, dh, notifier_key)


def subscribe(recipient: bytes, key: Key) -> Request:
    """SUB: answered with the first message, if there is one."""
    return Request(c.Sub(), recipient, key)


def get(recipient: bytes, key: Key) -> Request:
    """GET: one message without a subscription."""
    return Request(c.SmpGet(), recipient, key)


def acknowledge(recipient: bytes, key: Key, message_id: bytes) -> Request:
    """ACK: answered with the next message, if there is one."""
    return Request(c.SmpAck(message_id), recipient, key)


def secure(recipient: bytes, key: Key, sender_key: bytes) -> Request:
    """KEY: from now on only the owner of this key may send."""
    return Request(c.Key(sender_key), recipient, key)


def replace_keys(recipient: bytes, key: Key, *keys: bytes) -> Request:
    """RKEY: replace the recipient's keys."""
    return Request(c.RKey(keys), recipient, key)


def set_link(recipient: bytes, key: Key, link: bytes, fixed: bytes, user: bytes) -> Request:
    """LSET: the data behind a link."""
    return Request(c.LSet(link, fixed, user), recipient, key)


def delete_link(recipient: bytes, key: Key) -> Request:
    """LDEL."""
    return Request(c.LDel(), recipient, key)


def set_notifier(recipient: bytes, key: Key, notifier_key: bytes, dh: bytes) -> Request:
    """NKEY: the owner of this key may subscribe to notices."""
    return Request(c.NKey(notifier_key, dh), recipient, key)


def delete_notifier(recipient: bytes, key: Key) -> Request:
    """NDEL."""
    return Request(c.NDel(), recipient, key)


def suspend(recipient: bytes, key: Key) -> Request:
    """OFF: suspend the queue."""
    return Request(c.Off(), recipient, key)


def delete(recipient: bytes, key: Key) -> Request:
    """DEL."""
    return Request(c.Del(), recipient, key)


def describe(recipient: bytes, key: Key) -> Request:
    """QUE: describe the queue, as JSON."""
    return Request(c.Que(), recipient, key)


# The sender.


def send(sender: bytes, body: bytes, key: Key | None = None, *, notify: bool = False) -> Request:
    """SEND: with the key if the queue is secured, otherwise without."""
    return Request(c.SmpSend(notify, body), sender, key)


def secure_as_sender(sender: bytes, key: Key) -> Request:
    """SKEY: from now on only this key may send. Repeating it with the same key is harmless."""
    return Request(c.SKey(spki(key)), sender, key)


def secure_by_link(link: bytes, key: Key) -> Request:
    """LKEY: as SKEY, and read the data behind the link."""
    return Request(c.LKey(spki(key)), link, key)


def read_link(link: bytes) -> Request:
    """LGET: read the data behind the link of a contact."""
    return Request(c.LGet(), link)


# The notifier, services, and all clients.


def subscribe_notifier(notifier: bytes, key: Key) -> Request:
    """NSUB."""
    return Request(c.NSub(), notifier, key)


def subscribe_service(service: bytes, expected: Tally) -> Request:
    """SUBS: subscribe all queues of the session's service, with the expected tally."""
    return Request(c.Subs(expected), service)


def subscribe_notifier_service(service: bytes, expected: Tally) -> Request:
    """NSUBS: the same for notifiers."""
    return Request(c.NSubs(expected), service)


def ping() -> Request:
    """PING."""
    return Request(c.Ping())
