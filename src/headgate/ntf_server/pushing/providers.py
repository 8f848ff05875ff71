"""The providers that a server is to have, opened by its settings.

    settings = PushSettings(web_push=WebPushSettings("https://push.example.org", folder))
    providers = open_providers(settings)
    apps = AppSettings(providers=frozenset(providers))
    server = await NtfServer.open(host, identity, folder, NtfSettings(apps=apps), providers)

The server closes them. HTTP is imported only for a provider that needs it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from headgate.crypto.p256 import point_of
from headgate.errors import ConfigError
from headgate.notify.apns import ProviderTokens
from headgate.notify.json_tokens import unpadded
from headgate.ntf_server.pushing.names import Names
from headgate.ntf_server.pushing.provider import NullProvider, PushProvider
from headgate.ntf_server.pushing.sender_keys import kept_key, read_key
from headgate.ntf_server.pushing.settings import ApnsSettings, PushSettings, WebPushSettings
from headgate.wire.ntf.devices import Provider

if TYPE_CHECKING:
    from headgate.ntf_server.pushing.apns_provider import ApnsProvider
    from headgate.ntf_server.pushing.web_push_provider import WebPushProvider

APNS_URL: Final = "https://api.push.apple.com"
APNS_SANDBOX_URL: Final = "https://api.sandbox.push.apple.com"

CONTACT_FORM: Final = re.compile(r"(mailto:|https://)[^\s\"\\]+")

WORD_FORM: Final = re.compile(r"[A-Za-z0-9._-]+")
"""Of what becomes a header or a part of a token."""


def open_providers(
    settings: PushSettings, *, clock: Callable[[], float] = time.time
) -> dict[Provider, PushProvider]:
    """By whose devices they bring pushes to. Raises `ConfigError` for a setting that is wrong, and
    if a library is missing."""
    providers: dict[Provider, PushProvider] = {}
    if settings.null:
        providers[Provider.NULL] = NullProvider()
    if settings.web_push is not None:
        providers[Provider.WEB_PUSH] = open_web_push(settings.web_push, clock=clock)
    if settings.apns is not None:
        providers |= _open_apns(settings.apns, clock)
    return providers


def open_web_push(
    settings: WebPushSettings, *, clock: Callable[[], float] = time.time
) -> WebPushProvider:
    """Web Push alone: for a single push, too."""
    _check_libraries("Web Push")
    from headgate.ntf_server.pushing.http_posting import HttpPosting, client_context
    from headgate.ntf_server.pushing.web_push_provider import WebPushProvider

    if CONTACT_FORM.fullmatch(settings.contact) is None:
        raise ConfigError(
            f"the contact for push services is a mailto: or https:// address, not"
            f" {settings.contact!r}"
        )
    allowed = frozenset(host.lower() for host in settings.allowed_private_hosts)
    posting = HttpPosting(Names(allowed.__contains__), client_context(settings.ca_file))
    return WebPushProvider(posting, _web_push_key(settings), settings.contact, clock=clock)


def web_push_public_key(settings: WebPushSettings) -> str:
    """The key that apps hand to push services when they ask for an endpoint: browsers call it the
    key of the application server. The key is made if there is none."""
    return unpadded(point_of(_web_push_key(settings)))


def _open_apns(settings: ApnsSettings, clock: Callable[[], float]) -> dict[Provider, ApnsProvider]:
    _check_libraries("Apple's push service")
    from headgate.ntf_server.pushing.apns_provider import ApnsProvider
    from headgate.ntf_server.pushing.http_posting import HttpPosting, Target, client_context

    for name in ("key_id", "team", "topic"):
        if WORD_FORM.fullmatch(getattr(settings, name)) is None:
            raise ConfigError(f"{name} of Apple's push service is letters, digits, dots and dashes")
    private = read_key(settings.key_file)
    context = client_context(settings.ca_file)
    urls = {Provider.APNS: APNS_URL}
    if settings.sandbox:
        urls[Provider.APNS_SANDBOX] = APNS_SANDBOX_URL
    if settings.test_url is not None:
        urls[Provider.APNS_TEST] = settings.test_url
    # Apple counts how often tokens are made for a key, so all hosts share one.
    tokens = ProviderTokens(private, settings.key_id, settings.team)

    def opened(url: str) -> ApnsProvider:
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"the URL of a push service begins with https://, not {url!r}")
        host = Target(parts.hostname, parts.port or 443, parts.path.rstrip("/"))
        # Whoever runs the server named it, so it may be anywhere.
        posting = HttpPosting(Names(lambda host: True), context, http1=False)
        return ApnsProvider(posting, host, settings.topic, tokens, clock=clock)

    return {provider: opened(url) for provider, url in urls.items()}


def _web_push_key(settings: WebPushSettings) -> EllipticCurvePrivateKey:
    if settings.key_file is not None:
        return read_key(settings.key_file)
    return kept_key(settings.folder)


def _check_libraries(what: str) -> None:
    try:
        import h2  # noqa: F401
        import httpx  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"{what} needs more packages ({error}): pip install 'headgate[push]'"
        ) from error
