"""Displaying the URL of a database without secrets."""

from __future__ import annotations

import re

HIDDEN = "***"

SHOWN = {"host", "hostaddr", "port", "dbname", "user", "sslmode", "target_session_attrs"}
"""Parameters of a database's URL that are displayed with their values. A name may be written with
escapes, so a list of secret ones would not be enough."""


def without_secrets(url: str) -> str:
    """A URL without passwords. In doubt, more is hidden."""
    if not re.match(r"\w+://", url):
        return url
    url = re.sub(r"^(\w+://[^:@]*):.*@", rf"\1:{HIDDEN}@", url, flags=re.DOTALL)
    address, mark, query = url.partition("?")
    pairs = (pair.partition("=") for pair in query.split("&"))
    shown = [name + is_set + (text if name in SHOWN else HIDDEN) for name, is_set, text in pairs]
    return address + (mark + "&".join(shown) if mark else "")
