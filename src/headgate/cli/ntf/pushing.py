"""``headgate ntf push-test``."""

from __future__ import annotations

import asyncio
import os
from base64 import urlsafe_b64decode
from pathlib import Path

import click

from headgate.cli.ntf.place import ntf_config_option
from headgate.cli.output import emit, json_option
from headgate.errors import Malformed
from headgate.notify.outcomes import Dead, Delivered, Failed, Later, PushOutcome
from headgate.notify.push_content import CheckPush
from headgate.ntf_server.config import NtfConfig, load_ntf_config
from headgate.ntf_server.from_config import web_push_settings
from headgate.ntf_server.pushing.providers import open_web_push
from headgate.wire.ntf.devices import WebPushDevice


# A value in base64url may begin with a minus, and is no option then.
@click.command("push-test", context_settings={"ignore_unknown_options": True})
@ntf_config_option
@json_option
@click.argument("endpoint")
@click.argument("auth")
@click.argument("p256dh")
@click.pass_context
def push_test(
    ctx: click.Context,
    config: Path | None,
    as_json: bool,
    endpoint: str,
    auth: str,
    p256dh: str,
) -> None:
    """Push once to a Web Push endpoint, and print the answer.

    ENDPOINT, AUTH and P256DH are those of a subscription, as browsers and UnifiedPush give them:
    an https URL, and two values in base64url. The push asks the app to look for messages, and is
    signed with the server's key. Exits with 1 if the push service did not take it.

    \b
    Example:
      headgate ntf push-test https://push.example.net/abc 0iJ...Kg BNc...4w
    """
    settings = load_ntf_config(config, os.environ)
    device = _device(endpoint, auth, p256dh)
    outcome = asyncio.run(_push(settings, device))
    row = _row(outcome)
    emit([row], lambda shown: str(shown["text"]), as_json)
    ctx.exit(0 if isinstance(outcome, Delivered) else 1)


def _device(endpoint: str, auth: str, p256dh: str) -> WebPushDevice:
    try:
        return WebPushDevice.of(endpoint, _decoded("AUTH", auth), _decoded("P256DH", p256dh))
    except Malformed as error:
        raise click.UsageError(f"this is no subscription of Web Push: {error}") from None


def _decoded(name: str, text: str) -> bytes:
    try:
        return urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
    except ValueError:
        raise click.UsageError(f"{name} is not base64url") from None


async def _push(settings: NtfConfig, device: WebPushDevice) -> PushOutcome:
    provider = open_web_push(web_push_settings(settings))
    try:
        return await provider.push(device, CheckPush())
    finally:
        await provider.close()


def _row(outcome: PushOutcome) -> dict[str, object]:
    match outcome:
        case Delivered():
            return {"outcome": "delivered", "text": "delivered: the push service took it"}
        case Later(seconds):
            text = f"later: the push service wants it again in {seconds} s"
            return {"outcome": "later", "seconds": seconds, "text": text}
        case Dead(reason):
            text = f"dead: the push service does not know this endpoint ({reason.value})"
            return {"outcome": "dead", "reason": reason.value, "text": text}
        case Failed(text):
            return {"outcome": "failed", "text": f"failed: {text}"}
