"""``headgate docs``: the pages that came with the program, to read without a network.

A page is named as its file is; anything else is a word that is looked for, first among the
headings: of a command, a metric, an alert or an error, the section about it is printed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import click

from headgate.cli import terminal
from headgate.cli.output import emit, json_option
from headgate.errors import HeadgateError

HEADING = re.compile(r"^(#{1,6}) +(.*?)\s*$")
COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
MARKS = re.compile(r"[`*]|\]\([^)]*\)|\[")
PARTS = (".", "reference", "design")
"""Folders with pages that are read without a browser."""
SECTIONS_MAX = 5
"""Sections that are printed for a word."""
LINES_MAX = 20
"""Lines that are printed for a word that no heading has."""


class Page(NamedTuple):
    """A page of the docs."""

    name: str
    """As somebody asks for it: command-line, or reference/cli."""
    path: Path

    @property
    def text(self) -> str:
        return COMMENT.sub("", self.path.read_text("utf-8"))

    @property
    def title(self) -> str:
        return next((text for _, _, text in _headings(self.text)), self.name)


class Section(NamedTuple):
    """A part of a page: a heading, and all below it."""

    page: Page
    title: str
    text: str


def folder() -> Path:
    """Where the pages are: in the package, or beside the sources."""
    import headgate

    package = Path(headgate.__file__).parent
    for found in (package / "docs", package.parents[1] / "docs"):
        if (found / "README.md").exists():
            return found
    raise HeadgateError("the pages are not installed; install headgate from its wheel")


def pages(docs: Path) -> list[Page]:
    """All pages: those for users first, then the reference, then the design."""
    found = [
        path for part in (".", "reference", "design") for path in sorted((docs / part).glob("*.md"))
    ]
    return [Page(path.relative_to(docs).with_suffix("").as_posix(), path) for path in found]


def _headings(text: str) -> Iterator[tuple[int, int, str]]:
    """Line, level and text of each heading; a line of an example is none."""
    is_code = False
    for number, line in enumerate(text.splitlines()):
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code and (match := HEADING.match(line)):
            yield number, len(match[1]), MARKS.sub("", match[2])


def sections(page: Page) -> Iterator[Section]:
    """Every heading of a page with what is below it, down to the next that is not."""
    text = page.text
    lines, found = text.splitlines(), list(_headings(text))
    for place, (start, level, title) in enumerate(found):
        later = (number for number, other, _ in found[place + 1 :] if other <= level)
        yield Section(page, title, "\n".join(lines[start : next(later, len(lines))]).strip() + "\n")


def page_of(name: str, known: list[Page]) -> Page | None:
    """The page of this name; of the reference and the design, also without the folder."""
    wanted = name.lower().removesuffix(".md")
    for each in known:
        if wanted in (each.name.lower(), each.name.lower().rpartition("/")[2]):
            return each
    return None


def about(word: str, known: list[Page]) -> list[Section]:
    """The sections whose heading is the word, or else has it in it."""
    wanted = word.lower().removeprefix("headgate ")
    every = [section for page in known for section in sections(page)]
    titles = [section.title.lower().removeprefix("headgate ") for section in every]
    for fits in (
        lambda title: title == wanted,
        lambda title: re.search(rf"\b{re.escape(wanted)}\b", title) is not None,
    ):
        found = [section for section, title in zip(every, titles, strict=True) if fits(title)]
        if found:
            return found
    return []


def lines_with(word: str, known: list[Page]) -> list[tuple[Page, str]]:
    """The lines that have a word in them: as it is, or else in whatever case and form."""
    every = [(page, line.strip()) for page in known for line in page.text.splitlines()]
    as_it_is = re.compile(rf"\b{re.escape(word)}\b")
    found = [(page, line) for page, line in every if as_it_is.search(line)]
    return found or [(page, line) for page, line in every if word.lower() in line.lower()]


@click.command()
@click.argument("name", metavar="[PAGE|WORD]...", nargs=-1)
@click.option("--path", "wants_path", is_flag=True, help="Print where the page is instead.")
@click.option("--open", "opens", is_flag=True, help="Open the page with what opens such files.")
@json_option
def docs(name: tuple[str, ...], wants_path: bool, opens: bool, as_json: bool) -> None:
    """Print a page of the docs, or what they say about a word.

    Without PAGE, the pages are listed. WORD is a command, a key of the configuration, a metric, an
    alert, an error or a part of a heading; if no heading has it, the lines with it are printed. The
    pages come with the program, and nothing is fetched.

    \b
    Example:
      headgate docs command-line
      headgate docs HeadgatePutAside
      headgate docs slow_timeout
    """
    known = pages(folder())
    word = " ".join(name)
    if not word:
        emit(
            ({"page": page.name, "title": page.title} for page in known),
            lambda row: f"{row['page']:<32}  {row['title']}",
            as_json,
        )
        return
    page = page_of(word, known)
    if page is not None:
        if opens:
            click.launch(str(page.path))
        if opens or wants_path:
            emit([{"page": page.name, "path": str(page.path)}], lambda r: f"{r['path']}", as_json)
            return
        _print([Section(page, page.title, page.text)], as_json)
        return
    found = about(word, known)
    if found and not (opens or wants_path):
        _print(found[:SECTIONS_MAX], as_json)
        if len(found) > SECTIONS_MAX:
            click.echo(f"and {len(found) - SECTIONS_MAX} more sections", err=True)
        return
    lines = [] if opens or wants_path else lines_with(word, known)
    if not lines:
        raise HeadgateError(f"the docs do not have {word!r}.{_near(word, known)}")
    emit(
        ({"page": each.name, "line": line} for each, line in lines[:LINES_MAX]),
        lambda row: f"{row['page']}: {row['line']}",
        as_json,
    )
    if len(lines) > LINES_MAX:
        click.echo(f"and {len(lines) - LINES_MAX} more lines", err=True)


def _near(word: str, known: list[Page]) -> str:
    names = [each.name.rpartition("/")[2] for each in known]
    near = get_close_matches(word.lower(), names, n=1)
    return f" Did you mean {near[0]!r}?" if near else " headgate docs lists the pages"


def _print(found: list[Section], as_json: bool) -> None:
    if as_json:
        emit((_row(section) for section in found), str, as_json=True)
        return
    text = "\n".join(_styled(each, with_name=len(found) > 1) for each in found)
    if sys.stdout.isatty() and text.count("\n") >= terminal.height():
        click.echo_via_pager(text)
    else:
        click.echo(text, nl=False)


def _row(section: Section) -> dict[str, object]:
    return {"page": section.page.name, "title": section.title, "text": section.text}


def _styled(section: Section, *, with_name: bool) -> str:
    lines = section.text.splitlines()
    headings = {number for number, _, _ in _headings(section.text)}
    shown = [terminal.styled(t, bold=True) if n in headings else t for n, t in enumerate(lines)]
    if with_name:
        shown.insert(0, terminal.styled(f"({section.page.name})", dim=True))
    return "\n".join(shown) + "\n"
