"""How a store is named, and how that name is shown: without what nobody else should read."""

from __future__ import annotations

import re

FORMS = '"memory:", "sqlite:FILE" or "postgresql://USER@HOST/DATABASE"'

PATTERN = (
    r"memory:"
    r"|sqlite:[^\x00-\x1f\ud800-\udfff]+"
    r"|postgres(?:ql)?://[^\x00-\x20\x7f\ud800-\udfff]*"
)
"""What a URL of one of the forms matches."""

URL_VARIABLE = "HEADGATE_SEALER_URL"
"""Where in its environment the sealer finds the URL of a database."""

HIDDEN = "***"

SHOWN = {"host", "hostaddr", "port", "dbname", "user", "sslmode", "target_session_attrs"}
"""Parameters of a database's URL that are shown with their values. A name may be written with
escapes, so it is not enough to know the few that must not be."""


def masked(url: str) -> str:
    """The URL without passwords. Where it is not clear what is one, more is hidden."""
    if not re.match("postgres(ql)?://", url):
        return url
    url = re.sub(r"^(\w+://[^:@]*):.*@", rf"\1:{HIDDEN}@", url, flags=re.DOTALL)
    address, mark, query = url.partition("?")
    pairs = (pair.partition("=") for pair in query.split("&"))
    shown = [name + is_set + (text if name in SHOWN else HIDDEN) for name, is_set, text in pairs]
    return address + (mark + "&".join(shown) if mark else "")
