"""Push services as the tests need them: they check who sends, as the real ones do, and open pushes
as browsers and phones do. What they check is written here anew, with other libraries than ours."""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headgate.notify.push_content import Push, parse_push
from headgate.wire.ntf.devices import ApnsDevice, WebPushDevice


def decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def opened_token(
    token: str, key: ec.EllipticCurvePublicKey
) -> tuple[dict[str, str], dict[str, object]]:
    """Header and claims of a JSON Web Token that this key signed, with ES256 (RFC 7518, 3.4)."""
    header, claims, signature = token.split(".")
    raw = decoded(signature)
    assert len(raw) == 64, "both numbers in full, not their DER"
    der = utils.encode_dss_signature(
        int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    )
    key.verify(der, f"{header}.{claims}".encode(), ec.ECDSA(SHA256()))
    return json.loads(decoded(header)), json.loads(decoded(claims))


@dataclass
class WebPushReceiver:
    """Who asked a push service for an endpoint: a browser, or an app with UnifiedPush."""

    endpoint: str
    private: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    auth: bytes = field(default_factory=lambda: secrets.token_bytes(16))

    @property
    def device(self) -> WebPushDevice:
        point = self.private.public_key().public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint
        )
        return WebPushDevice.of(self.endpoint, self.auth, point)

    def open(self, body: bytes) -> bytes:
        """What was encrypted for it (RFC 8291)."""
        opened: bytes = http_ece.decrypt(
            body, private_key=self.private, auth_secret=self.auth, version="aes128gcm"
        )
        return opened


@dataclass
class PushServiceBase:
    """What it was sent, and what it answers."""

    answers: list[Response] = field(default_factory=list)
    """Instead of taking a push, the first first."""
    requests: list[Request] = field(default_factory=list)
    pushed: list[Push] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Why it refused, which senders are not told."""

    @property
    def app(self) -> Starlette:
        return Starlette(routes=[Route("/{path:path}", self._take, methods=["POST"])])

    async def _take(self, request: Request) -> Response:
        self.requests.append(request)
        body = await request.body()
        if self.answers:
            return self.answers.pop(0)
        try:
            return self.take(request, body)
        except Exception as error:
            self.refused.append(f"{type(error).__name__}: {error}")
            return Response(status_code=400)

    def take(self, request: Request, body: bytes) -> Response:
        raise NotImplementedError


@dataclass
class WebPushService(PushServiceBase):
    """A service of Web Push (RFC 8030) that wants to know its senders (RFC 8292)."""

    origin: str = ""
    sender_key: str = ""
    """The key for which endpoints were made, as browsers are given it."""
    receivers: dict[str, WebPushReceiver] = field(default_factory=dict)

    def subscribe(self) -> WebPushReceiver:
        path = f"/push/{secrets.token_urlsafe(16)}"
        receiver = WebPushReceiver(self.origin + path)
        self.receivers[path] = receiver
        return receiver

    def take(self, request: Request, body: bytes) -> Response:
        self._check_sender(request.headers["authorization"])
        receiver = self.receivers.get(request.url.path)
        if receiver is None:
            return Response(status_code=404)
        assert int(request.headers["ttl"]) > 0
        assert request.headers["urgency"] in ("very-low", "low", "normal", "high")
        assert request.headers["content-encoding"] == "aes128gcm"
        assert len(body) <= 4096, "more than a push service has to take"
        self.pushed.append(parse_push(receiver.open(body)))
        return Response(status_code=201, headers={"Location": "/message/1"})

    def _check_sender(self, authorization: str) -> None:
        scheme, _, fields = authorization.partition(" ")
        assert scheme == "vapid"
        shown = dict(each.strip().split("=", 1) for each in fields.split(","))
        assert shown["k"] == self.sender_key, "another sender than the endpoint was made for"
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decoded(shown["k"]))
        header, claims = opened_token(shown["t"], key)
        assert header == {"typ": "JWT", "alg": "ES256"}
        assert claims["aud"] == self.origin
        assert str(claims["sub"]).startswith(("mailto:", "https:"))


@dataclass
class AppleService(PushServiceBase):
    """Apple's push service, as far as its documentation goes."""

    key: ec.EllipticCurvePublicKey | None = None
    key_id: str = "ABC123DEFG"
    team: str = "TEAM123456"
    topic: str = "chat.example.app"
    devices: Sequence[ApnsDevice] = ()
    tokens: list[str] = field(default_factory=list)
    """Of senders, one for each push."""

    def take(self, request: Request, body: bytes) -> Response:
        assert request.scope["http_version"] == "2", "Apple speaks nothing else"
        scheme, _, token = request.headers["authorization"].partition(" ")
        assert scheme == "bearer"
        assert self.key is not None
        header, claims = opened_token(token, self.key)
        self.tokens.append(token)
        if header != {"alg": "ES256", "kid": self.key_id} or claims["iss"] != self.team:
            return JSONResponse({"reason": "InvalidProviderToken"}, 403)
        if request.headers["apns-topic"] != self.topic:
            return JSONResponse({"reason": "BadTopic"}, 400)
        name = unquote(request.url.path.removeprefix("/3/device/"))
        if name.encode() not in [device.token for device in self.devices]:
            return JSONResponse({"reason": "BadDeviceToken"}, 400)
        assert len(body) <= 4096, "PayloadTooLarge"
        fields = json.loads(body)
        kind = request.headers["apns-push-type"]
        assert kind == ("alert" if "alert" in fields["aps"] else "background")
        assert kind == "alert" or request.headers["apns-priority"] == "5"
        self.pushed.append(parse_push(body))
        return Response(status_code=200, headers={"apns-id": secrets.token_hex(16)})


def sender_key_of(private: ec.EllipticCurvePrivateKey) -> str:
    point = private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return urlsafe_b64encode(point).rstrip(b"=").decode()
