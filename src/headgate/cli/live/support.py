"""``headgate support``: what to send with a question, without secrets or messages."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from headgate.cli.admin import Admin
from headgate.cli.output import emit, json_option
from headgate.cli.version import installed
from headgate.cli.which_router import Asked, router_options
from headgate.errors import ConfigError, HeadgateError, NoRouter, NotAllowed

PAGES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "attention.json": ("/attention", {}),
    "series.json": ("/series", {"span": 900}),
    "sessions.json": ("/sessions", {"limit": 100}),
    "channels.json": ("/channels", {"limit": 100}),
    "services.json": ("/services", {"limit": 100}),
    "domains.json": ("/domains", {"limit": 100}),
    "facts.json": ("/facts", {"limit": 500, "level": "info"}),
    "journal.json": ("/journal", {}),
    "settings.json": ("/settings", {}),
}
"""Files, and what the API is asked for each."""

LEFT_OUT = frozenset({"body", "properties", "sample", "samples"})
"""Fields that may be of messages."""


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to.  [default: headgate-support-TIME.tar.gz]",
)
@router_options
@json_option
def support(out: Path | None, asked: Asked, as_json: bool) -> None:
    """Pack what to send with a question.

    A tar of what the router says of itself: what needs attention, numbers of the last quarter of an
    hour, sessions, domains, facts, settings, metrics. Secrets, bodies and properties of messages
    are not in it; names of sessions, channels and domains are. Look into it before you send it.
    """
    url, token, ca = asked.place()
    admin = Admin(url, token, ca)
    admin.get("/me")  # whoever may not ask is told so now
    path = out or Path(f"headgate-support-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.tar.gz")
    names = []
    try:
        with tarfile.open(path, "x:gz") as tar:
            for name, text in _files(admin):
                data = (text if token is None else text.replace(token, "(hidden)")).encode()
                member = tarfile.TarInfo(f"headgate-support/{name}")
                member.size, member.mtime = len(data), int(time.time())
                tar.addfile(member, io.BytesIO(data))
                names.append(name)
        path.chmod(0o600)
    except FileExistsError:
        raise ConfigError(f"{path} is there already; name another file with --out") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    row = {"file": str(path), "contains": names}
    emit([row], lambda row: f"{row['file']}: {', '.join(names)}", as_json)


def _files(admin: Admin) -> Iterator[tuple[str, str]]:
    yield "version.json", _pretty(installed())
    for name, (path, query) in PAGES.items():
        yield name, _answered(partial(_page, admin, path, query))
    yield "metrics.txt", _answered(lambda: admin.text("/metrics"))


def _page(admin: Admin, path: str, query: Mapping[str, object]) -> str:
    return _pretty(admin.get(path, **query))


def _answered(ask: Callable[[], str]) -> str:
    """An answer, or why there is none; one that fails does not spoil the others."""
    try:
        return ask()
    except (NoRouter, NotAllowed):
        raise
    except HeadgateError as error:
        return _pretty({"error": str(error)})


def _pretty(content: object) -> str:
    return json.dumps(without_messages(content), indent=1, ensure_ascii=False) + "\n"


def without_messages(content: Any) -> Any:  # noqa: ANN401
    """The answer without fields that may contain parts of messages."""
    match content:
        case dict():
            return {k: without_messages(v) for k, v in content.items() if k not in LEFT_OUT}
        case list():
            return [without_messages(each) for each in content]
        case _:
            return content
