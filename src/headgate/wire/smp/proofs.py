"""Proof that a command is from the right party, which goes with it into its turn.

It is checked there, against the queue as it is then, so that a key set by a command just before
counts. The order of checks decides which error a client without rights gets, and that must not
depend on whether the queue exists.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.model.parties import Parties, QueueRecord
from headgate.core.model.value import value
from headgate.crypto.proof import Verifier
from headgate.errors import BadService, HeadgateError, Prohibited, Unauthorised
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.transmissions import Transmission
from headgate.wire.smp.handshake import Role

ASSOCIATING = (c.New, c.Sub, c.NSub)
"""The commands that tie a queue to the service of the session, which has to sign them too."""

NOTIFYING = (c.NSub, c.NSubs)


@value
class Claim:
    """A command, its signed bytes, and the session that it came by."""

    verifier: Verifier
    role: Role | None
    """Role of the service whose session it is."""
    command: c.Command
    transmission: Transmission
    signed: bytes
    version: int
    """Version of the protocol in which the command is written."""

    def __call__(self, record: QueueRecord | None) -> HeadgateError | None:
        parties = record.parties if record is not None else None
        if parties is None:
            self._fits(self._keys(None))
            return Unauthorised()
        return self.of_session() or self.of_party(self._keys(parties))

    def of_session(self) -> HeadgateError | None:
        """The error in the session's part of the proof: the role of its service, and whether the
        service signed where it has to, and only there."""
        command, signature = self.command, self.transmission.service_signature
        if self.role is not None:
            needed = Role.NOTIFIER if isinstance(command, NOTIFYING) else Role.MESSAGING
            # ACC-64: a role has its commands.
            if self.role is not needed:
                return Prohibited("the service has another role")
        if self.role is not None and isinstance(command, ASSOCIATING):
            # S001-19, ACC-51, ACC-56: tying a queue to a service needs both signatures.
            if signature is None or not self.verifier.service(self.signed, signature):
                return BadService("the service did not sign")
        # S001-22, SMP-36, ACC-75: a service signs no other command.
        elif signature is not None:
            return BadService("a signature of a service where there should be none")
        return None

    def of_party(self, keys: Sequence[bytes]) -> HeadgateError | None:
        """The error in the authorization by one of these keys, or None."""
        if self._is_open(keys):
            return None
        # ACC-7, ACC-17, ACC-25, ACC-28: a signature by none of the keys is AUTH.
        return None if self._fits(keys) else Unauthorised()

    def _is_open(self, keys: Sequence[bytes]) -> bool:
        """Whether no signature is needed: for an unsecured queue or a public link."""
        unsigned = not self.transmission.authorization
        # ACC-2, ACC-6, ACC-13: without a key there is no signature, and any signature is wrong.
        return unsigned and not keys and isinstance(self.command, c.SmpSend | c.LGet)

    def _fits(self, keys: Sequence[bytes]) -> bool:
        asked = self.transmission
        return self.verifier.entity(
            self.signed,
            asked.authorization,
            keys,
            asked.correlation,
            is_associating=isinstance(self.command, ASSOCIATING),
        )

    def _keys(self, parties: Parties | None) -> Sequence[bytes]:
        """The keys of the parties that may give the command; none if the queue does not exist."""
        match self.command:
            case c.SKey(key) | c.LKey(key):
                return (key,)
            case _ if parties is None:
                return ()
            case c.SmpSend():
                # ACC-12: a secured queue accepts only the key's owner.
                return () if parties.sender_key is None else (parties.sender_key,)
            case c.NSub():
                return () if parties.notifier is None else (parties.notifier.key,)
            case c.LGet():
                return ()
            case _:
                return parties.keys
