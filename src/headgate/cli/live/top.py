"""``headgate top``: the overview, live."""

from __future__ import annotations

import json
import os
import queue
import select
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from headgate.cli import terminal
from headgate.cli.admin import Admin
from headgate.cli.live.top_view import CHARTED, SPARK, History, Line, drawn, overview
from headgate.cli.output import json_option
from headgate.cli.which_router import Asked, router_options
from headgate.errors import NoRouter, NotAllowed, RouterError

SORTS = ("trouble", "mailbox", "in", "out", "newest")
"""Orders of the sessions, as the API calls them."""
AGAIN_SECONDS = 2.0
"""Between one try and the next while no router answers."""
QUIET_SECONDS = 4.0
"""After so long without news, the screen says so."""
KEY_SECONDS = 0.2
HELP = "q quit   p pause   s sort   f filter"
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, LINE_END, REST = "\x1b[H", "\x1b[K", "\x1b[J"


@click.command()
@click.option("--once", is_flag=True, help="Print it once, and exit.")
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    default="trouble",
    show_default=True,
    help="The order of the sessions.",
)
@click.option("--search", default="", metavar="TEXT", help="Only sessions with this in the name.")
@router_options
@json_option
def top(once: bool, sort: str, search: str, asked: Asked, as_json: bool) -> None:
    """Watch what needs attention, live.

    The router's own overview: sentences about what is wrong, numbers of the last second with those
    before as small charts, and the sessions, queues and channels at the top. Keys: q quits, p
    pauses, s changes the order of the sessions, f asks for a text that their names have.
    """
    watch = Watch(asked.admin(), sort, search)
    if once or as_json or not terminal.has_cursor():
        _print_ticks(watch, once, as_json)
    else:
        Screen(watch).run()


class Watch:
    """A router that is watched: its ticks, and what is to be shown of them."""

    def __init__(self, admin: Admin, sort: str, search: str) -> None:
        self.admin = admin
        self.sort = sort
        self.search = search
        self.history = History()

    def ticks(self) -> Iterator[dict[str, Any]]:
        """The router's ticks, one a second, for as long as they come."""
        span = {"names": ",".join(CHARTED), "span": SPARK}
        self.history.fill(self.admin.get("/series", **span))
        for event in self.admin.events("/live"):
            if event.kind == "tick":
                yield self._arranged(event.content)

    def _arranged(self, tick: dict[str, Any]) -> dict[str, Any]:
        """With the sessions that are asked for, if these are not the ones in trouble."""
        if self.sort != "trouble" or self.search:
            query: dict[str, object] = {"sort": self.sort, "q": self.search or None, "limit": 8}
            tick |= {"slow": self.admin.get("/sessions", **query)["rows"]}
        return tick

    def lines(self, tick: Mapping[str, Any]) -> Iterator[Line]:
        return overview(tick, self.admin.url, self.history)


def _print_ticks(watch: Watch, once: bool, as_json: bool) -> None:
    for tick in watch.ticks():
        watch.history.add(tick["point"])
        if as_json:
            click.echo(json.dumps(tick, ensure_ascii=False))
        else:
            width = terminal.width() if terminal.is_terminal() else None
            click.echo("\n".join(drawn(line, width) for line in watch.lines(tick)))
        if once:
            return
        if not as_json:
            click.echo()


class Screen:
    """The terminal while ``top`` has it. It is given back as it was."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._news: queue.Queue[dict[str, Any] | RouterError] = queue.Queue(maxsize=4)
        self._tick: dict[str, Any] | None = None
        self._heard = time.monotonic()
        self._problem = ""
        self._is_paused = False
        self._typed: str | None = None
        """The filter that is being typed, if there is one."""

    def run(self) -> None:
        """Show ticks until somebody quits."""
        threading.Thread(target=self._listen, daemon=True).start()
        with _keys() as keys:
            while True:
                self._take()
                self._draw()
                ready, _, _ = select.select([keys], [], [], KEY_SECONDS)
                if ready and not self._obey(os.read(keys, 64).decode(errors="ignore")):
                    return
                if isinstance(self._refused, NotAllowed):
                    break
        raise self._refused

    _refused: RouterError | None = None

    def _listen(self) -> None:
        """In a thread of its own: what the router says, and again when it is back."""
        while True:
            try:
                for tick in self._watch.ticks():
                    self._news.put(tick)
            except RouterError as error:
                self._news.put(error)
                if not isinstance(error, NoRouter):
                    return
            time.sleep(AGAIN_SECONDS)

    def _take(self) -> None:
        while not self._news.empty():
            news = self._news.get()
            if isinstance(news, RouterError):
                self._problem = str(news)
                self._refused = news
                continue
            self._watch.history.add(news["point"])
            self._heard, self._problem = time.monotonic(), ""
            if not self._is_paused:
                self._tick = news

    def _obey(self, keys: str) -> bool:
        """Take a key; return whether to go on."""
        for key in keys:
            if self._typed is not None:
                self._type(key)
            elif key in "q\x03\x04":
                return False
            elif key == "p":
                self._is_paused = not self._is_paused
            elif key == "s":
                place = SORTS.index(self._watch.sort) + 1
                self._watch.sort = SORTS[place % len(SORTS)]
            elif key == "f":
                self._typed = ""
        return True

    def _type(self, key: str) -> None:
        assert self._typed is not None, "something is being typed"
        if key in "\r\n":
            self._watch.search, self._typed = self._typed, None
        elif key == "\x1b":
            self._typed = None
        elif key in "\x7f\b":
            self._typed = self._typed[:-1]
        elif key.isprintable():
            self._typed += key

    def _draw(self) -> None:
        width, height = terminal.width(), terminal.height()
        lines = (
            [] if self._tick is None else [drawn(e, width) for e in self._watch.lines(self._tick)]
        )
        lines = lines[: height - 1]
        lines += [""] * (height - 1 - len(lines)) + [terminal.cut(self._foot(), width)]
        sys.stdout.write(HOME + f"{LINE_END}\r\n".join(lines) + LINE_END + REST)
        sys.stdout.flush()

    def _foot(self) -> str:
        if self._typed is not None:
            return f"filter: {self._typed}"
        silence = time.monotonic() - self._heard
        if self._problem:
            return f"{self._problem}; trying again"
        if silence > QUIET_SECONDS:
            return f"no news for {silence:.0f} s"
        search = f", filter {self._watch.search}" if self._watch.search else ""
        paused = "   PAUSED" if self._is_paused else ""
        return f"{HELP}   (sessions by {self._watch.sort}{search}){paused}"


@contextmanager
def _keys() -> Iterator[int]:
    """The terminal, giving each key as it is typed, on a screen of its own."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        sys.stdout.write(ENTER)
        yield descriptor
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
