"""Which endpoints of strangers may be asked."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import Prohibited
from headgate.notify.endpoints import addresses_to_ask, is_public

PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
OTHERS = [
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:808:808::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_asked(address: str) -> None:
    assert addresses_to_ask([address]) == [ip_address(address)]


@pytest.mark.parametrize("address", OTHERS)
def test_another_address_may_not_unless_that_is_allowed(address: str) -> None:
    with pytest.raises(Prohibited):
        addresses_to_ask([address])
    assert addresses_to_ask([address], allow_private=True) == [ip_address(address)]


@pytest.mark.parametrize("address", OTHERS)
def test_one_such_address_among_others_is_enough_to_refuse(address: str) -> None:
    with pytest.raises(Prohibited):
        addresses_to_ask([*PUBLIC, address])


@pytest.mark.parametrize("resolved", [[], [""], ["localhost"], ["8.8.8.8", "push.example"]])
def test_what_is_no_address_is_refused_in_any_case(resolved: list[str]) -> None:
    for allow_private in (False, True):
        with pytest.raises(Prohibited):
            addresses_to_ask(resolved, allow_private)


def test_addresses_keep_their_order() -> None:
    assert addresses_to_ask(PUBLIC) == [ip_address(address) for address in PUBLIC]


@given(st.ip_addresses(v=4))
def test_an_address_in_another_form_is_as_public_as_it_is(address: IPv4Address) -> None:
    public = is_public(address)
    assert is_public(IPv6Address(f"::ffff:{address}")) is public
    assert is_public(IPv6Address(int(IPv6Address("64:ff9b::")) + int(address))) is public


@given(st.ip_addresses())
def test_no_public_address_is_in_a_network_of_its_own(address: IPv4Address | IPv6Address) -> None:
    own = address.is_loopback or address.is_link_local or address.is_multicast
    assert not (own and is_public(address))
