"""Throws bytes at the client envelope and at what is inside it.

``python -m fuzz.smp_envelopes fuzz/corpus/smp_envelopes`` needs atheris, which is not among the
packages for development: install it beside them. The tests replay the corpus without it.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from headgate.crypto.box import box
from headgate.crypto.padding import pad
from headgate.errors import Malformed
from headgate.wire.smp.agent.agent_envelopes import parse_envelope
from headgate.wire.smp.agent.agent_messages import ReplyQueues, parse_content
from headgate.wire.smp.agent.envelope import ClientEnvelope, EnvelopeContents

KEY = bytes(32)
NONCE = bytes(24)


def check(data: bytes) -> None:
    """Nothing but `Malformed` is raised, and what was read is written so that it reads the same."""
    check_sealed(data)
    check_contents(data)
    check_agent(data)


def check_sealed(data: bytes) -> None:
    with suppress(Malformed):
        envelope = ClientEnvelope.parse(data)
        assert envelope.encode() == data
        envelope.open(KEY)


def check_contents(data: bytes) -> None:
    """As if the peer had sealed it."""
    sealed = ClientEnvelope(4, None, NONCE, box(KEY, NONCE, pad(data[:15998], 16000)))
    with suppress(Malformed):
        contents = sealed.open(KEY)
        assert EnvelopeContents.parse(contents.encode()) == contents


def check_agent(data: bytes) -> None:
    with suppress(Malformed):
        envelope = parse_envelope(data)
        assert parse_envelope(envelope.encode()) == envelope
    with suppress(Malformed):
        content = parse_content(data)
        if not isinstance(content, ReplyQueues):  # whose purpose may have been left out
            assert parse_content(content.encode()) == content


def main() -> None:
    import atheris  # type: ignore[import-untyped]

    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
