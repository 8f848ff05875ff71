"""How the URL of a database is shown: without what nobody else should read."""

from __future__ import annotations

import re

HIDDEN = "***"

SHOWN = {"host", "hostaddr", "port", "dbname", "user", "sslmode", "target_session_attrs"}
"""Parameters of a database's URL that are shown with their values. A name may be written with
escapes, so it is not enough to know the few that must not be."""


def without_secrets(url: str) -> str:
    """A URL without passwords. Where it is not clear what is one, more is hidden."""
    if not re.match(r"\w+://", url):
        return url
    url = re.sub(r"^(\w+://[^:@]*):.*@", rf"\1:{HIDDEN}@", url, flags=re.DOTALL)
    address, mark, query = url.partition("?")
    pairs = (pair.partition("=") for pair in query.split("&"))
    shown = [name + is_set + (text if name in SHOWN else HIDDEN) for name, is_set, text in pairs]
    return address + (mark + "&".join(shown) if mark else "")
