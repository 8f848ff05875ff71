"""Proofs of commands that one worker takes and another carries out."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.model.ids import QueueId
from headgate.core.model.parties import Parties, QueueRecord
from headgate.errors import BadService, Unauthorised
from headgate.wire.smp import remote_proofs
from headgate.wire.smp.remote_proofs import Fits, KnownKeys, Whose


def test_what_a_front_says_of_a_key_is_compared_with_the_queue() -> None:
    """A proof that came by a link is no more than the keys of the queue allow."""
    parties = Parties((b"recipient",), b"secret", b"sender", sender_key=b"sender key")
    record = QueueRecord(QueueId(b"queue"), "smp", parties=parties)
    unsecured = QueueRecord(QueueId(b"queue"), "smp", parties=replace(parties, sender_key=None))
    assert Fits(Whose.RECIPIENT, b"recipient")(record) is None
    assert Fits(Whose.SENDER, b"sender key")(record) is None
    assert Fits(Whose.SENDER, None)(unsecured) is None
    refused = [
        Fits(Whose.RECIPIENT, b"sender key")(record),
        Fits(Whose.RECIPIENT, None)(record),
        Fits(Whose.SENDER, None)(record),
        Fits(Whose.SENDER, b"sender key")(unsecured),
        Fits(Whose.NOTIFIER, b"recipient")(record),
        Fits(Whose.GIVEN, None)(record),
        Fits(Whose.RECIPIENT, b"recipient")(None),
    ]
    assert [type(each) for each in refused] == [Unauthorised] * 7
    wrong = BadService("")
    assert Fits(Whose.RECIPIENT, b"recipient", wrong)(record) is wrong


def test_a_worker_remembers_a_bounded_number_of_keys() -> None:
    known = KnownKeys()
    most = remote_proofs.KEYS_MAX
    for number in range(most + 10):
        known.learn((Whose.SENDER, b"%d" % number), b"key")
    assert len(known) == most
