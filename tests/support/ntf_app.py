"""An app at a notification server: it connects over TLS, greets, and asks one thing after
another or many at once."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Sequence
from types import TracebackType

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.client.smp.greeting import Stream
from headgate.crypto.box import public_of, shared_key
from headgate.crypto.keys import (
    KeyKind,
    encode_key,
    leaf_key,
    open_signed_key,
    public_key,
    raw_key,
)
from headgate.crypto.proof import authenticator
from headgate.notify.push_content import CodePush, MessagesPush, open_push
from headgate.wire.ntf.address import NTF_PROTOCOL, NtfAddress
from headgate.wire.ntf.commands import NtfCommand, TNew, encode_command
from headgate.wire.ntf.devices import Device
from headgate.wire.ntf.hello import NtfClientHello, NtfServerHello
from headgate.wire.ntf.replies import IdTkn, NtfReply
from headgate.wire.ntf.transmissions import (
    BLOCK,
    NtfAnswer,
    decode_block,
    encode_block,
    encode_request,
    pack_blocks,
    read_answers,
    signed_bytes,
)
from headgate.wire.smp.codec.replies import Err


class AppKeys:
    """The keys of one app for one device; `kind` is that of the key that signs."""

    def __init__(self, kind: KeyKind = KeyKind.ED25519) -> None:
        self.signing = Ed25519PrivateKey.generate()
        self.agreeing = secrets.token_bytes(32) if kind is KeyKind.X25519 else b""
        self.dh = secrets.token_bytes(32)
        self.token = b""
        self.push_key = b""

    @property
    def verify_key(self) -> bytes:
        if self.agreeing:
            return encode_key(KeyKind.X25519, public_of(self.agreeing))
        return public_key(self.signing)

    def new_token(self, device: Device) -> TNew:
        return TNew(device, self.verify_key, encode_key(KeyKind.X25519, public_of(self.dh)))

    def take(self, reply: NtfReply) -> None:
        """What the server answered to TNEW."""
        assert isinstance(reply, IdTkn), reply
        self.token = reply.token
        self.push_key = shared_key(self.dh, raw_key(reply.dh))

    def opened(self, push: CodePush | MessagesPush) -> bytes:
        """What a push to the device says."""
        return open_push(self.push_key, push)

    def authorize(self, signed: bytes, correlation: bytes, server_key: bytes) -> bytes:
        if self.agreeing:
            return authenticator(shared_key(self.agreeing, server_key), correlation, signed)
        return self.signing.sign(signed)


class App:
    """One connection of an app."""

    def __init__(self, stream: Stream, hello: NtfServerHello, server_key: bytes) -> None:
        self.hello = hello
        self.stream = stream
        self._server_key = server_key

    @classmethod
    async def connect(
        cls, address: NtfAddress, *, version: int = 3, key_hash: bytes | None = None
    ) -> App:
        stream = await open_stream(address, NTF_PROTOCOL)
        hello = NtfServerHello.parse(decode_block(await stream.reader.readexactly(BLOCK)))
        assert hello.session_id == stream.session_id
        key = open_signed_key(hello.signed_key, leaf_key([stream.leaf]))
        app = cls(stream, hello, raw_key(key))
        meant = address.key_hash if key_hash is None else key_hash
        stream.write(encode_block(NtfClientHello(version, meant).encode()))
        return app

    async def ask(
        self, command: NtfCommand, keys: AppKeys | None = None, entity: bytes | None = None
    ) -> NtfReply:
        """The reply to one command, which is about the token of the keys unless said otherwise."""
        correlation, request = self.request(command, keys, entity)
        self.send([request])
        [answer] = await self.answers()
        assert answer.correlation == correlation
        return answer.reply

    def request(
        self, command: NtfCommand, keys: AppKeys | None = None, entity: bytes | None = None
    ) -> tuple[bytes, bytes]:
        """A correlation and the transmission that has it."""
        correlation, data = secrets.token_bytes(24), encode_command(command)
        if entity is None:
            entity = b"" if keys is None or command.tag in (b"TNEW", b"SNEW") else keys.token
        authorization = b""
        if keys is not None:
            signed = signed_bytes(self.hello.session_id, correlation, entity, data)
            authorization = keys.authorize(signed, correlation, self._server_key)
        return correlation, encode_request(authorization, correlation, entity, data)

    def send(self, transmissions: Sequence[bytes]) -> None:
        for block in pack_blocks(transmissions):
            self.stream.write(block)

    async def answers(self) -> list[NtfAnswer]:
        """Those of the next block."""
        return read_answers(await self.stream.reader.readexactly(BLOCK))

    async def is_closed(self) -> bool:
        """Waits for the end of the connection."""
        try:
            return await self.stream.reader.read(1) == b""
        except OSError:
            return True

    async def close(self) -> None:
        self.stream.abort()
        await self.stream.wait_closed()

    async def __aenter__(self) -> App:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


async def open_stream(address: NtfAddress, protocol: str | None) -> Stream:
    """A connection with nothing but TLS, whose server is not judged yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocol is not None:
        context.set_alpn_protocols([protocol])
    return await Stream.open(address.hosts[0], address.port, context)


def refused(reply: NtfReply) -> str:
    """The text of an error."""
    assert isinstance(reply, Err), reply
    return reply.text
