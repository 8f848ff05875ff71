"""Proofs of commands that one worker receives and another carries out.

The worker with the client checks an authorization against a key that has succeeded before, and
sends that key along. The shard compares it with the keys of the queue in the command's turn, so a
key that was set just before counts, and one that was replaced does not. No other key could have
made the same authorization: if the key is none of the queue's, the answer is known. If the worker
knows no such key, the whole claim is sent and checked in the turn; the key that succeeds is
reported for the next time.

The time of a refusal must not depend on whether a queue exists. So the worker checks once in any
case, and the shard once more if that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, TypeAlias

from headgate.core import commands as core
from headgate.core.model.parties import Notifier, Parties, QueueRecord, SetNotifier
from headgate.core.model.value import value
from headgate.crypto.proof import ServiceProof, Verifier
from headgate.errors import BadService, HeadgateError, Prohibited, Unauthorised
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.transmissions import Transmission
from headgate.wire.smp.handshake import Role
from headgate.wire.smp.proofs import ASSOCIATING, Claim

KEYS_MAX = 50_000
"""Keys that a worker remembers, about 15 MB. The oldest are dropped first."""


class Whose(IntEnum):
    """The party whose key a command has to be authorized with."""

    RECIPIENT = 0
    SENDER = 1
    NOTIFIER = 2
    READER = 3
    """For a public link: no party's."""
    GIVEN = 4
    """The key is part of the command."""

    @staticmethod
    def of(command: c.Command) -> Whose:
        match command:
            case c.SKey() | c.LKey():
                return Whose.GIVEN
            case c.SmpSend():
                return Whose.SENDER
            case c.NSub():
                return Whose.NOTIFIER
            case c.LGet():
                return Whose.READER
            case _:
                return Whose.RECIPIENT

    def keys(self, parties: Parties) -> Sequence[bytes]:
        match self:
            case Whose.RECIPIENT:
                return parties.keys
            case Whose.SENDER:
                return () if parties.sender_key is None else (parties.sender_key,)
            case Whose.NOTIFIER:
                return () if parties.notifier is None else (parties.notifier.key,)
            case _:
                return ()


Place: TypeAlias = tuple[Whose, bytes]
"""Index of a remembered key: its party, and the id by which the party knows the queue."""


@value
class Fits:
    """The statement of a client's worker that a command was authorized with this key, or with none,
    and the error in the session's part."""

    whose: Whose
    key: bytes | None
    wrong: HeadgateError | None = None

    def __call__(self, record: QueueRecord | None) -> HeadgateError | None:
        parties = record.parties if record is not None else None
        if parties is None:
            return Unauthorised()
        if self.wrong is not None:
            return self.wrong
        if self.whose is Whose.GIVEN:
            return None if self.key is not None else Unauthorised()
        keys = self.whose.keys(parties)
        if self.key is None:
            # ACC-2, ACC-6, ACC-13: without a key there is no signature.
            is_open = not keys and self.whose in (Whose.SENDER, Whose.READER)
            return None if is_open else Unauthorised()
        return None if self.key in keys else Unauthorised()


@value
class WholeClaim:
    """A claim that the shard checks itself; `learn` is called with the key that succeeds."""

    claim: Claim
    learn: Callable[[Place, bytes], None]

    def __call__(self, record: QueueRecord | None) -> HeadgateError | None:
        error = self.claim(record)
        parties = record.parties if record is not None else None
        if error is None and parties is not None:
            whose = Whose.of(self.claim.command)
            keys = whose.keys(parties)
            # Which of several keys succeeded is not worth another check of each.
            if len(keys) == 1:
                self.learn((whose, self.claim.transmission.entity), keys[0])
        return error


class KnownKeys:
    """The keys that succeeded at a worker, a bounded number of them.

    Owned by the worker's router. They prove nothing by themselves: the shard compares.
    """

    def __init__(self) -> None:
        self._keys: dict[Place, bytes] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def learn(self, place: Place, key: bytes) -> None:
        self._keys.pop(place, None)
        self._keys[place] = key
        if len(self._keys) > KEYS_MAX:
            del self._keys[next(iter(self._keys))]

    def see(self, command: core.Command) -> None:
        """Remember the keys of a command that sets keys, as they will be used."""
        if isinstance(command, core.Create) and command.parties is not None:
            self.learn((Whose.RECIPIENT, command.queue), command.parties.keys[0])
            self._notified(command.parties.notifier)
        elif isinstance(command, core.Amend) and isinstance(command.change, SetNotifier):
            self._notified(command.change.notifier)

    def _notified(self, notifier: Notifier | None) -> None:
        if notifier is not None:
            self.learn((Whose.NOTIFIER, notifier.id), notifier.key)

    def pack(self, claim: Claim) -> list[Any]:
        """A claim in the form sent to the worker with the shard."""
        command, asked = claim.command, claim.transmission
        whose = Whose.of(command)
        if not asked.authorization:
            return [whose, None, _name(claim.of_session())]
        key = self._known(whose, command, asked)
        fits = claim.verifier.entity(
            claim.signed,
            asked.authorization,
            () if key is None else (key,),
            asked.correlation,
            is_associating=isinstance(command, ASSOCIATING),
        )
        if fits:
            return [whose, key, _name(claim.of_session())]
        private, service = claim.verifier.secrets
        return [
            private,
            None if service is None else [service.fingerprint, service.session_key],
            None if claim.role is None else claim.role.value,
            [
                asked.authorization,
                asked.service_signature,
                asked.correlation,
                asked.entity,
                asked.command,
            ],
            claim.version,
            claim.signed,
        ]

    def _known(self, whose: Whose, command: c.Command, asked: Transmission) -> bytes | None:
        if isinstance(command, c.SKey | c.LKey):
            if isinstance(command, c.SKey):
                self.learn((Whose.SENDER, asked.entity), command.key)
            return command.key
        return self._keys.get((whose, asked.entity))


WRONG: dict[str, Callable[[], HeadgateError]] = {
    "Prohibited": lambda: Prohibited("the service has another role"),
    "BadService": lambda: BadService("not signed as a service has to"),
}
"""Possible errors in the session's part of a claim."""


def _name(error: HeadgateError | None) -> str | None:
    return None if error is None else type(error).__name__


def unpack_proof(found: Sequence[Any], learn: Callable[[Place, bytes], None]) -> Fits | WholeClaim:
    """The proof that goes into the command's turn."""
    if len(found) == 3:
        whose, key, wrong = found
        return Fits(Whose(whose), key, None if wrong is None else WRONG[wrong]())
    private, service, role, transmission, version, signed = found
    asked = Transmission(*transmission)
    proof = None if service is None else ServiceProof(*service)
    claim = Claim(
        Verifier(private, proof),
        None if role is None else Role(role),
        c.parse_command(asked.command, version),
        asked,
        signed,
        version,
    )
    return WholeClaim(claim, learn)
