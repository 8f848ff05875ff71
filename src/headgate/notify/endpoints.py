"""Endpoints that may be contacted. They come from strangers, who could name our own network.

A name proves nothing: its addresses at the moment of the push count. The connection must go to one
of the addresses that were checked here, without resolving the name again.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias

from headgate.errors import Prohibited

IPAddress: TypeAlias = IPv4Address | IPv6Address

ANSWER_BYTES_MAX: Final = 64 * 1024
ANSWER_SECONDS_MAX: Final = 10
"""Limits of an endpoint's answer: its bytes, and the seconds until it is complete. Redirects are
not followed."""

UNICAST: Final = IPv6Network("2000::/3")
"""The public addresses of IPv6."""

TRANSLATED: Final = IPv6Network("64:ff9b::/96")
"""An IPv4 address in the last four bytes, as networks without IPv4 write it (RFC 6052)."""

TUNNELS: Final = (IPv6Network("2001::/32"), IPv6Network("2002::/16"))
"""Teredo and 6to4 contain an IPv4 address, too. No push service is reached through them."""


def addresses_to_ask(resolved: Sequence[str], allow_private: bool = False) -> list[IPAddress]:
    """The addresses of an endpoint, in their order, or `Prohibited`.

    One address that is not public is enough to refuse the name: no push service has one. Operators
    with a push service on their own network set `allow_private`.
    """
    if not resolved:
        raise Prohibited("an endpoint without an address")
    try:
        addresses = [ip_address(address) for address in resolved]
    except ValueError:
        raise Prohibited("an endpoint whose address cannot be read") from None
    if not allow_private and not all(map(is_public, addresses)):
        raise Prohibited("an endpoint in a network that is not public")
    return addresses


def is_public(address: IPAddress) -> bool:
    """Whether the address is public. An IPv6 address that contains one of IPv4 is as public as
    that."""
    if isinstance(address, IPv4Address):
        return address.is_global and not (address.is_multicast or address.is_reserved)
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if address in TRANSLATED:
        return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    if address not in UNICAST or any(address in tunnel for tunnel in TUNNELS):
        return False
    return address.is_global
