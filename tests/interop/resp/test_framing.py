"""Bytes that come in: requests in both forms, cut, joined, huge or broken."""

from __future__ import annotations

import pytest

from tests.support.resp_client import OK, PONG, Client, Error, encoded
from tests.support.resp_servers import PASSWORD, Connect, Dial, Server

KIB = 1024


@pytest.mark.parametrize(
    ("request_bytes", "reply"),
    [
        (b"PING\r\n", PONG),
        (b"PING\n", PONG),
        (b"ping\r\n", PONG),
        (b"  PING  x  \r\n", b"x"),
        (b"PING\tx\r\n", b"x"),
        (b"*1\r\n$4\r\nPING\r\n", PONG),
        (b"*1\r\n$4\r\npInG\r\n", PONG),
        (b"*2\r\n$4\r\nPING\r\n$1\r\nx\r\n", b"x"),
        (b"*2\r\n$4\r\nPING\r\n$0\r\n\r\n", b""),
        (b'PING ""\r\n', b""),
    ],
)
def test_a_request_is_a_line_or_an_array(
    client: Client, request_bytes: bytes, reply: object
) -> None:
    """RESP-1."""
    client.send_raw(request_bytes)
    assert client.read() == reply
    assert client.before_fence() == []


@pytest.mark.parametrize(
    "nothing", [b"\r\n", b"\n", b"   \r\n", b"*0\r\n", b"*-1\r\n", b"*-10\r\n", b"\r\n*0\r\n\r\n"]
)
def test_an_empty_request_has_no_reply(client: Client, nothing: bytes) -> None:
    """RESP-2."""
    client.send_raw(nothing + b"PING\r\n")
    assert client.read() == PONG
    assert client.before_fence() == []


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (rb'PING "a\x41\n"', b"aA\n"),
        (rb'PING "\r\t\b\a"', b"\r\t\b\a"),
        (rb'PING "\"\\"', b'"\\'),
        (rb'PING "\xff\x00"', b"\xff\x00"),
        (rb'PING "\q\xzz"', b"qxzz"),
        (rb"PING 'a\'b'", b"a'b"),
        (rb"PING 'a\n\x41'", rb"a\n\x41"),
        (b'PING "a b"', b"a b"),
        (b"PING 'a\"b'", b'a"b'),
        (b'PING a"b"', b"ab"),
        (b"PING \xff", b"\xff"),
        (b'"PING" x', b"x"),
    ],
)
def test_words_of_a_line_may_be_quoted(client: Client, line: bytes, word: bytes) -> None:
    """RESP-3."""
    client.send_raw(line + b"\r\n")
    assert client.read() == word


BROKEN = [
    (b'PING "x\r\n', "unbalanced quotes in request"),
    (b"PING 'x\r\n", "unbalanced quotes in request"),
    (b'PING "x"y\r\n', "unbalanced quotes in request"),
    (b"PING 'x'y\r\n", "unbalanced quotes in request"),
    (b"*x\r\n", "invalid multibulk length"),
    (b"*2147483648\r\n", "invalid multibulk length"),
    (b"*99999999999999999999\r\n", "invalid multibulk length"),
    (b"* 1\r\n", "invalid multibulk length"),
    (b"*1\r\nfoo\r\n", "expected '$', got 'f'"),
    (b"*1\r\n:1\r\n", "expected '$', got ':'"),
    (b"*2\r\n$4\r\nPING\r\n*1\r\n", "expected '$', got '*'"),
    (b"*1\r\n$-10\r\n", "invalid bulk length"),
    (b"*1\r\n$-1\r\n", "invalid bulk length"),
    (b"*1\r\n$blabla\r\n", "invalid bulk length"),
    (b"*1\r\n$2000000000\r\n", "invalid bulk length"),
    (b"*1\r\n$\r\n", "invalid bulk length"),
    (b"a" * (64 * KIB + 1), "too big inline request"),
    (b"\x00" * (64 * KIB + 1), "too big inline request"),
    (b"*" + b"1" * (64 * KIB + 1), "too big mbulk count string"),
    (b"*1\r\n$" + b"1" * (64 * KIB + 1), "too big bulk count string"),
]


@pytest.mark.parametrize(("request_bytes", "text"), BROKEN)
def test_a_broken_request_is_told_and_ends_the_connection(
    client: Client, request_bytes: bytes, text: str
) -> None:
    """RESP-3..RESP-7."""
    client.send_raw(request_bytes)
    assert client.until_closed() == [Error(f"ERR Protocol error: {text}")]


def test_requests_before_a_broken_one_are_answered(client: Client) -> None:
    """RESP-4."""
    client.send_raw(b"PING\r\n" + encoded("PING", "x") + b"*x\r\nPING\r\n")
    broken = Error("ERR Protocol error: invalid multibulk length")
    assert client.until_closed() == [PONG, b"x", broken]


def test_a_broken_request_ends_all_subscriptions(connect: Connect, name: str) -> None:
    """RESP-5, S002-26."""
    subscriber, publisher = connect(), connect()
    subscriber.ask("SUBSCRIBE", name)
    subscriber.send_raw(b"*1\r\nfoo\r\n")
    assert len(subscriber.until_closed()) == 1
    assert publisher.ask("PUBLISH", name, "x") == 0


@pytest.mark.parametrize("verb", [b"POST / HTTP/1.1", b"Host: example.org", b"post /"])
def test_a_request_of_http_ends_the_connection_without_a_word(client: Client, verb: bytes) -> None:
    client.send_raw(verb + b"\r\n")
    assert client.until_closed() == []


def test_a_long_array_is_waited_for(connect: Connect) -> None:
    """RESP-4: the length alone neither is an error nor takes memory."""
    waiting, other = connect(), connect()
    waiting.send_raw(b"*20000000\r\n$4\r\nPING\r\n")
    assert other.ask("PING") == PONG


@pytest.mark.parametrize(
    "request_bytes",
    [b"  PING  'a b'  \r\n", b"*2\r\n$4\r\nECHO\r\n$5\r\na\r\nbc\r\n", b"*0\r\n\r\nPING x\r\n"],
)
def test_a_request_cut_anywhere_is_the_same_request(connect: Connect, request_bytes: bytes) -> None:
    """RESP-8."""
    client, other = connect(), connect()
    client.send_raw(request_bytes)
    expected = client.read()
    for cut in range(1, len(request_bytes)):
        client.send_raw(request_bytes[:cut])
        # A round trip elsewhere, so that the server has seen the first piece alone.
        other.ask("PING")
        client.send_raw(request_bytes[cut:])
        assert client.read() == expected, cut
    for each in request_bytes:
        client.send_raw(bytes([each]))
        other.ask("PING")
    assert client.read() == expected
    assert client.before_fence() == []


def test_ten_thousand_requests_in_one_write_are_answered_in_order(client: Client) -> None:
    """RESP-9, S002-45."""
    words = [b"%d" % number for number in range(10_000)]
    assert client.pipeline([("PING", word) for word in words]) == words


def test_lines_and_arrays_may_be_mixed(client: Client) -> None:
    """RESP-9."""
    client.send_raw((b"PING a\r\n" + encoded("ECHO", "b") + b"\r\n*0\r\nPING c\n") * 100)
    assert client.read_many(300) == [b"a", b"b", b"c"] * 100


BINARY = [b"\x00", b"a\r\nb", b"\xff\xfe\x80", b"$3\r\nfoo\r\n", b"", b" ", bytes(range(256))]


@pytest.mark.parametrize("channel", BINARY)
def test_channel_and_payload_are_any_bytes(connect: Connect, channel: bytes, protocol: int) -> None:
    """RESP-10."""
    subscriber, publisher = connect(protocol), connect()
    assert subscriber.ask("SUBSCRIBE", channel) == subscriber.pushed(b"subscribe", channel, 1)
    for payload in BINARY:
        assert publisher.ask("PUBLISH", channel, payload) == 1
        assert subscriber.read() == subscriber.pushed(b"message", channel, payload)
    assert subscriber.ask("UNSUBSCRIBE", channel) == subscriber.pushed(b"unsubscribe", channel, 0)


def test_four_mebibytes_pass(connect: Connect, name: str, protocol: int) -> None:
    """RESP-11."""
    payload = bytes(range(256)) * 16 * KIB
    subscriber, publisher = connect(protocol), connect()
    subscriber.ask("SUBSCRIBE", name)
    assert publisher.ask("PUBLISH", name, payload) == 1
    assert subscriber.read() == subscriber.pushed(b"message", name.encode(), payload)
    assert publisher.ask("ECHO", payload) == payload


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["FOO"], "'FOO', with args beginning with: "),
        (["foo", "a", "b c"], "'foo', with args beginning with: 'a' 'b c' "),
        (["foo\r\nbar", "x\r\ny"], "'foo  bar', with args beginning with: 'x  y' "),
        ([""], "'', with args beginning with: "),
        (["foo", "x" * 200, "y"], f"'foo', with args beginning with: '{'x' * 128}' "),
        (["f" * 200], f"'{'f' * 128}', with args beginning with: "),
    ],
)
def test_an_unknown_command_is_quoted_on_one_line(
    client: Client, words: list[str], text: str
) -> None:
    """RESP-12."""
    assert client.ask(*words) == Error(f"ERR unknown command {text}")
    assert client.ask("PING") == PONG


def test_the_quoted_arguments_are_cut(client: Client) -> None:
    """RESP-12: after about 128 bytes."""
    reply = client.ask("foo", *["argument"] * 100)
    quoted = "'argument' " * 11 + "'argumen' "
    assert reply == Error(f"ERR unknown command 'foo', with args beginning with: {quoted}")
    assert client.ask("PING") == PONG


def test_a_stranger_may_not_send_much(guarded: Server, dial: Dial) -> None:
    """RESP-16: before the password an array has at most 10 words, and a word 16,384 bytes."""
    for request_bytes, what in (
        (b"*11\r\n", "multibulk"),
        (b"*2\r\n$4\r\nAUTH\r\n$16385\r\n", "bulk"),
    ):
        stranger = dial(guarded)
        stranger.send_raw(request_bytes)
        text = f"ERR Protocol error: unauthenticated {what} length"
        assert stranger.until_closed() == [Error(text)]
    friend = dial(guarded)
    assert friend.ask("AUTH", PASSWORD) == OK
    assert friend.ask("EXISTS", *["k" * 16385] * 11) == 0
