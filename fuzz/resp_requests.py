"""Throws bytes at the parser of Redis requests.

``python -m fuzz.resp_requests fuzz/corpus/resp_requests`` needs atheris, which is not among the
packages for development: install it beside them. The tests replay the corpus without it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

from headgate.core.model.limits import Limits
from headgate.wire.resp.codec.publish_runs import MANY_BYTES, run_in
from headgate.wire.resp.codec.requests import PIPELINE_BYTES, RequestParser

SMALL = Limits(bulk_bytes=20, arguments=5, request_bytes=60)

PING = b"*1\r\n$4\r\nPING\r\n"
PLUS = b"*1\r\n$1\r\n+\r\n"
LENGTH = PIPELINE_BYTES // len(PLUS) + 1
LEADS = {PING * LENGTH: [[b"PING"]] * LENGTH, PLUS * LENGTH: [[b"+"]] * LENGTH}
"""Pipelines long enough that what follows them takes one of the fast ways. hiredis is not given a
plus."""


class Outcome(NamedTuple):
    requests: list[list[bytes]]
    error: str | None
    held: int


def outcome(pieces: Iterable[bytes], limits: Limits, is_trusted: bool) -> Outcome:
    requests = RequestParser(limits)
    requests.is_trusted = is_trusted
    whole = [request for piece in pieces for request in requests.feed(piece)]
    return Outcome(whole, requests.error, requests.held)


def check(data: bytes) -> None:
    """However the bytes come, the requests, the error and what is held are the same."""
    for limits in (Limits(), SMALL):
        for is_trusted in (True, False):
            expected = outcome((data[at : at + 1] for at in range(len(data))), limits, is_trusted)
            assert outcome([data], limits, is_trusted) == expected
            step = 2 + len(data) % 7
            pieces = [data[at : at + step] for at in range(0, len(data), step)]
            assert outcome(pieces, limits, is_trusted) == expected
    check_runs(data)
    expected = outcome([data], Limits(), is_trusted=True)
    for lead, before in LEADS.items():
        found = outcome([lead + data], Limits(), is_trusted=True)
        assert found == expected._replace(requests=before + expected.requests)


def check_runs(data: bytes) -> None:
    """What is taken for PUBLISHes is what they are, with these bytes in them or behind them."""
    lead = b"*3\r\n$7\r\nPUBLISH\r\n$"
    one = lead + b"1\r\nc\r\n$%d\r\n%b\r\n" % (len(data), data)
    many = one * (MANY_BYTES // len(one) + 2)
    for sent in (
        lead + data,
        one,
        one + data,
        one + lead + data,
        many,
        many + data,
        many + one[:-3],
    ):
        run = run_in(sent)
        if run is not None:
            channels, bodies, end = run
            requests = [[b"PUBLISH", *pair] for pair in zip(channels, bodies, strict=True)]
            assert outcome([sent[:end]], Limits(), is_trusted=True) == (requests, None, 0)


def main() -> None:
    import atheris  # type: ignore[import-untyped]

    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
