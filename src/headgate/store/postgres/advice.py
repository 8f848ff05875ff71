"""Advice for errors of the server."""

from __future__ import annotations

import psycopg

ADVICE = {
    "08": "the server cannot be reached; start it, or correct the URL",
    "23": "the batch contradicts what is stored",
    "25006": "the server takes no changes; it may be a standby, or be kept from writing",
    "28": "the server refuses the role or its password; correct the URL",
    "3D": "there is no such database; make it with createdb",
    "40": "another transaction was in the way; let only the router write to the schema headgate",
    "42501": "the role lacks a right; make it the owner of the schema headgate",
    "42704": "the server is too old; PostgreSQL 14 is the first that has all that is needed",
    "53100": "the server's disk is full; make room and the router goes on",
    "53200": "the server is out of memory; look into its log",
    "53300": "the server takes no more connections; raise max_connections",
    "55P03": "another program has locked it; end that program's transaction",
    "57014": "it took too long; look for what keeps the server busy or holds its locks",
    "57P": "the server is stopping or starting; the router goes on when it is back",
    "58": "the server's disk failed; look into its log",
    "XX": "the server found damage in its files; look into its log",
}
"""By the beginning of the error code."""


def describe(name: str, error: psycopg.Error) -> str:
    """An error as a text: where, what to do, and the server's message, in one line."""
    # An error before the server accepts the connection has no code.
    code = error.sqlstate or ("08" if isinstance(error, psycopg.OperationalError) else "")
    text = " ".join(str(error).split())
    for length in (5, 3, 2):
        if advice := ADVICE.get(code[:length]):
            return f"{name}: {advice} ({text})"
    return f"{name}: {text}"
