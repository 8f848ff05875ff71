"""Devices: their bytes, and what is no device."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import Malformed
from headgate.wire.ntf.devices import ApnsDevice, Device, Provider, WebPushDevice, read_device
from headgate.wire.smp.codec.encoding import FieldReader, string
from tests.support.ntf_examples import TEST_DEVICE, WEB_DEVICE, devices

AUTH, KEY = WEB_DEVICE.auth, WEB_DEVICE.key


def read(data: bytes) -> Device:
    reader = FieldReader(data)
    device = read_device(reader)
    reader.finish()
    return device


def test_an_endpoint_has_its_bytes() -> None:
    data = bytes.fromhex(
        "57500c707573682e6578616d706c6500072f73656372657410010dd57d15f7fc5dfc27796d726315464104abb0e1"
        "6c6ea679eb647aa4eaf0b0a26b38b4ea62b5932f15d47d7809f9e3238f638abd8e95cea65f948bf1706c8cbc65b1"
        "429ee692ed19ced366a1b8be17c483"
    )
    assert len(data) == 107
    assert WEB_DEVICE.encode() == data
    assert read(data) == WEB_DEVICE


@pytest.mark.parametrize(
    ("provider", "tag"),
    [
        (Provider.APNS_SANDBOX, b"AD"),
        (Provider.APNS, b"AP"),
        (Provider.APNS_TEST, b"AT"),
        (Provider.NULL, b"AN"),
    ],
)
def test_a_device_of_apples_is_a_token_behind_two_letters(provider: Provider, tag: bytes) -> None:
    device = ApnsDevice(provider, b"abcd")
    assert device.encode() == tag + b"\4abcd"
    assert read(device.encode()) == device


@given(devices)
def test_a_device_is_read_as_it_was_written(device: Device) -> None:
    assert read(device.encode()) == device


@given(st.binary(max_size=150) | st.binary(max_size=150).map(b"WP".__add__))
def test_any_bytes_are_a_device_or_malformed(data: bytes) -> None:
    try:
        device = read(data)
    except Malformed:
        return
    assert device.encode() == data


def web_push(host: bytes, port: bytes, path: bytes, auth: bytes = AUTH, key: bytes = KEY) -> bytes:
    return b"WP" + b"".join(map(string, (host, port, path, auth, key)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"A",
        b"AX\4abcd",
        b"AP\4abc",
        web_push(b"", b"", b"/"),
        web_push(b"push.example\r\nx", b"", b"/"),
        web_push(b"user@push.example", b"", b"/"),
        web_push(b"push.example/", b"", b"/"),
        web_push(b"push.example:1", b"", b"/"),
        web_push(b"-push.example", b"", b"/"),
        web_push("pu\u00e4h.example".encode(), b"", b"/"),
        web_push(b"push.example", b"0", b"/"),
        web_push(b"push.example", b"0443", b"/"),
        web_push(b"push.example", b"65536", b"/"),
        web_push(b"push.example", b"+1", b"/"),
        web_push(b"push.example", b"", b""),
        web_push(b"push.example", b"", b"secret"),
        web_push(b"push.example", b"", b"/a b"),
        web_push(b"push.example", b"", b"/a\r\nHost: b"),
        web_push(b"push.example", b"", b"/a#b"),
        web_push(b"push.example", b"", b"/", AUTH[:-1]),
        web_push(b"push.example", b"", b"/", AUTH + b"x"),
        web_push(b"push.example", b"", b"/", AUTH, KEY[:-1]),
        web_push(b"push.example", b"", b"/", AUTH, b"\x04" + bytes(64)),
        web_push(b"push.example", b"", b"/", AUTH, b"\x02" + KEY[1:33]),
    ],
)
def test_what_is_no_device_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        read(data)


@pytest.mark.parametrize(
    ("host", "port", "origin"),
    [
        ("push.example", "", "https://push.example"),
        ("push.example", "443", "https://push.example"),
        ("push.example", "8443", "https://push.example:8443"),
        ("Push.Example", "", "https://push.example"),
        ("[2001:db8::1]", "1", "https://[2001:db8::1]:1"),
    ],
)
def test_the_origin_leaves_out_the_port_of_https(host: str, port: str, origin: str) -> None:
    device = read(web_push(host.encode(), port.encode(), b"/up?id=1"))
    assert isinstance(device, WebPushDevice)
    assert (device.origin, device.url) == (origin, origin + "/up?id=1")
    assert device.encode() == web_push(host.encode(), port.encode(), b"/up?id=1")


def test_a_device_is_made_of_the_url_that_a_browser_gives() -> None:
    device = WebPushDevice.of("https://push.example:8443/up?id=1", AUTH, KEY)
    assert (device.host, device.port, device.path) == ("push.example", 8443, "/up?id=1")
    assert WebPushDevice.of("https://push.example", AUTH, KEY).url == "https://push.example/"
    longest = "https://push.example:65535/" + "a" * 254
    assert WebPushDevice.of(longest, AUTH, KEY).url == longest


@pytest.mark.parametrize(
    "url",
    [
        "http://push.example/",
        "https://",
        "https://user@push.example/",
        "https://push.example/a#b",
        "https://push.example/" + "a" * 255,
        "https://push.example:70000/",
        "push.example",
        "https://push.example\\@other.example/",
    ],
)
def test_another_url_is_no_endpoint(url: str) -> None:
    with pytest.raises(Malformed):
        WebPushDevice.of(url, AUTH, KEY)


def test_what_names_a_device_is_not_shown() -> None:
    assert "abcd" not in repr(TEST_DEVICE)
    assert "secret" not in repr(WEB_DEVICE)
    assert repr(AUTH) not in repr(WEB_DEVICE)
    assert repr(KEY) not in repr(WEB_DEVICE)
