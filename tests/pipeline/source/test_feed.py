"""Segments from a folder and from a router: what is there, and what became of the rest."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from headgate.client import admin
from headgate.core.facts import Fact
from headgate.errors import (
    ConfigError,
    NoRouter,
    NotAllowed,
    NotARouter,
    PipelineError,
    RouterError,
)
from headgate.pipeline.source import feed as feeds
from headgate.pipeline.source.feed import (
    MARK,
    Feed,
    FolderFeed,
    RouterFeed,
    cache_of,
    feed_of,
    trim,
)
from tests.support.certificates import make_certificate, make_client_certificate
from tests.support.journals import (
    TOKEN,
    facts_of_a_day,
    merge_segments,
    served,
    write_journal,
    write_segment,
)

FACTS: list[Fact] = facts_of_a_day(5)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache for each test, and no patience."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(admin, "PAUSES", (0.01,))
    monkeypatch.setattr(feeds, "PATIENCE_SECONDS", 30.0)
    monkeypatch.delenv("HEADGATE_ROUTER", raising=False)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    directory = tmp_path / "journal"
    write_journal(directory, FACTS, per_segment=10)
    return directory


@pytest.fixture
def router(journal: Path) -> Iterator[str]:
    with served(journal) as url:
        yield url


def names(feed: Feed) -> list[str]:
    return [segment.path.name for segment in feed.segments()]


# Where a journal is.


def test_options_name_a_folder_or_a_router(monkeypatch: pytest.MonkeyPatch) -> None:
    assert feed_of({"path": "/j"}) == FolderFeed(Path("/j"))
    assert feed_of({"PATH": "file:///j"}) == FolderFeed(Path("/j"))
    assert feed_of({"router": "http://h:1/", "token": "t"}) == RouterFeed("http://h:1", "t")
    monkeypatch.setenv("HEADGATE_ROUTER", "http://h:2")
    assert feed_of({}) == RouterFeed("http://h:2")


def test_without_any_the_error_says_what_to_give() -> None:
    with pytest.raises(PipelineError, match=r"option path.* option router .*HEADGATE_ROUTER"):
        feed_of({})
    with pytest.raises(RouterError, match="a URL such as http://127"):
        feed_of({"router": "localhost:7780"})


# A folder.


def test_a_folder_gives_its_segments_in_order(journal: Path) -> None:
    feed = FolderFeed(journal)
    found = feed.segments()
    assert [found[0].first, found[-1].last] == [1, len(FACTS)]
    assert all(a.last + 1 == b.first for a, b in pairwise(found))
    assert feed.open(found[0]).is_file()


def test_of_a_merge_only_the_widest_counts(journal: Path) -> None:
    merged = merge_segments(journal, keep=True)
    assert names(FolderFeed(journal)) == [merged.name]


def test_looking_into_a_folder_leaves_nothing_behind(tmp_path: Path, journal: Path) -> None:
    FolderFeed(journal).look()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"no journal in .*nowhere: .*with the option path"):
        FolderFeed(tmp_path / "nowhere").segments()


def test_an_unreadable_segment_is_marked_told_once_and_left_out(
    journal: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    feed = FolderFeed(journal)
    bad, *rest = feed.segments()
    feed.quarantine(bad, "bytes\nof nonsense")
    feed.quarantine(bad, "bytes\nof nonsense")
    assert feed.segments() == rest
    assert bad.path.exists(), "its name may be where the numbers go on from"
    [found] = feed_of({"path": str(journal)}).quarantined()
    assert (found.name, found.problem) == (bad.path.name, "bytes of nonsense")
    [line] = capfd.readouterr().err.splitlines()
    assert bad.path.name in line
    assert "headgate journal verify" in line


def test_what_an_unreadable_merged_segment_replaced_is_read_instead(journal: Path) -> None:
    feed = FolderFeed(journal)
    before = feed.segments()
    merge_segments(journal, keep=True)
    [merged] = feed.segments()
    feed.quarantine(merged, "nonsense")
    assert feed.segments() == before


def test_a_repaired_segment_of_another_size_counts_again(journal: Path) -> None:
    feed = FolderFeed(journal)
    bad = feed.segments()[0]
    whole = bad.path.read_bytes()
    bad.path.write_bytes(whole[:100])
    feed.quarantine(feed.segments()[0], "it is cut off")
    assert bad.path.name not in names(feed)
    bad.path.write_bytes(whole)
    assert feed.segments()[0] == bad


def test_a_mark_without_its_segment_does_not_count(journal: Path) -> None:
    feed = FolderFeed(journal)
    bad, *rest = feed.segments()
    feed.quarantine(bad, "nonsense")
    bad.path.unlink()
    assert feed.quarantined() == []
    assert feed.segments() == rest


def test_in_a_folder_that_cannot_be_written_to_the_mark_is_kept_elsewhere(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = feeds._mark

    def refuse(folder: Path, *args: object) -> None:
        if folder == journal:
            raise PermissionError(13, "Permission denied")
        mark(folder, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(feeds, "_mark", refuse)
    feed = FolderFeed(journal)
    bad, *rest = feed.segments()
    feed.quarantine(bad, "nonsense")
    assert feed.segments() == rest
    assert not list(journal.glob(f"*{MARK}"))


def test_strange_files_in_the_folder_are_not_taken_for_marks(journal: Path) -> None:
    (journal / f"notes.parquet{MARK}").write_text("hello")
    (journal / f"{FolderFeed(journal).segments()[0].path.name}{MARK}").write_text("half of a")
    assert FolderFeed(journal).quarantined() == []
    assert len(names(FolderFeed(journal))) == len(list(journal.glob("*.parquet")))


# A router.


def test_a_router_gives_what_its_folder_has(journal: Path, router: str) -> None:
    feed, folder = RouterFeed(router, TOKEN), FolderFeed(journal)
    assert names(feed) == names(folder)
    for segment in feed.segments():
        assert feed.open(segment).read_bytes() == (journal / segment.path).read_bytes()


def test_a_segment_is_downloaded_once(router: str, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = RouterFeed(router, TOKEN)
    segment = feed.segments()[0]
    path = feed.open(segment)
    monkeypatch.setattr(feeds, "_save", None)
    assert feed.open(segment) == path


def test_a_segment_of_the_same_name_from_a_router_that_began_anew_is_another(
    journal: Path, router: str
) -> None:
    feed = RouterFeed(router, TOKEN)
    segment = feed.segments()[0]
    before = feed.open(segment)
    original = journal / segment.path
    status = original.stat()
    original.write_bytes(b"x" * status.st_size)
    os.utime(original, (status.st_atime, status.st_mtime + 5))
    assert feed.open(segment) != before
    assert feed.open(segment).read_bytes() == original.read_bytes()


def test_a_segment_that_the_router_no_longer_has_is_not_found(journal: Path, router: str) -> None:
    feed = RouterFeed(router, TOKEN)
    segment = feed.segments()[0]
    (journal / segment.path).unlink()
    with pytest.raises(FileNotFoundError):
        feed.open(segment)


def test_an_unreadable_segment_of_a_router_is_remembered_on_this_machine(
    journal: Path, router: str
) -> None:
    feed = RouterFeed(router, TOKEN)
    bad, *rest = feed.segments()
    feed.quarantine(bad, "nonsense")
    assert RouterFeed(router, TOKEN).segments() == rest
    assert [each.name for each in feed_of({"router": router, "token": TOKEN}).quarantined()] == [
        bad.path.name
    ]
    assert not list(journal.glob(f"*{MARK}"))


def test_a_router_with_a_token_wants_it(journal: Path) -> None:
    with served(journal, token="secret") as url:
        assert names(RouterFeed(url, "secret")) == names(FolderFeed(journal))
        for token, why in ((None, "wants its token"), ("guess", "does not know this token")):
            with pytest.raises(NotAllowed, match=why):
                RouterFeed(url, token).segments()


def test_a_router_that_is_not_there_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "PATIENCE_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(NoRouter) as caught:
        RouterFeed(f"http://127.0.0.1:{port}").segments()
    text = str(caught.value)
    assert text.startswith(f"the router at http://127.0.0.1:{port} does not answer: ")
    assert "refused" in text
    assert "\n" not in text


class Flaky(BaseHTTPRequestHandler):
    """Fails once, then promises more than it sends, then answers."""

    asked = 0
    body = b"[]"

    def do_GET(self) -> None:
        type(self).asked += 1
        if self.asked == 1:
            self.send_error(503)
            return
        self.send_response(200)
        self.send_header("content-length", str(len(self.body) + (self.asked == 2)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def flaky() -> Iterator[tuple[str, type[Flaky]]]:
    handler = type("Fresh", (Flaky,), {})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", handler
        server.shutdown()
        thread.join()


def test_a_router_that_fails_or_hangs_up_is_asked_again(
    tmp_path: Path, flaky: tuple[str, type[Flaky]]
) -> None:
    url, handler = flaky
    path = write_segment(tmp_path / "one", 1, FACTS[:3])
    [segment] = FolderFeed(path.parent).segments()
    handler.body = path.read_bytes()
    opened = RouterFeed(url).open(segment)
    assert handler.asked == 3
    assert opened.read_bytes() == path.read_bytes()
    assert [each.name for each in opened.parent.iterdir()] == [opened.name]


@pytest.mark.parametrize("body", [b"<html>", b'{"a": 1}', b'[{"a": 1}]', b"[3]"])
def test_something_else_at_the_address_is_told(flaky: tuple[str, type[Flaky]], body: bytes) -> None:
    url, handler = flaky
    handler.asked, handler.body = 2, body
    with pytest.raises(NotARouter, match="is not the admin port of a router"):
        RouterFeed(url).segments()


def test_a_name_that_would_lead_out_of_the_cache_is_not_taken(
    flaky: tuple[str, type[Flaky]],
) -> None:
    url, handler = flaky
    handler.asked, handler.body = 2, b'[{"name": "../../etc/passwd", "bytes": 3}]'
    assert RouterFeed(url).segments() == []


# The cache.


def test_the_cache_keeps_what_was_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "CACHE_BYTES", 25)
    cache = cache_of("here")
    for age, name in enumerate(["new.parquet", "mid.parquet", "old.parquet", f"x{MARK}"]):
        (cache / name).write_bytes(b"0123456789")
        os.utime(cache / name, (1000 - age, 1000 - age))
    trim(cache, keep=cache / "old.parquet")
    assert {path.name for path in cache.iterdir()} == {"new.parquet", "old.parquet", f"x{MARK}"}


def test_a_cache_of_somebody_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_of("here").parent.stat().st_mode & 0o777 == 0o700
    me = os.getuid()
    monkeypatch.setattr("os.getuid", lambda: me + 1)
    with pytest.raises(PipelineError, match="belongs to somebody else; set TMPDIR"):
        cache_of("here")


def test_a_router_behind_tls_is_read_by_who_knows_its_authority_and_shows_a_certificate(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "PATIENCE_SECONDS", 0.0)
    certificate, key = make_certificate(tmp_path)
    mine, my_key = make_client_certificate(tmp_path, "pipeline")
    settings: dict[str, Any] = {
        "ssl_certfile": str(certificate),
        "ssl_keyfile": str(key),
        "ssl_ca_certs": str(tmp_path / "clients.crt"),
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
    }
    with served(journal, **settings) as url:
        known = {"router": url, "token": TOKEN, "tlsCa": str(certificate)}
        shown = {"tlsCertificate": str(mine), "tlsKey": str(my_key)}
        feed = feed_of({**known, **shown})
        assert len(feed.segments()) > 1
        assert feed.open(feed.segments()[0]).exists()
        for lacking in (known, {"router": url, "token": TOKEN, **shown}):
            with pytest.raises(NoRouter):
                feed_of(lacking).segments()
        with pytest.raises(ConfigError, match=r"cannot be used \(/nowhere\): No such file"):
            feed_of({**known, "tlsCa": "/nowhere"})
