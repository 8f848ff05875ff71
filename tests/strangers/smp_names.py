"""Between the names of the model and what is on the wire: ids, keys, secrets, and message ids."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from headgate.client.smp.recipient import Key, Queue, Request, make_key, spki
from headgate.core.model.parties import Purpose
from headgate.core.model.tally import Tally
from headgate.crypto.box import shared_key
from headgate.crypto.keys import raw_key
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.sealed import QuotaMarker, open_notice, parse_notice
from tests.strangers.smp_model import EMPTY, Cmd, Message, Model, Said, service_of
from tests.strangers.smp_world import Difference, Frame

PLAINLY: dict[str, c.Command] = {
    "SUB": c.Sub(),
    "GET": c.SmpGet(),
    "DEL": c.Del(),
    "OFF": c.Off(),
    "NDEL": c.NDel(),
}


@dataclass(frozen=True)
class Draft:
    """The private halves of what NEW or NKEY asks for."""

    key: Key
    dh: bytes
    notifier: Key | None


@dataclass(frozen=True)
class Watch:
    """A notifier as its recipient and whoever watches it know it."""

    id: bytes
    key: Key
    secret: bytes


@dataclass
class Known:
    """A queue with all its keys, and the notifiers it had."""

    queue: Queue
    keys: dict[str, Key] = field(default_factory=dict)
    watches: dict[str, Watch] = field(default_factory=dict)

    def key(self, name: str) -> Key:
        """A sender's key, made when it is first needed; ``k2`` does not sign."""
        if name not in self.keys:
            self.keys[name] = make_key("x25519" if name == "k2" else "ed25519")
        return self.keys[name]


class Names:
    """Of one sequence."""

    def __init__(self, model: Model, service_ids: dict[str, bytes]) -> None:
        self._model = model
        self._service_ids = service_ids
        self._known: dict[str, Known] = {}
        self._called: dict[bytes, str] = {}
        self._messages: dict[bytes, Message] = {}

    # Asking.

    def request(
        self, session: str, cmd: Cmd, meant: Message | str, correlation: bytes
    ) -> tuple[Request, Draft | None]:
        """The request, and what is needed to understand its answer."""
        if cmd.verb == "PING":
            return Request(c.Ping(), correlation=correlation), None
        if cmd.verb == "NEW":
            return self._new(cmd, correlation)
        if cmd.verb in ("SUBS", "NSUBS"):
            return self._subs(session, cmd, correlation), None
        known, draft = self._known[cmd.queue], None
        entity, key = known.queue.id, known.queue.key
        command: c.Command
        signer: Key | None = key
        match cmd.verb:
            case "ACK":
                id = meant.id if isinstance(meant, Message) else b""
                command = c.SmpAck(
                    secrets.token_bytes(24) if not id and meant != EMPTY else id or b""
                )
            case "SEND":
                entity, signer = known.queue.sender, known.key(cmd.key) if cmd.key else None
                command = c.SmpSend(cmd.notify, cmd.text.encode())
            case "KEY":
                command = c.Key(spki(known.key(cmd.key)))
            case "SKEY":
                entity, signer = known.queue.sender, known.key(cmd.key)
                command = c.SKey(spki(signer))
            case "NKEY":
                draft = Draft(key, secrets.token_bytes(32), make_key())
                assert draft.notifier is not None
                command = c.NKey(spki(draft.notifier), spki(draft.dh))
            case "NSUB":
                watch = known.watches.get(str(meant))
                entity = secrets.token_bytes(24) if watch is None else watch.id
                signer = make_key() if watch is None else watch.key
                command = c.NSub()
            case _:
                command = PLAINLY[cmd.verb]
        if cmd.text == "forged" and cmd.verb != "SEND":
            signer = make_key()
        signs_as_service = False if cmd.text == "unsigned" else None
        return Request(command, entity, signer, signs_as_service, correlation), draft

    def _new(self, cmd: Cmd, correlation: bytes) -> tuple[Request, Draft]:
        notifier = make_key() if "N" in cmd.text else None
        draft = Draft(make_key(), secrets.token_bytes(32), notifier)
        noted = None if notifier is None else c.NKey(spki(notifier), spki(draft.dh))
        new = c.New(
            spki(draft.key),
            spki(draft.dh),
            None,
            "S" in cmd.text,
            Purpose.MESSAGING,
            None,
            noted,
        )
        return Request(new, key=draft.key, correlation=correlation), draft

    def _subs(self, session: str, cmd: Cmd, correlation: bytes) -> Request:
        service, _ = service_of(session)
        expected = self.tally(self._model.owned(service or ""))
        if cmd.text == "wrong":
            expected = Tally(expected.count + 1, expected.xor ^ 1)
        command = c.Subs(expected) if cmd.verb == "SUBS" else c.NSubs(expected)
        if service is None:
            return Request(command, secrets.token_bytes(24), make_key(), correlation=correlation)
        return Request(command, self._service_ids[service], correlation=correlation)

    # Ids.

    def learn(self, cmd: Cmd, draft: Draft | None, reply: r.Reply) -> None:
        """The ids that the router has just drawn."""
        if isinstance(reply, r.Ids) and draft is not None:
            queue = Queue(reply, draft.key, shared_key(draft.dh, raw_key(reply.dh)))
            self._known[cmd.queue] = Known(queue)
            self._call(reply.recipient, cmd.queue)
            self._call(reply.sender, f"sender of {cmd.queue}")
            if (draft.notifier is None) != (reply.notifier is None):
                raise Difference(f"{cmd} was given a notifier that it did not want, or none")
            if reply.notifier is not None:
                self._learn_notifier(cmd.queue, draft, reply.notifier)
        elif isinstance(reply, r.Nid) and draft is not None:
            self._learn_notifier(cmd.queue, draft, reply)

    def _learn_notifier(self, queue: str, draft: Draft, nid: r.Nid) -> None:
        assert draft.notifier is not None
        watches = self._known[queue].watches
        name = f"{queue}~{len(watches) + 1}"
        self._call(nid.notifier, name)
        secret = shared_key(draft.dh, raw_key(nid.dh))
        watches[name] = Watch(nid.notifier, draft.notifier, secret)

    def _call(self, id: bytes, name: str) -> None:
        if len(id) != 24 or id in self._called:
            raise Difference(f"the id of {name} is another's, or of a wrong length")
        self._called[id] = name

    def name(self, entity: bytes) -> str:
        """What an id is called: nothing if it is empty, and itself if nobody knows it."""
        if entity in self._service_ids.values():
            return next(name for name, id in self._service_ids.items() if id == entity)
        return self._called.get(entity, entity.hex())

    def tally(self, names: Iterable[str]) -> Tally:
        """Counted anew: the XOR of the MD5 of the ids."""
        count, xor = 0, 0
        for name in names:
            known = self._known[name.partition("~")[0]]
            id = known.watches[name].id if "~" in name else known.queue.id
            count += 1
            xor ^= int.from_bytes(hashlib.md5(id, usedforsecurity=False).digest())
        return Tally(count, xor)

    # Comparing.

    def fits(self, said: Said, frame: Frame) -> bool:
        """Whether this is what the model said. The first copy of a message gives it its id."""
        reply = frame.reply
        if reply.tag.decode() != said.word:
            return reply == r.Err("NO_MSG") and "NO_MSG" in said.instead
        match reply:
            case r.Err(text):
                return text == said.what
            case r.Ids(service=service):
                return not frame.entity and service == self._service(said.what)
        if self.name(frame.entity) != said.about:
            return False
        match reply:
            case r.Sok(service):
                return service == self._service(said.what)
            case r.Soks(tally) | r.Ends(tally):
                assert isinstance(said.what, frozenset)
                return tally == self.tally(said.what)
            case r.Msg():
                assert isinstance(said.what, Message)
                return self._is_message(said.what, reply)
            case r.NMsg():
                assert isinstance(said.what, Message)
                return self._is_notice(said.what, said.about, reply)
        return True

    def _service(self, name: object) -> bytes | None:
        return None if name is None else self._service_ids[str(name)]

    def _is_message(self, message: Message, reply: r.Msg) -> bool:
        """Its body, its id, and its very bytes if it came before."""
        if self._body(message.queue, reply) != message.body:
            return False
        if message.sealed is None:
            message.sealed = reply.sealed
        return message.sealed == reply.sealed and self._has_id(message, reply.message_id)

    def _is_notice(self, message: Message, notifier: str, reply: r.NMsg) -> bool:
        secret = self._known[message.queue].watches[notifier].secret
        notice = parse_notice(open_notice(secret, reply.nonce, reply.sealed))
        return self._has_id(message, notice.message_id)

    def _has_id(self, message: Message, id: bytes) -> bool:
        """Every copy of a message has one id, which no other message has."""
        if message.id is None:
            message.id = id
        return message.id == id and self._messages.setdefault(id, message) is message

    def _body(self, queue: str, reply: r.Msg) -> str | None:
        opened = self._known[queue].queue.open(reply)
        return None if isinstance(opened, QuotaMarker) else opened.body.decode()

    def tell(self, frame: Frame) -> str:
        """A frame in the words of the model."""
        about, what = self.name(frame.entity), ""
        match frame.reply:
            case r.Err(text):
                what = text
            case r.Soks(tally) | r.Ends(tally):
                what = f"{tally.count} {tally.hash.hex()}"
            case r.Sok(service):
                what = "" if service is None else self.name(service)
            case r.Msg() if about in self._known:
                what = repr(self._body(about, frame.reply) or "marker")
        return f"{frame.reply.tag.decode()} {what} of {about or 'nothing'}".replace("  ", " ")
