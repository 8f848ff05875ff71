"""Conversations with SMP sessions as lines of text, played on an `SmpHarness`.

A line is a block: ``a> SUB q; SUB p`` is sent by the client a, and ``a< SOK q; SOK p`` has to come.
A star marks what nobody asked for, as in ``b< * END q``. Behind the word of a reply is the name of
what it is about: ``q`` is the recipient's id of a queue, ``q.snd`` that of its sender, ``q.lnk`` of
its link, ``q.ntf`` of its notifier, ``q.ntf2`` of the next one. A message is called by its body.
``-- flush`` lets collected events go, ``-- notify`` the notices, ``-- a leaves`` ends a session.

Requests are written with the names of what they need:

    NEW q [only] [contact|plain] [link] [notifier[=x:n]] [key=x:k] [password=p]
    SUB q, GET q, OFF q, DEL q, QUE q, NDEL q, NSUB q, LGET q, LDEL q, PING
    SEND q body [notify], ACK q [body], KEY q bob, SKEY q bob, RKEY q k1 k2, LKEY q bob
    NKEY q, LSET q user, SUBS q1 q2, NSUBS q1 q2, RAW q bytes

Each is signed as it should be, unless it ends in ``by bob``, ``by nobody``; it is about what it
should be, unless in ``of q.snd``. With ``+service`` the service signs it too, with ``-service`` it
does not.
"""

from __future__ import annotations

import json
import shlex
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import replace
from difflib import ndiff
from itertools import combinations

from headgate.client.smp.recipient import Key, Queue, Request, spki
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.parties import Purpose
from headgate.core.model.tally import Tally
from headgate.crypto.box import shared_key
from headgate.crypto.keys import raw_key
from headgate.crypto.proof import link_sender
from headgate.store.base import Store
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.sealed import QuotaMarker
from headgate.wire.smp.handshake import Role
from tests.support.smp_session import Received, SmpHarness, SmpSessionClient, digest, make_key

COUNTS_ONLY = 19
"""Before this version a tally has no hash."""

BARE: dict[str, c.Command] = {
    "SUB": c.Sub(),
    "GET": c.SmpGet(),
    "OFF": c.Off(),
    "DEL": c.Del(),
    "QUE": c.Que(),
    "NDEL": c.NDel(),
    "LDEL": c.LDel(),
}
"""Commands of the recipient that have no parameters."""


class SmpTranscript:
    """Plays lines on a harness and writes down what came of them.

    Names mean the same to all clients: whoever knows the name of a queue has its keys.
    """

    def __init__(
        self, *, limits: Limits | None = None, quota: int = 128, store: Store | None = None
    ) -> None:
        self.harness = SmpHarness(limits=limits, quota=quota, store=store)
        self.clients: dict[str, SmpSessionClient] = {}
        self.queues: dict[str, Queue] = {}
        self._ids: dict[str, bytes] = {}
        self._names: dict[bytes, str] = {}
        self._made: dict[bytes, tuple[str, Key, bytes]] = {}
        """By the correlation of NEW and NKEY: the queue's name, its key, that of the exchange."""
        self._notifiers: dict[str, Key] = {}
        """Keys of notifiers, by the names of their queues, that came with NEW."""
        self._asked = 0
        self._lines: list[str] = []

    # Playing.

    def connect(
        self, name: str, *, version: int = 19, service: str = "", role: Role = Role.MESSAGING
    ) -> SmpSessionClient:
        """A client, who may be a session of a service; without one here, a plain one of the last
        version is made when it first sends."""
        client = self.harness.connect(name, version=version, service=service, role=role)
        self.clients[name] = client
        if client.service_id:
            self._name(client.service_id, service)
        return client

    def play(self, text: str) -> None:
        """Send what clients send; everything has to come as it is written."""
        expected = [line.strip() for line in text.strip().splitlines()]
        self._lines.clear()
        for line in expected:
            self._step(line)
        if self._lines != expected:
            raise AssertionError("\n".join(["another transcript", *ndiff(expected, self._lines)]))
        assert not any(client.unanswered for client in self.clients.values()), "all are answered"

    def _step(self, line: str) -> None:
        name, mark, rest = line.partition(" ")
        if name == "--":
            self._lines.append(line)
            self._clock(rest)
        elif mark and name.endswith(">"):
            self._lines.append(line)
            client = self.client(name[:-1])
            client.post(*(self.request(client, part) for part in rest.split(";")))
            self.harness.settle()
            self._write_down(name[:-1])
        for other in self.clients:
            self._write_down(other)

    def _clock(self, what: str) -> None:
        if what == "flush":
            self.harness.flush()
        elif what == "notify":
            self.harness.notify()
        else:
            name, _, verb = what.partition(" ")
            assert verb == "leaves", what
            self.client(name).hang_up()
            self.harness.settle()

    def _write_down(self, name: str) -> None:
        """What came for a client since the last step. Who asked is written down first."""
        client = self.clients[name]
        blocks, client.received = client.received, []
        for block in blocks:
            words = "; ".join([self.line(client, each) for each in block])
            self._lines.append(f"{name}< {words}")

    def client(self, name: str) -> SmpSessionClient:
        if name not in self.clients:
            self.connect(name)
        return self.clients[name]

    # Names.

    def id(self, name: str) -> bytes:
        """What a name stands for; one that nothing has yet is that of nothing."""
        if name not in self._ids:
            self._name(digest(name)[:24], name)
        return self._ids[name]

    def _name(self, id: bytes, name: str) -> None:
        self._ids[name] = id
        self._names[id] = name

    def name(self, id: bytes) -> str:
        return self._names.get(id, id.hex())

    def _message(self, body: str) -> MessageId:
        found = [id for id, each in self.harness.bodies.items() if each == body.encode()]
        return found[-1] if found else MessageId(digest(body)[:24])

    def _body(self, id: bytes) -> str:
        return self.harness.bodies[MessageId(id)].decode()

    # Requests.

    def request(self, client: SmpSessionClient, text: str) -> Request:
        word, *words = shlex.split(text)
        entity, key, by_service = None, None, None
        signs = True
        while words and words[-1] in ("+service", "-service"):
            by_service = words.pop() == "+service"
        while len(words) >= 2 and words[-2] in ("by", "of"):
            how, name = words[-2:]
            del words[-2:]
            if how == "of":
                entity = self.id(name) if name != "nothing" else b""
            elif name == "nobody":
                signs = False
            else:
                key = make_key(name)
        asked = self._request(client, word, words)
        asked = replace(asked, service_signed=by_service)
        if entity is not None:
            asked = replace(asked, entity=entity)
        if key is not None or not signs:
            asked = replace(asked, key=key)
        return asked

    def _request(self, client: SmpSessionClient, word: str, words: list[str]) -> Request:
        if word == "PING":
            return Request(c.Ping())
        if word in ("SUBS", "NSUBS"):
            expected = Tally.of(QueueId(self.id(name)) for name in words)
            all_of_it = c.Subs(expected) if word == "SUBS" else c.NSubs(expected)
            return Request(all_of_it, client.service_id)
        name, *rest = words
        if word == "NEW":
            return self._new(name, rest)
        queue = self.queues.get(name)
        recipient = self.id(name)
        own = queue.key if queue is not None else make_key(f"{name}.key")
        match word, rest:
            case ("SEND", [body, *flags]):
                command = c.SmpSend("notify" in flags, body.encode())
                return Request(command, self.id(f"{name}.snd"))
            case ("ACK", []):
                return Request(c.SmpAck(b""), recipient, own)
            case ("ACK", [body]):
                return Request(c.SmpAck(self._message(body)), recipient, own)
            case ("KEY", [key]):
                return Request(c.Key(spki(make_key(key))), recipient, own)
            case ("SKEY", [key]):
                by = make_key(key)
                return Request(c.SKey(spki(by)), self.id(f"{name}.snd"), by)
            case ("LKEY", [key]):
                by = make_key(key)
                return Request(c.LKey(spki(by)), self.id(f"{name}.lnk"), by)
            case ("RKEY", keys):
                command_keys = tuple(spki(make_key(key)) for key in keys)
                return Request(c.RKey(command_keys), recipient, own)
            case ("LSET", [user]):
                link = self.id(f"{name}.lnk")
                return Request(c.LSet(link, b"fixed", user.encode()), recipient, own)
            case ("LGET", []):
                return Request(c.LGet(), self.id(f"{name}.lnk"))
            case ("NSUB", []):
                notifier = queue.notifier if queue is not None else b""
                by = self._notifiers.get(name, make_key(f"{name}.ntf key"))
                return Request(c.NSub(), notifier or self.id(f"{name}.ntf"), by)
            case ("NKEY", []):
                notified = c.NKey(spki(make_key(f"{name}.ntf key")), spki(digest(f"{name}.ntf dh")))
                made = self._correlation(name, own, digest(f"{name}.ntf dh"))
                return Request(notified, recipient, own, correlation=made)
            case ("RAW", [text]):
                return Request(text.encode(), recipient, own)
            case (_, []) if word in BARE:
                return Request(BARE[word], recipient, own)
        raise AssertionError(f"no request: {word} {words}")

    def _new(self, name: str, options: list[str]) -> Request:
        given = dict(option.partition("=")[::2] for option in options)
        key, dh = make_key(given.get("key", f"{name}.key")), digest(f"{name}.dh")
        purpose: Purpose | None = Purpose.MESSAGING
        if "contact" in given or "plain" in given:
            purpose = Purpose.CONTACT if "contact" in given else None
        correlation = self._correlation(name, key, dh)
        link = notifier = None
        if "link" in given:
            chosen = self.id(f"{name}.lnk") if purpose is Purpose.CONTACT else None
            link = c.NewLink(link_sender(correlation), b"fixed", b"user", chosen)
        if "notifier" in given:
            self._notifiers[name] = make_key(given["notifier"] or f"{name}.ntf key")
            notifier = c.NKey(spki(self._notifiers[name]), spki(dh))
        password = given["password"].encode() if "password" in given else None
        new = c.New(spki(key), spki(dh), password, "only" not in given, purpose, link, notifier)
        return Request(new, key=key, correlation=correlation)

    def _correlation(self, name: str, key: Key, dh: bytes) -> bytes:
        """For a request that makes something, so that its answer is recognised."""
        self._asked += 1
        correlation = digest(f"request {self._asked}")[:24]
        self._made[correlation] = name, key, dh
        return correlation

    # Replies.

    def line(self, client: SmpSessionClient, received: Received) -> str:
        if isinstance(received.reply, r.Ids):
            self._learn_queue(received)
        elif isinstance(received.reply, r.Nid):
            self._learn_notifier(received)
        words = [received.reply.tag.decode()]
        if not received.correlation:
            words.insert(0, "*")
        if received.entity:
            words.append(self.name(received.entity))
        return " ".join([*words, *self._details(client, received)])

    def _details(self, client: SmpSessionClient, received: Received) -> Iterable[str]:
        match received.reply:
            case r.Err(text):
                return [text]
            case r.Sok(service) if service is not None:
                return ["as", self.name(service)]
            case r.Ids(recipient, sender, _, _, link, service, notifier):
                ids = [recipient, sender, link, None if notifier is None else notifier.notifier]
                names = [self.name(id) for id in ids if id is not None]
                return names if service is None else [*names, "as", self.name(service)]
            case r.Nid(notifier, _):
                return [self.name(notifier)]
            case r.Msg() as message:
                opened = self.queues[self.name(received.entity)].open(message)
                if isinstance(opened, QuotaMarker):
                    self.harness.bodies[MessageId(message.message_id)] = b"QUOTA"
                    return ["QUOTA"]
                assert opened.body == self.harness.bodies[MessageId(message.message_id)]
                return [opened.body.decode()]
            case r.NMsg() as notice:
                queue = self.queues[self.name(received.entity).partition(".")[0]]
                return [self._body(queue.open_notice(notice).message_id)]
            case r.Lnk(sender, fixed, user):
                return [self.name(sender), fixed.decode(), user.decode()]
            case r.Soks(tally) | r.Ends(tally):
                return [self._tally(tally, client.version)]
            case r.Info(text):
                return [self._info(text)]
            case _:
                return []

    def _tally(self, tally: Tally, version: int) -> str:
        """The queues or notifiers that it is the tally of."""
        if version < COUNTS_ONLY or not tally.count:
            assert not tally.xor
            return str(tally.count)
        members = [queue.id for queue in self.queues.values()]
        members += [queue.notifier for queue in self.queues.values() if queue.notifier]
        for some in combinations(members, tally.count):
            if Tally.of(map(QueueId, some)) == tally:
                return " ".join(map(self.name, some))
        return f"{tally.count} {tally.hash.hex()}"

    def _info(self, text: bytes) -> str:
        json.loads(text)
        named = text.decode()
        for id, body in self.harness.bodies.items():
            named = named.replace(b64encode(id).decode(), body.decode())
        return named

    def _learn_queue(self, received: Received) -> None:
        ids = received.reply
        assert isinstance(ids, r.Ids)
        name, key, dh = self._made.pop(received.correlation)
        self._name(ids.recipient, name)
        self._name(ids.sender, f"{name}.snd")
        if ids.link is not None:
            self._name(ids.link, f"{name}.lnk")
        queue = Queue(ids, key, shared_key(dh, raw_key(ids.dh)))
        self.queues[name] = queue
        if ids.notifier is not None:
            self._name(ids.notifier.notifier, f"{name}.ntf")
            queue.notice_secret = shared_key(dh, raw_key(ids.notifier.dh))

    def _learn_notifier(self, received: Received) -> None:
        nid = received.reply
        assert isinstance(nid, r.Nid)
        name, _, dh = self._made.pop(received.correlation)
        queue, known = self.queues[name], f"{name}.ntf"
        number = 2
        while known in self._ids:
            known, number = f"{name}.ntf{number}", number + 1
        self._name(nid.notifier, known)
        queue.ids = replace(queue.ids, notifier=nid)
        queue.notice_secret = shared_key(dh, raw_key(nid.dh))
