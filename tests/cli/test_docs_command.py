"""``headgate docs``"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headgate.cli import cli, docs
from tests.support.repository import DOCS


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["docs", *arguments])


def test_the_pages_are_listed_with_their_titles() -> None:
    rows = [json.loads(line) for line in run("--json").stdout.splitlines()]
    assert {"page": "command-line", "title": "The command line"} in rows
    assert {"page": "reference/errors", "title": "Errors"} in rows
    assert not any(row["page"].startswith("requirements") for row in rows)


@pytest.mark.parametrize("name", ["command-line", "Command-Line.md", "cli", "reference/cli"])
def test_a_page_is_printed_by_its_name(name: str) -> None:
    done = run(name)
    assert done.exit_code == 0
    assert done.stdout.startswith("# The command line\n")
    assert "<!--" not in done.stdout


@pytest.mark.parametrize(
    ("word", "begins"),
    [
        ("NoRouter", "### `NoRouter`\n"),
        ("exit code 4", "### Exit code 4\n"),
        ("HeadgatePutAside", "## HeadgatePutAside\n"),
        ("queue show", "## `headgate queue show`\n"),
        ("headgate_sessions", "### `headgate_sessions`"),
    ],
)
def test_of_a_word_the_section_about_it_is_printed(word: str, begins: str) -> None:
    done = run(*word.split())
    assert done.exit_code == 0
    assert done.stdout.startswith(begins), done.stdout[:200]
    assert "\n## " not in done.stdout.removeprefix(begins)


def test_a_word_without_a_heading_is_found_in_lines() -> None:
    done = run("slow_timeout", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert all("slow_timeout" in row["line"] for row in rows)
    assert "reference/config" in {row["page"] for row in rows}


def test_what_is_nowhere_is_said_with_what_is_near() -> None:
    done = run("comand-line")
    assert done.exit_code == 1
    assert "Did you mean 'command-line'?" in done.stderr


def test_where_a_page_is() -> None:
    assert run("glossary", "--path").stdout == f"{DOCS / 'glossary.md'}\n"


def test_a_page_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("click.launch", opened.append)
    assert run("glossary", "--open").exit_code == 0
    assert opened == [str(DOCS / "glossary.md")]


def test_a_heading_in_an_example_is_none(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# A\n\n## B\n\n```sh\n# not one\n```\nmore\n## C\n")
    found = [(each.title, each.text) for each in docs.sections(docs.Page("page", path))]
    assert [title for title, _ in found] == ["A", "B", "C"]
    assert found[1][1] == "## B\n\n```sh\n# not one\n```\nmore\n"
