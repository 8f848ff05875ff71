"""``headgate context`` and ``headgate login``: routers by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from urllib.parse import urlsplit

import click

from headgate.cli.admin import Admin
from headgate.cli.config_file import config_option, load
from headgate.cli.confirming import yes_option
from headgate.cli.contexts import Context, Contexts
from headgate.cli.output import emit, json_option, print_fields
from headgate.cli.table import Column, Listing, list_options
from headgate.cli.which_router import URL, Asked, configured_url, full_url, router_options
from headgate.errors import ConfigError

DEFAULT_NAME, DEFAULT_URL = "default", "http://127.0.0.1:8222"


@click.group()
def context() -> None:
    """Give routers names, and choose one.

    A context is a file of a few lines, in ~/.config/headgate/contexts, that only you can read:
    where the admin port is, the token for it, and where the listeners are.

    \b
    Example:
      headgate context add prod --url https://router.example.org:8222 --ca ca.crt
      headgate context use prod
      headgate login
    """


@context.command()
@click.argument("name")
@click.option("--url", required=True, help="The admin port, as http://127.0.0.1:8222.")
@click.option("--token", metavar="file:PATH", help="The token of the admin port, or its file.")
@click.option("--ca", metavar="FILE", help="A certificate to trust on all ports with TLS.")
@click.option("--resp", metavar="ADDRESS", help="Where channels are: HOST:PORT, or a URL.")
@click.option("--bmq", metavar="ADDRESS", help="Where shared queues are: HOST:PORT, or a URL.")
@click.option("--smp", metavar="ADDRESS", help="The address for SimpleX clients.")
@click.option("--use", is_flag=True, help="Make it the one in use.")
@yes_option
@json_option
def add(
    name: str,
    url: str,
    token: str | None,
    ca: str | None,
    resp: str | None,
    bmq: str | None,
    smp: str | None,
    use: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Write a context.

    One of the same name is replaced if that is meant (--yes). A token that is not in a file should
    not be in the history of a shell: leave it out here, and use "headgate login".
    """
    contexts = _contexts()
    if name in contexts.names() and not yes:
        raise ConfigError(f"there is a context {name}; to replace it, say --yes")
    trusted = None if ca is None else str(Path(ca).expanduser().absolute())
    path = contexts.put(name, Context(full_url(url), token, trusted, resp, bmq, smp))
    if use:
        contexts.use(name)
    _warn_of_listeners(full_url(url))
    row = {"context": name, "file": str(path)}
    emit([row], lambda row: f"{row['context']}: {row['file']}", as_json)


@context.command("ls")
@list_options(
    Column("context"),
    Column("in_use", "use", lambda yes: "*" if yes else ""),
    Column("url"),
    Column("token"),
    *(Column(name, is_wide=True) for name in ("ca", "resp", "bmq", "smp")),
)
def ls(listing: Listing) -> None:
    """Print the contexts."""
    listing.show(lambda: _rows(_contexts()))


def _rows(contexts: Contexts) -> Iterator[Mapping[str, object]]:
    current = contexts.current
    for name in contexts.names():
        found = contexts.get(name)
        shown = asdict(found) | {"token": found.shown_token}
        yield {"context": name, "in_use": name == current, **shown}


@context.command()
@click.argument("name")
def use(name: str) -> None:
    """Make a context the one in use, for folders without a configuration."""
    _contexts().use(name)
    click.echo(f"in use: {name}", err=True)


@context.command()
@click.argument("name", required=False)
@router_options
@json_option
def show(name: str | None, asked: Asked, as_json: bool) -> None:
    """Print which router commands ask, and why that one.

    With NAME, print that context.
    """
    chosen = replace(asked, context=name).chosen() if name else asked.chosen()
    found = chosen.context
    row = {"because": chosen.reason, **asdict(found), "token": found.shown_token}
    if found.url is None:
        url, token, _ = asked.place()
        row |= {"url": url, "token": None if token is None else "(hidden)"}
    print_fields(row, as_json)


@context.command()
@click.argument("name")
def rm(name: str) -> None:
    """Remove a context, and the token that was kept for it."""
    _contexts().remove(name)
    click.echo(f"removed: {name}", err=True)


@click.command()
@click.argument("name", required=False)
@click.option("--url", help="The admin port. With NAME, such a context is made if there is none.")
@config_option
@json_option
def login(name: str | None, url: str | None, config: Path | None, as_json: bool) -> None:
    """Keep the token of a router in a context.

    NAME is the context, or else the one in use, or else "default". Without NAME and --url, in a
    folder with a configuration, the router is that of the configuration. The token is asked for, or
    read from standard input if that is no terminal; the router is asked whether it is right, and
    then it is kept in a file that only you can read.
    """
    contexts = _contexts()
    name, found = _logged_in(contexts, name, url, config)
    url = full_url(url or found.url or DEFAULT_URL)
    _warn_of_listeners(url)
    if sys.stdin.isatty():
        token = click.prompt(f"Token of {url}", hide_input=True, err=True).strip()
    else:
        token = sys.stdin.readline().strip()
    if not token:
        raise click.UsageError("there is no token on standard input; it is one line of text")
    Admin(url, token, None if found.ca is None else Path(found.ca)).plain("GET", "/sinks?limit=1")
    kept = contexts.put_token(name, token)
    contexts.put(name, replace(found, url=url, token=f"file:{kept}"))
    if contexts.current is None:
        contexts.use(name)
    emit([{"context": name, "url": url}], lambda row: f"{row['context']}: {row['url']}", as_json)


def _logged_in(
    contexts: Contexts, name: str | None, url: str | None, config: Path | None
) -> tuple[str, Context]:
    """The context that a token is kept in, and what it says already."""
    if name is not None:
        if url is not None and name not in contexts.names():
            return name, Context()
        return name, contexts.get(name)  # of one that is not there, it says which there are
    current = contexts.current or DEFAULT_NAME
    found = contexts.get(current) if current in contexts.names() else Context()
    if url is not None or os.environ.get(URL) is not None:
        return current, replace(found, url=url or os.environ[URL])
    if config is None:
        return current, found
    here = configured_url(load(config))
    if found.url is not None and found.url != here:
        raise ConfigError(
            f"the configuration {config} is of {here}, and the context {current} of {found.url}:"
            f" say which is meant, headgate login {current} or headgate login NAME --url {here}"
        )
    return current, replace(found, url=here)


def _warn_of_listeners(url: str) -> None:
    """An eavesdropper on the way learns the token, unless there is TLS."""
    from headgate.server.config.hosts import is_loopback

    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        click.echo(
            f"warning: the token goes to {parts.hostname} unencrypted; use https://, or a tunnel",
            err=True,
        )


def _contexts() -> Contexts:
    return Contexts.of(os.environ)
