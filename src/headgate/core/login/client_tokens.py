"""The tokens by which clients are known."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256


class ClientTokens:
    """Tokens by client, kept as digests. All of a digest is compared: the time reveals nothing, not
    even whether the client exists."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._digests = {name: _digest(token) for name, token in tokens.items()}

    def __len__(self) -> int:
        return len(self._digests)

    def __contains__(self, name: object) -> bool:
        return name in self._digests

    def accept(self, name: str, token: str) -> bool:
        digest = self._digests.get(name)
        is_right = hmac.compare_digest(digest or _digest(""), _digest(token))
        return is_right and digest is not None


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="surrogatepass")).digest()
