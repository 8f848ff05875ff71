"""The notification server as a process: `headgate ntf serve`, its apps, admin port and signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from headgate.client.smp.recipient import make_key
from headgate.crypto.keys import KeyKind
from headgate.crypto.private_keys import encode_private
from headgate.notify.push_content import CodePush, MessagesPush, parse_entries
from headgate.ntf_server.records.audit import audit
from headgate.ntf_server.records.view import view
from headgate.server.identity import make
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.devices import ApnsDevice, Provider
from headgate.wire.ntf.replies import IdSub, SubscriptionState, TokenState
from headgate.wire.ntf.statuses import SubscriptionStatus, TokenStatus
from headgate.wire.smp.codec.commands import Ping
from headgate.wire.smp.codec.replies import Ok, Pong
from tests.server.test_serve import DEADLINE_SECONDS, refused
from tests.support.http_services import Certificate, serving_app, serving_streams
from tests.support.ntf_app import App, AppKeys
from tests.support.ntf_notifiers import until
from tests.support.ntf_process import CONFIG, ServedNtf, ServeNtf
from tests.support.ntf_pushes import when
from tests.support.push_services import WebPushReceiver, WebPushService
from tests.support.smp_router import Rig

NULL = ApnsDevice(Provider.NULL, b"nobody")


async def stopped(served: ServedNtf, number: int = signal.SIGTERM) -> int:
    return await asyncio.to_thread(served.stop, number)


async def started(served: ServedNtf) -> ServedNtf:
    return await asyncio.to_thread(served.started)


async def test_an_app_registers_and_a_restart_keeps_it(serve: ServeNtf) -> None:
    """ACC-110 with processes: between TNEW and whatever follows, the server is another one."""
    served = await started(serve())
    keys = AppKeys()
    async with await App.connect(served.address) as app:
        assert await app.ask(Ping()) == Pong()
        keys.take(await app.ask(keys.new_token(NULL), keys))
    assert await stopped(served) == 0
    assert not served.ready.exists()
    assert [line["event"] for line in served.lines("stopped")]
    again = await started(serve())
    async with await App.connect(again.address) as app:
        status = await app.ask(c.TChk(), keys)
        assert isinstance(status, TokenState)
        assert status.status in (TokenStatus.REGISTERED, TokenStatus.CONFIRMED)
    assert await stopped(again) == 0


def served_hash(served: ServedNtf) -> bytes:
    return served.address.key_hash


async def test_a_killed_server_starts_again_and_is_the_same(serve: ServeNtf) -> None:
    served = await started(serve())
    before = served_hash(served)
    keys = AppKeys()
    async with await App.connect(served.address) as app:
        keys.take(await app.ask(keys.new_token(NULL), keys))
    await stopped(served, signal.SIGKILL)
    assert served.ready.exists()
    again = serve()
    await asyncio.to_thread(again.until, lambda: bool(again.lines("serving")))
    assert served_hash(again) == before
    async with await App.connect(again.address) as app:
        assert isinstance(await app.ask(c.TChk(), keys), TokenState)
    assert await stopped(again) == 0


async def test_a_message_wakes_a_device_through_the_process(
    serve: ServeNtf, tmp_path: Path
) -> None:
    """ACC-111 with what an operator starts: Web Push with a generated key, the identity, SQLite and
    the journal are those of `headgate ntf serve`, and only the push service is named."""
    certificate = await asyncio.to_thread(Certificate.make, tmp_path / "tls")
    rig = Rig("sqlite:q.db", tmp_path / "router")
    await rig.start()
    service = WebPushService()
    config = CONFIG + (
        f'[ntf.webpush]\nallow_private = ["localhost"]\nca = "{certificate.certificate}"\n'
    )
    served = await started(serve(config))
    async with serving_app(service.app, certificate) as port:
        service.origin = f"https://localhost:{port}"
        await asyncio.to_thread(served.until, lambda: bool(served.lines("serving")))
        [line] = served.lines("serving")
        service.sender_key = str(line["web_push_key"])
        client, keys = await rig.connect(), AppKeys()
        async with await App.connect(served.address) as app:
            keys.take(await app.ask(keys.new_token(service.subscribe().device), keys))
            await until(when(lambda: service.pushed))
            assert isinstance(service.pushed[0], CodePush)
            assert await app.ask(c.TVfy(keys.opened(service.pushed[0])), keys) == Ok()
            key = make_key()
            assert isinstance(key, Ed25519PrivateKey)
            queue = await client.new_queue(notifier=key)
            private = encode_private(KeyKind.ED25519, key.private_bytes_raw())
            made = await app.ask(c.SNew(keys.token, rig.address, queue.notifier, private), keys)
            assert isinstance(made, IdSub)
            active = SubscriptionState(SubscriptionStatus.ACTIVE)
            await until(asks(app, keys, made.subscription, active))
            assert await client.send(queue, b"hello", notify=True) == Ok()
            await until(when(lambda: len(service.pushed) == 2))
        assert service.refused == []
        push = service.pushed[1]
        assert isinstance(push, MessagesPush)
        [entry] = parse_entries(keys.opened(push))
        assert (entry.router, entry.notifier) == (rig.address.text, queue.notifier)

        def is_counted() -> bool:
            found = served.metrics()
            pushes = 'headgate_ntf_pushes_total{kind="%s",outcome="delivered",provider="web_push"}'
            return (
                found.get('headgate_ntf_tokens{status="ACTIVE"}') == 1
                and found['headgate_ntf_subscriptions{status="ACTIVE"}'] == 1
                and found['headgate_ntf_notices_total{outcome="pushed"}'] == 1
                and found[pushes % "code"] == found[pushes % "notices"] == 1
                and found['headgate_ntf_push_seconds_count{provider="web_push"}'] == 2
                and found['headgate_ntf_routers{state="open"}'] == 1
                and found['headgate_ntf_services{state="active"}'] == 1
                and found["headgate_ntf_service_queues"] == 1
            )

        await asyncio.to_thread(served.until, is_counted)
        [router] = json.loads((await asyncio.to_thread(served.get, "/status.json"))[1])["routers"]
        assert (router["router"], router["service"]) == (rig.address.text, "active")
        assert await stopped(served) == 0
    await rig.stop()
    with view("sqlite:ntf.db", tmp_path / "ntf") as tables:
        assert audit(tables) == []
    log = served.log.read_text()
    device = next(iter(service.receivers))
    assert device not in log
    assert "Traceback" not in log


def asks(
    app: App, keys: AppKeys, subscription: bytes, wanted: SubscriptionState
) -> Callable[[], Awaitable[bool]]:
    async def is_so() -> bool:
        return await app.ask(c.SChk(), keys, subscription) == wanted

    return is_so


def test_it_answers_until_it_is_told_to_stop(serve: ServeNtf, tmp_path: Path) -> None:
    served = serve().started()
    assert served.get("/healthz") == (200, b'{"status":"ok"}\n')
    assert served.get("/readyz") == (200, b"[]\n")
    assert served.get("/nope")[0] == 404
    assert served.get("/sinks")[0] == 404
    assert served.get("/metrics", "wrong")[0] == 401
    assert b"headgate_ntf_apps" in served.get("/metrics")[1]
    assert json.loads(served.get("/status.json")[1])["apps"] == 0
    assert served.shown["ntf"]["host"] == "127.0.0.1"

    def segments() -> list[str]:
        return [each["name"] for each in json.loads(served.get("/journal/segments")[1])]

    served.until(lambda: bool(segments()))
    assert served.get(f"/journal/segments/{segments()[0]}")[1].startswith(b"PAR1")
    assert served.stop() == 0
    assert served.lines("serving")
    assert (tmp_path / "ntf" / "ntf.db").exists()


def test_everything_it_needs_is_made_at_the_first_start(serve: ServeNtf, tmp_path: Path) -> None:
    """Nothing but ports is configured; the address has the fingerprint and the machine's name."""
    served = serve(CONFIG).started()
    served.until(lambda: bool(served.lines("serving")))
    [line] = served.lines("serving")
    assert line["providers"] == "null web_push"
    assert line["store"] == "sqlite:ntf.db"
    assert str(line["ntf"]).startswith("ntf://")
    assert socket.gethostname() in str(line["ntf"])
    assert served.stop() == 0
    names = {path.name for path in (tmp_path / "ntf").iterdir()}
    assert {"identity", "ntf.db", "web_push.key", "admin.token", "journal"} <= names


def test_what_it_writes_is_for_its_owner_alone(serve: ServeNtf, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        served = serve().started()
    finally:
        os.umask(before)
    assert served.ready.stat().st_mode & 0o777 == 0o600
    assert served.stop() == 0
    found = [tmp_path / "ntf", *(tmp_path / "ntf").rglob("*")]
    assert any(path.suffix == ".parquet" for path in found)
    for path in found:
        assert (path, path.stat().st_mode & 0o777) == (path, 0o700 if path.is_dir() else 0o600)


def test_ctrl_c_is_a_clean_stop_too(serve: ServeNtf) -> None:
    served = serve().started()
    assert served.stop(signal.SIGINT) == 0
    assert not served.ready.exists()


def test_a_port_that_is_taken_is_one_line(serve: ServeNtf) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(
            serve(CONFIG.replace("[listen.ntf]\nport = 0", f"[listen.ntf]\nport = {port}"))
        )
    assert line.startswith(f"headgate: cannot listen on 127.0.0.1 port {port}: ")


def test_a_second_server_on_the_same_state_waits_and_says_why(
    serve: ServeNtf, tmp_path: Path
) -> None:
    """Its store may be free in a moment; told to stop, it stops."""
    served = serve().started()
    second = ServedNtf(tmp_path, "second.json")
    try:
        second.until(lambda: bool(second.lines("the store cannot be opened")))
        assert "another notification server uses it" in second.log.read_text()
        assert served.get("/readyz")[0] == 200
        assert second.stop() == 0
        assert not second.ready.exists()
    finally:
        second.process.kill()
        second.process.wait()
    assert served.ready.exists()
    assert served.stop() == 0


def test_beyond_loopback_the_admin_port_needs_a_token(serve: ServeNtf) -> None:
    line = refused(serve(CONFIG.replace("[admin]", '[admin]\nhost = "0.0.0.0"')))
    assert "admin.host: 0.0.0.0 is beyond loopback" in line


def test_a_wrong_key_of_a_provider_is_one_line(serve: ServeNtf) -> None:
    line = refused(serve(CONFIG + '[ntf.webpush]\nkey = "nowhere.pem"\n'))
    assert "nowhere.pem cannot be read: No such file or directory" in line


def renew_leaf(folder: Path) -> bytes:
    """Sign another leaf with the same identity, as its owner may; the DER of it."""
    ca = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    old = x509.load_pem_x509_certificate((folder / "server.crt").read_bytes())
    signing = load_pem_private_key((folder / "ca.key").read_bytes(), None)
    assert isinstance(signing, Ed25519PrivateKey)
    private = Ed25519PrivateKey.generate()
    builder = (
        x509.CertificateBuilder()
        .issuer_name(ca.subject)
        .subject_name(old.subject)
        .serial_number(x509.random_serial_number())
        .not_valid_before(old.not_valid_before_utc)
        .not_valid_after(old.not_valid_after_utc)
        .public_key(private.public_key())
    )
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    leaf = builder.sign(signing, None)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "server.key").write_bytes(pem)
    (folder / "server.crt").write_bytes(leaf.public_bytes(Encoding.PEM))
    return leaf.public_bytes(Encoding.DER)


async def test_a_hangup_shows_a_new_leaf(serve: ServeNtf, tmp_path: Path) -> None:
    """Apps know the identity, and take the leaf that it signed."""
    served = await started(serve())
    async with await App.connect(served.address) as app:
        before = app.stream.leaf
        new = await asyncio.to_thread(renew_leaf, tmp_path / "ntf" / "identity")
        served.process.send_signal(signal.SIGHUP)
        await asyncio.to_thread(served.until, lambda: bool(served.lines("configuration reloaded")))
        assert await app.ask(Ping()) == Pong(), "who is connected stays"
    async with await App.connect(served.address) as app:
        assert app.stream.leaf == new != before
        assert await app.ask(Ping()) == Pong()
    assert await stopped(served) == 0


async def test_a_push_service_that_never_answers_does_not_hold_the_stop(
    serve: ServeNtf, tmp_path: Path
) -> None:
    certificate = await asyncio.to_thread(Certificate.make, tmp_path / "tls")
    asked = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        asked.set()
        await asyncio.Event().wait()

    served = await started(
        serve(
            CONFIG
            + f'[ntf.webpush]\nallow_private = ["localhost"]\nca = "{certificate.certificate}"\n'
        )
    )
    async with serving_streams(hang, certificate.server_context("h2")) as port:
        device = WebPushReceiver(f"https://localhost:{port}/push").device
        keys = AppKeys()
        async with await App.connect(served.address) as app:
            keys.take(await app.ask(keys.new_token(device), keys))
            await asked.wait()
            assert await stopped(served) == 0
    assert served.lines("ended without waiting any longer") == []


def test_a_hangup_makes_no_other_server_of_it(serve: ServeNtf, tmp_path: Path) -> None:
    served = serve().started()
    served.process.send_signal(signal.SIGHUP)
    served.until(lambda: bool(served.lines("configuration reloaded")))
    (tmp_path / "ntf.toml").write_text(CONFIG + "[ntf]\nservices = false\n[log]\nlevel = 'debug'\n")
    served.process.send_signal(signal.SIGHUP)
    served.until(lambda: len(served.lines("configuration reloaded")) == 2)
    assert served.lines("configuration reloaded")[1]["after_restart"] == "ntf.services"
    identity = tmp_path / "ntf" / "identity"
    identity.rename(tmp_path / "old")
    make(identity, "push.example.org", time.time())
    served.process.send_signal(signal.SIGHUP)
    served.until(lambda: bool(served.lines("configuration not reloaded")))
    [line] = served.lines("configuration not reloaded")
    assert "the identity is another" in str(line["error"])
    (tmp_path / "ntf.toml").write_text("wrong = 1")
    served.process.send_signal(signal.SIGHUP)
    served.until(lambda: len(served.lines("configuration not reloaded")) == 2)
    assert served.get("/readyz")[0] == 200
    assert served.stop() == 0


def test_systemd_is_told(serve: ServeNtf, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(DEADLINE_SECONDS)
        served = serve(CONFIG, NOTIFY_SOCKET=str(tmp_path / "notify"))
        assert channel.recv(100) == b"READY=1"
        assert served.stop() == 0
        assert channel.recv(100) == b"STOPPING=1"


def test_a_file_that_goes_away_is_noticed(serve: ServeNtf, tmp_path: Path) -> None:
    served = serve().started()
    store, elsewhere = tmp_path / "ntf" / "ntf.db", tmp_path / "elsewhere.db"
    store.rename(elsewhere)
    served.until(lambda: served.get("/readyz")[0] == 503)
    assert b"store: " in served.get("/readyz")[1]
    assert served.get("/healthz")[0] == 200
    elsewhere.rename(store)
    served.until(lambda: served.get("/readyz")[0] == 200)
    assert served.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_other_signals_do_not_end_it(serve: ServeNtf, number: signal.Signals) -> None:
    served = serve().started()
    served.process.send_signal(number)
    served.until(lambda: bool(served.lines("a signal without a meaning")))
    assert served.get("/healthz")[0] == 200
