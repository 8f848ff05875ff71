"""Throws bytes at the parsers of the SMP handshake.

``python -m fuzz.smp_handshake fuzz/corpus/smp_handshake`` needs atheris, which is not among the
packages for development: install it beside them. The tests replay the corpus without it.
"""

from __future__ import annotations

import sys

from headgate.crypto.keys import check_chain, leaf_key, open_signed_key
from headgate.errors import Malformed
from headgate.wire.smp.handshake import ClientHello, ServerHello, parse_service_reply

NOW = 1_750_000_000.0
"""When the certificates of the corpus are valid."""


def check(data: bytes) -> None:
    """Nothing but `Malformed` is raised, and what was read is written so that it reads the same."""
    for parse in (ServerHello.parse, ClientHello.parse, parse_service_reply):
        try:
            message = parse(data)
        except Malformed:
            continue
        assert parse(message.encode()) == message
        match message:
            case ServerHello(chain=chain, signed_key=signed_key):
                use(chain, signed_key)
            case ClientHello(service=service) if service is not None:
                use(service.chain, service.signed_key)


def use(chain: tuple[bytes, ...], signed_key: bytes) -> None:
    """What a peer does with the certificates it was shown."""
    try:
        check_chain(chain, NOW)
        open_signed_key(signed_key, leaf_key(chain))
    except Malformed:
        pass


def main() -> None:
    import atheris  # type: ignore[import-untyped]

    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
