"""What `import headgate` offers: all of it, nothing else, and nothing before it is used."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import pytest

import headgate
from tests.support.repository import DOCS


@pytest.mark.parametrize("name", [*headgate.__all__, *headgate.MODULES])
def test_every_name_is_there(name: str) -> None:
    assert getattr(headgate, name)
    assert name in dir(headgate)


def test_a_name_is_one_and_the_same_wherever_it_is_imported_from() -> None:
    for name, place in headgate.PLACES.items():
        assert getattr(headgate, name) is getattr(import_module(f"headgate.{place}"), name)
    assert {*headgate.PLACES, "__version__"} == set(headgate.__all__)


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        headgate.nothing  # noqa: B018


def test_nothing_is_loaded_before_it_is_used() -> None:
    code = "import sys, headgate; print(*[m for m in sys.modules if m.startswith('headgate.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_page_names_every_name() -> None:
    named = re.findall(r"^\| `headgate\.(\w+)", (DOCS / "reference" / "api.md").read_text(), re.M)
    assert sorted(named) == sorted([*headgate.__all__, *headgate.MODULES])


def test_the_program_of_the_page_runs() -> None:
    [program] = re.findall(
        r"```python\n(.*?)```", (DOCS / "reference" / "api.md").read_text(), re.DOTALL
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "b'a table'\n"


def rows() -> dict[str, str]:
    """The rows of the page about packages, by their names."""
    text = (DOCS / "reference" / "api.md").read_text()
    return dict(re.findall(r"^\| `headgate\.(\w+)` \| (.*) \|$", text, re.M))


@pytest.mark.parametrize("package", ["client", "pipeline", "testing", "expr", "store"])
def test_a_package_has_the_names_that_the_page_gives_it(package: str) -> None:
    module = getattr(headgate, package)
    named = re.findall(r"`(\w+)`", rows()[package])
    assert named
    for name in named:
        assert getattr(module, name)
        assert name in module.__all__


@pytest.mark.parametrize("package", ["agent", "client", "pipeline", "testing"])
def test_names_of_packages_are_loaded_when_they_are_used(package: str) -> None:
    """And one that is not there is missing as in any module."""
    module = import_module(f"headgate.{package}")
    for name in module.__all__:
        assert getattr(module, name) is getattr(module, name)
    with pytest.raises(AttributeError, match=f"module 'headgate.{package}' has no attribute 'no'"):
        module.no  # noqa: B018
